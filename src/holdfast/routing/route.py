"""Where a new task starts: on the copy of the nearest learned task, or on a new one."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Candidate:
    """A learned task as a source for the new one."""

    task: str
    copy: int
    distance: float
    parts: Mapping[str, float]  # the scores that the distance is made of, by name


@dataclass(frozen=True)
class Route:
    """A decision, and all that it was made from."""

    task: str
    candidates: tuple[Candidate, ...]
    threshold: float | None
    source: str | None  # the task whose mask and private parameters the new one starts from
    copy: int
    opened: bool  # whether the copy is new
    reason: str

    def record(self) -> dict[str, Any]:
        """The route as plain data."""
        return asdict(self)


def route(
    task: str, candidates: Sequence[Candidate], threshold: float, copies: int, max_copies: int | None = None
) -> Route:
    """The nearest candidate's copy if it is near enough, or if no other copy may be opened; otherwise a new copy."""
    evidence = tuple(candidates)
    if not candidates:
        return Route(task, evidence, threshold, None, 0, True, "first task")
    nearest = min(candidates, key=lambda candidate: candidate.distance)
    if nearest.distance <= threshold:
        return Route(task, evidence, threshold, nearest.task, nearest.copy, False, "near enough")
    if max_copies is not None and copies >= max_copies:
        return Route(task, evidence, threshold, nearest.task, nearest.copy, False, "too far, but no copy is left")
    return Route(task, evidence, threshold, None, copies, True, "too far")


def only_copy(task: str, first: bool) -> Route:
    """The route where there is nothing to decide: always the one copy, from fresh scores."""
    return Route(task, (), None, None, 0, first, "one copy for all tasks")
