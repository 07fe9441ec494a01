"""A task, and a suite of tasks in the order they arrive."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite
from typing import Any

from holdfast.data.episodes import Dataset
from holdfast.errors import Mistake
from holdfast.suites.environments import Environments, Protocol
from holdfast.suites.interface import Interface

Settings = Mapping[str, Any]  # dotted name of a setting -> its value, see learners/configure.py
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
        if not NAME.fullmatch(self.name):  # it becomes part of file names
            raise Mistake(f"a task's name must be letters, digits, '.', '_' and '-', got {self.name!r}")
        if not isfinite(self.target):
            raise Mistake(f"the target of {self.name} must be a finite number, got {self.target}")

    @cached_property
    def dataset(self) -> Dataset:
        """The task's episodes, loaded or made on first use, in the task's interface."""
        try:
            dataset = self.load()
            self.interface.check(dataset)
        except Mistake as mistake:
            raise Mistake(f"the data of {self.name} cannot be used: {mistake}") from mistake
        return dataset


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

    def __post_init__(self) -> None:
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

    def ordered(self, names: Sequence[str]) -> "Suite":
        """The same suite with these of its tasks, in this order."""
        return replace(self, tasks=tuple(self.task(name) for name in names))
