"""Forward transfer of a group of runs, as Continual World measures it, with its interval."""

from collections.abc import Sequence

import numpy as np

from holdfast.evaluation.curves import Curves, SuccessCurves, success_curves
from holdfast.evaluation.matrix import Matrix
from holdfast.evaluation.metrics import area_under, curve_transfer
from holdfast.evaluation.statistics import middle, resample
from holdfast.study.summary import Estimate


def forward_transfer(matrices: Sequence[Matrix], singles: Sequence[Matrix]) -> Estimate | None:
    """FT, the mean over runs and tasks; None unless all runs have learning curves, and so have tasks learned alone.

    `singles` are runs of the learner `single`; without them, the runs have the curves of their own reference. Both are
    resampled with the same random numbers, so that equal seeds and starts are drawn together. Seeds that only `single`
    has are left out for that.
    """
    tasks = [matrices[0].tasks[task] for task in matrices[0].played()]
    own = _curves([matrix.curves for matrix in matrices], tasks)
    seeds = {matrix.seed for matrix in matrices}
    paired = [matrix for matrix in singles if matrix.seed in seeds]
    alone = paired if {matrix.seed for matrix in paired} == seeds else singles
    kept = [matrix.curves for matrix in alone] or [matrix.single_curves for matrix in matrices]
    single = _curves(kept, tasks)
    if not own or not single or {found.at for found in own} != {found.at for found in single}:
        return None
    value = _gain(_means(own), _means(single), own[0].at)
    drawn = _gain(_drawn(own), _drawn(single), own[0].at)
    return Estimate(float(value), middle(drawn))


def _curves(runs: Sequence[Curves], tasks: Sequence[str]) -> list[SuccessCurves]:
    """The curves of these tasks in each run; empty unless all runs have them, with the same points."""
    found = [success_curves(curves, tasks) for curves in runs]
    known = [one for one in found if one]
    return known if len(known) == len(runs) and len({one.at for one in known}) == 1 else []


def _means(runs: Sequence[SuccessCurves]) -> np.ndarray:
    """Success rates (runs, tasks, points)."""
    return np.array([[task.mean(axis=-1) for task in run.rates] for run in runs])


def _drawn(runs: Sequence[SuccessCurves]) -> np.ndarray:
    """Resampled success rates (resamples, runs, tasks, points)."""
    return resample([run.rates for run in runs], [run.distinct for run in runs])


def _gain(own: np.ndarray, single: np.ndarray, at: Sequence[int]) -> np.ndarray:
    """FT (...,) of success rates (..., runs, tasks, points), from the mean areas over runs.

    FT is linear in the area of a run, so this is the mean over runs as well; against itself, it is exactly 0.
    """
    areas, alone = (area_under(rates, at).mean(axis=-2) for rates in (own, single))  # (..., tasks)
    return curve_transfer(areas, alone).mean(axis=-1)
