"""Masks keep exactly k entries, the largest first, ties by index, and are exactly 0/1."""

from fractions import Fraction
from math import ceil

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.data.normaliser import Normaliser
from holdfast.subnets.claim import Start, begin
from holdfast.subnets.config import SubnetConfig
from holdfast.subnets.copies import Copy, Subnetwork
from holdfast.subnets.layout import Layout
from holdfast.subnets.masked import Masked, StraightThrough
from holdfast.subnets.quantise import quantise
from holdfast.subnets.selection import entries, largest
from tests.tiny import SPARSE, tiny_learner, tiny_suite


@pytest.mark.parametrize(
    ("ratio", "feasible", "k"),
    [(0.33, 100, 33), (0.1, 30, 3), (0.5, 5, 3), (0.33, 1, 1), (1.0, 7, 7), (0.7, 10, 7), (0.5, 0, 0)],
)
def test_k_is_the_ceiling_of_the_ratio_as_written(ratio, feasible, k):
    assert entries(ratio, feasible) == k


def test_k_of_a_fraction_is_exact():
    assert entries(Fraction(1, 3), 99) == 33
    assert entries(Fraction(1, 3), 100) == 34


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0, 2.5]), min_size=1, max_size=40), st.data())
def test_exactly_the_k_largest_are_kept_and_ties_go_to_the_lower_index(values, data):
    k = data.draw(st.integers(0, len(values)))
    mask = largest(torch.tensor(values), k)
    best = sorted(range(len(values)), key=lambda index: (-values[index], index))[:k]
    assert sorted(best) == torch.nonzero(mask).flatten().tolist()


def test_the_mask_is_exactly_zero_or_one_and_its_gradient_reaches_the_magnitude_of_the_score():
    scores = torch.tensor([0.3, -0.7, 0.1, -0.2], requires_grad=True)
    mask = StraightThrough.apply(scores, largest(scores.detach().abs(), 2))
    assert mask.tolist() == [1.0, 1.0, 0.0, 0.0]
    mask.backward(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    assert scores.grad.tolist() == [1.0, -2.0, 3.0, -4.0]


@pytest.mark.parametrize("name", SPARSE)
@pytest.mark.parametrize("keep", [0.33, 0.5])
def test_every_tensor_of_every_learned_mask_has_exactly_k_entries(name, keep):
    suite = tiny_suite()
    learner = tiny_learner(name, suite, subnets__keep=keep)
    for task in suite.tasks:
        learner.learn(task)
    for found in learner.subnetworks.values():
        for piece in found.mask.split(learner.layout(suite.interface).sizes):
            assert int(piece.sum()) == ceil(Fraction(str(keep)) * len(piece))


def test_without_reuse_k_is_a_share_of_what_is_free():
    suite = tiny_suite()
    learner = tiny_learner("tsn-core", suite, subnets__reuse=False, subnets__keep=0.5)
    free = torch.tensor(learner.layout(suite.interface).sizes)
    for task in suite.tasks:
        learner.learn(task)
        counts = [
            int(piece.sum())
            for piece in learner.subnetworks[task.name].mask.split(learner.layout(suite.interface).sizes)
        ]
        assert counts == [entries(0.5, int(left)) for left in free]
        free = free - torch.tensor(counts)


def test_quantisation_moves_new_weights_only_and_to_few_values():
    layout = Layout(("a.weight", "b.weight"), ((20, 20), (10, 10)))
    values = torch.randn(500, generator=torch.Generator().manual_seed(0))
    new = torch.arange(500) % 3 == 0
    moved = quantise(values, new, layout, bits=3)
    assert torch.equal(moved[~new], values[~new])
    for piece, chosen in layout.pieces(moved, new):
        assert len(piece[chosen].unique()) <= 8
    assert (moved - values).abs().max() < 1.0
    assert (moved - values)[new].abs().mean() < 0.2


def masked_with(scores: torch.Tensor, suite=None):
    """A network about to be trained, with these scores in its first tensor."""
    suite = suite or tiny_suite()
    learner = tiny_learner("tsn-core", suite)
    room = learner.room(0, suite.interface)
    start = Start(room.copy, [], [], torch.Generator().manual_seed(0))
    masked = begin(learner.config.subnets, learner.fresh_net(0, suite.interface), room.layout, start)
    masked.scores.data[: len(scores)] = scores
    return learner, masked


def test_a_mask_goes_by_the_magnitude_of_scores_whatever_their_sign():
    _, masked = masked_with(torch.zeros(16))
    size = masked.layout.sizes[0]
    masked.scores.data[:size] = torch.linspace(-1, 0.5, size)
    kept = torch.nonzero(masked.mask()[:size]).flatten()
    assert 0 in kept  # the most negative score
    assert size - 1 not in kept  # the largest one that is not the largest in magnitude


def three_tasks(config: SubnetConfig, sources: int = 1) -> tuple[Layout, list[Subnetwork], Masked]:
    """A third task that starts from the first of two in its copy, or from both."""
    learner, masked = masked_with(torch.zeros(1))
    net, layout = learner.fresh_net(0, tiny_suite().interface), masked.layout
    masks = [torch.arange(layout.total) % 3 == place for place in range(2)]
    private = [
        {name: torch.full_like(p, 7.0 + place) for name, p in layout.outside(dict(net.named_parameters())).items()}
        for place in range(2)
    ]
    earlier = [Subnetwork(0, mask, 1, own, Normaliser.identity()) for mask, own in zip(masks, private, strict=True)]
    copy = Copy(layout.join(dict(net.named_parameters())), masks[0] | masks[1], {})
    start = Start(copy, earlier, earlier[:sources], torch.Generator().manual_seed(0))
    return layout, earlier, begin(config, net, layout, start)


def test_a_warm_start_is_lambda_times_the_sources_mask_plus_noise():
    _, earlier, masked = three_tasks(SubnetConfig(warm_start=2.0, noise=0.02))
    rest = masked.scores.detach() - 2.0 * earlier[0].mask
    assert abs(float(rest.mean())) < 0.002
    assert float(rest.std()) == pytest.approx(0.02, rel=0.1)


def test_private_parameters_start_from_the_sources():
    _, _, masked = three_tasks(SubnetConfig())
    assert all((parameter == 7.0).all() for parameter in masked.outside)


def test_quantised_weights_are_what_the_task_owns():
    suite = tiny_suite(tasks=2)
    learner = tiny_learner("tsn-core", suite, subnets__quantise_bits=2)
    for task in suite.tasks:
        learner.learn(task)
    first, second = learner.subnetworks.values()
    for mask in (first.mask, second.mask & ~first.mask):
        for weights, owned in learner.layout(suite.interface).pieces(learner.model_copies[0].weights, mask):
            assert len(weights[owned].unique()) <= 4


def test_capacity_adds_up():
    suite = tiny_suite()
    learner = tiny_learner("tsn-core", suite)
    for task in suite.tasks:
        learner.learn(task)
    (account,) = learner.accounts()
    assert account["occupied"] + account["free"] == account["total"] == learner.layout(suite.interface).total
    assert sum(task["new"] for task in account["tasks"].values()) == account["occupied"]
    assert all(task["new"] + task["reused"] == task["selected"] for task in account["tasks"].values())
