"""With `subnets.place`, new entries go elsewhere, and there are as many of them as before."""

import pytest
import torch

from holdfast.data.randomness import numpy_stream
from holdfast.errors import Mistake
from holdfast.subnets.config import SubnetConfig
from holdfast.subnets.layout import Layout
from holdfast.subnets.placement import in_order, mean_gradient, place_by_gradient
from holdfast.subnets.quotas import further_tasks, lacking, task_counts
from tests.test_selection import three_tasks
from tests.tiny import tiny_learner, tiny_suite, windows_in

LAYOUT = Layout(("a", "b", "c"), ((10, 10), (10, 5), (10, 10)))  # at a keep of 0.2: k = 20, 10, 20


def counts(place: str, free: list[int], new: float | str = 0.5, **more) -> list[int]:
    return task_counts(SubnetConfig(keep=0.2, new=new, place=place, **more), LAYOUT, free, held=1).new


def test_deep_fills_the_last_tensors_and_shallow_the_first_with_the_same_total():
    free = [80, 40, 80]
    assert counts("scores", free) == [10, 5, 10]
    assert counts("deep", free) == [0, 5, 20]
    assert counts("shallow", free) == [20, 5, 0]


def test_a_tensor_that_is_full_leaves_its_part_to_the_next():
    assert counts("deep", [80, 40, 3]) == [12, 10, 3]
    assert counts("shallow", [0, 40, 80]) == [0, 10, 15]


def test_where_not_even_all_tensors_have_room_the_copy_is_full():
    config = SubnetConfig(keep=0.2, new=0.5, place="deep")
    free = [9, 5, 9]
    assert counts("deep", free) == [10, 5, 10]
    assert lacking(LAYOUT, free, task_counts(config, LAYOUT, free, held=1)) == ["a", "c"]


def test_a_copy_holds_its_planned_tasks_wherever_new_entries_go():
    for place in ("scores", "deep", "shallow"):
        config = SubnetConfig(keep=0.2, new="planned", place=place, tasks=12)
        assert further_tasks(config, LAYOUT, LAYOUT.sizes, held=0) == 12
    deep = SubnetConfig(keep=0.2, new=0.5, place="deep")
    assert further_tasks(deep, LAYOUT, LAYOUT.sizes, held=0) == 7  # then only a has free entries, and k is 20


@pytest.mark.parametrize("tasks", [2, 4, 6, 12])  # with 8, the last would find free entries in one tensor alone
def test_planned_tasks_get_as_many_new_entries_wherever_they_go(tasks):
    given = {}
    for place in ("scores", "deep", "shallow"):
        config, free = SubnetConfig(keep=0.2, new="planned", place=place, tasks=tasks), LAYOUT.sizes
        given[place] = []
        for held in range(tasks):
            new = task_counts(config, LAYOUT, free, held).new
            free = [left - count for left, count in zip(free, new, strict=True)]
            given[place].append(sum(new))
        assert min(free) >= 0
    for place in ("deep", "shallow"):
        pairs = zip(given[place], given["scores"], strict=True)
        assert all(abs(ours - theirs) <= len(LAYOUT.sizes) for ours, theirs in pairs)  # by rounding in every tensor


def test_the_least_of_every_tensor_comes_first():
    assert in_order(12, [2, 0, 1], [5, 5, 5], deepest_first=True) == [2, 5, 5]


def test_a_first_task_selects_the_same_entries_of_every_tensor():
    for place in ("scores", "gradient", "deep", "shallow"):
        found = task_counts(SubnetConfig(keep=0.2, new=0.5, place=place), LAYOUT, LAYOUT.sizes, held=0)
        assert found.new == found.selected == [20, 10, 20]


def test_a_place_without_new_entries_is_refused():
    with pytest.raises(Mistake, match=r"subnets\.place is about new entries"):
        SubnetConfig(place="deep")


@pytest.fixture
def batches():
    """A few batches of a task."""
    suite = tiny_suite()
    windows = windows_in(tiny_learner("naive", suite), suite.tasks[0])
    rng = numpy_stream(0, "batches")
    return [windows.sample(8, rng) for _ in range(3)]


def test_the_gradient_is_that_of_the_weights_that_the_network_uses(batches):
    _, _, masked = three_tasks(SubnetConfig(new=0.2))
    found = mean_gradient(masked, batches)
    mean = torch.stack([masked(batch) for batch in batches]).mean()
    (of_free,) = torch.autograd.grad(mean, masked.free)
    used = masked.mask() & ~masked.occupied
    assert torch.allclose(of_free[used], found[used], atol=1e-6)
    assert (found[~masked.mask()] != 0).any()  # also of weights that are not used yet


def test_free_entries_get_the_same_score_magnitudes_in_the_order_of_their_gradients(batches):
    _, _, masked = three_tasks(SubnetConfig(new=0.2, place="gradient"))
    before, gradient = masked.scores.detach().clone(), mean_gradient(masked, batches).abs()
    place_by_gradient(masked, batches)
    after = masked.scores.detach()
    assert torch.equal(after[masked.occupied], before[masked.occupied])
    for old, new, size, occupied in masked.layout.pieces(before, after, gradient, masked.occupied):
        free = ~occupied
        assert torch.equal(old[free].abs().sort().values, new[free].sort().values)
        chosen = masked_top(new[free], 5)
        assert float(size[free][chosen].min()) >= float(size[free][~chosen].max())


def masked_top(scores: torch.Tensor, count: int) -> torch.Tensor:
    """Which of these are the largest."""
    mask = torch.zeros(len(scores), dtype=torch.bool)
    mask[scores.argsort(stable=True, descending=True)[: min(count, len(scores) - 1)]] = True
    return mask
