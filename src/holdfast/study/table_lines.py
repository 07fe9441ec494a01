"""The lines of a table: the results of a group of runs, or that they are missing, beside the published ones."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from holdfast.evaluation.matrix import Matrix
from holdfast.evaluation.metrics import avg_gap, norm_avg
from holdfast.study.expert_record import ExpertRecord
from holdfast.study.group_labels import telling
from holdfast.study.groups import Group, RunResult
from holdfast.study.paired import paired_difference
from holdfast.study.published import SWEEP, PublishedRow, differences, published_tables
from holdfast.study.summary import Estimate, Summary, fewest_to_most, summarise
from holdfast.study.transfer import forward_transfer

Value = str | Estimate
SEEDS, TASK, DATA = "seeds", "task", "the data itself"
SUCCESS, SUCCESS_LOST, TRANSFER, MINUTES = "success %", "success F %", "forward transfer", "minutes"
DIFFERENCE = "difference"
MADE = {  # columns that say how runs were made, and the settings
    "budget": "budget",
    "protocol": "protocol.name",
    "demonstrations": "demonstrations",
}
NOT_MEASURED = "not measured"
MEASURES = ("copies", "NormAvg", "AvgGap", "AvgF")  # that the publication has


@dataclass(frozen=True)
class TableLine:
    """One row by column: our values, success rates, and the published numbers."""

    label: str
    values: Mapping[str, Value]
    rates: Mapping[str, Estimate] = field(default_factory=dict)
    published: Mapping[str, float | str] = field(default_factory=dict)
    source: str = ""  # what the publication calls its row
    differs: tuple[str, ...] = ()  # in what these runs differ from the published ones
    runs: tuple[str, ...] = ()
    missing: bool = False


@dataclass(frozen=True)
class TableEntry:
    """A group of runs and the published row for it; one of the two may be missing."""

    group: Group | None
    row: PublishedRow | None
    seeds: Sequence[int] = ()  # that there might be
    expert: ExpertRecord | None = None
    sweep: Mapping[str, Estimate] = field(default_factory=dict)  # by task, the best over several target returns
    singles: Sequence[Matrix] = ()  # of the learner `single` with the same settings
    against: Sequence[Matrix] = ()  # of the runs that every entry is compared with

    @property
    def label(self) -> str:
        """The label of the group, or the publication's name of the row."""
        return self.group.label if self.group else self.row["method"] if self.row else ""

    @property
    def first(self) -> int:
        """Its first seed, or the publication's number of the run."""
        return self.group.results[0].plan["seed"] if self.group else (self.row or {}).get("run", 0)

    @cached_property
    def summary(self) -> Summary | None:
        """The summary of its complete runs, if there are any."""
        return summarise(self.group.matrices, self.expert) if self.group and self.group.matrices else None

    @property
    def made(self) -> dict[str, Value]:
        """Budget, protocol and number of demonstrations of its runs, as far as they have them."""
        settings = self.group.settings if self.group else {}
        return {column: str(settings[name]) for column, name in MADE.items() if settings.get(name) is not None}

    def line(self, values: Mapping[str, Value], published: Mapping[str, float], **more: Any) -> TableLine:
        """A line with these values and everything that the lines of an entry share."""
        values, found = {**values, **self.made}, self.group
        differs = differing(found) if found and published else ()
        source = self.row["method"] if self.row and published else ""
        runs = tuple(result.name for result in found.results) if found else ()
        return TableLine(
            self.label, values, more.get("rates", {}), published, source, differs, runs, self.summary is None
        )


def differing(found: Group) -> tuple[str, ...]:
    """The differences between a group and the published runs of its learner."""
    targets = dict(zip(found.matrices[0].tasks, found.matrices[0].targets, strict=True)) if found.matrices else {}
    return differences(found.results[0].plan["suite"], found.learner, found.settings, targets)


def run_lines(entry: TableEntry) -> list[TableLine]:
    """An entry in one line; the tasks are columns."""
    row = dict(entry.row or {})
    published = {SEEDS if name == "run" else name: row[name] for name in row if name not in ("method", SWEEP)}
    names: dict[str, Value] = {SEEDS: seeds_text(entry)}
    summary = entry.summary
    if summary is None:
        return [entry.line(names, published)]
    values = {**names, **summary.returns, **_scores(summary), **_measures(summary), **_difference(entry)}
    return [entry.line(values, published, rates=summary.success)]


def success_lines(entry: TableEntry) -> list[TableLine]:
    """An entry in one line, with the metrics of Continual World."""
    values: dict[str, Value] = {SEEDS: seeds_text(entry)}
    summary = entry.summary
    if entry.group is None or summary is None:
        return [entry.line(values, {})]
    known = _measures(summary)
    values[SUCCESS] = known.get(SUCCESS, "no success")
    values[TRANSFER] = forward_transfer(entry.group.matrices, entry.singles) or NOT_MEASURED
    shown = (SUCCESS_LOST, "copies", "MB", "episodes")
    values |= {name: known[name] for name in shown if name in known}
    return [entry.line(values | _minutes(entry.group) | _difference(entry), {})]


def _difference(entry: TableEntry) -> dict[str, Value]:
    """The paired difference to the runs that every entry is compared with, if there are any."""
    if not entry.against or entry.group is None:
        return {}
    return {DIFFERENCE: paired_difference(entry.group.matrices, entry.against) or NOT_MEASURED}


def _minutes(found: Group) -> dict[str, Value]:
    """The mean time that training took, if it is known of every complete run."""
    seconds = [result.seconds for result in found.results if result.matrix]
    known = [value for value in seconds if value is not None]
    return {MINUTES: Estimate(float(np.mean(known)) / 60)} if len(known) == len(seconds) else {}


def task_lines(entry: TableEntry) -> list[TableLine]:
    """An entry with a line for each task, then one for all tasks."""
    summary, row = entry.summary, entry.row or {}
    matrices = entry.group.matrices if entry.group else []
    tasks = matrices[0].tasks if matrices else [name for name in row if name not in (*MEASURES, "method", SWEEP)]
    lines = [_task_line(entry, summary, task) for task in tasks]
    names: dict[str, Value] = {SEEDS: seeds_text(entry), TASK: "all"}
    overall = {name: row[name] for name in MEASURES if name in row}
    return [*lines, entry.line({**names, **(_measures(summary) if summary else {})}, overall)]


def _task_line(entry: TableEntry, summary: Summary | None, task: str) -> TableLine:
    row: PublishedRow = entry.row or {}
    values: dict[str, Value] = {SEEDS: seeds_text(entry), TASK: task}
    published = {"return": row[task]} if task in row else {}
    if task in row.get(SWEEP, {}):
        published[SWEEP] = row[SWEEP][task]
    if entry.group is None or summary is None:
        return entry.line(values, published)
    matrix = entry.group.matrices[0]
    data = next(result.data_returns for result in entry.group.results if result.matrix)
    numbers: dict[str, Value] = {
        "target": Estimate(matrix.targets[matrix.tasks.index(task)]),
        **({"the data": Estimate(data[task])} if task in data else {}),
        **_sweep(entry, task),
    }
    if task in summary.returns:
        numbers["return"] = summary.returns[task]
        numbers["episodes"] = str(summary.distinct[task])
    if task in summary.learned:
        numbers["when learned"] = summary.learned[task]
        numbers["F"] = summary.lost.get(task, NOT_MEASURED)
    elif task in summary.scores:
        numbers["return"] = _scores(summary)[task]
    rates = {"return": summary.success[task]} if task in summary.success else {}
    return entry.line(values | numbers, published, rates=rates)


def _sweep(entry: TableEntry, task: str) -> dict[str, Value]:
    """The best over several target returns, or "not measured" if only the publication has it."""
    if task in entry.sweep:
        return {SWEEP: entry.sweep[task]}
    return {SWEEP: NOT_MEASURED} if task in (entry.row or {}).get(SWEEP, {}) else {}


def seeds_text(entry: TableEntry) -> str:
    """The seeds that are complete, unfinished and missing."""
    results = entry.group.results if entry.group else ()
    there = [str(result.plan["seed"]) for result in results if result.matrix]
    begun = [str(result.plan["seed"]) for result in results if not result.matrix]
    known = {result.plan["seed"] for result in results}
    missing = [str(seed) for seed in entry.seeds if seed not in known]
    said = [f"{', '.join(seeds)} {word}" for seeds, word in ((begun, "unfinished"), (missing, "missing")) if seeds]
    if not there:
        return "; ".join(said) or "missing"
    return ", ".join(there) + (f" ({'; '.join(said)})" if said else "")


def _scores(summary: Summary) -> dict[str, Value]:
    """In words, since these are no returns."""
    return {
        task: ", ".join(f"{name} {value:.3g}" for name, value in scores.items())
        for task, scores in summary.scores.items()
    }


def _measures(summary: Summary) -> dict[str, Value]:
    known = {
        "NormAvg": summary.normalised,
        "AvgGap": summary.gap,
        "IQM": summary.middle,
        "behind the expert": summary.behind,
        "AvgF": summary.forgetting or (NOT_MEASURED if summary.gap and not summary.joint else None),
        SUCCESS: _per_cent(summary.mean_success),
        SUCCESS_LOST: _per_cent(summary.success_forgetting) or _unmeasured_loss(summary),
        "copies": fewest_to_most(summary.copies),
        "MB": NOT_MEASURED if np.isnan(summary.bytes) else Estimate(summary.bytes / 1e6),
        "episodes": fewest_to_most(summary.distinct.values()) if summary.distinct else None,
    }
    return {name: value for name, value in known.items() if value is not None}


def _unmeasured_loss(summary: Summary) -> str | None:
    """What stands for the forgetting of success if a result that it needs is missing."""
    return NOT_MEASURED if summary.mean_success and not summary.joint else None


def _per_cent(rate: Estimate | None) -> Estimate | None:
    """A rate in per cent, without floating-point noise: gains and losses that cancel are 0, not 4e-16."""
    if rate is None:
        return None
    value, *ends = (round(100 * number, 9) for number in (rate.value, *(rate.interval or ())))
    return Estimate(value, (ends[0], ends[1]) if ends else None)


def data_lines(suite: str, results: Sequence[RunResult]) -> list[TableLine]:
    """The returns of the recorded episodes, with a line for each dataset that runs learned from."""
    whole = [result for result in results if result.matrix and set(result.matrix.tasks) <= set(result.data_returns)]
    known = {json.dumps([result.data_returns, result.plan["order"]], sort_keys=True): result for result in whole}
    settings = [result.settings for result in known.values()]
    lines = [_data_line(suite, result, settings) for result in known.values()]
    return sorted(lines, key=lambda line: line.label) or [TableLine(DATA, {SEEDS: "missing"}, missing=True)]


def _data_line(suite: str, result: RunResult, settings: Sequence[Mapping[str, Any]]) -> TableLine:
    assert result.matrix is not None
    own = result.settings
    said = [
        f"{name}={own[name]}"
        for name in telling(own, settings, ("data", "transitions", "demonstrations", "order", "datasets"))
    ]
    means = {task: result.data_returns[task] for task in result.matrix.tasks}
    published = published_tables().get(suite, {}).get("expert_mean", {})
    return TableLine(" ".join([DATA, *said]), _reference(means, result.matrix), {}, published, DATA)


def expert_line(expert: ExpertRecord, matrix: Matrix) -> TableLine:
    """The expert's returns from the starts that learners are evaluated from."""
    means = {task: float(np.mean(expert.returns[task])) for task in matrix.tasks}
    rates = {task: Estimate(float(np.mean(expert.successes[task]))) for task in matrix.tasks}
    return TableLine(
        "the expert, same starts", {**_reference(means, matrix), "behind the expert": Estimate(0.0)}, rates
    )


def expert_success_line(expert: ExpertRecord, tasks: Sequence[str]) -> TableLine:
    """The expert's mean success from the starts that learners are evaluated from."""
    rates = [float(np.mean(expert.successes[task])) for task in tasks]
    return TableLine("the expert, same starts", {SUCCESS: Estimate(100 * float(np.mean(rates)))})


def _reference(means: Mapping[str, float], matrix: Matrix) -> dict[str, Value]:
    played = matrix.played()
    values, targets = [means[matrix.tasks[task]] for task in played], [matrix.targets[task] for task in played]
    known = {"NormAvg": norm_avg(values, targets), "AvgGap": avg_gap(values, targets)} if played else {}
    return {name: Estimate(value) for name, value in {**means, **known}.items() if value is not None}
