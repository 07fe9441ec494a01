"""What a group of runs amounts to, and how sure that is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.evaluation.matrix import Matrix, over_tasks
from holdfast.evaluation.metrics import avg_gap, norm_avg
from holdfast.evaluation.statistics import Interval, Measure, interval, resample, task_mean, wilson


@dataclass(frozen=True)
class Estimate:
    """A number, and between what it lies with 95 % confidence, where that can be said."""

    value: float
    interval: Interval | None


@dataclass(frozen=True)
class Summary:
    """Means over the runs of a group, after the last task."""

    returns: dict[str, Estimate]  # by task
    success: dict[str, Estimate]  # by task; all episodes of all runs together
    normalised: Estimate | None  # NormAvg
    gap: Estimate  # AvgGap
    behind: Estimate | None  # by how much the expert's mean return is better, start by start, over all tasks
    forgotten: float  # AvgF
    copies: tuple[int, int]  # the fewest and the most
    bytes: float
    episodes: int  # distinct ones of a task in a run, at least


def summarise(matrices: Sequence[Matrix], expert: Mapping[str, Any] | None = None) -> Summary:
    """The summary of complete runs of one suite in one order; `expert` is what it earned from the same starts."""
    tasks, targets = matrices[0].tasks, matrices[0].targets
    drawn = resample([matrix.final for matrix in matrices])
    metrics = [matrix.metrics() for matrix in matrices]
    episodes = min(min(matrix.distinct_episodes[-1]) for matrix in matrices)

    def sure(values: Sequence[float] | np.ndarray, measure: Measure) -> Estimate:
        return Estimate(float(np.mean(values)), interval(drawn, measure) if episodes > 1 else None)

    means = np.array([matrix.mean[-1] for matrix in matrices])  # (runs, tasks)
    shares = [found["NormAvg"] for found in metrics]
    return Summary(
        returns={task: sure(means[:, index], task_mean(index)) for index, task in enumerate(tasks)},
        success=_success(matrices),
        normalised=None if None in shares else sure(shares, over_tasks(norm_avg, targets)),
        gap=sure([found["AvgGap"] for found in metrics], over_tasks(avg_gap, targets)),
        behind=_behind(matrices, expert) if expert else None,
        forgotten=float(np.mean([found["AvgF"] for found in metrics])),
        copies=(min(matrix.copies for matrix in matrices), max(matrix.copies for matrix in matrices)),
        bytes=float(np.mean([matrix.bytes["total"] for matrix in matrices])),
        episodes=episodes,
    )


def _behind(matrices: Sequence[Matrix], expert: Mapping[str, Any]) -> Estimate | None:
    """Differences start by start, so that the luck of the starts cancels; none where the starts are others."""
    starts = ("first_seed", "episodes")
    if any(matrix.protocol.get(name) != expert["protocol"][name] for matrix in matrices for name in starts):
        return None
    own = expert["returns"]
    runs = [
        [np.subtract(own[task], returns).tolist() for task, returns in zip(matrix.tasks, matrix.final, strict=True)]
        for matrix in matrices
    ]
    mean = float(np.mean([[np.mean(task) for task in run] for run in runs]))
    return Estimate(mean, interval(resample(runs), lambda means: means.mean(axis=-1)))


def _success(matrices: Sequence[Matrix]) -> dict[str, Estimate]:
    if not any(matrix.success() for matrix in matrices):
        return {}
    found = {}
    for index, task in enumerate(matrices[0].tasks):
        episodes = [success for matrix in matrices for success in matrix.successes[-1][index]]
        found[task] = Estimate(float(np.mean(episodes)), wilson(sum(episodes), len(episodes)))
    return found
