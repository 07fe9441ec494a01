"""With `subnets.new auto`, a task with little data claims few new entries, and a copy still holds its planned tasks."""

from dataclasses import replace
from fractions import Fraction

import pytest

from holdfast.subnets.config import SubnetConfig
from holdfast.subnets.quotas import check_room, further_tasks, has_room, new_share, task_counts
from holdfast.subnets.selection import entries
from tests.test_quotas import LAYOUT, copy_with
from tests.tiny import tiny_learner, tiny_suite

AUTO, K = SubnetConfig(new="auto"), 196_171  # k of the networks that the rule is fitted to


def test_more_data_give_more_new_entries_between_a_twentieth_and_half():
    shares = [new_share(AUTO, K, transitions) for transitions in (1, 800, 2_000, 8_000, 10_000, 10**9)]
    assert shares == sorted(shares)
    assert (shares[0], shares[1], shares[-1]) == (Fraction(1, 20), Fraction(1, 20), Fraction(1, 2))
    assert new_share(AUTO, K, 8_000) == Fraction(64_000, K)


@pytest.mark.parametrize("tasks", [2, 3, 10, 20])
def test_a_copy_holds_exactly_the_planned_tasks_whatever_data_they_have(tasks):
    config = SubnetConfig(new="auto", tasks=tasks)
    check_room(config, LAYOUT)
    for transitions in (0, 5, 10**6):
        free = LAYOUT.sizes
        for held in range(tasks):
            assert further_tasks(config, LAYOUT, free, held) == tasks - held
            counts = task_counts(config, LAYOUT, free, held, transitions)
            assert all(0 <= new <= left for new, left in zip(counts.new, free, strict=True))
            free = [left - new for left, new in zip(free, counts.new, strict=True)]
        assert not has_room(config, LAYOUT, copy_with(0, 0), held=tasks)


def test_with_much_data_it_is_the_planned_share():
    for held, free in ((0, [100, 10]), (1, [67, 6]), (3, [40, 3])):
        planned = task_counts(SubnetConfig(new="planned", tasks=5), LAYOUT, free, held)
        assert task_counts(SubnetConfig(new="auto", tasks=5), LAYOUT, free, held, 10**6) == planned


def test_a_learner_counts_the_transitions_of_its_data():
    suite, claimed = tiny_suite(tasks=2), []
    whole = suite.tasks[1]
    for data in (whole.dataset.take(range(1)), whole.dataset):  # 20 and 200 transitions, 8 new entries for each
        learner = tiny_learner("tsn-core", suite, subnets__new="auto")
        learner.learn(suite.tasks[0])
        learner.learn(replace(whole, load=lambda data=data: data))
        claimed.append(learner.subnetworks[whole.name].new)
        sizes = learner.layout(suite.interface).sizes
    k = [entries(0.33, size) for size in sizes]
    assert claimed[0] == sum(entries(Fraction(8 * 20, sum(k)), count) for count in k)
    assert claimed[1] > 3 * claimed[0]
