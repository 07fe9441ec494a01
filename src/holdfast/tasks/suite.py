"""A suite: the tasks of a benchmark in the order they are learned, built from its spec."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from holdfast.data.episodes import Dataset
from holdfast.data.locks import locked
from holdfast.data.validation import shown, validate, validated
from holdfast.errors import MissingData, Mistake
from holdfast.registry import SUITES
from holdfast.tasks.data_choice import DEFAULT_DATA, DataChoice, DemonstrationCount, Transitions
from holdfast.tasks.data_reports import DataCheck, Local, Report, silent
from holdfast.tasks.environments import Protocol
from holdfast.tasks.experts import Experts
from holdfast.tasks.interface import Interface
from holdfast.tasks.task import NAME, Task
from holdfast.tasks.view import View

Settings = Mapping[str, Any]  # dotted name of a setting -> its value, see runs/configure.py


@dataclass(frozen=True)
class RecordedData:
    """How a suite records its data and compares it with the simulator."""

    build: Callable[[Suite, Report, bool], list[str]]
    """Builds missing datasets, or all of them if the last argument is True, and returns their names."""
    check: Callable[[Suite, int], list[DataCheck]]
    """Replays this many episodes of each task in the simulator and compares them with the data."""
    local: Callable[[], list[Local]]
    """Lists the datasets on this machine."""

    def __post_init__(self) -> None:
        validate(self, "recorded.")


@dataclass(frozen=True)
class SuiteSpec:
    """The static description of a suite, from which its tasks are built."""

    name: str
    about: str
    """One line for `holdfast suites`."""
    order: tuple[str, ...]
    """Names of the tasks, in the order they are learned."""
    tasks: Callable[[DataChoice], Sequence[Task]] = field(repr=False)
    """Builds the tasks in that order, with this data."""
    presets: Mapping[str, Settings] = field(default_factory=dict, repr=False)
    """For each preset, the settings that differ from the defaults."""
    budgets: Mapping[str, Settings] = field(default_factory=dict, repr=False)
    """For each budget, the settings of training and evaluation."""
    protocols: Mapping[str, Settings] = field(default_factory=dict, repr=False)
    """For each protocol name, its settings; empty if any name is allowed."""
    former_budgets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """For each budget of version 0.1 that no longer exists, the flags that give the same run."""
    transitions: Transitions = None
    """Default number of transitions per task, for a suite that generates its data."""
    demonstrations: DemonstrationCount = None
    """Default number of demonstrations per task, for a suite that counts its data in recorded episodes."""
    data: tuple[str, ...] = ()
    """Names of the kinds of data, the default first; empty if there is only one kind."""
    recorded: RecordedData | None = field(default=None, repr=False)
    """How data is recorded, for a suite that stores its data on this machine."""
    experts: Experts | None = field(default=None, repr=False)
    """The experts that can be trained or tuned."""
    view: Callable[[Task, Protocol], View] | None = field(default=None, repr=False)
    """Opens a task's simulator for a video; without it, the report page has no videos of the suite."""
    random_returns: Mapping[str, float] = field(default_factory=dict, repr=False)
    """Mean return of random actions by task name: the return that counts as 0 % in normalised scores (default 0)."""
    ends: tuple[int, ...] = ()
    """Numbers of learned tasks after which `--evaluate ends` evaluates all of them; after the last it always does."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):  # it becomes part of file names
            raise Mistake(f"a suite's name must consist of letters, digits, '.', '_' and '-', got {shown(self.name)}")
        validate(self, f"{self.name}: ")
        for part in ("presets", "budgets", "protocols"):
            for name, settings in getattr(self, part).items():
                validated(f"{self.name}: {part}[{name!r}]", settings, Settings)
        if not all(1 <= end <= len(self.order) for end in self.ends):
            raise Mistake(f"{self.name}: ends must be numbers of tasks from 1 to {len(self.order)}, got {self.ends}")

    @property
    def default_data(self) -> DataChoice:
        """The data that the tasks have if nothing else is requested."""
        kind = next(iter(self.data), None)
        return DataChoice(transitions=self.transitions, demonstrations=self.demonstrations, data=kind)

    def suite(
        self, order: Sequence[str] = (), choice: DataChoice = DEFAULT_DATA, report: Report | None = silent
    ) -> Suite:
        """Builds the suite; the default is its own order, amount and kind of data.

        Recorded data that is missing is built on first use, and `report` is called with the progress. If `report` is
        None, it is not built, and loading it raises `MissingData`.
        """
        self._check(choice)
        complete = choice.or_else(self.default_data)
        made = Suite(self.name, self._made(complete), self, complete)
        if self.recorded and report:
            tasks = tuple(replace(task, load=partial(_load, made, task, report)) for task in made.tasks)
            made = replace(made, tasks=tasks)
        made = made.asked(Request(choice, report))
        return made.ordered(order) if order else made

    def _check(self, choice: DataChoice) -> None:
        """Raises unless the suite has these choices."""
        if choice.data is not None and not self.data:
            raise Mistake(f"the suite {self.name} has only one kind of data: leave out --data {choice.data}")
        if choice.data is not None and choice.data not in self.data:
            raise Mistake(f"the suite {self.name} has no data {choice.data!r}; it has {', '.join(self.data)}")
        if choice.demonstrations is not None and self.demonstrations is None:
            raise Mistake(
                f"the suite {self.name} does not count its data in demonstrations: leave out --demonstrations"
            )
        if choice.transitions is not None and self.demonstrations is not None:
            raise Mistake(f"the suite {self.name} counts its data in demonstrations: use --demonstrations instead")

    def _made(self, choice: DataChoice) -> tuple[Task, ...]:
        tasks = self.tasks(choice)
        names = tuple(task.name for task in check_tasks(self.name, tasks))
        if names != self.order:
            declared, built = ", ".join(self.order), ", ".join(names)
            raise Mistake(f"the order of the suite {self.name} is {declared}, but its function builds {built}")
        return tuple(tasks)

    def recorded_data(self) -> RecordedData:
        """How data is recorded; raises if the suite does not record data."""
        if self.recorded is None:
            raise Mistake(f"{self.name} generates its data when it is used: there is nothing to build or check")
        return self.recorded


@dataclass(frozen=True)
class Request:
    """The data that a suite was requested with; what it leaves open is the budget's choice."""

    choice: DataChoice
    report: Report | None
    made: dict[tuple[Any, ...], Suite] = field(default_factory=dict)  # suites already built with the data of a budget


@dataclass(frozen=True)
class Suite:
    """Tasks with compatible interfaces, in the order they are learned; all get the longest horizon."""

    name: str
    tasks: tuple[Task, ...]
    spec: SuiteSpec = field(default=None, repr=False, compare=False)  # type: ignore[assignment]
    """The spec it was built from; by default one with only the name and the tasks."""
    choice: DataChoice = DEFAULT_DATA
    """The data of its tasks."""
    request: Request | None = field(default=None, init=False, repr=False, compare=False)
    """How it was requested. None after `replace(suite, tasks=...)`: a user's own tasks are not built again."""

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
        """The interface of a network for all tasks: the shared shapes and the longest horizon."""
        return self.tasks[0].interface

    @property
    def fixed(self) -> dict[str, Any]:
        """The data settings that no budget may change: the requested ones, or all if the tasks are the user's own."""
        return asdict(self.choice) if self.request is None else self.request.choice.given

    def check(self, protocol: Protocol) -> None:
        """Raises unless the suite has this protocol."""
        if self.spec.protocols and protocol.name not in self.spec.protocols:
            known = ", ".join(self.spec.protocols)
            raise Mistake(f"the suite {self.name} has no protocol {protocol.name!r}; it has {known}")

    def task(self, name: str) -> Task:
        """The task with this name."""
        for task in self.tasks:
            if task.name == name:
                return task
        raise Mistake(f"the suite {self.name} has no task {name!r}; it has {', '.join(self.names)}")

    def asked(self, request: Request | None) -> Suite:
        """The same suite with this request."""
        same = replace(self)
        object.__setattr__(same, "request", request)
        return same

    def with_data(self, choice: DataChoice) -> Suite:
        """The same tasks with this data; built at most once."""
        wanted = asdict(choice)
        for name, value in self.fixed.items():
            if wanted[name] != value:
                raise Mistake(
                    f"the suite {self.name} was built with {name} = {value}, not {wanted[name]}: build it with "
                    f"{name} = {wanted[name]}"
                )
        if self.request is None or choice == self.choice:
            return self
        key = (*self.names, choice)
        if key not in self.request.made:
            self.request.made[key] = self.spec.suite(self.names, choice, self.request.report)
        return self.request.made[key]

    def load(self) -> None:
        """Loads the data of all tasks, so that bad data is noticed before training starts."""
        for task in self.tasks:
            task.dataset  # noqa: B018  kept by the task

    def ordered(self, names: Sequence[str]) -> Suite:
        """The same suite with only these tasks, in this order."""
        if isinstance(names, str):
            raise Mistake(f"the order must be a list of tasks, got {names!r}: write [{names!r}]")
        return replace(self, tasks=tuple(self.task(name) for name in names)).asked(self.request)


def suite(
    name: str,
    order: Sequence[str] = (),
    transitions: int | None = None,
    data: str | None = None,
    report: Report | None = silent,
    *,
    demonstrations: int | None = None,
) -> Suite:
    """Builds the registered suite with this name; the default is its own order, amount and kind of data."""
    choice = DataChoice(transitions=transitions, demonstrations=demonstrations, data=data)
    return suite_spec(name).suite(order, choice, report)


def suite_spec(name: str) -> SuiteSpec:
    """The spec of the registered suite with this name."""
    spec = SUITES[name]
    if not isinstance(spec, SuiteSpec):
        raise Mistake(f"the suite {name} must be a holdfast.SuiteSpec, got {shown(spec)}")
    if spec.name != name:
        raise Mistake(f"the suite {spec.name} is registered as {name}: use the same name in both places")
    return spec


def check_suite(suite: Any) -> None:
    """Raises unless this is a suite."""
    if not isinstance(suite, Suite):
        hint = f": holdfast.suite({suite!r}) builds the suite with this name" if isinstance(suite, str) else ""
        raise Mistake(f"a holdfast.Suite is needed, got {shown(suite)}{hint}")


def check_tasks(suite: str, tasks: Any) -> Sequence[Task]:
    """The tasks; raises unless one network can be used for all of them."""
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
            raise Mistake(
                f"{task.name} and {first.name} differ in observation shape or actions: "
                "one network cannot be used for both"
            )
    return tasks


def _with_horizon(task: Task, horizon: int) -> Task:
    if task.interface.horizon == horizon:
        return task
    return replace(task, interface=replace(task.interface, horizon=horizon))


def _load(suite: Suite, task: Task, report: Report) -> Dataset:
    """A task's recorded data; builds it first if it is not on this machine."""
    try:
        return task.load()
    except MissingData:
        with locked(Path(gettempdir()) / f"holdfast-{os.getuid()}-{suite.name}-{task.name}.lock"):
            # Skips data that another process has built in the meantime.
            suite.spec.recorded_data().build(suite.ordered([task.name]), report, False)
            return task.load()
