"""Scores in the format of rliable: for each algorithm, an array (runs, tasks)."""

import json

import numpy as np

from holdfast.errors import Mistake
from holdfast.evaluation.metrics import normalised_scores
from holdfast.study.groups import Group, group_runs
from holdfast.study.summary import floors
from holdfast.study.tables import Records


def scores(found: Records) -> dict[str, np.ndarray]:
    """By label, the normalised scores (runs, tasks) of all complete runs."""
    groups = [one for one in group_runs(found.results) if one.matrices]
    if odd := [one.label for one in groups if set(one.matrices[0].tasks) != set(found.tasks)]:
        raise Mistake(f"{odd[0]} has not learned all of {', '.join(found.tasks)}: leave its runs out")
    if offline := [task for one in groups for task in one.matrices[0].offline]:
        raise Mistake(f"{offline[0]} has no environment, and so no returns: there are no normalised scores of it")
    return {one.label: _shares(one, found.tasks) for one in groups}


def _shares(one: Group, tasks: list[str]) -> np.ndarray:
    rows = []
    for matrix in one.matrices:
        places = [matrix.tasks.index(task) for task in tasks]
        final, targets = np.array(matrix.mean[-1], float)[places], [matrix.targets[place] for place in places]
        row = normalised_scores(final, targets, floors(matrix.suite, tasks))
        if row is None:
            raise Mistake(f"the targets of {matrix.suite} are not above 0: there are no normalised scores of it")
        rows.append(row)
    return np.array(rows)


def rliable(found: Records) -> str:
    """JSON with the tasks, the scores and runs of each algorithm, and the runs without results."""
    groups = group_runs(found.results)
    record = {
        "suite": found.suite,
        "tasks": found.tasks,
        "scores": {label: array.tolist() for label, array in scores(found).items()},
        "runs": {one.label: [run.name for run in one.results if run.matrix] for one in groups if one.matrices},
        "missing": [run.name for one in groups for run in one.results if not run.matrix],
    }
    return json.dumps(record, indent=1)
