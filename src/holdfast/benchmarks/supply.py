"""Suites with their data: what is not on this machine yet is made when it is first used."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import gettempdir

from holdfast.benchmarks.atari.cache import local_replays
from holdfast.benchmarks.atari.dataset import build_replays, check_replays
from holdfast.benchmarks.panda.check import Check, check_all
from holdfast.benchmarks.panda.demonstrations import Report, build
from holdfast.benchmarks.panda.suite import ARMS, DEFAULT_SIZE
from holdfast.benchmarks.suites import suite as bare_suite
from holdfast.data.episodes import Dataset
from holdfast.data.locks import locked
from holdfast.data.minari import local_datasets
from holdfast.errors import MissingData, Mistake
from holdfast.tasks.task import Made, Suite, Task

Local = tuple[str, int, int]  # a name, and its episodes and transitions


@dataclass(frozen=True)
class Supply:
    """How the data of a suite's tasks is made, and how it is compared with the simulator."""

    build: Callable[[Suite, Report, bool], list[str]]  # what is there is made again only if asked for; its names
    check: Callable[[Suite, int], list[Check]]  # with so many episodes replayed
    local: Callable[[], list[Local]]  # what is on this machine


def build_panda(suite: Suite, report: Report, again: bool) -> list[str]:
    """Lets the scripted experts play."""
    return build([ARMS[name] for name in suite.names], suite.transitions or DEFAULT_SIZE, report, again)


def check_panda(suite: Suite, replays: int) -> list[Check]:
    """Replays Minari datasets."""
    return check_all([ARMS[name] for name in suite.names], suite.transitions or DEFAULT_SIZE, replays)


def local_panda() -> list[Local]:
    """Minari datasets of the arm."""
    return [found for found in local_datasets() if found[0].startswith("panda/")]


SUPPLIES = {
    "panda3": Supply(build_panda, check_panda, local_panda),
    "atari5": Supply(build_replays, check_replays, local_replays),
}


def supply_of(suite: Suite) -> Supply:
    """Where the data of this suite comes from."""
    if suite.name not in SUPPLIES:
        raise Mistake(f"the data of {suite.name} is made when it is used: there is nothing to build or check")
    return SUPPLIES[suite.name]


def silent(task: str, done: int, wanted: int) -> None:
    """Reports nothing."""


def suite(
    name: str,
    order: Sequence[str] = (),
    transitions: int | None = None,
    data: str | None = None,
    report: Report = silent,
) -> Suite:
    """The suite of this name, in its own order or another, with its default data or another amount or kind."""
    found = bare_suite(name, order, transitions, data)
    tasks = tuple(_supplied(found, task, report) for task in found.tasks)
    said = {"transitions": transitions, "data": data}
    chosen = {setting: value for setting, value in said.items() if value is not None}

    def again(transitions: int | None, data: str | None) -> Suite:
        return suite(name, order, transitions, data, report)

    return replace(found, tasks=tasks, chosen=chosen, made=Made(tasks, again))


def _supplied(suite: Suite, task: Task, report: Report) -> Task:
    return replace(task, load=partial(_load, suite, task, report)) if suite.name in SUPPLIES else task


def _load(suite: Suite, task: Task, report: Report) -> Dataset:
    try:
        return task.load()
    except MissingData:
        with locked(Path(gettempdir()) / f"holdfast-{os.getuid()}-{suite.name}-{task.name}.lock"):
            SUPPLIES[suite.name].build(suite.ordered([task.name]), report, False)  # unless another process just has
            return task.load()
