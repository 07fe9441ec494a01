"""The runs under a folder, those together that differ in nothing but the seed."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.errors import Mistake
from holdfast.evaluation.matrix import Matrix
from holdfast.learners import LEARNERS
from holdfast.runs.folder import RunFolder

ASIDE = ("suite", "learner", "seed", "threads")  # settings that do not tell two groups of a learner apart
PUBLISHED = {"routing.threshold": "tau", "routing.alpha": "alpha"}  # always said, in the publication's words


@dataclass(frozen=True)
class Result:
    """What is known of a run without its weights."""

    name: str  # of its folder
    plan: Mapping[str, Any]
    data_returns: Mapping[str, float]
    matrix: Matrix | None  # none unless every stage is evaluated

    @property
    def settings(self) -> dict[str, Any]:
        """The plan, flat."""
        return {name.removeprefix("config."): value for name, value in _flat(self.plan) if name not in ASIDE}


@dataclass(frozen=True)
class Group:
    """A learner with one setting, and its runs."""

    learner: str
    label: str  # the learner, and what tells this group from its others
    routing: Mapping[str, Any]
    results: tuple[Result, ...]  # in the order of their seeds

    @property
    def matrices(self) -> list[Matrix]:
        """Of the runs that are complete."""
        return [result.matrix for result in self.results if result.matrix]


def read(root: Path) -> list[Result]:
    """Every run under a folder, the folder itself included."""
    found = [_result(path.parent, root) for path in sorted(root.rglob("config.json"))]
    if not found:
        raise Mistake(f"{root} holds no runs")
    suites = sorted({result.plan["suite"] for result in found})
    if len(suites) > 1:
        raise Mistake(f"{root} holds runs of {' and '.join(suites)}: give the folder of one suite")
    return found


def _result(path: Path, root: Path) -> Result:
    folder = RunFolder(path)
    matrix = folder.read_matrix()
    complete = matrix if matrix and matrix.stages == len(matrix.tasks) else None
    name = path.name if path == root else str(path.relative_to(root))
    return Result(name, folder.record["config"], folder.record["data_returns"], complete)


def group(results: Sequence[Result]) -> list[Group]:
    """By learner, in the order that `holdfast learners` has, and by setting."""
    used = {result.plan["learner"] for result in results}
    names = [*(name for name in LEARNERS if name in used), *sorted(used - set(LEARNERS))]
    return [found for name in names for found in _groups(name, results)]


def _groups(learner: str, results: Sequence[Result]) -> list[Group]:
    own = sorted((one for one in results if one.plan["learner"] == learner), key=lambda one: one.plan["seed"])
    sets: list[tuple[dict[str, Any], list[Result]]] = []
    for result in own:
        if all(settings != result.settings for settings, _ in sets):
            sets.append((result.settings, [other for other in own if other.settings == result.settings]))
    groups = [
        Group(learner, _label(learner, settings, [other for other, _ in sets]), _routing(settings), tuple(members))
        for settings, members in sets
    ]
    return sorted(groups, key=lambda found: [_sortable(part) for part in re.split("[ =]", found.label)])


def _sortable(part: str) -> tuple[float, str]:
    """Numbers by their size, before words."""
    try:
        return float(part), ""
    except ValueError:
        return float("inf"), part


def _label(learner: str, settings: Mapping[str, Any], all_settings: Sequence[Mapping[str, Any]]) -> str:
    differing = [name for name in settings if any(other.get(name) != settings[name] for other in all_settings)]
    said = [name for name in PUBLISHED if settings.get(name) is not None]
    said += [name for name in differing if name not in said]
    return " ".join([learner, *(f"{PUBLISHED.get(name, name)}={_text(settings[name])}" for name in said)])


def _routing(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name.removeprefix("routing."): value for name, value in settings.items() if name.startswith("routing.")}


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _flat(record: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
