"""The changes of an agent as its index records them: each is one atomic step from one state to the next."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from holdfast.data.validation import shown
from holdfast.errors import Mistake
from holdfast.evaluation.certificates import HASH, Certificate

Kind = Literal["learn", "replace", "install", "remove", "rollback"]
WORDS: dict[Kind, str] = {
    "learn": "learned {task}",
    "replace": "replaced {task}",
    "install": "installed {task}",
    "remove": "removed {task}",
    "rollback": "went back to {to}",
}


@dataclass(frozen=True)
class Change:
    """One change of an agent; its number is also that of the state after it."""

    number: int
    kind: Kind
    at: str
    """When it was made, in UTC."""
    task: str = ""
    """The task that it is about; none for a rollback."""
    to: int | None = None
    """The number of the state that a rollback went back to."""
    written: int = 0
    """Bytes of weights and memory that it wrote."""

    def __post_init__(self) -> None:
        if min(self.number, self.written) < 0:
            raise Mistake(f"the number and the bytes of a change must be at least 0, got {self}")
        try:
            datetime.fromisoformat(self.at).timestamp()
        except (ValueError, OverflowError) as problem:
            raise Mistake(f"the time of a change must be a date, got {shown(self.at)}") from problem

    @property
    def words(self) -> str:
        """What it did, in words."""
        return WORDS[self.kind].format(task=self.task, to=self.to)


@dataclass(frozen=True)
class Past:
    """A state that the agent can go back to; its index is the file history/NUMBER.json."""

    number: int
    sha256: str
    """Hash of history/NUMBER.json."""
    files: list[str]
    """Files of tensors that the next state does not use."""

    def __post_init__(self) -> None:
        if not HASH.fullmatch(self.sha256):
            raise Mistake(f"{self.sha256!r} is not a hash")


@dataclass(frozen=True)
class Update:
    """What is kept beside a snapshot when a task was learned, replaced, installed or removed."""

    kind: Kind
    task: str
    datasets: Mapping[str, str] = field(default_factory=dict)
    """By new task, the fingerprint of its data."""
    records: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    """By new task, what an agent notes about it."""
    certificates: Sequence[Certificate] = field(default_factory=list)
    """Of all tasks, after the change."""


def now() -> str:
    """The time in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")
