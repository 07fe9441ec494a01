"""Everything that figures and pages show of a set of runs, read once."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.errors import Mistake
from holdfast.evaluation.matrix import Matrix
from holdfast.runs.folder import RunFolder
from holdfast.study.figures.evaluated_run import EvaluatedRun, read_run
from holdfast.study.groups import Group, RunResult, Skip, group_runs, read_runs, refuse
from holdfast.study.summary import Summary, summarise

LONGEST = 80  # letters of a setting's key, which stands in the names of files

Means = list[list[float | None]]  # [stage][task]


@dataclass(frozen=True)
class Terms:
    """What a mean over tasks depends on; only means on equal terms are comparable."""

    targets: frozenset[tuple[str, float]]  # by task
    protocol: str  # its name

    @property
    def tasks(self) -> frozenset[str]:
        """The tasks that were evaluated."""
        return frozenset(task for task, _ in self.targets)


@dataclass(frozen=True)
class Setting:
    """A learner with one setting, and its runs."""

    key: str  # in names of files and anchors, no other setting's
    learner: str
    label: str
    runs: tuple[EvaluatedRun, ...]  # by seed, at least one
    settings: Mapping[str, Any]  # flat, by dotted names

    def agrees(self, other: "Setting") -> bool:
        """Whether all settings that both have are equal."""
        return all(other.settings[name] == value for name, value in self.settings.items() if name in other.settings)

    @property
    def matrices(self) -> list[Matrix]:
        """The results of each run."""
        return [run.matrix for run in self.runs]

    @property
    def tasks(self) -> list[str]:
        """The tasks in the order they were learned."""
        return self.runs[0].matrix.tasks

    @property
    def terms(self) -> Terms:
        """Tasks, targets and protocol."""
        first = self.runs[0].matrix
        return Terms(frozenset(zip(first.tasks, first.targets, strict=True)), first.protocol["name"])

    @cached_property
    def summary(self) -> Summary:
        """Means over the runs, with confidence intervals."""
        return summarise(self.matrices)

    @cached_property
    def mean(self) -> Means:
        """Mean returns over the runs; None if a run has no result."""
        runs = np.array([matrix.mean for matrix in self.matrices], float)  # (runs, stages, tasks), nan for none
        return [[None if np.isnan(cell) else float(cell) for cell in row] for row in runs.mean(axis=0)]

    @property
    def has_gaps(self) -> bool:
        """Whether some run has a task that was not played after every stage."""
        return any(matrix.has_gaps for matrix in self.matrices)

    def carried(self, stage: int, task: int) -> bool:
        """Whether this result was carried over from an earlier stage in every run."""
        return all(matrix.carried[stage][task] is not None for matrix in self.matrices)


@dataclass(frozen=True)
class Study:
    """Runs of one suite, grouped by setting."""

    suite: str
    settings: tuple[Setting, ...]
    unfinished: tuple[str, ...]  # the folders of runs without results to their end
    results: tuple[RunResult, ...] = ()  # of the runs that are shown

    @property
    def tasks(self) -> list[str]:
        """All tasks that any run learned, in the order of the first run that did."""
        return list(dict.fromkeys(task for setting in self.settings for task in setting.tasks))

    @cached_property
    def singles(self) -> list[Setting]:
        """The settings of the learner `single`; first the one that agrees with most others."""
        found = [setting for setting in self.settings if setting.learner == "single"]
        return sorted(found, key=lambda single: -sum(map(single.agrees, self.settings)))

    @cached_property
    def alone(self) -> Mapping[str, float]:
        """The return of each task when it is learned alone; empty if no run has it."""
        known = [(task, estimate.value) for found in self.singles for task, estimate in found.summary.returns.items()]
        return dict(reversed(known)) if {task for task, _ in known} >= set(self.tasks) else {}

    @cached_property
    def reference(self) -> Mapping[str, float]:
        """The returns that 1 stands for in normalised figures: learned alone, or else the data's mean return."""
        returns = [run.record["data_returns"] for setting in self.settings for run in setting.runs]
        return self.alone or {task: value for found in reversed(returns) for task, value in found.items()}

    @property
    def reference_name(self) -> str:
        """The reference in words."""
        if not self.alone:
            return "the data's mean return"
        return "learned alone" if len(self.singles) == 1 else f"learned alone ({self.singles[0].label})"

    def share(self, task: str, value: float | None) -> float | None:
        """A return as a share of the reference.

        Where both are negative the fraction is turned round, so that worse stays less; none where neither says a thing.
        """
        reference = self.reference.get(task)
        if value is None or not reference or (reference < 0 <= value):
            return None
        return value / reference if reference > 0 else reference / value


def read_study(roots: Sequence[Path], skip: Skip = refuse) -> Study:
    """Reads all runs under these folders; `skip` is told of folders that are damaged or not runs."""
    results, runs = read_runs(*roots, several="a page is about one suite", skip=skip), {}
    for result in results:
        if result.matrix and not result.matrix.played():
            skip(f"{result.name} has no task with an environment: holdfast show has its offline scores")
        elif result.matrix:
            try:
                runs[result.name] = read_run(result, result.matrix)
            except Mistake as mistake:
                skip(str(mistake))
    unfinished = [result for result in results if result.matrix is None]
    if not runs and unfinished:
        raise Mistake(f"none of these runs has results to its end: {RunFolder(unfinished[0].folder).how_to_go_on()}")
    if not runs:
        raise Mistake("none of these runs can be shown")
    shown = [result for result in results if result.name in runs]
    groups = group_runs(shown)
    keys = _keys([found.label for found in groups])
    settings = tuple(_setting(key, found, runs) for key, found in zip(keys, groups, strict=True))
    names = tuple(result.folder.resolve().name for result in unfinished)
    return Study(results[0].plan["suite"], settings, names, tuple(shown))


def _keys(labels: Sequence[str]) -> list[str]:
    """File names for labels: short, plain, and numbered if two labels would have the same."""
    plain = [re.sub(r"[^a-z0-9.+]+", "-", label.lower()).strip("-.")[:LONGEST] for label in labels]
    return [f"{key}-{at + 1}" if plain.count(key) > 1 or not key else key for at, key in enumerate(plain)]


def _setting(key: str, found: Group, runs: Mapping[str, EvaluatedRun]) -> Setting:
    own = tuple(runs[result.name] for result in found.results)
    return Setting(key, found.learner, found.label, own, found.settings)
