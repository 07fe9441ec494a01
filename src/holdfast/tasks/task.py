"""Tasks: recorded episodes to learn from, and environments to be evaluated in."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from holdfast.data.episodes import Dataset
from holdfast.data.validation import shown, validated
from holdfast.errors import Mistake
from holdfast.tasks.environments import Environments, Protocol
from holdfast.tasks.interface import Interface

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Task:
    """A task: recorded episodes to learn from, and environments, if any, to evaluate in."""

    name: str
    interface: Interface
    target: float
    """The return to go that the policy starts with, and the reference for results."""
    load: Callable[[], Dataset] = field(repr=False)
    environments: Callable[[Protocol], Environments] | None = field(default=None, repr=False)
    """Makes the environments for evaluation; without it, the task is scored on held-out episodes."""
    simulator: str | None = None
    """Identifies the simulator in cache keys: its name, and its version unless `holdfast.versions` lists it. Without
    it, evaluations are not cached."""
    held_out: Callable[[], Dataset] | None = field(default=None, repr=False)
    """Loads episodes that are not used for training, to score a task without environments."""

    def __post_init__(self) -> None:
        check_name(self.name)
        if not isinstance(self.interface, Interface):
            raise Mistake(f"the interface of {self.name} must be a holdfast.Interface, got {shown(self.interface)}")
        object.__setattr__(self, "target", validated(f"the target of {self.name}", self.target, float))
        for part in ("load", "environments", "held_out"):
            optional = part != "load" and getattr(self, part) is None
            if not optional and not callable(getattr(self, part)):
                raise Mistake(f"{part} of {self.name} must be a function, got {shown(getattr(self, part))}")

    @cached_property
    def dataset(self) -> Dataset:
        """The task's episodes, loaded or generated on first use and checked against the interface."""
        return self._checked(self.load)

    @cached_property
    def held_out_dataset(self) -> Dataset | None:
        """The held-out episodes, loaded on first use and checked against the interface, or None."""
        return self._checked(self.held_out) if self.held_out else None

    def _checked(self, load: Callable[[], Dataset]) -> Dataset:
        try:
            dataset = load()
            if not isinstance(dataset, Dataset):
                made = type(dataset).__name__
                raise Mistake(
                    f"its loader must return a holdfast.Dataset, not a {made}; Dataset.of(episodes) makes one"
                )
            self.interface.check(dataset)
        except Mistake as mistake:
            raise Mistake(f"the data of {self.name} cannot be used: {mistake}") from mistake
        return dataset


def check_name(name: object) -> None:
    """Raises unless this is the name of a task, which becomes part of file names."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise Mistake(f"a task's name must consist of letters, digits, '.', '_' and '-', got {shown(name)}")
