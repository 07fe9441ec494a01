"""The results of a run, if they are whole: a table must not be made of half a matrix."""

from holdfast.evaluation.matrix import Matrix
from holdfast.runs.folder import RunFolder


def complete_matrix(folder: RunFolder) -> Matrix | None:
    """The matrix of a run, if every stage is evaluated."""
    matrix = folder.read_matrix()
    return matrix if matrix and matrix.stages == len(matrix.tasks) else None
