"""Routing: a new task joins the copy of the nearest learned task, or opens a new copy."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite
from typing import Any, Literal

from holdfast.errors import Mistake


@dataclass(frozen=True)
class Candidate:
    """A learned task that the new task is compared with."""

    task: str
    copy: int
    distance: float  # infinite if it could not be computed
    parts: Mapping[str, float]  # the scores that the distance is computed from, by name
    full: bool = False  # whether its copy has no room for another task

    def record(self) -> dict[str, Any]:
        """The candidate as plain data; an infinite distance becomes null, since JSON has no infinity."""
        parts = {name: _finite_or_none(score) for name, score in self.parts.items()}
        return {**asdict(self), "distance": _finite_or_none(self.distance), "parts": parts}


def _finite_or_none(distance: float) -> float | None:
    return distance if isfinite(distance) else None


@dataclass(frozen=True)
class Route:
    """A routing decision, with the candidates and the threshold it was based on."""

    task: str
    candidates: tuple[Candidate, ...]
    threshold: float | None
    source: str | None  # the task whose mask and private parameters initialise those of the new task
    copy: int
    opened: bool  # whether the copy is new
    reason: str
    more_sources: tuple[str, ...] = ()  # further tasks whose masks are united with the source's

    @property
    def sources(self) -> tuple[str, ...]:
        """All tasks that the new task starts from, nearest first."""
        return (self.source, *self.more_sources) if self.source else ()

    def record(self) -> dict[str, Any]:
        """The route as plain data."""
        return {**asdict(self), "candidates": [candidate.record() for candidate in self.candidates]}


def route(
    task: str, candidates: Sequence[Candidate], threshold: float, copies: int, max_copies: int | None = None
) -> Route:
    """Chooses the copy of the nearest candidate that is not full, if it is near enough or no copy may be opened;
    otherwise a new copy."""
    evidence = tuple(candidates)
    if not candidates:
        reason = "no learned task has its interface" if copies else "first task"
        return Route(task, evidence, threshold, None, copies, True, reason)
    nearest = min(candidates, key=_distance)
    source = min((candidate for candidate in candidates if not candidate.full), key=_distance, default=None)
    if source is not None and source.distance <= threshold:
        reason = "near enough" if source is nearest else "near enough, and the nearest copy is full"
        return Route(task, evidence, threshold, source.task, source.copy, False, reason)
    if max_copies is None or copies < max_copies:
        reason = "nearest copy is full" if nearest.distance <= threshold else "too far"
        return Route(task, evidence, threshold, None, copies, True, reason)
    if source is None:
        raise Mistake(
            f"there is no room for {task}: all copies are full, and routing.max_copies allows no other: "
            "raise it, lower subnets.keep or subnets.new, or allow reuse with the schedule constant"
        )
    return Route(task, evidence, threshold, source.task, source.copy, False, "too far, but no copy is left")


def route_by_room(
    task: str,
    candidates: Sequence[Candidate],
    threshold: float,
    copies: int,
    max_copies: int | None = None,
    *,
    far_source: Literal["nearest", "last"] | None,
) -> Route:
    """As `route`, but a task that is near nothing joins the nearest copy that is not full, and a copy is opened only
    if all are full. It starts from the nearest or the last task of this copy, as `far_source` says, or from new scores.
    Candidates are in the order in which they were learned."""
    nearest = min((candidate for candidate in candidates if not candidate.full), key=_distance, default=None)
    if nearest is None:
        found = route(task, candidates, threshold, copies, max_copies)
        return replace(found, reason="all copies are full") if candidates else found
    if nearest.distance <= threshold:
        return route(task, candidates, threshold, copies, max_copies)
    source, reason = None, "too far, so with new scores"
    if far_source == "nearest":
        source, reason = nearest.task, "too far, but it gets weights of its own"
    elif far_source == "last":
        source = [candidate.task for candidate in candidates if candidate.copy == nearest.copy][-1]
        reason = "too far, so from the last one"
    return Route(task, tuple(candidates), threshold, source, nearest.copy, False, reason)


def with_sources(route: Route, count: int) -> Route:
    """The route with up to `count` sources: the tasks of its copy that are nearest to the new one."""
    if route.source is None:
        return route
    inside = sorted((found for found in route.candidates if found.copy == route.copy), key=_distance)
    others = [found.task for found in inside if found.task != route.source]
    return replace(route, more_sources=tuple(others[: count - 1]))


def _distance(candidate: Candidate) -> float:
    return candidate.distance


def only_copy(task: str, copy: int, opened: bool) -> Route:
    """The route of a learner without routing: the only copy with the task's interface, with new scores."""
    return Route(task, (), None, None, copy, opened, "one copy for all tasks")


def installed(task: str, copy: int, opened: bool) -> Route:
    """The route of a task that was learned elsewhere and put into a copy."""
    return Route(task, (), None, None, copy, opened, "installed from a pack")


def without(task: str, record: Mapping[str, Any], closed: int | None) -> dict[str, Any]:
    """The record of another task's route after this task was removed, and with it the copy that closed.

    It is no candidate any more; if the other task started from it, that stays said. Copies after a closed one move up.
    """

    def moved(copy: int) -> int:
        return copy if closed is None or copy < closed else copy - 1

    others = [one for one in record["candidates"] if one["task"] != task]
    candidates = [{**one, "copy": moved(one["copy"])} for one in others]
    return {**record, "candidates": candidates, "copy": moved(record["copy"])}
