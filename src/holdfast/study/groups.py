"""Reads the runs under folders, and groups those that differ only in the seed."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from holdfast.agent.plan import completed
from holdfast.agent.session import ALL_TASKS
from holdfast.agent.settings import flattened
from holdfast.errors import Mistake
from holdfast.evaluation.matrix import Matrix
from holdfast.registry import SUITES
from holdfast.runs.folder import RunFolder
from holdfast.study.expert_record import EXPERT
from holdfast.study.group_labels import label, rank
from holdfast.study.provenance import Provenance
from holdfast.tasks.suite import suite_spec

ASIDE = ("suite", "learner", "seed", "threads", "protocol.lanes")  # do not tell two groups of a learner apart
OLDER = "the same run, made with older versions, or earlier on another device"

Skip = Callable[[str], None]  # is told why a folder is left out


@dataclass(frozen=True)
class RunResult:
    """Everything known about a run except its weights."""

    name: str  # of its folder
    plan: Mapping[str, Any]
    data_returns: Mapping[str, float]
    matrix: Matrix | None  # none unless every stage is evaluated
    folder: Path = Path()
    datasets: Mapping[str, str] = field(default_factory=dict)  # fingerprints, by task
    made: Provenance = field(default_factory=Provenance)
    instead: tuple[str, ...] = ()  # older ones of the same run, with other versions or on another device
    seconds: float | None = None  # that training took, if it is known of every task
    longer: str = ""  # the suite of the run, if this is only what it was after its first tasks

    @property
    def has_weights(self) -> bool:
        """Whether the folder has weights, so that its policies can act."""
        return (self.folder / "weights" / "index.json").exists()

    @property
    def settings(self) -> dict[str, Any]:
        """The plan, flat, which data it was, and the tasks that were not played."""
        plan = flattened(completed(self.plan))
        flat = {name.removeprefix("config."): value for name, value in plan if name not in ASIDE}
        offline = self.matrix.offline if self.matrix else []
        return flat | ({"datasets": self.data} if self.data else {}) | ({"offline": offline} if offline else {})

    @property
    def data(self) -> str:
        """A short hash of the data of all tasks; empty if the run did not get that far."""
        return letters(self.datasets) if self.matrix and self.datasets else ""


def letters(datasets: Mapping[str, str]) -> str:
    """A short hash of these datasets."""
    return hashlib.sha256(json.dumps(datasets, sort_keys=True).encode()).hexdigest()[:8]


@dataclass(frozen=True)
class Group:
    """A learner with one setting, and its runs."""

    learner: str
    label: str  # the learner, and what tells this group from the others
    settings: Mapping[str, Any]
    results: tuple[RunResult, ...]  # in the order of their seeds

    @property
    def routing(self) -> dict[str, Any]:
        """The settings of its routing."""
        routing = (name for name in self.settings if name.startswith("routing."))
        return {name.removeprefix("routing."): self.settings[name] for name in routing}

    @property
    def matrices(self) -> list[Matrix]:
        """The matrices of the complete runs."""
        return [result.matrix for result in self.results if result.matrix]


def refuse(problem: str) -> None:
    """Raises instead of leaving a folder out."""
    raise Mistake(problem)


def read_runs(
    *roots: Path,
    suite: str | None = None,
    several: str = "choose one with --suite",
    skip: Skip = refuse,
    stages: int | None = None,
) -> list[RunResult]:
    """Every run of a suite in these folders and under them, each once, whatever the order of the folders.

    `several` is what to do where there are runs of several suites, and none is chosen. `skip` is told of every folder
    that is not a run of ours, or damaged. `stages` is the number of tasks after which results are wanted: a run that
    learned more is cut, and if its first tasks are those of another suite, it is a run of that suite.
    """
    runs = sorted(
        (run for root in roots for run in runs_under(root, skip)), key=lambda run: (-len(run[1]), run[1], str(run[0]))
    )
    paths = {path.resolve(): (path, name) for path, name in runs}  # of several names the shortest
    names = [name for _, name in paths.values()]
    found = []
    for path, name in paths.values():
        try:
            found.append(_result(path, name if names.count(name) == 1 else str(path), stages))
        except Mistake as mistake:
            skip(str(mistake))
    where = " and ".join(str(root) for root in roots)
    if not found:
        raise Mistake(f"{where} holds no runs" + (" that can be read" if paths else ""))
    suites = sorted({result.plan["suite"] for result in found})
    if suite is None and len(suites) > 1:
        raise Mistake(f"{where} holds runs of {' and '.join(suites)}: {several}")
    own = [result for result in found if result.plan["suite"] == (suite or suites[0])]
    if not own:
        raise Mistake(f"{where} holds no run of {suite}, only of {' and '.join(suites)}")
    fullest = sorted(own, key=lambda result: (not result.has_weights, result.name))  # of copies the first is kept
    return sorted(_once(fullest), key=lambda result: result.name)


def runs_under(root: Path, skip: Skip = refuse) -> list[tuple[Path, str]]:
    """The runs in a folder with their names: the folder's own name, or the path relative to it."""
    if root.name == EXPERT:  # it stands among the runs, and so among runs/*
        return []
    if not root.is_dir():
        raise Mistake(f"there is no folder {root}")
    runs = []
    for path in _folders(root, skip):
        if (path / "config.json").is_file():
            runs.append((path, path.resolve().name if path == root else str(path.relative_to(root))))
        elif (path / "matrix.json").is_file():
            skip(f"{path} is half a run folder: it has a matrix.json and no config.json")
    return runs


def _folders(root: Path, skip: Skip) -> Iterator[Path]:
    """A folder and all folders under it, each once; links are followed."""
    seen, ahead = set(), [root]
    while ahead:
        path = ahead.pop(0)
        if path.resolve() not in seen:
            seen.add(path.resolve())
            yield path
            try:
                ahead += sorted(inner for inner in path.iterdir() if inner.is_dir())
            except OSError as problem:
                skip(f"{path} cannot be read ({problem.strerror})")


def _result(path: Path, name: str, stages: int | None) -> RunResult:
    folder = RunFolder(path)
    matrix, plan, datasets = folder.read_matrix(), folder.record["config"], folder.record["datasets"]
    longer = plan["suite"] if stages and stages < len(folder.order) else ""
    if stages and longer:
        if matrix and matrix.joint:
            raise Mistake(f"{path} learned all tasks at once: it has no results after {stages} tasks")
        order = folder.order[:stages]
        plan = {**plan, "order": order, "suite": _suite_of(order, longer)}
        datasets = {task: datasets[task] for task in order if task in datasets}
        matrix = matrix and matrix.first(stages)
    return RunResult(
        name=name,
        plan=plan,
        data_returns=folder.record["data_returns"],
        matrix=matrix if matrix and matrix.stages == len(matrix.tasks) else None,
        folder=path,
        datasets=datasets,
        made=Provenance.of(folder),
        seconds=_training_time(folder, plan["order"], matrix),
        longer=longer,
    )


def _training_time(folder: RunFolder, order: Sequence[str], matrix: Matrix | None) -> float | None:
    seconds = folder.read_seconds()
    tasks = [ALL_TASKS] if matrix and matrix.joint else order
    return sum(seconds[task] for task in tasks) if set(tasks) <= set(seconds) else None


def _suite_of(order: Sequence[str], usual: str) -> str:
    """The registered suite with these tasks in this order, if there is one."""
    return next((name for name in SUITES if list(suite_spec(name).order) == list(order)), usual)


def _once(results: Sequence[RunResult]) -> list[RunResult]:
    """The results without copies of a run, such as an export; a seed that was run twice must not count twice."""
    kept: list[RunResult] = []
    for result in results:
        twin = next((other for other in kept if _is_twin(other, result)), None)
        if twin is None:
            kept.append(result)
        else:
            kept[kept.index(twin)] = _one_of(twin, result)
    return kept


def _one_of(one: RunResult, other: RunResult) -> RunResult:
    """Which of two copies to keep: the one with results, or else the newer one, which then names the older."""
    if one.matrix is None or other.matrix is None:
        return other if one.matrix is None else one
    if one.made == other.made:
        if _earned(one.matrix) != _earned(other.matrix):
            raise Mistake(f"{one.name} and {other.name} are one run with two results: leave one of them out")
        return one
    older, newer = sorted((one, other), key=lambda result: (result.made.age, result.name))
    if older.made.age == newer.made.age:
        raise Mistake(
            f"{one.name} and {other.name} are one run made twice, and which is newer is not recorded: "
            "leave one of them out"
        )
    return replace(newer, instead=(*newer.instead, *older.instead, older.name))


def _earned(matrix: Matrix) -> list[Any]:
    """What tables show of a matrix: no marks of carried results, and no results of tasks before they were learned."""
    cells = (matrix.returns, matrix.successes, matrix.distinct_episodes)
    learned = [[row[: stage + 1] for stage, row in enumerate(rows)] for rows in cells]
    return [learned, matrix.targets, matrix.copies, matrix.bytes]


def _is_twin(one: RunResult, other: RunResult) -> bool:
    names = ("learner", "seed")
    return [one.plan[name] for name in names] == [other.plan[name] for name in names] and _alike(one, other)


def _alike(one: RunResult, other: RunResult) -> bool:
    """Whether the settings are equal, and the data of the tasks that both have begun."""
    both = set(one.datasets) & set(other.datasets)
    known = [{**result.settings, "datasets": None} for result in (one, other)]
    return known[0] == known[1] and all(one.datasets[task] == other.datasets[task] for task in both)


def group_runs(results: Sequence[RunResult]) -> list[Group]:
    """Groups of runs with equal settings, in the order of `holdfast learners`."""
    sets: list[list[RunResult]] = []
    # Complete runs first: they know all their data, so those that are not find the set they belong to.
    for result in sorted(results, key=lambda one: (one.matrix is None, one.plan["seed"], one.name)):
        home = next((own for own in sets if _same_learner(own[0], result) and _alike(own[0], result)), None)
        sets.append([result]) if home is None else home.append(result)
    named = [(own[0].plan["learner"], own[0].settings) for own in sets]
    finished = [name for name, own in zip(named, sets, strict=True) if own[0].matrix]
    groups: dict[str, Group] = {}
    for (learner, settings), own in zip(named, sets, strict=True):
        # Runs without results must not change what the others are called.
        said = label(learner, settings, finished if own[0].matrix else named)
        if said in groups:  # it began with other data
            said = f"{said} datasets={letters(own[0].datasets)}"
        groups[said] = Group(learner, said, settings, tuple(sorted(own, key=_seed)))
    return sorted(groups.values(), key=lambda found: rank(found.label))


def _same_learner(one: RunResult, other: RunResult) -> bool:
    return one.plan["learner"] == other.plan["learner"]


def _seed(result: RunResult) -> tuple[int, str]:
    return result.plan["seed"], result.name
