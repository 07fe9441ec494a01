"""The difference between two learners, seed by seed and start by start, with its interval."""

from collections.abc import Sequence

import numpy as np

from holdfast.evaluation.matrix import Matrix
from holdfast.evaluation.statistics import middle, resample
from holdfast.study.summary import Estimate

STARTS = ("name", "first_seed", "episodes")  # settings of a protocol that decide where episodes start


def paired_difference(matrices: Sequence[Matrix], others: Sequence[Matrix]) -> Estimate | None:
    """By how much the first runs are better in the end: the mean over seeds and tasks; None if there are no pairs.

    In points of success if all runs report it, otherwise in return. Two runs with the same seed are a pair, and so are
    their episodes from the same start; pairs are resampled together. Seeds that only one side has are left out.
    """
    known = {other.seed: other for other in others}
    pairs = [(matrix, known[matrix.seed]) for matrix in matrices if matrix.seed in known]
    if not pairs or not all(_same_starts(matrix, other) for matrix, other in pairs):
        return None
    succeed = all(matrix.knows_success for pair in pairs for matrix in pair)
    runs = [_differences(matrix, other, succeed) for matrix, other in pairs]
    value = float(np.mean([[task.mean() for task in run] for run in runs]))
    drawn = resample(runs, [_distinct(matrix, other) for matrix, other in pairs])
    return Estimate(value, middle(drawn.mean(axis=(1, 2))))


def _same_starts(matrix: Matrix, other: Matrix) -> bool:
    """Whether two runs played the same tasks from the same starts."""
    starts = [[found.protocol.get(name) for name in STARTS] for found in (matrix, other)]
    return starts[0] == starts[1] and matrix.tasks == other.tasks and matrix.played() == other.played()


def _differences(matrix: Matrix, other: Matrix, succeed: bool) -> list[np.ndarray]:
    """For each task, the differences of its episodes in the end, start by start."""
    cells, others = ((found.successes if succeed else found.returns)[-1] for found in (matrix, other))
    scale = 100.0 if succeed else 1.0
    return [scale * (np.asarray(cells[task], float) - np.asarray(others[task], float)) for task in matrix.played()]


def _distinct(matrix: Matrix, other: Matrix) -> list[int]:
    """For each task, how many pairs of episodes differ, at least."""
    return [min(found.distinct_episodes[-1][task] for found in (matrix, other)) for task in matrix.played()]
