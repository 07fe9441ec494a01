"""A suite: tasks in the order they are learned, made from a description of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import gettempdir
from typing import Annotated, Any

from holdfast.data.episodes import Dataset
from holdfast.data.locks import locked
from holdfast.data.validation import Range, shown, validate, validated
from holdfast.errors import MissingData, Mistake
from holdfast.registry import SUITES
from holdfast.tasks.data_reports import DataCheck, Local, Report, silent
from holdfast.tasks.environments import Protocol
from holdfast.tasks.interface import Interface
from holdfast.tasks.task import NAME, Task
from holdfast.tasks.view import View

Transitions = Annotated[int | None, Range(least=1, most=10**9)]  # None: the suite's usual amount
Settings = Mapping[str, Any]  # dotted name of a setting -> its value, see runs/configure.py
Say = Callable[[object], object]  # prints a line


@dataclass(frozen=True)
class RecordedData:
    """How the data of a suite's tasks is recorded, and how it is compared with the simulator."""

    build: Callable[[Suite, Report, bool], list[str]]
    """Makes the data that is missing, or with True all of it, and returns the names of the datasets."""
    check: Callable[[Suite, int], list[DataCheck]]
    """Compares the data with the simulator, replaying so many episodes of each task."""
    local: Callable[[], list[Local]]
    """Lists the datasets on this machine."""

    def __post_init__(self) -> None:
        validate(self, "recorded.")


@dataclass(frozen=True)
class Experts:
    """The experts that `holdfast expert FOLDER/NAME` trains or tunes."""

    folder: str
    names: tuple[str, ...]
    """What the help text lists."""
    make: Callable[[str, Sequence[str], Say], None]
    """Makes the expert of this name as the words of the command line say."""

    def __post_init__(self) -> None:
        validate(self, "experts.")

    @property
    def tasks(self) -> list[str]:
        """What the help text lists, with the folder."""
        return [f"{self.folder}/{name}" for name in self.names]


@dataclass(frozen=True)
class SuiteSpec:
    """What is said of a suite before its tasks are made."""

    name: str
    about: str
    """One line for `holdfast suites`."""
    order: tuple[str, ...]
    """Names of the tasks, in the order they are learned."""
    tasks: Callable[[int | None, str | None], Sequence[Task]] = field(repr=False)
    """Makes the tasks, in that order, with this amount and this kind of data."""
    presets: Mapping[str, Settings] = field(default_factory=dict, repr=False)
    """For each preset, the settings of the method in which this suite differs from the defaults."""
    budgets: Mapping[str, Settings] = field(default_factory=dict, repr=False)
    """For each budget, how long this suite is trained and evaluated."""
    protocols: Mapping[str, Settings] = field(default_factory=dict, repr=False)
    """For each protocol by name, how it is evaluated; empty if any name will do."""
    former_budgets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """For each budget that version 0.1 had and this one has not, the words that give the same run."""
    transitions: Transitions = None
    """The usual amount of data per task, for a suite that makes its own data."""
    data: tuple[str, ...] = ()
    """Names of the kinds of data, the usual one first; empty if there is only one."""
    recorded: RecordedData | None = field(default=None, repr=False)
    """How data is recorded, for a suite whose data is kept on this machine."""
    experts: Experts | None = field(default=None, repr=False)
    """The experts that can be trained or tuned."""
    view: Callable[[Task, Protocol], View] | None = field(default=None, repr=False)
    """Opens a task's simulator for a video; without it, the report page has no videos of the suite."""
    random_returns: Mapping[str, float] = field(default_factory=dict, repr=False)
    """Mean return of random actions by task name: the return that counts as 0 % in normalised scores (default 0)."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):  # it becomes part of file names
            raise Mistake(f"a suite's name must be letters, digits, '.', '_' and '-', got {shown(self.name)}")
        validate(self, f"{self.name}: ")
        for part in ("presets", "budgets", "protocols"):
            for name, settings in getattr(self, part).items():
                validated(f"{self.name}: {part}[{name!r}]", settings, Settings)

    def suite(
        self,
        order: Sequence[str] = (),
        transitions: int | None = None,
        data: str | None = None,
        report: Report | None = silent,
    ) -> Suite:
        """The suite, in its own order or another, with its usual data or another amount or kind.

        Recorded data that is missing is made when it is first used, and `report` is told of it; with None it is not
        made, and loading it raises `MissingData`.
        """
        request = Request(validated("transitions", transitions, Transitions), self._known_data(data), report)
        size, kind = request.transitions or self.transitions, request.data or next(iter(self.data), None)
        made = Suite(self.name, self._made(size, kind), self, size, kind)
        if self.recorded and report:
            tasks = tuple(replace(task, load=partial(_load, made, task, report)) for task in made.tasks)
            made = replace(made, tasks=tasks)
        made = made.asked(request)
        return made.ordered(order) if order else made

    def _known_data(self, data: str | None) -> str | None:
        if data is not None and not self.data:
            raise Mistake(f"the suite {self.name} has one kind of data: leave out --data {data}")
        if data is not None and data not in self.data:
            raise Mistake(f"the suite {self.name} has no data {data!r}; there are {', '.join(self.data)}")
        return data

    def _made(self, transitions: int | None, data: str | None) -> tuple[Task, ...]:
        tasks = self.tasks(transitions, data)
        names = tuple(task.name for task in check_tasks(self.name, tasks))
        if names != self.order:
            said, found = ", ".join(self.order), ", ".join(names)
            raise Mistake(f"the suite {self.name} says that its tasks are {said}, but makes {found}")
        return tuple(tasks)

    def recorded_data(self) -> RecordedData:
        """How data is recorded; raises if it is not."""
        if self.recorded is None:
            raise Mistake(f"the data of {self.name} is made when it is used: there is nothing to build or check")
        return self.recorded


@dataclass(frozen=True)
class Request:
    """What a suite was asked for; where that is None, a budget decides."""

    transitions: int | None
    data: str | None
    report: Report | None
    made: dict[tuple[Any, ...], Suite] = field(default_factory=dict)  # with the data of a budget, by order and data


@dataclass(frozen=True)
class Suite:
    """Tasks that one network fits, in the order they are learned; all have the longest horizon."""

    name: str
    tasks: tuple[Task, ...]
    spec: SuiteSpec = field(default=None, repr=False, compare=False)  # type: ignore[assignment]
    """What is said of it; by default nothing but its name and its tasks."""
    transitions: int | None = None
    """How much data each task has, where the suite makes its own."""
    data: str | None = None
    """Which data the tasks have, where the suite has several."""
    request: Request | None = field(default=None, init=False, repr=False, compare=False)
    """What it was asked for. `replace(suite, tasks=...)` has none: a user's own tasks are not made again."""

    def __post_init__(self) -> None:
        tasks = check_tasks(self.name, self.tasks)
        longest = max(task.interface.horizon for task in tasks)
        object.__setattr__(self, "tasks", tuple(_with_horizon(task, longest) for task in tasks))
        if self.spec is None:
            object.__setattr__(self, "spec", SuiteSpec(self.name, "", tuple(self.names), lambda *_: self.tasks))

    @property
    def names(self) -> list[str]:
        """The tasks' names, in order."""
        return [task.name for task in self.tasks]

    @property
    def interface(self) -> Interface:
        """What one network for all tasks must fit: the shared shapes and the longest horizon."""
        return self.tasks[0].interface

    @property
    def fixed(self) -> dict[str, Any]:
        """The settings of its data that no budget changes: those that were asked for, or all if the tasks are own."""
        own = {"transitions": self.transitions, "data": self.data}
        if self.request is None:
            return own
        return {name: value for name, value in own.items() if getattr(self.request, name) is not None}

    def check(self, protocol: Protocol) -> None:
        """Raises, before anything is learned, unless the tasks can be evaluated so."""
        if self.spec.protocols and protocol.name not in self.spec.protocols:
            known = ", ".join(self.spec.protocols)
            raise Mistake(f"the suite {self.name} has no protocol {protocol.name!r}; it has {known}")

    def task(self, name: str) -> Task:
        """The task of this name."""
        for task in self.tasks:
            if task.name == name:
                return task
        raise Mistake(f"the suite {self.name} has no task {name!r}; it has {', '.join(self.names)}")

    def asked(self, request: Request | None) -> Suite:
        """The same suite, made on this request."""
        same = replace(self)
        object.__setattr__(same, "request", request)
        return same

    def with_data(self, transitions: int | None, data: str | None) -> Suite:
        """The same tasks with this amount and this kind of data, made at most once."""
        wanted = {"transitions": transitions, "data": data}
        for name, own in self.fixed.items():
            if wanted[name] != own:
                raise Mistake(
                    f"the suite {self.name} was made with {name} = {own}, not {wanted[name]}: make it with the other"
                )
        if self.request is None or (transitions, data) == (self.transitions, self.data):
            return self
        key = (*self.names, transitions, data)
        if key not in self.request.made:
            self.request.made[key] = self.spec.suite(self.names, transitions, data, self.request.report)
        return self.request.made[key]

    def load(self) -> None:
        """Loads the data of all tasks, so that bad data is found before anything is learned."""
        for task in self.tasks:
            task.dataset  # noqa: B018  kept by the task

    def ordered(self, names: Sequence[str]) -> Suite:
        """The same suite with these of its tasks, in this order."""
        if isinstance(names, str):
            raise Mistake(f"the order must be a list of tasks, got {names!r}: write [{names!r}]")
        return replace(self, tasks=tuple(self.task(name) for name in names)).asked(self.request)


def suite(
    name: str,
    order: Sequence[str] = (),
    transitions: int | None = None,
    data: str | None = None,
    report: Report | None = silent,
) -> Suite:
    """The suite of this name, in its own order or another, with its usual data or another amount or kind."""
    return suite_spec(name).suite(order, transitions, data, report)


def suite_spec(name: str) -> SuiteSpec:
    """What is said of the suite of this name."""
    spec = SUITES[name]
    if not isinstance(spec, SuiteSpec):
        raise Mistake(f"the suite {name} must be a holdfast.SuiteSpec, got {shown(spec)}")
    if spec.name != name:
        raise Mistake(f"the suite {spec.name} is registered as {name}: give it one name")
    return spec


def check_suite(suite: Any) -> None:
    """Raises unless this is a suite."""
    if not isinstance(suite, Suite):
        hint = f": holdfast.suite({suite!r}) makes the suite of this name" if isinstance(suite, str) else ""
        raise Mistake(f"a holdfast.Suite is needed, got {shown(suite)}{hint}")


def check_tasks(suite: str, tasks: Any) -> Sequence[Task]:
    """These tasks; raises unless they are tasks that one network fits."""
    if not isinstance(tasks, list | tuple) or not all(isinstance(task, Task) for task in tasks):
        raise Mistake(f"the tasks of the suite {suite} must be a list of holdfast.Task, got {shown(tasks)}")
    if not tasks:
        raise Mistake(f"the suite {suite} has no tasks")
    names = [task.name for task in tasks]
    if len(set(names)) != len(names):
        raise Mistake(f"the tasks of {suite} must have different names, got {', '.join(names)}")
    first = tasks[0]
    for task in tasks:
        if not first.interface.compatible(task.interface):
            raise Mistake(f"{task.name} and {first.name} differ in observation shape or actions: no network fits")
    return tasks


def _with_horizon(task: Task, horizon: int) -> Task:
    if task.interface.horizon == horizon:
        return task
    return replace(task, interface=replace(task.interface, horizon=horizon))


def _load(suite: Suite, task: Task, report: Report) -> Dataset:
    """A task's recorded data, made first if it is not on this machine."""
    try:
        return task.load()
    except MissingData:
        with locked(Path(gettempdir()) / f"holdfast-{os.getuid()}-{suite.name}-{task.name}.lock"):
            suite.spec.recorded_data().build(suite.ordered([task.name]), report, False)  # unless another process has
            return task.load()
