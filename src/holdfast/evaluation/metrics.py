"""Continual-learning metrics of a performance matrix.

P[i][j] is the mean return, or the success rate, on task j after learning task i. Tasks that have no environment, and so
no results, are left out by naming the `tasks` that count. A metric is None if a result that it needs is missing.
"""

from collections.abc import Sequence

import numpy as np

Row = Sequence[float | None]
Performance = Sequence[Row]  # only entries with j <= i are used; others may be None
Tasks = Sequence[int] | None  # the columns that count; None: all


def norm_avg(final: Sequence[float], targets: Sequence[float]) -> float | None:
    """The mean of 100 * P[N][j] / R*_j; None if a target is not positive, because then the ratio is meaningless."""
    if any(target <= 0 for target in targets):
        return None
    return sum(100 * value / target for value, target in zip(final, targets, strict=True)) / len(targets)


def normalised_scores(final: np.ndarray, targets: Sequence[float], floors: Sequence[float]) -> np.ndarray | None:
    """(P[N][j] - floor_j) / (R*_j - floor_j), (..., tasks); None if a target is not above its floor."""
    low, high = np.asarray(floors), np.asarray(targets)
    return None if (high <= low).any() else (final - low) / (high - low)


def avg_gap(final: Sequence[float], targets: Sequence[float]) -> float:
    """The mean of |P[N][j] - R*_j|."""
    return sum(abs(value - target) for value, target in zip(final, targets, strict=True)) / len(targets)


def forgetting(performance: Performance, tasks: Tasks = None) -> list[float | None]:
    """F_j: the best result of task j since it was learned, minus its final result."""
    return [_lost([row[j] for row in performance[j:]]) for j in _counting(performance, tasks)]


def _lost(results: Row) -> float | None:
    known = [value for value in results if value is not None]
    return max(known) - known[-1] if len(known) == len(results) else None


def avg_forgetting(performance: Performance, tasks: Tasks = None) -> float | None:
    """AvgF: the mean of F_j over all tasks but the last, which cannot be forgotten yet."""
    return _mean(forgetting(performance, _before_the_last(performance, tasks)))


def backward_transfer(performance: Performance, tasks: Tasks = None) -> float | None:
    """BWT: the mean of P[N][j] - P[j][j] over all tasks but the last; negative values mean forgetting."""
    last = performance[-1]
    return _mean([_difference(last[j], performance[j][j]) for j in _before_the_last(performance, tasks)])


def mean_success(performance: Performance, tasks: Tasks = None) -> float | None:
    """The mean over tasks of the final success rate."""
    return _mean([performance[-1][j] for j in _counting(performance, tasks)])


def success_forgetting(performance: Performance, tasks: Tasks = None) -> float | None:
    """The mean over all tasks but the last of the success rate right after learning minus the final one."""
    last = performance[-1]
    return _mean([_difference(performance[j][j], last[j]) for j in _before_the_last(performance, tasks)])


def forward_transfer(performance: Performance, single: Row, tasks: Tasks = None) -> float | None:
    """FWT: the mean of P[j][j] - S_j over all tasks but the first; S_j is the result of task j when learned alone."""
    return _mean([_difference(performance[j][j], single[j]) for j in _counting(performance, tasks) if j > 0])


def area_under(rates: np.ndarray, at: Sequence[float]) -> np.ndarray:
    """The mean height of success curves (..., points) from 0 to the last of the points `at`, by trapezoids.

    `at` are shares of the training steps; the curves start at success 0 before the first step.
    """
    before = np.concatenate([np.zeros_like(rates[..., :1]), rates[..., :-1]], axis=-1)
    return ((before + rates) / 2 * np.diff([0, *at])).sum(axis=-1) / at[-1]


def curve_transfer(area: np.ndarray, single: np.ndarray) -> np.ndarray:
    """FT_j: (AUC_j - S_j) / (1 - S_j), where S_j is the area of task j when learned alone (Continual World)."""
    return (area - single) / (1 - single)


def _difference(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one - other


def _mean(values: Row) -> float | None:
    """The mean; 0 of no values, and None if one is missing."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    return sum(known) / len(known) if known else 0.0


def _counting(performance: Performance, tasks: Tasks) -> Sequence[int]:
    return range(len(performance)) if tasks is None else tasks


def _before_the_last(performance: Performance, tasks: Tasks) -> list[int]:
    return [j for j in _counting(performance, tasks) if j < len(performance) - 1]
