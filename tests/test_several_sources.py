"""With `subnets.sources`, a warm start unites the masks of the nearest tasks of a copy, and the route says which."""

import pytest
import torch

from holdfast.agent.routes import RecordedRoute, route_reason, sources
from holdfast.data.conform import conform
from holdfast.routing.route import Candidate, Route, route, with_sources
from holdfast.subnets.config import SubnetConfig
from tests.test_selection import three_tasks
from tests.tiny import tiny_learner, tiny_suite


def candidates(*placed: tuple[int, float]) -> list[Candidate]:
    """Learned tasks with their copies and distances."""
    return [Candidate(f"T{at}", copy, distance, {}) for at, (copy, distance) in enumerate(placed)]


def routed(count: int, *placed: tuple[int, float], threshold: float = 9.0) -> Route:
    return with_sources(route("New", candidates(*placed), threshold, copies=2), count)


def test_the_nearest_tasks_of_the_same_copy_are_the_sources():
    placed = ((0, 3.0), (1, 2.0), (0, 1.0), (0, 4.0))
    assert routed(1, *placed).sources == ("T2",)
    assert routed(2, *placed).sources == ("T2", "T0")
    assert routed(9, *placed).sources == ("T2", "T0", "T3")


def test_of_equally_near_tasks_the_first_learned_ones_are_the_sources():
    assert routed(2, (0, 1.0), (0, 1.0), (0, 1.0)).sources == ("T0", "T1")


def test_a_task_without_a_source_has_no_further_ones():
    assert routed(2, (0, 3.0), (0, 4.0), threshold=1.0).sources == ()


def test_the_record_names_them_and_records_without_them_are_read():
    record = routed(2, (0, 1.0), (0, 2.0)).record()
    assert sources(record) == ["T0", "T1"]
    assert "joined copy 0 and starts from T0 and T1" in route_reason(record)
    del record["more_sources"]
    assert sources(record) == ["T0"]
    assert conform(record, RecordedRoute, "route").more_sources == ()


def test_scores_are_warm_where_any_source_has_the_entry():
    _, earlier, masked = three_tasks(SubnetConfig(warm_start=2.0, noise=0.02), sources=2)
    rest = masked.scores.detach() - 2.0 * (earlier[0].mask | earlier[1].mask)
    assert float(rest.abs().max()) < 0.2
    assert all((parameter == 7.0).all() for parameter in masked.outside)  # the first source's


@pytest.mark.parametrize("count", [1, 2])
def test_a_learner_starts_from_as_many_tasks_as_it_is_told(count):
    suite = tiny_suite(tasks=3)
    settings = {"routing__max_copies": 1, "subnets__sources": count, "subnets__warm_start": 50.0, "fit__steps": 1}
    learner = tiny_learner("affinity-l", suite, subnets__new=0.5, **settings)
    for task in suite.tasks:
        learner.learn(task)
    found = learner.routes()[2]
    assert len(sources(found)) == count
    assert set(sources(found)) <= set(suite.names[:2])
    united = torch.stack([learner.subnetworks[name].mask for name in sources(found)]).any(dim=0)
    reused = learner.subnetworks[suite.names[2]].mask & ~_claimed(learner, suite.names)
    assert int((reused & united).sum()) >= 0.99 * int(reused.sum())


def _claimed(learner, names: list[str]) -> torch.Tensor:
    """The entries that the last task claimed."""
    *earlier, last = (learner.subnetworks[name].mask for name in names)
    return last & ~torch.stack(earlier).any(dim=0)
