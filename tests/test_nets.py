"""The network looks back and never forward, and a policy acts as the network was trained."""

import numpy as np
import pytest
import torch

from holdfast.data.normaliser import Normaliser
from holdfast.data.windows import Batch, Windows, WindowSettings
from holdfast.errors import Mistake
from holdfast.learners.learner import new_net
from holdfast.nets.policy import CapturedEpisodes, Policy
from holdfast.nets.transformer import DtConfig
from holdfast.nets.trunk import Trunk
from holdfast.subnets.layout import Layout
from holdfast.tasks.interface import Continuous, Discrete, Interface
from tests.tiny import pixel_suite, tiny_suite

CONFIG = DtConfig(width=16, layers=2, heads=2, context=5, dropout=0.0)
INTERFACES = {
    "discrete": Interface((3,), Discrete(3, 5), 30),
    "continuous": Interface((3,), Continuous(2, 4), 30),
    "pixels": Interface((4, 36, 36), Discrete(5, 9), 20, normalised=False),
}


def random_batch(interface: Interface, rows: int = 2, steps: int = 5, seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    if len(interface.observation) == 3:
        observations = torch.randint(0, 256, (rows, steps, *interface.observation), generator=generator).to(torch.uint8)
    else:
        observations = torch.randn(rows, steps, *interface.observation, generator=generator)
    if isinstance(interface.actions, Discrete):
        actions = torch.randint(0, interface.actions.count, (rows, steps), generator=generator)
    else:
        actions = torch.rand(rows, steps, interface.actions.width, generator=generator) * 2 - 1
    returns, timesteps = torch.randn(rows, steps, generator=generator), torch.arange(steps).repeat(rows, 1)
    segments = torch.zeros(rows, steps, dtype=torch.int64)
    return Batch(observations, actions, returns, timesteps, segments, interface.actions.active.expand(rows, -1), False)


@pytest.mark.parametrize("interface", INTERFACES.values(), ids=INTERFACES)
@pytest.mark.parametrize("timesteps", ["table", "waves"])
def test_a_prediction_depends_on_what_came_before_and_on_nothing_after(interface, timesteps):
    net = new_net(DtConfig(16, 2, 2, 5, 0.0, timesteps), interface, 0).eval()
    batch, other = random_batch(interface), random_batch(interface, seed=1)
    for step in range(5):
        late = {"observations": step + 1, "returns": step + 1, "actions": step}  # the action at `step` is the answer
        changed = {
            name: torch.cat([getattr(batch, name)[:, :at], getattr(other, name)[:, at:]], 1)
            for name, at in late.items()
        }
        same = net.predictions(Batch(**{**batch.__dict__, **changed}))[:, step]
        assert torch.allclose(net.predictions(batch)[:, step], same, atol=1e-6)
    for name in ("observations", "returns"):
        moved = getattr(batch, name).clone()
        moved[:, 0] = getattr(other, name)[:, 0]
        predicted = net.predictions(Batch(**{**batch.__dict__, name: moved}))
        assert not torch.allclose(net.predictions(batch)[:, 3], predicted[:, 3], atol=1e-6)


def test_windows_that_share_a_row_do_not_see_each_other():
    interface = INTERFACES["discrete"]
    net = new_net(CONFIG, interface, 0).eval()
    batch, other = random_batch(interface), random_batch(interface, seed=1)
    segments = torch.tensor([[0, 0, 1, 1, -1]] * 2)
    shared = Batch(**{**batch.__dict__, "segments": segments, "shared": True})
    mixed = {
        name: torch.cat([getattr(other, name)[:, :2], getattr(batch, name)[:, 2:]], 1)
        for name in ("observations", "actions", "returns")
    }
    changed = Batch(**{**shared.__dict__, **mixed})
    assert torch.allclose(net.predictions(shared)[:, 2:4], net.predictions(changed)[:, 2:4], atol=1e-6)
    assert net.predictions(shared).isfinite().all()


def policy_for(interface: Interface, seed: int = 0) -> Policy:
    return Policy(new_net(CONFIG, interface, seed), Normaliser.identity(), target=3.0, return_scale=2.0)


@pytest.mark.parametrize("interface", INTERFACES.values(), ids=INTERFACES)
def test_acting_step_by_step_predicts_what_the_network_predicts_for_the_whole_window(interface):
    steps, policy = 9, policy_for(interface)
    batch = random_batch(interface, rows=3, steps=steps)
    rewards = np.random.default_rng(0).normal(size=(steps, 3))
    policy.reset(3)
    acted = [policy.act(batch.observations[:, t], rewards[t - 1] if t else 0.0) for t in range(steps)]
    remaining = 3.0 - np.concatenate([np.zeros((1, 3)), rewards[:-1].cumsum(axis=0)])  # (T, N)
    returns = torch.tensor(remaining.T / 2.0, dtype=torch.float32)
    taken = torch.tensor(np.stack(acted, axis=1))
    if isinstance(interface.actions, Continuous):
        taken = torch.nn.functional.pad(taken, (0, interface.actions.width - interface.actions.dimension))
    for t in range(steps):
        first = max(0, t - CONFIG.context + 1)
        window = slice(first, t + 1)
        parts = {
            "observations": batch.observations,
            "actions": taken,
            "returns": returns,
            "timesteps": batch.timesteps,
            "segments": batch.segments,
        }
        cut = Batch(**{**batch.__dict__, **{name: tensor[:, window] for name, tensor in parts.items()}})
        with torch.no_grad():
            expected = policy.net.head.act(policy.net.predictions(cut)[:, -1], interface.actions)
        own = interface.actions.for_environment(expected.numpy())
        assert np.allclose(acted[t], own, atol=1e-5)


@pytest.mark.parametrize("interface", INTERFACES.values(), ids=INTERFACES)
def test_one_episode_and_many_at_once_act_alike(interface):
    batch = random_batch(interface, rows=3, steps=6)
    together, alone = policy_for(interface), policy_for(interface)
    together.reset(3)
    many = np.stack([together.act(batch.observations[:, t], np.ones(3)) for t in range(6)])
    for row in range(3):
        alone.reset()
        one = np.stack([alone.act(batch.observations[row, t].numpy(), 1.0) for t in range(6)])
        assert np.allclose(one, many[:, row], atol=1e-5)


def test_only_actions_that_the_task_has_are_chosen():
    interface = INTERFACES["discrete"]
    head = new_net(CONFIG, interface, 0).head
    assert head.act(torch.tensor([[0.0, 1.0, 2.0, 9.0, 9.0]]), interface.actions).tolist() == [2]
    policy = policy_for(INTERFACES["continuous"])
    policy.reset(4)
    assert policy.act(np.zeros((4, 3), np.float32)).shape == (4, 2)


@pytest.mark.parametrize("kind", INTERFACES)
def test_fixed_shapes_act_as_growing_ones_do_also_when_the_context_rolls(kind):
    interface, rng = INTERFACES[kind], np.random.default_rng(0)
    growing, fixed = policy_for(interface), policy_for(interface)
    growing.reset(3)
    fixed.reset(3)
    fixed.episodes = CapturedEpisodes(fixed, 3)
    for _ in range(2 * CONFIG.context + 1):
        observations = rng.integers(0, 255, (3, *interface.observation)).astype(
            np.uint8 if len(interface.observation) == 3 else np.float32
        )
        rewards = rng.random(3)
        np.testing.assert_allclose(
            growing.act(observations, rewards), fixed.act(observations, rewards), rtol=1e-4, atol=1e-5
        )


def test_doubles_are_observations_too():
    policy = policy_for(INTERFACES["continuous"])
    policy.reset()
    assert policy.act(np.zeros(3)).shape == (2,)


def test_a_policy_says_what_it_expects():
    policy = policy_for(INTERFACES["discrete"])
    with pytest.raises(Mistake, match="reset before it acts"):
        policy.act(np.zeros(3))
    policy.reset()
    with pytest.raises(Mistake, match="shape"):
        policy.act(np.zeros(4))


def test_a_wave_code_is_small_and_tells_steps_apart():
    table, waves = (
        new_net(DtConfig(timesteps=kind), Interface((4, 84, 84), Discrete(18, 18), 27_000, False), 0).timestep
        for kind in ("table", "waves")
    )
    sizes = [sum(p.numel() for p in module.parameters()) for module in (table, waves)]
    assert sizes == [27_001 * 128, 32 * 128]
    codes = waves(torch.arange(0, 27_000, 7))
    assert torch.pdist(codes[:500]).min() > 1e-3


@pytest.mark.parametrize(
    ("interface", "heads", "expected"),
    [
        (Interface((26,), Continuous(4, 4), 50), 1, 610_820 - 128 * 128),
        (Interface((4, 84, 84), Discrete(18, 18), 27_000, False), 4, 1_090_482 - 128 * 128),
    ],
    ids=["panda", "atari"],
)
def test_masked_parameters_are_those_of_the_publication_but_for_one_layer_it_does_not_describe(
    interface, heads, expected
):
    assert Layout.of(new_net(DtConfig(heads=heads), interface, 0), ("timestep",)).total == expected


def test_a_network_learns_pixels():
    suite = pixel_suite()
    task = suite.tasks[0]
    net = new_net(CONFIG, suite.interface, 0)
    settings = WindowSettings(context=5, return_scale=1, sampling="episodes")
    source = Windows(task.dataset, Normaliser.identity(), torch.ones(1), settings)
    optimiser = torch.optim.AdamW(net.parameters(), 3e-3)
    batch = source.sample(8, np.random.default_rng(0))
    first = float(net(batch).detach())
    for _ in range(30):
        optimiser.zero_grad()
        loss = net(batch)
        loss.backward()
        optimiser.step()
    assert float(loss.detach()) < first / 2


def test_a_task_with_fewer_dimensions_shares_the_network():
    assert {task.interface.actions.dimension for task in tiny_suite("toy-continuous", 4).tasks} == {1, 2}
    assert {task.interface.actions.count for task in tiny_suite("toy", 4).tasks} == {5, 9}


def test_a_trunk_adds_attention_and_a_wide_layer_each_of_normalised_tokens():
    torch.manual_seed(0)
    trunk, tokens = Trunk(16, 2, 2, 0.1).eval(), torch.randn(3, 12, 16)
    for parameter in trunk.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    plain = trunk.first_norm(tokens)
    for block in trunk.blocks:
        plain = plain + block.attention(block.attention_norm(plain), None)
        plain = plain + block.wide(block.wide_norm(plain))
    assert torch.equal(trunk(tokens), trunk.last_norm(plain))
