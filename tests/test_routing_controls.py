"""The controls of routing: a copy for every task, a random source, and one copy."""

from holdfast.learners.sparse import TaskProbe
from holdfast.routing.affinities import RandomAffinity
from tests.tiny import tiny_learner, tiny_suite


def learned(name: str, **settings):
    suite = tiny_suite(tasks=4)
    learner = tiny_learner(name, suite, **settings)
    for task in suite.tasks:
        learner.learn(task)
    return learner


def test_independent_opens_a_copy_for_every_task_and_reuses_nothing():
    learner = learned("independent")
    assert [learner.task_copy(name) for name in learner.learned] == [0, 1, 2, 3]
    assert all(route["source"] is None for route in learner.routes())
    assert all(task["reused"] == 0 for account in learner.accounts() for task in account["tasks"].values())
    assert not any(learner.kept.values())  # nothing is stored that no decision needs


def test_one_copy_holds_all_tasks_and_each_starts_from_the_nearest():
    learner = learned("affinity-l", routing__max_copies=1, routing__threshold=0.0)
    assert learner.copies == 1
    for route in learner.routes()[1:]:
        nearest = min(route["candidates"], key=lambda candidate: candidate["distance"])
        assert route["source"] == nearest["task"]


def test_a_random_source_depends_on_the_seed_alone():
    sources = [[route["source"] for route in learned("random-routing", seed=seed).routes()] for seed in (0, 0, 1, 2, 3)]
    assert sources[0] == sources[1]
    assert len({tuple(found) for found in sources}) > 1


def test_every_earlier_task_is_an_equally_likely_random_source():
    learner = learned("random-routing")
    task, known = tiny_suite(tasks=4).tasks[3], [learner._source(name) for name in learner.learned[:3]]
    nearest = []
    for seed in range(300):
        probe = TaskProbe(task, learner, 2)
        probe.seed = seed
        candidates, threshold = RandomAffinity().candidates(probe, known)
        assert all(candidate.distance <= threshold for candidate in candidates)
        nearest.append(min(candidates, key=lambda candidate: candidate.distance).task)
    counts = [nearest.count(name) for name in learner.learned[:3]]
    assert min(counts) > 70  # 100 each are expected, with a standard deviation of 8
