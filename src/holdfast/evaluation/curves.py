"""Learning curves: the success of a task in the course of its training."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.errors import Mistake


@dataclass(frozen=True)
class CurvePoint:
    """The results of a task's policy at a moment of its training."""

    at: int  # per cent of the training steps
    returns: list[float]
    successes: list[bool]
    distinct: int  # number of different episodes

    def __post_init__(self) -> None:
        if not 1 <= self.at <= 100:
            raise Mistake(f"a point of a curve must be at 1 to 100 % of the training steps, got {self.at}")
        if len(self.returns) != len(self.successes) or not 1 <= self.distinct <= len(self.returns):
            raise Mistake(f"the point of a curve at {self.at} % must have a return and a success for each episode")


Curves = dict[str, list[CurvePoint]]  # by task, in the order of training


@dataclass(frozen=True)
class SuccessCurves:
    """The success of several tasks in the course of their training, at equal shares of their steps."""

    at: tuple[int, ...]  # per cent of the training steps
    rates: list[np.ndarray]  # by task: the success of each episode, (points, episodes)
    distinct: list[int]  # by task: the smallest number of different episodes


def success_curves(curves: Curves, tasks: Sequence[str]) -> SuccessCurves | None:
    """The curves of these tasks; None unless all of them have one, with the same points."""
    found = [curves.get(task, []) for task in tasks]
    shares = {tuple(point.at for point in points) for points in found}
    if len(shares) != 1 or () in shares:
        return None
    rates = [np.array([point.successes for point in points], float) for points in found]
    return SuccessCurves(shares.pop(), rates, [min(point.distinct for point in points) for points in found])
