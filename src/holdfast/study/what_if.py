"""What other thresholds would have decided, predicted from the distances that a run recorded."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf, isfinite
from typing import Any

from holdfast.evaluation.matrix import Matrix

WEIGHT = 4  # bytes of a weight in a copy

RouteRecord = Mapping[str, Any]  # as routes.json has it


@dataclass(frozen=True)
class Prediction:
    """The copies and bytes at thresholds from `least` up to that of the next prediction."""

    least: float | None  # None: below all distances
    copies: int
    bytes: int

    def record(self) -> dict[str, Any]:
        """The prediction as plain data."""
        return asdict(self)


def what_if(routes: Sequence[RouteRecord], matrix: Matrix, plan: Mapping[str, Any]) -> list[Prediction]:
    """Copies and bytes by threshold, without training; empty if the run's plan has no threshold to vary.

    It is a prediction: after another decision, later tasks would have other candidates and other distances.
    """
    routing = plan.get("config", {}).get("routing") or {}
    threshold, max_copies = routing.get("threshold"), routing.get("max_copies")
    subnets = plan.get("config", {}).get("subnets") or {}
    private = subnets.get("private", 0.0) * subnets.get("keep", 0.0)  # entries of a change, which opens no copy
    routes = [route for route in routes if route["task"] in matrix.tasks]
    is_known = matrix.accounts and "total" in matrix.bytes and len(routes) == len(matrix.tasks)
    if not isinstance(threshold, float | int) or not is_known:
        return []
    nearest = {route["task"]: _nearest(route) for route in routes if _depends(route, threshold)}
    predictions: list[Prediction] = []
    for least in [None, *sorted(set(nearest.values()) - {inf})]:
        tried = -inf if least is None else least
        copies = 0
        for route in routes:
            opens = nearest[route["task"]] > tried if route["task"] in nearest else route["opened"]
            copies += opens and (not route["candidates"] or max_copies is None or copies < max_copies)
        change = (copies - matrix.copies) * round(WEIGHT * matrix.accounts[0]["total"] * (1 - private))
        if not predictions or copies != predictions[-1].copies:
            predictions.append(Prediction(least, copies, matrix.bytes["total"] + change))
    return predictions


def _depends(route: RouteRecord, threshold: float) -> bool:
    """Whether a decision was made with the run's threshold; affinity-h compares a single candidate with 1 instead."""
    return bool(route["candidates"]) and route["threshold"] == threshold


def _nearest(route: RouteRecord) -> float:
    """The distance of the nearest candidate with room."""
    distances = [found["distance"] for found in route["candidates"] if not found.get("full")]
    return min((distance for distance in distances if distance is not None and isfinite(distance)), default=inf)
