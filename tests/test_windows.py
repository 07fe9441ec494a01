"""Data and windows: what is recorded, how it is drawn, and that padding never counts."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from holdfast.data.episodes import Dataset, Episode
from holdfast.data.normaliser import Normaliser
from holdfast.data.randomness import derive
from holdfast.data.windows import PADDING, Mixture, Windows, WindowSettings, pack
from holdfast.learners.learner import new_net, windows_of
from holdfast.nets.transformer import DtConfig
from holdfast.tasks.interface import Continuous, Discrete, Interface
from tests.tiny import tiny_plan, tiny_suite


def episode(length: int, start: float = 0.0, reward: float = 1.0) -> Episode:
    observations = (start + np.arange(length, dtype=np.float32))[:, None].repeat(3, axis=1)
    return Episode(observations, np.zeros((length, 2), np.float32), np.full(length, reward, np.float32))


def windows(
    dataset: Dataset, context: int = 4, sampling: str = "windows", packed: bool = True, whole: bool = True
) -> Windows:
    settings = WindowSettings(context, 1.0, sampling, whole=whole, packed=packed)  # type: ignore[arg-type]
    return Windows(dataset, Normaliser.identity(), torch.ones(2), settings)


def test_returns_to_go_by_hand():
    rewards = [1.0, 2.0, 3.0, 10.0, 20.0]
    data = Dataset.of(
        Episode(np.zeros((n, 1)), np.zeros(n, int), np.array(part)) for n, part in ((3, rewards[:3]), (2, rewards[3:]))
    )
    assert data.returns_to_go.tolist() == [6.0, 5.0, 3.0, 30.0, 20.0]
    assert data.totals.tolist() == [6.0, 30.0]
    assert data.timesteps.tolist() == [0, 1, 2, 0, 1]


def test_a_dataset_gives_its_episodes_back():
    data = Dataset.of([episode(3, 10), episode(1, 20), episode(5, 30)])
    assert [len(found) for found in data] == [3, 1, 5]
    assert data.episode(1).observations[0, 0] == 20
    assert data.take([2, 0]).lengths.tolist() == [5, 3]


def test_a_fingerprint_tells_datasets_apart_by_a_single_bit():
    first, second = Dataset.of([episode(3)]), Dataset.of([episode(3)])
    assert first.fingerprint == second.fingerprint
    second.observations[0, 0] = np.nextafter(np.float32(0), np.float32(1))
    changed = Dataset(second.observations, second.actions, second.rewards, second.lengths)
    assert first.fingerprint != changed.fingerprint


def test_the_same_steps_cut_otherwise_are_another_dataset():
    assert Dataset.of([episode(3), episode(1, 3)]).fingerprint != Dataset.of([episode(4)]).fingerprint


def test_a_normaliser_gives_zero_mean_and_unit_deviation_and_leaves_what_never_moves():
    data = np.random.default_rng(0).normal(3, 2, (100, 2)).astype(np.float32)
    data = np.concatenate([data, np.full((100, 1), 7.0, np.float32)], axis=1)
    dataset = Dataset.of([Episode(data, np.zeros(100, int), np.zeros(100))])
    scaled = Normaliser.fit(dataset)(torch.tensor(data))
    assert scaled.mean(dim=0).abs().max() < 1e-5
    assert scaled[:, :2].std(dim=0, unbiased=False) == pytest.approx([1.0, 1.0], abs=1e-5)
    assert Normaliser.fit(dataset)(torch.tensor([[0.0, 0.0, 8.0]]))[0, 2] == 1.0  # not scaled up


@given(st.lists(st.integers(1, 6), min_size=1, max_size=60))
def test_packing_fits_every_window_once_and_wastes_less_than_half(lengths):
    row, column, segment = pack(np.array(lengths), 6)
    cells = [(r, c + i) for r, c, n in zip(row, column, lengths, strict=True) for i in range(n)]
    assert len(set(cells)) == sum(lengths)
    assert max(c for _, c in cells) < 6
    assert len({(r, s) for r, s in zip(row, segment, strict=True)}) == len(lengths)
    rows = row.max() + 1
    assert rows == 1 or sum(lengths) > rows * 6 / 2


def test_windows_hold_consecutive_steps_of_one_episode():
    data = Dataset.of([episode(n, 100 * n) for n in (1, 2, 3, 7, 9)])
    batch = windows(data).sample(64, np.random.default_rng(0))
    for observations, timesteps, segments in zip(batch.observations, batch.timesteps, batch.segments, strict=True):
        for segment in set(segments.tolist()) - {PADDING}:
            inside = segments == segment
            steps = observations[inside, 0]
            assert (steps.diff() == 1).all()
            assert torch.equal(steps % 100, timesteps[inside].float())


@pytest.mark.parametrize(("sampling", "expected"), [("episodes", [0.5, 0.5]), ("windows", [1 / 8, 7 / 8])])
def test_windows_are_drawn_by_episodes_or_by_windows(sampling, expected):
    data = Dataset.of([episode(2, 0), episode(10, 100)])  # 1 and 7 windows of 4
    batch = windows(data, sampling=sampling, packed=False).sample(4000, np.random.default_rng(0))
    long = (batch.observations[:, 0, 0] >= 100).float().mean()
    assert float(long) == pytest.approx(expected[1], abs=0.03)
    starts = batch.observations[:, 0, 0][batch.observations[:, 0, 0] >= 100] - 100
    assert starts.unique().tolist() == list(range(7))


@pytest.mark.parametrize(("whole", "expected"), [(True, [1, 2, 3, 4, 4, 4, 3, 2, 1]), (False, [4] * 9)])
def test_windows_that_reach_over_the_ends_show_every_step_alike(whole, expected):
    source = windows(Dataset.of([episode(9)]), whole=whole)
    first, lengths = source.draw(60_000, np.random.default_rng(0))
    assert lengths.min() == (4 if whole else 1)
    assert lengths.max() == 4
    seen = np.zeros(9)
    for begin, length in zip(first, lengths, strict=True):
        seen[begin : begin + length] += 1
    assert seen / seen.sum() == pytest.approx(np.array(expected) / sum(expected), abs=0.005)


def test_the_setting_reaches_the_windows():
    found = tiny_suite(tasks=1)
    data, nothing = found.tasks[0].dataset, Normaliser.identity()
    drawn = {}
    for whole in (True, False):
        config = tiny_plan(found, "naive", fit__whole=whole).config
        source = windows_of(data, nothing, torch.ones(1), config, "cpu")
        drawn[whole] = source.draw(500, np.random.default_rng(0))[1]
    assert drawn[True].min() == 4
    assert drawn[False].min() == 1


@pytest.mark.parametrize("length", [1, 3])
def test_a_short_episode_is_drawn_whole_or_in_every_part_that_a_window_shows(length):
    data = Dataset.of([episode(length), episode(20, 100)])
    first, lengths = windows(data, sampling="episodes").draw(1000, np.random.default_rng(0))
    assert set(lengths[first == 0]) == {length}
    first, lengths = windows(data, sampling="episodes", whole=False).draw(4000, np.random.default_rng(0))
    own = first < length
    assert set(zip(first[own].tolist(), lengths[own].tolist(), strict=True)) == {
        (begin, end - begin)
        for begin in range(length)
        for end in range(begin + 1, length + 1)
        if begin == 0 or end == length
    }


CONTINUOUS = Interface((3,), Continuous(2, 2), 20)
DISCRETE = Interface((3,), Discrete(2, 2), 20)


@pytest.mark.parametrize("interface", [CONTINUOUS, DISCRETE], ids=["continuous", "discrete"])
def test_packed_and_padded_batches_have_one_loss_and_one_gradient(interface):
    rng = np.random.default_rng(0)
    lengths = [1, 2, 3, 3, 5, 7]
    discrete = isinstance(interface.actions, Discrete)
    data = Dataset.of(
        Episode(
            rng.normal(size=(n, 3)).astype(np.float32),
            rng.integers(0, 2, n) if discrete else rng.uniform(-1, 1, (n, 2)).astype(np.float32),
            rng.normal(size=n),
        )
        for n in lengths
    )
    net = new_net(DtConfig(16, 2, 2, 6, 0.0), interface, 0).double()
    results = []
    for packed in (True, False):
        batch = windows(data, 6, packed=packed).sample(40, np.random.default_rng(1))
        fields = {name: getattr(batch, name).double() for name in ("observations", "returns", "active")}
        if not discrete:
            fields["actions"] = batch.actions.double()
        batch = type(batch)(**{**batch.__dict__, **fields})
        assert len(batch.segments) < 40 if packed else len(batch.segments) == 40
        net.zero_grad()
        loss = net(batch)
        loss.backward()
        results.append((loss.item(), torch.cat([p.grad.flatten() for p in net.parameters()])))
    (packed_loss, packed_gradient), (padded_loss, padded_gradient) = results
    assert packed_loss == pytest.approx(padded_loss, rel=1e-12)
    assert torch.allclose(packed_gradient, padded_gradient, rtol=1e-9, atol=1e-12)


def test_padding_of_steps_and_of_dimensions_is_not_in_the_loss():
    net = new_net(DtConfig(16, 1, 2, 4, 0.0), Interface((3,), Continuous(1, 2), 20), 0)
    data = Dataset.of([episode(2)])
    settings = WindowSettings(context=4, return_scale=1, sampling="windows")
    source = Windows(data, Normaliser.identity(), torch.tensor([1.0, 0.0]), settings)
    batch = source.steps.batch(np.array([0]), np.array([2]))
    loss = net(batch)
    for name, at in (("actions", (0, 2)), ("actions", (0, 1, 1)), ("observations", (0, 3)), ("returns", (0, 2))):
        poisoned = getattr(batch, name).clone()
        poisoned[at] = 1e3 if at != (0, 1, 1) else poisoned[at]
        changed = type(batch)(**{**batch.__dict__, name: poisoned})
        assert torch.equal(net(changed), loss), name
    predictions = torch.zeros(1, 4, 2)
    predictions[0, :, 1] = 1e3  # a dimension that the task does not have
    expected = (batch.actions[0, :2, 0] ** 2).mean()
    assert float(net.head.loss(predictions, batch)) == pytest.approx(float(expected))


def test_a_mixture_replays_its_share():
    current, stored = (
        Dataset.of([episode(4, 0)] * 5),
        [Dataset.of([episode(4, 1000)] * 30), Dataset.of([episode(4, 2000)] * 10)],
    )
    mixture = Mixture(windows(current), [windows(data) for data in stored], 0.5)
    first = torch.cat([mixture.sample(64, np.random.default_rng(seed)).observations[:, 0, 0] for seed in range(50)])
    assert float((first < 1000).float().mean()) == 0.5  # exactly half of every batch
    assert float((first >= 2000).float().mean()) == pytest.approx(0.125, abs=0.02)  # by what is stored of each task


@pytest.mark.parametrize("interface", [CONTINUOUS, DISCRETE], ids=["continuous", "discrete"])
def test_numbers_of_any_width_are_data(interface):
    kinds = (np.int32, np.uint8) if isinstance(interface.actions, Discrete) else (np.float64, np.float16)
    shape = (5,) if isinstance(interface.actions, Discrete) else (5, 2)
    net = new_net(DtConfig(16, 1, 2, 4, 0.0), interface, 0)
    for kind in kinds:
        data = Dataset.of([Episode(np.zeros((5, 3)), np.ones(shape, kind), np.zeros(5))])
        interface.check(data)
        assert net(windows(data).sample(3, np.random.default_rng(0))).isfinite()


def test_streams_are_independent_of_each_other():
    assert len({derive(seed, purpose, step) for seed in range(5) for purpose in "ab" for step in range(5)}) == 50
