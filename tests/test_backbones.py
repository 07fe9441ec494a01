"""What holds for every registered backbone, and for networks that have one inside."""

import json

import numpy as np
import pytest
import torch
from torch.func import vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from holdfast.data.normaliser import Normaliser
from holdfast.data.randomness import torch_stream
from holdfast.learners.codes import TaskCodes
from holdfast.learners.learner import new_net, windows_of
from holdfast.nets.adapted import Adapted
from holdfast.nets.backbone import Backbone, NetConfig, call, parameter_count
from holdfast.nets.conditioned import Conditioned
from holdfast.nets.policy import CapturedEpisodes, Policy
from holdfast.registry import NETS
from holdfast.tasks.interface import Interface
from holdfast.training.step import trainable
from tests.tiny import pixel_suite, tiny_plan, tiny_suite

SUITES = {
    "toy": tiny_suite,
    "toy-continuous": lambda: tiny_suite("toy-continuous"),
    "pixels": pixel_suite,
}
NAMES = [*NETS, *(f"{wrapper} {name}" for wrapper in ("adapted", "conditioned") for name in NETS)]
EVERY = pytest.mark.parametrize(
    ("backbone", "kind"),
    [(name, kind) for name in NAMES for kind in SUITES if not (name.startswith("conditioned") and kind == "pixels")],
)
REGISTERED = pytest.mark.parametrize(("backbone", "kind"), [(name, kind) for name in NETS for kind in SUITES])


def made(backbone: str, kind: str):
    """A network without dropout, its task, and a batch of the task's windows."""
    suite = SUITES[kind]()
    wrapper, _, name = backbone.rpartition(" ")
    config = tiny_plan(suite, "naive", name, net__dropout=0.0).config
    task, net = suite.tasks[0], wrapped(wrapper, config.net, suite.interface)
    windows = windows_of(
        task.dataset, task.interface.normaliser(task.dataset), task.interface.actions.active, config, "cpu"
    )
    return net, task, windows.sample(8, np.random.default_rng(0))


def wrapped(wrapper: str, config: NetConfig, interface: Interface) -> Backbone:
    """A network, by itself or in a network that has it inside."""
    if wrapper == "adapted":
        return Adapted(new_net(config, interface, 0), 2, 0.5, True, torch_stream(0))
    if wrapper == "conditioned":
        return Conditioned(new_net(config, TaskCodes(5).widened(interface), 0), torch.eye(5)[2], interface)
    return new_net(config, interface, 0)


def observed(task, rows: int = 3) -> torch.Tensor:
    return torch.as_tensor(task.dataset.observations[:rows])


@EVERY
def test_the_output_is_a_finite_loss_that_trains_every_parameter(backbone, kind):
    net, _, batch = made(backbone, kind)
    loss = net(batch)
    assert loss.shape == ()
    assert loss.isfinite()
    loss.backward()
    assert [name for name, parameter in trainable(net).items() if parameter.grad is None] == []


@EVERY
def test_methods_work_with_the_parameters_of_several_networks_in_one_pass(backbone, kind):
    net, task, batch = made(backbone, kind)
    net.eval()
    others = [{name: value.detach() * scale for name, value in net.named_parameters()} for scale in (1.0, 1.1)]
    stacked = {name: torch.stack([other[name] for other in others]) for name in others[0]}
    normaliser = task.interface.normaliser(task.dataset)
    rows = normaliser(torch.as_tensor(task.dataset.observations[:3]))
    for method, argument in (("forward", batch), ("latents", rows)):
        with sdpa_kernel(SDPBackend.MATH):  # as routing has it
            together = vmap(lambda values, name=method, given=argument: call(net, values, name, given))(stacked)
        for own, values in zip(together, others, strict=True):
            assert torch.allclose(own, call(net, values, method, argument), atol=1e-5)
    assert torch.allclose(call(net, others[0], "forward", batch), net(batch))


@EVERY
def test_latents_are_a_vector_per_observation(backbone, kind):
    net, task, _ = made(backbone, kind)
    latents = net.latents(Normaliser.identity()(observed(task)))
    assert latents.ndim == 2
    assert len(latents) == 3


@EVERY
def test_what_a_network_remembers_has_fixed_shapes_and_nobody_changes_it(backbone, kind):
    net, task, _ = made(backbone, kind)
    net.eval()
    state, rows = net.start(3), Normaliser.identity()(observed(task))
    shapes = {name: tensor.shape for name, tensor in state.items()}
    for step in range(2 * net.config.context + 1):
        before = {name: tensor.clone() for name, tensor in state.items()}
        with torch.no_grad():
            actions, following = net.act(state, rows, torch.zeros(3))
            known, _ = net.act(state, rows, torch.zeros(3), filled=step)
        assert torch.allclose(actions.float(), known.float(), atol=1e-5)
        assert all(torch.equal(state[name], before[name]) for name in state)
        assert {name: tensor.shape for name, tensor in following.items()} == shapes
        state = following


@EVERY
def test_fixed_shapes_act_as_growing_ones_do(backbone, kind):
    net, task, _ = made(backbone, kind)
    policies = [Policy(net, task.interface.normaliser(task.dataset), 3.0, 2.0) for _ in range(2)]
    policies[0].reset(3)
    policies[1].single, policies[1].episodes = False, CapturedEpisodes(policies[1], 3)
    for _ in range(2 * net.config.context + 1):
        actions = [policy.act(observed(task).numpy(), np.ones(3)) for policy in policies]
        assert np.allclose(*actions, atol=1e-5)


@REGISTERED
def test_masks_may_cover_parameters_of_the_network_and_of_no_excluded_module(backbone, kind):
    net, _, _ = made(backbone, kind)
    names = dict(net.named_parameters())
    covered = net.maskable(net.config.unmasked)
    assert 0 < len(covered) <= len(names)
    assert all(covered[name] is names[name] for name in covered)
    assert not any(name.split(".")[0] in net.config.unmasked for name in covered)


@REGISTERED
def test_parameters_are_counted_without_allocating_them(backbone, kind):
    net, _, _ = made(backbone, kind)
    counted = parameter_count(net.config, net.interface)
    assert counted == sum(parameter.numel() for parameter in net.parameters())


@EVERY
def test_a_description_is_plain_data_that_says_settings_and_interface(backbone, kind):
    net, _, _ = made(backbone, kind)
    described = net.describe()
    json.dumps(described)
    assert described["config"]["context"] == net.config.context
    assert described["interface"]["observation"] == net.interface.observation
