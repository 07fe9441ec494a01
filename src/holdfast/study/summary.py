"""What a group of runs amounts to, and how sure that is."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.benchmarks.panda.random_returns import SCORES
from holdfast.evaluation.matrix import Matrix, over_tasks
from holdfast.evaluation.metrics import avg_gap, norm_avg, shares
from holdfast.evaluation.statistics import (
    Interval,
    Measure,
    interquartile_mean,
    middle,
    resample,
    success_rate,
    task_mean,
)
from holdfast.study.expert_record import ExpertRecord


@dataclass(frozen=True)
class Estimate:
    """A number, and between what it lies with 95 % confidence, where that can be said."""

    value: float
    interval: Interval | None = None


@dataclass(frozen=True)
class Summary:
    """Means over the runs of a group, after the last task."""

    returns: dict[str, Estimate]  # by task
    success: dict[str, Estimate]  # by task; all episodes of all runs together
    learned: dict[str, Estimate]  # by task: what it was right after it was learned
    lost: dict[str, Estimate]  # by task: F
    distinct: dict[str, int]  # by task: distinct episodes of a run, at least
    normalised: Estimate | None  # NormAvg
    middle: Estimate | None  # IQM: of shares of the targets, over runs and tasks
    gap: Estimate  # AvgGap
    behind: Estimate | None  # by how much the expert's mean return is better, start by start, over all tasks
    forgetting: Estimate  # AvgF
    copies: tuple[int, int]  # the fewest and the most
    bytes: float

    @property
    def forgotten(self) -> float:
        """AvgF."""
        return self.forgetting.value

    @property
    def episodes(self) -> int:
        """Distinct ones of a task in a run, at least."""
        return min(self.distinct.values())


@dataclass(frozen=True)
class Histories:
    """Mean returns on every task after every stage, as they were and as they might have been."""

    means: np.ndarray  # (runs, tasks, stages)
    drawn: np.ndarray  # (resamples, runs, tasks, stages)
    sure: list[bool]  # by task: whether there is more than one episode of one run, and so a spread to speak of

    @classmethod
    def of(cls, matrices: Sequence[Matrix]) -> "Histories":
        runs = [_history(matrix) for matrix in matrices]
        distinct = [matrix.distinct_episodes[-1] for matrix in matrices]
        means = np.array([[task.mean(axis=-1) for task in run] for run in runs])
        return cls(means, resample(runs, distinct), [sum(counts) > 1 for counts in zip(*distinct, strict=True)])

    def estimate(self, measure: Callable[[np.ndarray], np.ndarray], task: int | None = None) -> Estimate:
        """Of a number (...,) that all runs (..., runs, tasks, stages) give together, of one task or of all."""
        sure = all(self.sure) if task is None else self.sure[task]
        return Estimate(float(measure(self.means)), middle(measure(self.drawn)) if sure else None)

    def mean(self, measure: Measure, task: int | None = None) -> Estimate:
        """The mean over runs of a measure of what tasks are in the end."""
        return self.estimate(lambda means: measure(means[..., -1]).mean(axis=-1), task)

    def forgotten(self, measure: Measure, task: int | None = None) -> Estimate:
        """The mean over runs of a measure of what tasks were at their best, and are no more: of F."""
        return self.estimate(lambda means: measure(means.max(axis=-1) - means[..., -1]).mean(axis=-1), task)


def summarise(matrices: Sequence[Matrix], expert: ExpertRecord | None = None) -> Summary:
    """The summary of complete runs of one suite in one order; `expert` is what it earned from the same starts."""
    tasks, targets, runs = matrices[0].tasks, matrices[0].targets, Histories.of(matrices)
    return Summary(
        returns={task: runs.mean(task_mean(index), index) for index, task in enumerate(tasks)},
        success=_success(matrices),
        learned={task: runs.estimate(_learned(index), index) for index, task in enumerate(tasks)},
        lost={task: runs.forgotten(task_mean(index), index) for index, task in enumerate(tasks)},
        distinct={task: min(one.distinct_episodes[-1][index] for one in matrices) for index, task in enumerate(tasks)},
        normalised=None if norm_avg(targets, targets) is None else runs.mean(over_tasks(norm_avg, targets)),
        middle=_middle(runs, tasks, targets),
        gap=runs.mean(over_tasks(avg_gap, targets)),
        behind=_behind(matrices, expert) if expert else None,
        forgetting=runs.forgotten(lambda lost: lost[..., :-1].mean(axis=-1)) if len(tasks) > 1 else Estimate(0.0),
        copies=(min(matrix.copies for matrix in matrices), max(matrix.copies for matrix in matrices)),
        bytes=float(np.mean([matrix.bytes["total"] for matrix in matrices])),
    )


def fewest_to_most(counts: Iterable[int]) -> str:
    """The range of these, or the one number that they all are."""
    ends = sorted(counts)
    return f"{ends[0]} to {ends[-1]}" if ends[0] < ends[-1] else str(ends[0])


def _history(matrix: Matrix) -> list[np.ndarray]:
    """For each task, every episode after every stage, (stages, episodes); before it was learned, as when it was."""
    count = len(matrix.tasks)
    return [np.array([matrix.returns[max(stage, task)][task] for stage in range(count)]) for task in range(count)]


def _learned(task: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda means: means[..., task, task].mean(axis=-1)


def floors(tasks: Sequence[str]) -> list[float]:
    """What counts as nothing: chance where targets are negative, and so no shares of them can be taken, else 0."""
    return [SCORES.get(task, 0.0) for task in tasks]


def _middle(runs: Histories, tasks: Sequence[str], targets: Sequence[float]) -> Estimate | None:
    if shares(np.array(targets), targets, floors(tasks)) is None:
        return None

    def measure(means: np.ndarray) -> np.ndarray:
        found = shares(means[..., -1], targets, floors(tasks))
        assert found is not None
        return interquartile_mean(100 * found.reshape(*found.shape[:-2], -1))

    return runs.estimate(measure)


def _behind(matrices: Sequence[Matrix], expert: ExpertRecord) -> Estimate | None:
    """Differences start by start, so that the luck of the starts cancels; none where the starts are others."""
    starts, own = ("first_seed", "episodes"), expert.returns
    if any(matrix.protocol.get(name) != expert.protocol[name] for matrix in matrices for name in starts):
        return None
    runs = [
        [np.subtract(own[task], returns) for task, returns in zip(matrix.tasks, matrix.final, strict=True)]
        for matrix in matrices
    ]
    mean = float(np.mean([[np.mean(task) for task in run] for run in runs]))
    distinct = [matrix.distinct_episodes[-1] for matrix in matrices]
    return Estimate(mean, middle(resample(runs, distinct).mean(axis=(1, 2))))


def _success(matrices: Sequence[Matrix]) -> dict[str, Estimate]:
    if not any(matrix.success() for matrix in matrices):
        return {}
    found = {}
    for index, task in enumerate(matrices[0].tasks):
        successes = [success for matrix in matrices for success in matrix.successes[-1][index]]
        distinct = sum(matrix.distinct_episodes[-1][index] for matrix in matrices)
        found[task] = Estimate(*success_rate(successes, distinct))
    return found
