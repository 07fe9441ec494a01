"""The record routes.json: why each task is in its copy, as it stands on disk."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.data.conform import Conform
from holdfast.errors import Mistake


@dataclass(frozen=True)
class RecordedCandidate:
    """A learned task and its distance; null, or NaN in older records, if that could not be computed."""

    task: str
    copy: int
    distance: float | None
    parts: dict[str, float | None]
    full: bool = False


@dataclass(frozen=True)
class RecordedRoute:
    """Where a task went."""

    task: str
    candidates: tuple[RecordedCandidate, ...]
    threshold: float | None
    source: str | None
    copy: int
    opened: bool
    reason: str
    more_sources: tuple[str, ...] = ()


def sources(route: Mapping[str, Any]) -> list[str]:
    """The tasks that the task of a recorded route started from, nearest first."""
    return [route["source"], *route.get("more_sources", ())] if route["source"] else []


def check_routes(record: Any, order: Sequence[str]) -> None:
    """Raises unless these are the routes of the first tasks in this order."""
    routes = Conform(finite=False)(record, list[RecordedRoute], "routes")
    for place, (route, task) in enumerate(zip(routes, order, strict=False)):
        if route.task != task or route.copy < 0:
            raise Mistake(f"routes[{place}] is of {route.task} in copy {route.copy}, but the task is {task}")
    if len(routes) > len(order):
        raise Mistake(f"{len(routes)} routes of {len(order)} tasks")
