"""The summary of a group of runs, with confidence intervals."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np

from holdfast.evaluation.matrix import Cells, Matrix, over_tasks
from holdfast.evaluation.metrics import avg_gap, norm_avg, normalised_scores
from holdfast.evaluation.statistics import (
    Interval,
    Measure,
    interquartile_mean,
    middle,
    resample,
    success_rate,
    task_mean,
)
from holdfast.registry import SUITES
from holdfast.study.expert_record import ExpertRecord


@dataclass(frozen=True)
class Estimate:
    """A number, with its 95 % confidence interval if there is one."""

    value: float
    interval: Interval | None = None


@dataclass(frozen=True)
class Summary:
    """Means over the runs of a group, after the last task."""

    copies: tuple[int, int]  # the fewest and the most
    bytes: float  # nan if they were not recorded
    scores: dict[str, dict[str, float]]  # by task without an environment: the mean of each offline score
    joint: bool  # whether all tasks were learned at once
    returns: dict[str, Estimate] = field(default_factory=dict)  # by task with an environment, as all that follows
    success: dict[str, Estimate] = field(default_factory=dict)  # by task; all episodes of all runs together
    learned: dict[str, Estimate] = field(default_factory=dict)  # by task: what it was right after it was learned
    lost: dict[str, Estimate] = field(default_factory=dict)  # by task: F
    distinct: dict[str, int] = field(default_factory=dict)  # by task: distinct episodes of a run, at least
    normalised: Estimate | None = None  # NormAvg
    middle: Estimate | None = None  # IQM: of shares of the targets, over runs and tasks
    gap: Estimate | None = None  # AvgGap; none if no task has an environment
    behind: Estimate | None = None  # by how much the expert's mean return is better, start by start, over all tasks
    forgetting: Estimate | None = None  # AvgF; none if there are gaps, or if all tasks were learned at once
    since_learned: Estimate | None = None  # over the tasks before the last: right after it was learned minus in the end
    mean_success: Estimate | None = None  # over all tasks
    success_forgetting: Estimate | None = None  # over the tasks before the last

    @property
    def forgotten(self) -> float | None:
        """AvgF, or with gaps the loss since each task was learned; None if tasks were learned at once or not played."""
        known = self.forgetting or self.since_learned
        return known.value if known else None

    @property
    def episodes(self) -> int:
        """The smallest number of distinct episodes of a task in a run."""
        return min(self.distinct.values(), default=0)


@dataclass(frozen=True)
class Histories:
    """Mean results on every task with an environment after every stage, as they were and as they might have been.

    If all tasks were learned at once, there is one stage.
    """

    learned: list[int]  # by task: the stage that learned it
    means: np.ndarray  # (runs, tasks, stages)
    drawn: np.ndarray  # (resamples, runs, tasks, stages)
    sure: list[bool]  # by task: whether there is more than one episode of one run, and so a spread to speak of

    @classmethod
    def of(cls, matrices: Sequence[Matrix], name: Literal["returns", "successes"] = "returns") -> "Histories":
        played = matrices[0].played()
        runs = [_history(getattr(matrix, name), played, matrix.joint) for matrix in matrices]
        distinct = [[matrix.distinct_episodes[-1][task] for task in played] for matrix in matrices]
        means = np.array([[task.mean(axis=-1) for task in run] for run in runs])
        return cls(played, means, resample(runs, distinct), [sum(counts) > 1 for counts in zip(*distinct, strict=True)])

    def estimate(self, measure: Callable[[np.ndarray], np.ndarray], task: int | None = None) -> Estimate | None:
        """The estimate of a measure (..., runs, tasks, stages) -> (...,), for one task or for all.

        None if a result that it needs is missing.
        """
        value = float(measure(self.means))
        if np.isnan(value):
            return None
        sure = all(self.sure) if task is None else self.sure[task]
        return Estimate(value, middle(measure(self.drawn)) if sure else None)

    def mean(self, measure: Measure, task: int | None = None) -> Estimate | None:
        """The mean over runs of a measure of the final results."""
        return self.estimate(lambda means: measure(means[..., -1]).mean(axis=-1), task)

    def forgotten(self, measure: Measure, task: int | None = None) -> Estimate | None:
        """The mean over runs of a measure of F: the best result of each task minus its final one."""
        return self._lost.mean(measure, task)

    @cached_property
    def _lost(self) -> "Histories":
        """F of every task, as the results of a single stage."""
        return replace(self, means=_below_best(self.means), drawn=_below_best(self.drawn))

    @property
    def earlier(self) -> list[int]:
        """The tasks that were learned before the last stage, and so had time to be forgotten."""
        return [task for task, stage in enumerate(self.learned) if stage < self.means.shape[-1] - 1]

    def lost_since_learned(self) -> Estimate | None:
        """The mean over runs and earlier tasks of what a task was right after it was learned minus in the end."""
        earlier = self.earlier
        if not earlier:
            return Estimate(0.0)
        stages = [self.learned[task] for task in earlier]
        return self.estimate(lambda means: (means[..., earlier, stages] - means[..., earlier, -1]).mean(axis=(-1, -2)))


def summarise(matrices: Sequence[Matrix], expert: ExpertRecord | None = None) -> Summary:
    """The summary of complete runs of one suite in one order; `expert` is what it earned from the same starts."""
    kept = Summary(
        copies=(min(matrix.copies for matrix in matrices), max(matrix.copies for matrix in matrices)),
        bytes=float(np.mean([matrix.bytes.get("total", np.nan) for matrix in matrices])),
        scores=_scores(matrices),
        joint=matrices[0].joint,
    )
    if not matrices[0].played():
        return kept
    first, runs = matrices[0], Histories.of(matrices)
    tasks = [first.tasks[task] for task in first.played()]
    targets = [first.targets[task] for task in first.played()]
    rates = Histories.of(matrices, "successes") if any(matrix.knows_success for matrix in matrices) else None
    results = replace(
        kept,
        returns=_known({task: runs.mean(task_mean(index), index) for index, task in enumerate(tasks)}),
        success=_success(matrices),
        distinct={
            task: min(one.distinct_episodes[-1][stage] for one in matrices)
            for task, stage in zip(tasks, runs.learned, strict=True)
        },
        normalised=None if norm_avg(targets, targets) is None else runs.mean(over_tasks(norm_avg, targets)),
        middle=_middle(runs, targets, floors(first.suite, tasks)),
        gap=runs.mean(over_tasks(avg_gap, targets)),
        behind=_behind(matrices, expert) if expert else None,
        mean_success=rates.mean(lambda final: final.mean(axis=-1)) if rates else None,
    )
    if first.joint:
        return results
    return replace(
        results,
        learned=_known(
            {task: runs.estimate(_learned(index, runs.learned[index]), index) for index, task in enumerate(tasks)}
        ),
        lost=_known({task: runs.forgotten(task_mean(index), index) for index, task in enumerate(tasks)}),
        forgetting=_forgetting(runs),
        since_learned=runs.lost_since_learned(),
        success_forgetting=rates.lost_since_learned() if rates else None,
    )


def _known(found: dict[str, Estimate | None]) -> dict[str, Estimate]:
    return {task: estimate for task, estimate in found.items() if estimate is not None}


def fewest_to_most(counts: Iterable[int]) -> str:
    """The range of these counts, or a single number if they are equal."""
    ends = sorted(counts)
    return f"{ends[0]} to {ends[-1]}" if ends[0] < ends[-1] else str(ends[0])


def _history(cells: Cells, tasks: Sequence[int], joint: bool) -> list[np.ndarray]:
    """For each task, its episodes by stage (stages, episodes): stages before its own repeat its own, gaps are nan."""
    if joint:
        return [np.array([cells[-1][task]], float) for task in tasks]
    found = []
    for task in tasks:
        gap = [np.nan] * len(cells[-1][task])
        found.append(np.array([cells[max(stage, task)][task] or gap for stage in range(len(cells))], float))
    return found


def _learned(task: int, stage: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda means: means[..., task, stage].mean(axis=-1)


def _below_best(means: np.ndarray) -> np.ndarray:
    """The best result of each task minus its final one, (..., tasks, stages) -> (..., tasks, 1)."""
    return (means.max(axis=-1) - means[..., -1])[..., None]


def _forgetting(runs: Histories) -> Estimate | None:
    earlier = runs.earlier
    return runs.forgotten(lambda lost: lost[..., earlier].mean(axis=-1)) if earlier else Estimate(0.0)


def _scores(matrices: Sequence[Matrix]) -> dict[str, dict[str, float]]:
    """The mean over runs of the offline scores in the end, by task and measure."""
    found = {}
    for index, task in enumerate(matrices[0].tasks):
        scores = [matrix.scores[-1][index] for matrix in matrices]
        if all(scores):
            found[task] = {name: float(np.mean([score[name] for score in scores])) for name in scores[0]}
    return found


def floors(suite: str, tasks: Sequence[str]) -> list[float]:
    """The returns that count as 0 %: those of random actions where the suite states them, otherwise 0."""
    random_returns = SUITES[suite].random_returns if suite in SUITES else {}
    return [random_returns.get(task, 0.0) for task in tasks]


def _middle(runs: Histories, targets: Sequence[float], lowest: Sequence[float]) -> Estimate | None:
    if normalised_scores(np.array(targets), targets, lowest) is None:
        return None

    def measure(means: np.ndarray) -> np.ndarray:
        scores = normalised_scores(means[..., -1], targets, lowest)
        assert scores is not None
        return interquartile_mean(100 * scores.reshape(*scores.shape[:-2], -1))

    return runs.estimate(measure)


def _behind(matrices: Sequence[Matrix], expert: ExpertRecord) -> Estimate | None:
    """The paired difference to the expert over equal starts; None if the starts differ."""
    starts, own = ("first_seed", "episodes"), expert.returns
    if any(matrix.protocol.get(name) != expert.protocol[name] for matrix in matrices for name in starts):
        return None
    runs = [[np.subtract(own[task], returns) for task, returns in matrix.final.items()] for matrix in matrices]
    mean = float(np.mean([[np.mean(task) for task in run] for run in runs]))
    distinct = [[matrix.distinct_episodes[-1][task] for task in matrix.played()] for matrix in matrices]
    return Estimate(mean, middle(resample(runs, distinct).mean(axis=(1, 2))))


def _success(matrices: Sequence[Matrix]) -> dict[str, Estimate]:
    if not any(matrix.success() for matrix in matrices):
        return {}
    found = {}
    for index in matrices[0].played():
        successes = [success for matrix in matrices for success in matrix.successes[-1][index]]
        distinct = sum(matrix.distinct_episodes[-1][index] for matrix in matrices)
        found[matrices[0].tasks[index]] = Estimate(*success_rate(successes, distinct))
    return found
