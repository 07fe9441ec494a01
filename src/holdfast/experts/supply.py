"""Suites with their data: what is not on this machine yet is made when it is first used."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from holdfast.data.episodes import Dataset
from holdfast.errors import MissingData
from holdfast.experts.demonstrate import Report, build
from holdfast.suites import Suite, Task
from holdfast.suites import suite as bare_suite
from holdfast.suites.panda import ARMS, DEFAULT_SIZE


def silent(task: str, done: int, wanted: int) -> None:
    """Reports nothing."""


def suite(name: str, order: Sequence[str] = (), transitions: int | None = None, report: Report = silent) -> Suite:
    """The suite of this name, in its own order or another, with as much data as it has by default or another amount."""
    found = bare_suite(name, order, transitions)
    return replace(
        found, tasks=tuple(_supplied(task, found.transitions or DEFAULT_SIZE, report) for task in found.tasks)
    )


def _supplied(task: Task, transitions: int, report: Report) -> Task:
    return replace(task, load=partial(_load, task, transitions, report)) if task.name in ARMS else task


def _load(task: Task, transitions: int, report: Report) -> Dataset:
    arm = ARMS[task.name]
    try:
        return task.load()
    except MissingData:
        build(arm, transitions, report)
        return task.load()
