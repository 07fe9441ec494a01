"""The results of a run: the returns of all episodes on every task after every stage."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import product
from math import isfinite
from typing import Any

import numpy as np

from holdfast.data.conform import conform
from holdfast.errors import Mistake
from holdfast.evaluation.curves import CurvePoint, Curves, success_curves
from holdfast.evaluation.metrics import (
    area_under,
    avg_forgetting,
    avg_gap,
    backward_transfer,
    curve_transfer,
    forgetting,
    forward_transfer,
    mean_success,
    norm_avg,
    success_forgetting,
)
from holdfast.evaluation.rollouts import Evaluation
from holdfast.evaluation.statistics import Measure, interval, resample, success_rate, task_mean
from holdfast.subnets.capacity import Capacity
from holdfast.tasks.environments import Protocol

Cells = list[list[Any]]  # [stage][task], None where not evaluated
LARGEST = 1e30  # largest return: the square of a larger one overflows
CELLS = {  # the type of each kind of result
    "returns": list[float],
    "successes": list[bool],
    "lengths": list[int],
    "distinct_episodes": int,
    "carried": int,
    "scores": dict[str, float],
}
SINCE_0_2 = ("joint", "offline", "scores", "curves", "single_curves", "stage_bytes")  # fields that 0.1 lacks
METRICS = ("NormAvg", "AvgGap", "AvgF", "BWT", "FWT", "Success", "SuccessF", "FT")


@dataclass
class Matrix:
    """The content of matrix.json; rows are filled stage by stage."""

    suite: str
    learner: str
    preset: str
    seed: int
    budget: str
    protocol: dict[str, Any]
    tasks: list[str]
    targets: list[float]
    returns: Cells = field(default_factory=list)  # the list of episode returns
    successes: Cells = field(default_factory=list)  # the list of episode successes
    lengths: Cells = field(default_factory=list)  # the list of episode lengths
    distinct_episodes: Cells = field(default_factory=list)  # how many episodes differed
    carried: Cells = field(default_factory=list)  # the earlier stage a result was copied from (unchanged policy)
    scores: Cells = field(default_factory=list)  # offline scores by measure, of tasks without an environment
    offline: list[str] = field(default_factory=list)  # the tasks without an environment, which have no returns
    joint: bool = False  # whether all tasks were learned at once, so that there are only results after the last one
    copies: int = 0
    task_copy: dict[str, int] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)
    accounts: list[dict[str, Any]] = field(default_factory=list)  # per copy: occupied, free, and each task's share
    stage_bytes: list[int] = field(default_factory=list)  # the total after each stage
    single: list[float | None] | None = None  # mean return of each task when learned alone, for FWT
    curves: Curves = field(default_factory=dict)  # success in the course of training, for FT
    single_curves: Curves = field(default_factory=dict)  # the same when each task is learned alone

    def __post_init__(self) -> None:
        for name in CELLS:
            if not getattr(self, name):
                setattr(self, name, [[None] * len(self.tasks) for _ in self.tasks])

    def record(self, stage: int, task: int, result: Evaluation) -> None:
        """Enters the result of a task after a stage."""
        self.returns[stage][task], self.successes[stage][task] = result.returns, result.successes
        self.lengths[stage][task], self.distinct_episodes[stage][task] = result.lengths, result.distinct
        self.carried[stage][task] = None

    def carry(self, stage: int, task: int, origin: int) -> None:
        """Copies the result of an earlier stage, because the policy and the episodes are bit-identical."""
        for cells in (self.returns, self.successes, self.lengths, self.distinct_episodes, self.scores):
            cells[stage][task] = cells[origin][task]
        self.carried[stage][task] = origin

    def record_point(self, task: int, point: CurvePoint) -> None:
        """Enters a point of a task's learning curve."""
        name = self.tasks[task]
        self.curves[name] = sorted([*self.curves.get(name, []), point], key=lambda known: known.at)

    def record_score(self, stage: int, task: int, score: dict[str, float]) -> None:
        """Enters the offline score of a task that has no environment."""
        self.scores[stage][task], self.carried[stage][task] = score, None

    def played(self, stages: int | None = None) -> list[int]:
        """Indices of the tasks that have an environment, among the first `stages` tasks."""
        return [index for index, task in enumerate(self.tasks[:stages]) if task not in self.offline]

    def first(self, stages: int) -> "Matrix":
        """The matrix as it was after the first `stages` tasks; the bytes are unknown if they were not recorded."""
        tasks = self.tasks[:stages]
        copies = {task: copy for task, copy in self.task_copy.items() if task in tasks}
        total = self.stage_bytes[stages - 1 : stages]
        cells: dict[str, Any] = {name: [row[:stages] for row in getattr(self, name)[:stages]] for name in CELLS}
        return replace(
            self,
            **cells,
            tasks=tasks,
            targets=self.targets[:stages],
            offline=[task for task in self.offline if task in tasks],
            copies=len(set(copies.values())),
            task_copy=copies,
            bytes={"total": total[0]} if total else {},
            accounts=[],
            stage_bytes=self.stage_bytes[:stages],
            single=self.single and self.single[:stages],
            curves={task: points for task, points in self.curves.items() if task in tasks},
            single_curves={task: points for task, points in self.single_curves.items() if task in tasks},
        )

    def evaluated(self, stage: int) -> bool:
        """Whether all learned tasks with an environment have results for this stage."""
        return all(self.returns[stage][task] is not None for task in self.played(stage + 1))

    @property
    def mean(self) -> list[list[float | None]]:
        """P: mean returns, None where not evaluated."""
        return _means(self.returns)

    @property
    def success_rates(self) -> list[list[float | None]]:
        """The share of episodes that succeeded, None where not evaluated."""
        return _means(self.successes)

    @property
    def knows_success(self) -> bool:
        """Whether any episode succeeded; in games none does."""
        return any(any(cell or []) for row in self.successes for cell in row)

    @property
    def stages(self) -> int:
        """The number of stages up to the last one that all of its tasks have results of; earlier ones may have gaps.

        If all tasks were learned at once, it is all or none.
        """
        count = len(self.tasks)
        done = [stage + 1 for stage in range(count) if self.evaluated(count - 1 if self.joint else stage)]
        return max(done, default=0)

    @property
    def has_gaps(self) -> bool:
        """Whether some task was not evaluated after a stage that is followed by an evaluated one."""
        stages = range(0 if self.joint else self.stages)
        return not all(self.evaluated(stage) for stage in stages)

    def metrics(self) -> dict[str, Any]:
        """The metrics of the evaluated stages, over the tasks that have an environment.

        NormAvg, AvgGap, F, AvgF, BWT; FWT if `single` is known; Success and SuccessF if any episode succeeded.
        If all tasks were learned at once, the metrics that compare stages (F, AvgF, BWT, FWT, SuccessF) are None; so is
        a metric that needs a result which is missing.
        """
        stages, played = self.stages, self.played(self.stages)
        if stages == 0:
            return {}
        metrics: dict[str, Any] = {"stages": stages, "F": {}, **dict.fromkeys(METRICS)}
        if not played:
            return metrics
        done, rates = self.mean[:stages], self.success_rates[:stages]
        final = [float(np.mean(returns)) for returns in self.final.values()]
        targets = [self.targets[task] for task in played]
        metrics |= {
            "NormAvg": norm_avg(final, targets),
            "AvgGap": avg_gap(final, targets),
        }
        if self.knows_success:
            metrics["Success"] = mean_success(rates, played)
        if self.joint:
            return metrics
        metrics |= {
            "F": dict(zip((self.tasks[task] for task in played), forgetting(done, played), strict=True)),
            "AvgF": avg_forgetting(done, played),
            "BWT": backward_transfer(done, played),
            "FWT": forward_transfer(done, self.single, played) if self.single else None,
            "SuccessF": success_forgetting(rates, played) if self.knows_success else None,
            "FT": self._curve_transfer(played),
        }
        return metrics

    def _curve_transfer(self, played: Sequence[int]) -> float | None:
        """FT; None unless every task has a curve, and one of being learned alone with the same points."""
        tasks = [self.tasks[task] for task in played]
        own, single = (success_curves(curves, tasks) for curves in (self.curves, self.single_curves))
        if own is None or single is None or own.at != single.at:
            return None
        areas = [
            area_under(np.array([np.mean(task, axis=-1) for task in found.rates]), found.at) for found in (own, single)
        ]
        return float(curve_transfer(*areas).mean())

    @property
    def final(self) -> dict[str, list[float]]:
        """The episode returns after the last evaluated stage, by task with an environment."""
        return {self.tasks[task]: self.returns[self.stages - 1][task] for task in self.played(self.stages)}

    def intervals(self) -> dict[str, Any]:
        """95 % confidence intervals over episodes of the results of the last stage.

        No interval if a task has a single distinct episode; then none for the means over tasks.
        """
        played, final = self.played(self.stages), list(self.final.values())
        targets = [self.targets[task] for task in played]
        distinct = [self.distinct_episodes[self.stages - 1][task] for task in played]
        if max(distinct, default=0) < 2:
            return {}
        drawn = resample([final], [distinct])
        several = [index for index, count in enumerate(distinct) if count > 1]
        tasks = {self.tasks[played[index]]: interval(drawn, task_mean(index)) for index in several}
        if len(several) < len(distinct):
            return {"tasks": tasks}
        measures = {"NormAvg": norm_avg, "AvgGap": avg_gap}
        if norm_avg(targets, targets) is None:
            measures.pop("NormAvg")
        return {
            **{name: interval(drawn, over_tasks(measure, targets)) for name, measure in measures.items()},
            "tasks": tasks,
        }

    def success(self) -> dict[str, Any]:
        """Final success rates with 95 % confidence intervals; empty if no episode ever succeeded, as in games."""
        if not self.knows_success:
            return {}
        rates, last = {}, self.stages - 1
        for task in self.played(self.stages):
            rate, interval = success_rate(self.successes[last][task], self.distinct_episodes[last][task])
            rates[self.tasks[task]] = {"rate": rate, "interval": interval}
        return rates

    def to_json(self) -> dict[str, Any]:
        """The content of matrix.json; intervals only for complete runs, because they take a moment."""
        record = {**asdict(self), "mean": self.mean, "metrics": self.metrics()}
        if self.stages == len(self.tasks):
            record |= {"intervals": self.intervals(), "success": self.success()}
        return record

    @classmethod
    def from_json(cls, record: Any) -> "Matrix":
        """The matrix in the content of matrix.json; raises if it is invalid."""
        if not isinstance(record, dict):
            raise Mistake("it must be an object")
        names = [item.name for item in fields(cls)]
        if missing := [name for name in names if name not in record and name not in SINCE_0_2]:
            raise Mistake(f"{missing[0]} is missing")
        return conform({name: record[name] for name in names if name in record}, cls).checked()

    def checked(self) -> "Matrix":
        """The matrix; raises if its fields contradict each other."""
        count = len(self.tasks)
        conform(self.protocol, Protocol, "protocol")
        if not {"name", "episodes"} <= self.protocol.keys():
            raise Mistake("protocol must have a name and a number of episodes")
        conform(self.accounts, list[Capacity], "accounts")
        if not self.tasks or len(set(self.tasks)) != count:
            raise Mistake("tasks must be different names")
        if any(len(values) != count for values in (self.targets, self.single or self.tasks)):
            raise Mistake("there must be one target per task")
        if not {*self.curves, *self.single_curves} <= set(self.tasks):
            raise Mistake("there are curves of other tasks")
        if not set(self.offline) <= set(self.tasks):
            raise Mistake(f"offline names other tasks: {', '.join(self.offline)}")
        for name, kind in CELLS.items():
            cells = getattr(self, name)
            if [len(row) for row in cells] != [count] * count:
                raise Mistake(f"{name} must have one row and one column per task")
            conform(cells, list[list[kind | None]], name)  # type: ignore[valid-type]
        for stage, task in product(range(count), range(count)):
            self._check_cell(stage, task)
        if "total" not in self.bytes or min(self.bytes.values()) < 0:
            raise Mistake(f"bytes must have a total, and no negative numbers, got {self.bytes}")
        if not all(0 <= copy < self.copies for copy in self.task_copy.values()):
            raise Mistake(f"task_copy is {self.task_copy}, but there are {self.copies} copies")
        if self.accounts and len(self.accounts) != self.copies:
            raise Mistake(f"there are {len(self.accounts)} accounts, but {self.copies} copies")
        if any(account["total"] < 1 for account in self.accounts):
            raise Mistake("every copy must have weights")
        return self

    def _check_cell(self, stage: int, task: int) -> None:
        """Raises unless the results of a cell are complete."""
        where, returns = f"{self.tasks[task]} after stage {stage}", self.returns[stage][task]
        others = [getattr(self, name)[stage][task] for name in ("successes", "lengths", "distinct_episodes")]
        origin, score = self.carried[stage][task], self.scores[stage][task]
        if self.tasks[task] in self.offline:
            if any(other is not None for other in (returns, *others)):
                raise Mistake(f"{where} has results, but no environment")
            if score is not None and not all(map(isfinite, score.values())):
                raise Mistake(f"{where} has a score that is not finite")
            return
        if returns is None:
            if any(other is not None for other in (*others, origin, score)):
                raise Mistake(f"{where} has no returns, but other results")
            return
        successes, lengths, distinct = others
        if not returns or successes is None or len(successes) != len(returns):
            raise Mistake(f"{where} must have returns, and one success for each")
        if max(map(abs, returns)) > LARGEST:
            raise Mistake(f"{where} has returns that are too large for a mean")
        if lengths is None or len(lengths) != len(returns) or min(lengths) < 1:
            raise Mistake(f"{where} must have one length per return")
        if distinct is None or not 1 <= distinct <= len(returns):
            raise Mistake(f"{where} has an impossible number of distinct episodes")
        if self.returns[task][task] is not None and len(returns) != len(self.returns[task][task]):
            raise Mistake(f"{where} must have as many episodes as in earlier stages")
        if origin is not None and not 0 <= origin < stage:
            raise Mistake(f"{where} cannot be carried over from stage {origin}")


def _means(cells: Cells) -> list[list[float | None]]:
    return [[None if cell is None else float(np.mean(cell)) for cell in row] for row in cells]


def over_tasks(metric: Callable[..., Any], targets: Sequence[float]) -> Measure:
    """A metric of final returns as a measure of arrays (..., tasks)."""
    return lambda means: metric(list(np.moveaxis(means, -1, 0)), targets)


def reference(single: Matrix, tasks: Sequence[str]) -> list[float | None]:
    """The mean return of each task when it was learned alone; None for a task without an environment."""
    mean = single.mean
    returns: list[float | None] = []
    for task in tasks:
        index = single.tasks.index(task) if task in single.tasks else -1
        value = mean[index][index] if index >= 0 else None
        if value is None and task not in single.offline:
            raise Mistake(f"the reference run has no result for {task}")
        returns.append(value)
    return returns
