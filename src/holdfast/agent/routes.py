"""The record routes.json: why each task is in its copy, as it stands on disk and in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isinf
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


def route_reason(route: Mapping[str, Any]) -> str:
    """A decision and its reason, as a sentence."""
    task, copy = route["task"], route["copy"]
    if route["opened"]:
        begun = f" with the network of {route['source']}" if route["source"] else ""
        return f"{task} opened copy {copy}{begun}: {why(route)}."
    if not route["candidates"]:
        return f"{task} went into copy {copy}: {why(route)}."
    return f"{task} joined copy {copy} and starts from {' and '.join(sources(route)) or 'new scores'}: {why(route)}."


def why(route: Mapping[str, Any]) -> str:
    """The reason of a decision."""
    near = nearest(route)
    if near is None:
        return str(route["reason"])
    measured = f"the nearest task, {near['task']}, is {far(distance(near))} away"
    return f"{measured}, and {far(route['threshold'])} is allowed ({route['reason']})"


def nearest(route: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The candidate that is nearest to the task; None if there was none to compare with."""
    return min(route["candidates"], key=distance, default=None)


def far(distance: float) -> str:
    """A distance with three significant digits."""
    if isinf(distance):
        return "∞"
    return f"{distance:,.3g}" if abs(distance) < 1000 else f"{distance:,.0f}"


def distance(candidate: Mapping[str, Any]) -> float:
    """The distance of a recorded candidate; null means that it could not be computed, which counts as infinite."""
    return inf if candidate["distance"] is None else candidate["distance"]
