"""Continual-learning metrics of a performance matrix.

P[i][j] is the mean return, or the success rate, on task j after learning task i. Tasks that have no environment, and so
no results, are left out by naming the `tasks` that count.
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


def forgetting(performance: Performance, tasks: Tasks = None) -> list[float]:
    """F_j: the best result of task j since it was learned, minus its final result."""
    last = len(performance) - 1
    return [
        max(_at(performance, i, j) for i in range(j, last + 1)) - _at(performance, last, j)
        for j in _counting(performance, tasks)
    ]


def avg_forgetting(performance: Performance, tasks: Tasks = None) -> float:
    """AvgF: the mean of F_j over all tasks but the last, which cannot be forgotten yet."""
    earlier = forgetting(performance, _before_the_last(performance, tasks))
    return sum(earlier) / len(earlier) if earlier else 0.0


def backward_transfer(performance: Performance, tasks: Tasks = None) -> float:
    """BWT: the mean of P[N][j] - P[j][j] over all tasks but the last; negative values mean forgetting."""
    last = len(performance) - 1
    gains = [_at(performance, last, j) - _at(performance, j, j) for j in _before_the_last(performance, tasks)]
    return sum(gains) / len(gains) if gains else 0.0


def mean_success(performance: Performance, tasks: Tasks = None) -> float:
    """The mean over tasks of the final success rate."""
    rates = [_at(performance, len(performance) - 1, j) for j in _counting(performance, tasks)]
    return sum(rates) / len(rates)


def success_forgetting(performance: Performance, tasks: Tasks = None) -> float:
    """The mean over all tasks but the last of the success rate right after learning minus the final one."""
    return 0.0 - backward_transfer(performance, tasks)  # not -0.0


def forward_transfer(performance: Performance, single: Row, tasks: Tasks = None) -> float:
    """FWT: the mean of P[j][j] - S_j over all tasks but the first; S_j is the result of task j when learned alone."""
    gains = [_at(performance, j, j) - _at([single], 0, j) for j in _counting(performance, tasks) if j > 0]
    return sum(gains) / len(gains) if gains else 0.0


def _counting(performance: Performance, tasks: Tasks) -> Sequence[int]:
    return range(len(performance)) if tasks is None else tasks


def _before_the_last(performance: Performance, tasks: Tasks) -> list[int]:
    return [j for j in _counting(performance, tasks) if j < len(performance) - 1]


def _at(performance: Performance, i: int, j: int) -> float:
    value = performance[i][j]
    assert value is not None, f"task {j} was not evaluated after task {i}"
    return value
