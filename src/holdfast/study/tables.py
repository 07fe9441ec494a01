"""The tables as data: results of runs, and the published numbers for the same cells."""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from itertools import count, product
from pathlib import Path
from string import ascii_lowercase

from holdfast.errors import Mistake
from holdfast.study.best_targets import BEST, best_sweep
from holdfast.study.expert_record import EXPERT, ExpertRecord, read_expert
from holdfast.study.group_labels import rank
from holdfast.study.groups import OLDER, Group, RunResult, Skip, group_runs, read_runs, refuse
from holdfast.study.published import (
    SWEEP,
    PublishedRow,
    all_rows,
    auxiliary_rows,
    main_rows,
    matching_row,
    published_tables,
    single_rows,
    threshold_rows,
)
from holdfast.study.table_lines import (
    MADE,
    SEEDS,
    SUCCESS,
    SUCCESS_LOST,
    TASK,
    TableEntry,
    TableLine,
    data_lines,
    differing,
    expert_line,
    run_lines,
    task_lines,
)

METHOD = (
    "[from, to] is a 95 % confidence interval: bootstrap percentiles, seeds drawn first, then episodes within each "
    "(one seed tells nothing of others), and Wilson's for success rates. IQM: the mean of the middle half of all "
    "runs' and tasks' scores, where 0 is nothing (chance where targets are negative) and 100 the target. AvgF and F "
    "are exactly 0 where they say 0. episodes: how many distinct ones a mean is of in each run, at least."
)
SUCCEEDED = (
    "success %: the mean over tasks of the success rate in the end. success F %: the mean over the tasks before the "
    "last of the success rate right after the task was learned minus in the end."
)
OFFLINE = (
    "A task without an environment has no return: its score is how well the actions of held-out episodes are "
    "predicted, as their likelihood (the geometric mean over steps) or their mean squared error."
)
NUMBERED = "A published run stands beside the seed of its number; its random numbers are others."
SUMMARY = (
    "NormAvg",
    "AvgGap",
    "IQM",
    "behind the expert",
    "AvgF",
    SUCCESS,
    SUCCESS_LOST,
    "copies",
    "MB",
    "episodes",
    *MADE,
)
DETAILS = (TASK, "target", "the data", "return", SWEEP, "when learned", "F")


@dataclass(frozen=True)
class ResultTable:
    """Lines, their columns, and notes."""

    title: str
    columns: tuple[str, ...]  # the first is of labels
    lines: tuple[TableLine, ...]
    notes: tuple[str, ...]

    @property
    def marks(self) -> dict[tuple[str, ...], str]:
        """Letters for each way in which runs differ from the published ones: a to z, then aa, ab and so on."""
        ways = dict.fromkeys(line.differs for line in self.lines if line.differs)
        marks = ("".join(letters) for length in count(1) for letters in product(ascii_lowercase, repeat=length))
        return dict(zip(ways, marks, strict=False))


@dataclass(frozen=True)
class Records:
    """The runs of a suite, and what the expert earned from the same starts."""

    suite: str
    results: Sequence[RunResult]
    expert: ExpertRecord | None

    @property
    def tasks(self) -> list[str]:
        """The tasks in the publication's order, then in that of the runs."""
        orders = [
            published_tables().get(self.suite, {}).get("order", []),
            *(result.plan["order"] for result in self.results),
        ]
        return list(dict.fromkeys(task for order in orders for task in order))


@dataclass(frozen=True)
class TableKind:
    """A kind of table: one of the publication's, or a similar one."""

    about: str
    rows: Callable[[str], list[PublishedRow]]  # that the publication has, by suite
    lines: Callable[[TableEntry], list[TableLine]] = run_lines
    takes: Callable[[Group], bool] = lambda _: True
    alone: bool = False  # every run by itself
    references: bool = False  # whether the data and the expert stand above
    notes: tuple[str, ...] = (METHOD,)


def _affinity(found: Group) -> bool:
    return found.learner.startswith("affinity")


def _single(found: Group) -> bool:
    return found.learner == "single"


KINDS = {
    "main": TableKind("final results, a row for each setting of a learner", main_rows, references=True),
    "tasks": TableKind("final results task by task, and what was forgotten", main_rows, task_lines),
    "thresholds": TableKind("affinity learners at each threshold", threshold_rows, takes=_affinity),
    "single": TableKind("tasks learned alone", single_rows, task_lines, _single),
    "aux": TableKind("every run by itself", auxiliary_rows, alone=True, notes=(METHOD, NUMBERED)),
}


def read_records(*roots: Path, suite: str | None = None, skip: Skip = refuse) -> Records:
    """Reads the runs under these folders; `skip` is told of folders that are damaged or not runs."""
    results = read_runs(*roots, suite=suite, skip=skip)
    paths = sorted({result.folder.parent / EXPERT for result in results})
    experts = [read_expert(path) for path in paths if path.exists()]
    if any(expert != experts[0] for expert in experts):
        raise Mistake(f"these runs stand beside different {EXPERT}: give runs that share one")
    found = Records(results[0].plan["suite"], results, None)
    known = [expert for expert in experts if expert.knows(found.tasks)]
    return replace(found, expert=known[0] if known else None)


def make_table(kind: str, found: Records, paper: bool = False) -> ResultTable:
    """A table of these runs; with `paper`, only of those that the publication has a row for."""
    if paper and not KINDS[kind].rows(found.suite):
        raise Mistake(f"nothing is published about {found.suite}: leave --paper out")
    entries = _entries(KINDS[kind], found, paper)
    if not entries:
        raise Mistake(f"none of these runs is one for the table {kind} ({KINDS[kind].about})")
    lines = [line for entry in entries for line in KINDS[kind].lines(entry)]
    lines = [*(_references(found) if KINDS[kind].references else []), *lines]
    used = {column for line in lines for column in [*line.values, *line.published]}
    columns = [SEEDS, *DETAILS, *found.tasks, *SUMMARY]
    title = f"{found.suite}: {KINDS[kind].about}"
    notes = (*KINDS[kind].notes, *_instead(found, {run for line in lines for run in line.runs}))
    if SUCCESS in used:
        notes = (*notes, SUCCEEDED)
    if any(entry.summary and entry.summary.scores for entry in entries):
        notes = (*notes, OFFLINE)
    if any(entry.sweep for entry in entries) and SWEEP in used:
        notes = (*notes, BEST)
    return ResultTable(title, ("learner", *(name for name in columns if name in used)), tuple(lines), notes)


def _instead(found: Records, shown: Container[str]) -> list[str]:
    """Notes about runs that replace older copies of themselves."""
    newer = [result for result in found.results if result.instead and result.name in shown]
    return [f"{result.name} is taken, not {' or '.join(result.instead)}: {OLDER}." for result in newer]


def _references(found: Records) -> list[TableLine]:
    played = next((result.matrix for result in found.results if result.matrix), None)
    expert = [expert_line(found.expert, played)] if found.expert and played else []
    return [*data_lines(found.suite, found.results), *expert]


def _entries(kind: TableKind, found: Records, paper: bool) -> list[TableEntry]:
    """Groups of runs with their published rows, and published rows without runs."""
    seeds = sorted({result.plan["seed"] for result in found.results})
    groups = [one for one in group_runs(found.results) if kind.takes(one)]
    if kind.alone:
        groups, seeds = [replace(one, results=(run,)) for one in groups for run in one.results], []
    rows = kind.rows(found.suite)
    beside = rows if paper or kind.alone else [*rows, *all_rows(found.suite)]
    rivals = [(one, _row_for(one, beside)) for one in groups]
    entries = [
        TableEntry(one, row if one is _nearest(row, rivals) else None, seeds, found.expert, best_sweep(one, groups))
        for one, row in rivals
    ]
    ours = [entry for entry in entries if entry.row is not None or not paper]
    missing = [row for row in rows if row not in [entry.row for entry in ours]]
    missed = [TableEntry(None, row, [row["run"]] if kind.alone else []) for row in missing]
    return sorted([*ours, *missed], key=lambda entry: (rank(entry.label), entry.first))


def _row_for(found: Group, rows: Sequence[PublishedRow]) -> PublishedRow | None:
    """The published row for a group; if rows are single runs, the one numbered like its seed."""
    own = [row for row in rows if row.get("run") in (None, found.results[0].plan["seed"])]
    return matching_row(own, found.learner, found.routing)


def _nearest(row: PublishedRow | None, rivals: Sequence[tuple[Group, PublishedRow | None]]) -> Group:
    """Of the groups that match a published row, the one with the fewest differences, then with the most runs."""
    return min((one for one, other in rivals if other == row), key=_distance)


def _distance(found: Group) -> tuple[bool, int, int]:
    return not found.matrices, len(differing(found)), -len(found.matrices)
