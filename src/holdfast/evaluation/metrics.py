"""Continual-learning metrics of a performance matrix P: P[i][j] is the mean return on task j after learning task i."""

from collections.abc import Sequence

import numpy as np

Row = Sequence[float | None]
Performance = Sequence[Row]  # entries with j <= i count; others may be anything, or None


def norm_avg(final: Sequence[float], targets: Sequence[float]) -> float | None:
    """The mean of 100 * P[N][j] / R*_j; none where a target is not positive, since a share of it says nothing."""
    if any(target <= 0 for target in targets):
        return None
    return sum(100 * value / target for value, target in zip(final, targets, strict=True)) / len(targets)


def shares(final: np.ndarray, targets: Sequence[float], floors: Sequence[float]) -> np.ndarray | None:
    """(P[N][j] - floor_j) / (R*_j - floor_j), (..., tasks); none where a target is not above its floor."""
    low, high = np.asarray(floors), np.asarray(targets)
    return None if (high <= low).any() else (final - low) / (high - low)


def avg_gap(final: Sequence[float], targets: Sequence[float]) -> float:
    """The mean of |P[N][j] - R*_j|."""
    return sum(abs(value - target) for value, target in zip(final, targets, strict=True)) / len(targets)


def forgetting(performance: Performance) -> list[float]:
    """F_j: the best that task j ever was from the time it was learned, minus what it is in the end."""
    last = len(performance) - 1
    return [
        max(_at(performance, i, j) for i in range(j, last + 1)) - _at(performance, last, j) for j in range(last + 1)
    ]


def avg_forgetting(performance: Performance) -> float:
    """AvgF: the mean of F_j over the tasks learned before the last; the last one had no time to be forgotten."""
    earlier = forgetting(performance)[:-1]
    return sum(earlier) / len(earlier) if earlier else 0.0


def backward_transfer(performance: Performance) -> float:
    """BWT: the mean of P[N][j] - P[j][j] over the tasks learned before the last; negative is forgetting."""
    last = len(performance) - 1
    gains = [_at(performance, last, j) - _at(performance, j, j) for j in range(last)]
    return sum(gains) / len(gains) if gains else 0.0


def forward_transfer(performance: Performance, single: Sequence[float]) -> float:
    """FWT: the mean of P[j][j] - S_j over the tasks after the first; S_j is what task j reaches when learned alone."""
    gains = [_at(performance, j, j) - single[j] for j in range(1, len(performance))]
    return sum(gains) / len(gains) if gains else 0.0


def _at(performance: Performance, i: int, j: int) -> float:
    value = performance[i][j]
    assert value is not None, f"task {j} was not evaluated after task {i}"
    return value
