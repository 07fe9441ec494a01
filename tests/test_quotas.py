"""With `subnets.new`, every later task selects exactly that share of its entries among the free ones."""

from types import SimpleNamespace

import pytest
import torch

from holdfast.errors import Mistake
from holdfast.study.run_tables import capacity_lines
from holdfast.subnets.config import SubnetConfig
from holdfast.subnets.copies import Copy
from holdfast.subnets.layout import Layout
from holdfast.subnets.quotas import Counts, check_room, further_tasks, has_room, selected_counts, task_counts
from holdfast.subnets.selection import entries
from tests.tiny import SPARSE, tiny_learner, tiny_suite

LAYOUT = Layout(("a.weight", "a.bias"), ((10, 10), (10,)))


def copy_with(*owned: int) -> Copy:
    """A copy of which so many entries of each tensor are owned."""
    pieces = [torch.arange(size) < count for size, count in zip(LAYOUT.sizes, owned, strict=True)]
    return Copy(torch.zeros(LAYOUT.total), torch.cat(pieces), {})


@pytest.mark.parametrize("name", SPARSE)
@pytest.mark.parametrize("new", [0.1, 0.5, 1.0])
def test_every_later_task_in_a_copy_claims_exactly_its_share_of_every_tensor(name, new):
    suite = tiny_suite(tasks=3)
    one_copy = {} if name == "tsn-core" else {"routing__max_copies": 1}
    learner = tiny_learner(name, suite, subnets__new=new, subnets__keep=0.3, **one_copy)
    layout, owned = learner.layout(suite.interface), torch.zeros(learner.layout(suite.interface).total).bool()
    for stage, task in enumerate(suite.tasks):
        learner.learn(task)
        mask = learner.subnetworks[task.name].mask
        for chosen, before in layout.pieces(mask, owned):
            k = entries(0.3, len(chosen))
            assert int(chosen.sum()) == k
            reused = min(k - entries(new, k), int(before.sum())) if stage else 0
            assert int((chosen & before).sum()) == reused
        owned |= mask


def test_the_first_task_of_a_copy_has_nothing_to_reuse():
    assert task_counts(SubnetConfig(keep=0.3, new=0.2), LAYOUT, [100, 10], held=0) == Counts([30, 3], [30, 3])
    assert task_counts(SubnetConfig(keep=0.3, new=0.2), LAYOUT, [70, 7], held=1) == Counts([30, 3], [6, 1])


def test_a_copy_that_has_too_few_free_entries_for_the_share_is_full():
    config = SubnetConfig(keep=0.3, new=0.2)
    assert has_room(config, LAYOUT, copy_with(94, 9), held=5)
    assert not has_room(config, LAYOUT, copy_with(95, 9), held=5)
    with pytest.raises(
        Mistake, match=r"a copy with 5 tasks has too few free entries for another one in 1 of 2 tensors"
    ):
        selected_counts(config, LAYOUT, [5, 1], held=5)


def test_a_plan_that_one_copy_cannot_hold_is_refused_and_more_copies_hold_it():
    # The first task claims 30 of 100 and 3 of 10, each later one 6 and 1: there is room for 7 later ones in a.bias.
    check_room(SubnetConfig(keep=0.3, new=0.2, tasks=8), LAYOUT)
    with pytest.raises(Mistake, match=r"a copy with 8 tasks has too few free entries .*\(a.bias\)"):
        check_room(SubnetConfig(keep=0.3, new=0.2, tasks=9), LAYOUT)
    check_room(SubnetConfig(keep=0.3, new=0.2, tasks=16), LAYOUT, copies=2)


def test_as_many_more_tasks_fit_as_are_then_learned_before_the_copy_is_full():
    suite = tiny_suite(tasks=4)
    settings = {"subnets__new": 0.3, "subnets__keep": 0.5, "routing__threshold": 1e12}
    learner = tiny_learner("affinity-l", suite, **settings)
    promised = None
    for task in suite.tasks:
        opened = learner.route(task).opened
        assert promised is None or opened == (promised == 0)
        learner.learn(task)
        before, promised = promised, learner.accounts()[0]["more"]
        assert before in (None, 0) or promised == before - 1
    assert learner.copies == 2  # so a copy was full


def test_further_tasks_by_hand():
    # The first task claims 30 of 100 and 3 of 10, each later one 6 and 1: there is room for 7 later ones in a.bias.
    config = SubnetConfig(keep=0.3, new=0.2)
    assert further_tasks(config, LAYOUT, [100, 10], held=0) == 8
    assert further_tasks(config, LAYOUT, [70, 7], held=1) == 7
    assert further_tasks(config, LAYOUT, [5, 1], held=5) == 0
    # Without reuse, half of what is left, rounded up: 10, 5, 2, 1, 0.
    assert further_tasks(SubnetConfig(keep=0.5, reuse=False), LAYOUT, [100, 10], held=0) == 4
    planned = SubnetConfig(schedule="equal_remaining", reuse=False, tasks=6)
    assert further_tasks(planned, LAYOUT, [100, 10], held=0) == 6
    assert further_tasks(SubnetConfig(keep=0.3), LAYOUT, [0, 0], held=9) == "any number"


def test_what_fits_into_a_copy_is_said_in_words():
    account = {"total": 200, "occupied": 50, "free": 150, "tasks": {}}
    told = [{**account, "more": more} for more in (0, 1, "any number", None)]
    assert capacity_lines(SimpleNamespace(accounts=[*told, account])) == [
        "copy 0: 25 % of its entries are owned, room for 0 more tasks",
        "copy 1: 25 % of its entries are owned, room for 1 more task",
        "copy 2: 25 % of its entries are owned, room for any number of tasks",
        "copy 3: 25 % of its entries are owned",
        "copy 4: 25 % of its entries are owned",  # an older record
    ]


@pytest.mark.parametrize("name", SPARSE)
def test_a_copy_has_room_exactly_if_at_least_one_more_task_fits(name):
    suite = tiny_suite(tasks=2)
    half = {"subnets__new": 0.5, "subnets__keep": 0.5}
    planned = {"subnets__new": "planned", "subnets__tasks": 1}
    for settings in ({}, half, planned, {"subnets__reuse": False, "subnets__keep": 0.9}):
        learner = tiny_learner(name, suite, preset="paper", **settings)
        learner.learn(suite.tasks[0])
        more = learner.accounts()[0]["more"]
        assert learner._has_room(0) == (more == "any number" or more > 0)


def test_a_full_copy_is_passed_over():
    suite = tiny_suite(tasks=3)
    settings = {"subnets__new": 0.5, "subnets__keep": 0.5, "routing__threshold": 1e12}
    learner = tiny_learner("affinity-l", suite, preset="paper", **settings)
    for task in suite.tasks:
        learner.learn(task)
    assert [learner.task_copy(name) for name in suite.names] == [0, 0, 1]  # 1/2, then 1/4 of some tensors is claimed
    assert learner.routes()[2]["reason"] == "nearest copy is full"


@pytest.mark.parametrize("tasks", [1, 2, 3, 10, 20, 35])
def test_a_copy_holds_exactly_the_planned_tasks_and_shares_its_free_entries_among_them(tasks):
    config = SubnetConfig(keep=0.33, new="planned", tasks=tasks)
    free, given = LAYOUT.sizes, []
    check_room(config, LAYOUT)
    for held in range(tasks):
        assert further_tasks(config, LAYOUT, free, held) == tasks - held
        counts = selected_counts(config, LAYOUT, free, held)
        assert counts.selected == [33, 4]
        assert all(0 <= new <= left for new, left in zip(counts.new, free, strict=True))
        assert held == 0 or counts.new[0] <= 17  # half of 33, rounded up
        free = [left - new for left, new in zip(free, counts.new, strict=True)]
        given.append(counts.new[0])
    assert max(given[1:], default=0) - min(given[1:], default=0) <= 1  # later tasks get equal shares
    assert tasks < 5 or free[0] == 0  # nothing is left over
    with pytest.raises(Mistake, match=f"a copy is planned for {tasks} tasks"):
        selected_counts(config, LAYOUT, free, tasks)


def test_with_planned_shares_a_task_beyond_the_plan_opens_a_copy():
    suite = tiny_suite(tasks=3)
    settings = {"subnets__new": "planned", "subnets__tasks": 2, "routing__threshold": 1e12}
    learner = tiny_learner("affinity-l", suite, **settings)
    for task in suite.tasks:
        learner.learn(task)
    assert [learner.task_copy(name) for name in suite.names] == [0, 0, 1]


def test_a_share_of_new_entries_without_reuse_is_refused():
    with pytest.raises(Mistake, match=r"subnets\.reuse is off"):
        SubnetConfig(new=0.5, reuse=False)


def test_with_a_warm_start_the_reused_entries_begin_as_the_sources():
    suite = tiny_suite(tasks=2)
    settings = {"routing__max_copies": 1, "subnets__new": 0.2, "subnets__warm_start": 100.0, "fit__steps": 1}
    learner = tiny_learner("affinity-l", suite, **settings)
    for task in suite.tasks:
        learner.learn(task)
    first, second = (learner.subnetworks[name].mask for name in suite.names)
    assert int((second & ~first).sum()) == learner.subnetworks[suite.names[1]].new
    assert int((second & first).sum()) > 0.7 * int(first.sum())


def test_biases_outside_the_masks_are_each_tasks_own():
    suite = tiny_suite(tasks=2)
    learner = tiny_learner("tsn-core", suite, subnets__biases="outside")
    for task in suite.tasks:
        learner.learn(task)
    layout = learner.layout(suite.interface)
    assert layout.names
    assert all(len(shape) > 1 for shape in layout.shapes)
    own = [learner.subnetworks[name].private["head.output.bias"] for name in suite.names]
    assert not torch.equal(*own)
