"""A task, and a suite of tasks in the order they arrive."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any

from holdfast.data.episodes import Dataset
from holdfast.data.validation import Range, shown, validated
from holdfast.errors import Mistake
from holdfast.tasks.environments import Environments, Protocol
from holdfast.tasks.interface import Interface

Transitions = Annotated[int | None, Range(least=1, most=10**9)]  # none: the suite's usual amount
Settings = Mapping[str, Any]  # dotted name of a setting -> its value, see runs/configure.py
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Task:
    """Something to learn from recorded episodes and to be evaluated on in a simulator."""

    name: str
    interface: Interface
    target: float
    """The return that the policy is asked for, and that results are measured against."""
    load: Callable[[], Dataset] = field(repr=False)
    environments: Callable[[Protocol], Environments] = field(repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):  # it becomes part of file names
            raise Mistake(f"a task's name must be letters, digits, '.', '_' and '-', got {shown(self.name)}")
        if not isinstance(self.interface, Interface):
            raise Mistake(f"the interface of {self.name} must be a holdfast.Interface, got {shown(self.interface)}")
        object.__setattr__(self, "target", validated(f"the target of {self.name}", self.target, float))
        for part in ("load", "environments"):
            if not callable(getattr(self, part)):
                raise Mistake(f"{part} of {self.name} must be a function, got {shown(getattr(self, part))}")

    @cached_property
    def dataset(self) -> Dataset:
        """The task's episodes, loaded or made on first use, in the task's interface."""
        try:
            dataset = self.load()
            if not isinstance(dataset, Dataset):
                made = type(dataset).__name__
                raise Mistake(
                    f"its loader must return a holdfast.Dataset, not a {made}; Dataset.of(episodes) makes one"
                )
            self.interface.check(dataset)
        except Mistake as mistake:
            raise Mistake(f"the data of {self.name} cannot be used: {mistake}") from mistake
        return dataset


@dataclass(frozen=True)
class Made:
    """Where a suite comes from: the tasks as they were made, and how to make them with other data."""

    tasks: "tuple[Task, ...]"
    again: "Callable[[int | None, str | None], Suite]"


@dataclass(frozen=True)
class Suite:
    """Tasks that one network fits, in the order they are learned."""

    name: str
    tasks: tuple[Task, ...]
    presets: Mapping[str, Settings] = field(default_factory=dict, repr=False)
    """For each preset, the settings of the method in which this suite differs from the defaults."""
    budgets: Mapping[str, Settings] = field(default_factory=dict, repr=False)
    """For each budget, how long this suite is trained and evaluated."""
    transitions: int | None = None
    """How much data each task has, where the suite makes its own."""
    data: str | None = None
    """Which data the tasks have, where the suite has several."""
    protocols: Mapping[str, Settings] = field(default_factory=dict, repr=False)
    """For each protocol by name, how it is evaluated."""
    former_budgets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """For each budget that version 0.1 had and this one has not, the words that give the same run."""
    chosen: Settings = field(default_factory=dict, repr=False)
    """The `transitions` and the `data` that the suite was asked for: no budget changes them."""
    made: Made | None = field(default=None, repr=False, compare=False)
    """How to make the suite with other data; none where its tasks bring their own."""

    def __post_init__(self) -> None:
        if not isinstance(self.tasks, list | tuple) or not all(isinstance(task, Task) for task in self.tasks):
            raise Mistake(
                f"the tasks of the suite {self.name} must be a list of holdfast.Task, got {shown(self.tasks)}"
            )
        object.__setattr__(self, "tasks", tuple(self.tasks))
        if not self.tasks:
            raise Mistake(f"the suite {self.name} has no tasks")
        names = [task.name for task in self.tasks]
        if len(set(names)) != len(names):
            raise Mistake(f"the tasks of {self.name} must have different names, got {', '.join(names)}")
        first = self.tasks[0]
        for task in self.tasks:
            if not first.interface.compatible(task.interface):
                raise Mistake(f"{task.name} and {first.name} differ in observation shape or actions: no network fits")

    @property
    def names(self) -> list[str]:
        """The tasks' names, in order."""
        return [task.name for task in self.tasks]

    @property
    def interface(self) -> Interface:
        """What one network for all tasks must fit: the shared shapes and the longest horizon."""
        return replace(self.tasks[0].interface, horizon=max(task.interface.horizon for task in self.tasks))

    def check(self, protocol: Protocol) -> None:
        """Raises, before anything is learned, unless the tasks can be evaluated so."""
        if self.protocols and protocol.name not in self.protocols:
            known = ", ".join(self.protocols)
            raise Mistake(f"the suite {self.name} has no protocol {protocol.name!r}; it has {known}")

    def task(self, name: str) -> Task:
        """The task of this name."""
        for task in self.tasks:
            if task.name == name:
                return task
        raise Mistake(f"the suite {self.name} has no task {name!r}; it has {', '.join(self.names)}")

    @property
    def resizable(self) -> bool:
        """Whether the suite can be made with other data: not if a task of it was replaced."""
        return self.made is not None and {id(task) for task in self.tasks} <= {id(task) for task in self.made.tasks}

    def with_data(self, transitions: int | None, data: str | None) -> "Suite":
        """The same tasks with this amount and this kind of data."""
        for name, own, other in (("transitions", self.transitions, transitions), ("data", self.data, data)):
            if own != other and (name in self.chosen or not self.resizable):
                raise Mistake(
                    f"the suite {self.name} was made with {name} = {own}, not {other}: make it with the other"
                )
        if self.made is None or (transitions, data) == (self.transitions, self.data):
            return self
        return self.made.again(transitions, data).ordered(self.names)

    def load(self) -> None:
        """Loads the data of all tasks, so that bad data is found before anything is learned."""
        for task in self.tasks:
            task.dataset  # noqa: B018  kept by the task

    def ordered(self, names: Sequence[str]) -> "Suite":
        """The same suite with these of its tasks, in this order."""
        if isinstance(names, str):
            raise Mistake(f"the order must be a list of tasks, got {names!r}: write [{names!r}]")
        return replace(self, tasks=tuple(self.task(name) for name in names))


def check_suite(suite: Any) -> None:
    """Raises unless this is a suite."""
    if not isinstance(suite, Suite):
        hint = f": holdfast.suite({suite!r}) makes the suite of this name" if isinstance(suite, str) else ""
        raise Mistake(f"a holdfast.Suite is needed, got {shown(suite)}{hint}")
