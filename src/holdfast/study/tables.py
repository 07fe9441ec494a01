"""The tables as data: results of runs, and the published numbers for the same cells."""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from itertools import count, product
from pathlib import Path
from string import ascii_lowercase

from holdfast.errors import Mistake
from holdfast.evaluation.matrix import Matrix
from holdfast.registry import SUITES
from holdfast.study.best_targets import BEST, best_sweep
from holdfast.study.expert_record import EXPERT, ExpertRecord, read_expert
from holdfast.study.group_labels import rank
from holdfast.study.groups import OLDER, Group, RunResult, Skip, group_runs, read_runs, refuse
from holdfast.study.other_publications import other_lines, sources
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
from holdfast.study.route_lines import ALLOWED, DECISION, DISTANCE, NEAREST, ROUTED, is_routed, route_lines
from holdfast.study.table_lines import (
    DIFFERENCE,
    MADE,
    MINUTES,
    SEEDS,
    SUCCESS,
    SUCCESS_LOST,
    TASK,
    TRANSFER,
    TableEntry,
    TableLine,
    data_lines,
    differing,
    expert_line,
    expert_success_line,
    run_lines,
    success_lines,
    task_lines,
)
from holdfast.tasks.suite import Settings, suite_spec

BOOTSTRAP = (
    "[from, to] is a 95 % confidence interval: bootstrap percentiles, seeds drawn first, then episodes within each "
    "(one seed tells nothing of others)"
)
EPISODES = "episodes: how many distinct ones a mean is of in each run, at least."
METHOD = (
    f"{BOOTSTRAP}, and Wilson's for success rates. IQM: the mean of the middle half of all "
    "runs' and tasks' scores, where 0 is nothing (chance where targets are negative) and 100 the target. AvgF and F "
    f"are exactly 0 where they say 0. {EPISODES}"
)
TRANSFERRED = (
    "forward transfer: the mean over tasks of (AUC - S) / (1 - S). AUC is the area under the task's success during its "
    "training, by trapezoids through the moments of --evaluate-at (10 episodes each), from 0 at the beginning; S is "
    "the same for the learner single with the same settings, seeds and starts drawn together."
)
TIMED = (
    "minutes: the time that training took on the machine of each run, other work on it included; "
    "empty where runs shared what they trained."
)
COMPARED = (
    "difference: to {}, the mean over tasks in the end, in points of success where it is reported and in return "
    "elsewhere. Runs with the same seed and episodes from the same start are compared with each other, and drawn "
    "together for the interval; above 0, the row is better."
)
DIRECTION = "Rows of other publications ({}) are a direction, not a race: they differ from ours as the notes say."
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
    DIFFERENCE,
    TRANSFER,
    "copies",
    "MB",
    MINUTES,
    "episodes",
    *MADE,
)
DETAILS = (TASK, "target", "the data", "return", SWEEP, "when learned", "F", NEAREST, DISTANCE, ALLOWED, DECISION)


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
    against: Group | None = None  # the runs that all others are compared with

    @property
    def cut(self) -> str:
        """Says of which suites these are the first tasks."""
        longer = sorted({result.longer for result in self.results if result.longer})
        return f" (runs of {' and '.join(longer)} after {len(self.tasks)} tasks)" if longer else ""

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
    references: Callable[[Records], list[TableLine]] = lambda _: []  # that stand above
    others: bool = False  # whether rows of other publications stand below
    notes: tuple[str, ...] = (METHOD,)


def _affinity(found: Group) -> bool:
    return found.learner.startswith("affinity")


def _single(found: Group) -> bool:
    return found.learner == "single"


def _references(found: Records) -> list[TableLine]:
    played = next((result.matrix for result in found.results if result.matrix), None)
    expert = [expert_line(found.expert, played)] if found.expert and played else []
    return [*data_lines(found.suite, found.results), *expert]


def _success_references(found: Records) -> list[TableLine]:
    return [expert_success_line(found.expert, found.tasks)] if found.expert else []


KINDS = {
    "main": TableKind("final results, a row for each setting of a learner", main_rows, references=_references),
    "success": TableKind(
        "success, forgetting and forward transfer, as Continual World measures them",
        lambda _: [],
        success_lines,
        references=_success_references,
        others=True,
        notes=(f"{BOOTSTRAP}. {EPISODES}", TRANSFERRED),
    ),
    "tasks": TableKind("final results task by task, and what was forgotten", main_rows, task_lines),
    "thresholds": TableKind("affinity learners at each threshold", threshold_rows, takes=_affinity),
    "single": TableKind("tasks learned alone", single_rows, task_lines, _single),
    "routes": TableKind("where each task went, and why", lambda _: [], route_lines, takes=is_routed, notes=(ROUTED,)),
    "aux": TableKind("every run by itself", auxiliary_rows, alone=True, notes=(METHOD, NUMBERED)),
}


def default_kind(suite: str) -> str:
    """The table of a suite if none is chosen: that of success where other publications have one."""
    return "success" if other_lines(suite) else "main"


def read_records(*roots: Path, suite: str | None = None, skip: Skip = refuse, stages: int | None = None) -> Records:
    """Reads the runs under these folders; `skip` is told of folders that are damaged or not runs.

    With `stages`, a run stands as it was after so many tasks.
    """
    return records_of(read_runs(*roots, suite=suite, skip=skip, stages=stages))


def compared(found: Records, other: Records) -> Records:
    """The runs of the first, each to be compared with those of the second, which must be of one setting."""
    groups = group_runs(other.results)
    if len(groups) > 1:
        raise Mistake(
            f"--against needs runs that differ in their seed alone, got {' and '.join(one.label for one in groups)}"
        )
    if not groups[0].matrices or other.suite != found.suite:
        raise Mistake(f"--against needs complete runs of {found.suite}")
    return replace(found, against=groups[0])


def records_of(results: Sequence[RunResult]) -> Records:
    """These runs of one suite, and what the expert beside them, or one folder above, earned."""
    folders = {parent for result in results for parent in result.folder.absolute().parents[:2]}
    paths = sorted(folder / EXPERT for folder in folders)
    experts = [read_expert(path) for path in paths if path.exists()]
    if any(expert != experts[0] for expert in experts):
        raise Mistake(f"these runs stand beside different {EXPERT}: give runs that share one")
    found = Records(results[0].plan["suite"], results, None)
    known = [expert for expert in experts if expert.knows(found.tasks)]
    return replace(found, expert=known[0] if known else None)


def make_table(kind: str | None, found: Records, paper: bool = False, ours: bool = False) -> ResultTable:
    """A table of these runs; with `paper`, only the publication's rows, and with `ours`, none that are published."""
    kind = kind or default_kind(found.suite)
    if paper and not KINDS[kind].rows(found.suite):
        raise Mistake(f"nothing is published about {found.suite} as a table {kind}: leave --paper out")
    if found.against and KINDS[kind].lines not in (run_lines, success_lines):
        raise Mistake(f"the table {kind} has no column for --against: use --table main or --table success")
    entries = _entries(KINDS[kind], found, paper, ours)
    if not entries:
        raise Mistake(f"none of these runs is one for the table {kind} ({KINDS[kind].about})")
    lines = [line for entry in entries for line in KINDS[kind].lines(entry)]
    others = other_lines(found.suite) if KINDS[kind].others and not ours else []
    references = KINDS[kind].references(found)
    if ours:
        references = [replace(line, published={}) for line in references]
    lines = [*references, *lines, *others]
    used = {column for line in lines for column in [*line.values, *line.published]}
    columns = [SEEDS, *DETAILS, *found.tasks, *SUMMARY]
    title = f"{found.suite}: {KINDS[kind].about}{found.cut}"
    notes = (*KINDS[kind].notes, *_instead(found, {run for line in lines for run in line.runs}))
    if MINUTES in used:
        notes = (*notes, TIMED)
    if found.against and DIFFERENCE in used:
        notes = (*notes, COMPARED.format(found.against.label))
    if others:
        notes = (*notes, DIRECTION.format(sources(found.suite)), *_other_tasks(found))
    if SUCCESS in used:
        notes = (*notes, SUCCEEDED)
    if any(entry.summary and entry.summary.scores for entry in entries):
        notes = (*notes, OFFLINE)
    if any(entry.sweep for entry in entries) and SWEEP in used:
        notes = (*notes, BEST)
    return ResultTable(title, ("learner", *(name for name in columns if name in used)), tuple(lines), notes)


def _other_tasks(found: Records) -> list[str]:
    """A note if these runs did not learn all tasks of the suite, which other publications did."""
    order = suite_spec(found.suite).order if found.suite in SUITES else found.tasks
    if found.tasks == list(order):
        return []
    return [f"Rows of other publications are of all {len(order)} tasks, ours of {', '.join(found.tasks)}."]


def _instead(found: Records, shown: Container[str]) -> list[str]:
    """Notes about runs that replace older copies of themselves."""
    newer = [result for result in found.results if result.instead and result.name in shown]
    return [f"{result.name} is taken, not {' or '.join(result.instead)}: {OLDER}." for result in newer]


def _entries(kind: TableKind, found: Records, paper: bool, ours: bool) -> list[TableEntry]:
    """Groups of runs with their published rows, and published rows without runs."""
    seeds = sorted({result.plan["seed"] for result in found.results})
    groups = [one for one in group_runs(found.results) if kind.takes(one)]
    if kind.alone:
        groups, seeds = [replace(one, results=(run,)) for one in groups for run in one.results], []
    rows = [] if ours else kind.rows(found.suite)
    beside = rows if paper or ours or kind.alone else [*rows, *all_rows(found.suite)]
    rivals = [(one, _row_for(one, beside)) for one in groups]
    entries = [
        TableEntry(
            one,
            row if one is _nearest(row, rivals) else None,
            seeds,
            found.expert,
            sweep=best_sweep(one, groups),
            singles=_singles(one, found.results),
            against=found.against.matrices if found.against else (),
        )
        for one, row in rivals
    ]
    shown = [entry for entry in entries if entry.row is not None or not paper]
    missing = [row for row in rows if row not in [entry.row for entry in shown]]
    missed = [TableEntry(None, row, [row["run"]] if kind.alone else []) for row in missing]
    return sorted([*shown, *missed], key=lambda entry: (rank(entry.label), entry.first))


def _singles(found: Group, results: Sequence[RunResult]) -> list[Matrix]:
    """The runs of the learner `single` that have all settings in common with a group."""
    alike = [one for one in group_runs(results) if _single(one) and _agree(one.settings, found.settings)]
    return alike[0].matrices if alike else []


def _agree(one: Settings, other: Settings) -> bool:
    return all(other[name] == value for name, value in one.items() if name in other)


def _row_for(found: Group, rows: Sequence[PublishedRow]) -> PublishedRow | None:
    """The published row for a group; if rows are single runs, the one numbered like its seed."""
    own = [row for row in rows if row.get("run") in (None, found.results[0].plan["seed"])]
    return matching_row(own, found.learner, found.routing)


def _nearest(row: PublishedRow | None, rivals: Sequence[tuple[Group, PublishedRow | None]]) -> Group:
    """Of the groups that match a published row, the one with the fewest differences, then with the most runs."""
    return min((one for one, other in rivals if other == row), key=_distance)


def _distance(found: Group) -> tuple[bool, int, int]:
    return not found.matrices, len(differing(found)), -len(found.matrices)
