"""The results of a run, checked: a table must not be made of half a matrix."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.errors import Mistake
from holdfast.evaluation.matrix import Matrix
from holdfast.runs.files import read_json

NEEDED = ("suite", "learner", "seed", "order")  # of a plan


def complete_matrix(folder: Path, plan: Mapping[str, Any]) -> Matrix | None:
    """The matrix of a run, if every stage is evaluated."""
    place = folder / "matrix.json"
    if not place.exists():
        return None
    record = read_json(place)
    try:
        matrix = Matrix.from_json(record)
        whole = _whole(matrix)
    except (Mistake, TypeError, ValueError, AttributeError, KeyError, IndexError) as problem:
        raise Mistake(f"{place} is damaged ({problem}): bring it back, or leave the run out") from problem
    if [matrix.suite, matrix.learner, matrix.seed, matrix.tasks] != [plan[name] for name in NEEDED]:
        raise Mistake(f"{place} is of another run than the config.json beside it: bring the right one back")
    return matrix if whole else None


def _whole(matrix: Matrix) -> bool:
    """Whether every stage is evaluated; raises where a result is none."""
    count = len(matrix.tasks)
    for cells in (matrix.returns, matrix.successes, matrix.distinct_episodes):
        if [len(row) for row in cells] != [count] * count or len(matrix.targets) != count:
            raise ValueError("not as many results as tasks")
    for stage in range(matrix.stages):
        for task in range(stage + 1):
            returns, successes = matrix.returns[stage][task], matrix.successes[stage][task]
            if not returns or len(successes) != len(returns) or not np.isfinite(returns).all():
                raise ValueError(f"no returns of {matrix.tasks[task]} after stage {stage}")
            if len(returns) != len(matrix.returns[task][task]):
                raise ValueError(f"not as many episodes of {matrix.tasks[task]} after stage {stage} as before")
            if not 1 <= matrix.distinct_episodes[stage][task] <= len(returns):
                raise ValueError("a count of episodes that cannot be")
    return matrix.stages == count and matrix.bytes["total"] >= 0
