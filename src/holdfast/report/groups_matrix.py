"""The results of a run, checked: a table must not be made of half a matrix."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.errors import Mistake
from holdfast.evaluation.matrix import Matrix
from holdfast.report.shapes import fits
from holdfast.runs.files import read_json

NEEDED = ("suite", "learner", "seed", "order")  # of a plan
USE = {"selected": int, "reused": int, "new": int, "bytes": int}  # what a task has of a copy
MATRIX = {
    "suite": str,
    "learner": str,
    "preset": str,
    "seed": int,
    "budget": str,
    "protocol": {"name": str},
    "tasks": [str],
    "targets": [float],
    "single": (None, [float]),
    "returns": [[(None, [float])]],
    "successes": [[(None, [bool])]],
    "distinct_episodes": [[(None, int)]],
    "carried": [[(None, int)]],
    "copies": int,
    "task_copy": {str: int},
    "bytes": {"total": int},
    "accounts": [{"total": int, "occupied": int, "free": int, "tasks": {str: USE}}],
}


def complete_matrix(folder: Path, plan: Mapping[str, Any]) -> Matrix | None:
    """The matrix of a run, if every stage is evaluated."""
    place = folder / "matrix.json"
    if not place.exists():
        return None
    record = read_json(place)
    try:
        if not fits(record, MATRIX):
            raise ValueError(f"{_odd(record)} is not as it should be")
        matrix = Matrix.from_json(record)
        whole = _whole(matrix)
    except (Mistake, ValueError) as problem:
        raise Mistake(f"{place} is damaged ({problem}): bring it back, or leave the run out") from problem
    if [matrix.suite, matrix.learner, matrix.seed, matrix.tasks] != [plan[name] for name in NEEDED]:
        raise Mistake(f"{place} is of another run than the config.json beside it: bring the right one back")
    return matrix if whole else None


def _odd(record: Any) -> str:
    """The first part of a matrix that has not its shape."""
    if not isinstance(record, dict):
        return "it"
    return next(name for name, shape in MATRIX.items() if name not in record or not fits(record[name], shape))


def _whole(matrix: Matrix) -> bool:
    """Whether every stage is evaluated; raises where results contradict each other."""
    count = len(matrix.tasks)
    if len(matrix.targets) != count:
        raise ValueError("not as many targets as tasks")
    for cells in (matrix.returns, matrix.successes, matrix.distinct_episodes, matrix.carried):
        if [len(row) for row in cells] != [count] * count:
            raise ValueError("not as many results as tasks")
    for stage in range(matrix.stages):
        for task in range(stage + 1):
            _check_cell(matrix, stage, task)
    if any(not account["total"] for account in matrix.accounts):
        raise ValueError("a copy without weights")
    if matrix.accounts and set(matrix.task_copy.values()) - set(range(len(matrix.accounts))):
        raise ValueError("a task in a copy that is not there")
    return matrix.stages == count and matrix.bytes["total"] >= 0


def _check_cell(matrix: Matrix, stage: int, task: int) -> None:
    returns, successes = matrix.returns[stage][task], matrix.successes[stage][task]
    if not returns or successes is None or len(successes) != len(returns):
        raise ValueError(f"no returns of {matrix.tasks[task]} after stage {stage}")
    if len(returns) != len(matrix.returns[task][task]):
        raise ValueError(f"not as many episodes of {matrix.tasks[task]} after stage {stage} as before")
    if not 1 <= (matrix.distinct_episodes[stage][task] or 0) <= len(returns):
        raise ValueError("a count of episodes that cannot be")
