"""The record weights/index.json: which files hold what was learned, stage by stage."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from holdfast.data.conform import conform
from holdfast.errors import Mistake

MEMORY = "state/memory"  # what only learning on needs
OURS = re.compile(
    r"weights/[A-Za-z0-9._-]+\.safetensors|state/(memory\.\d+\.safetensors|fit\.\d+\.([A-Za-z0-9_-]+\.)?sealed)"
)
PHASE = re.compile(r"[A-Za-z0-9_-]{1,64}")  # the name of a phase, which is a part of a file's name
ONLY_PHASE = "task"  # the phase of a learner that fits once; version 0.1 knew no other
HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class File:
    """A file of tensors, and what it must hash to."""

    path: str  # in the run folder
    sha256: str

    def __post_init__(self) -> None:
        check_ours(self.path)
        if not HASH.fullmatch(self.sha256):
            raise Mistake(f"{self.sha256!r} is not a hash")


@dataclass(frozen=True)
class Stage:
    """What was learned by a stage."""

    files: dict[str, File]  # by what is in them: weights/copy-0, weights/task-Reach, state/memory
    notes: dict[str, Any]  # the learner's own plain data
    bytes: dict[str, int]  # what keeping the learner cost: weights, memory, total

    def __post_init__(self) -> None:
        if set(self.bytes) != {"weights", "memory", "total"} or min(self.bytes.values()) < 0:
            raise Mistake(f"bytes must say weights, memory and total, got {self.bytes}")


@dataclass(frozen=True)
class Index:
    """Only files that it names are ever removed."""

    stages: list[Stage] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)  # which whoever works in the folder next may remove
    phases: list[str] = field(default_factory=list)  # the fits of the task that is being learned, in order

    def __post_init__(self) -> None:
        for phase in self.phases:
            check_phase(phase)
        for path in self.unused:
            check_ours(path)
        if self.stages and not self.stages[-1].files:
            raise Mistake("the last stage has no files")

    @property
    def used(self) -> set[str]:
        """The files that some stage needs."""
        return {file.path for stage in self.stages for file in stage.files.values()}

    @classmethod
    def from_json(cls, record: Any) -> "Index":
        """The index that a record describes; raises where it is none."""
        found = conform(record, cls)
        if both := found.used & set(found.unused):
            raise Mistake(f"{min(both)} is said to be used and not to be used")
        return found

    def to_json(self) -> dict[str, Any]:
        """The record that weights/index.json is."""
        return asdict(self)

    def announcing(self, paths: list[str]) -> "Index":
        """The same, with files that are about to be written: cut short, they are known to be of no use."""
        return replace(self, unused=paths)

    def with_phase(self, phase: str) -> "Index":
        """The same, with one more phase of the task that is being learned; its state is about to be written."""
        check_phase(phase)
        return self if phase in self.phases else replace(self, phases=[*self.phases, phase])

    def with_stage(self, stage: Stage, newest_only: bool) -> "Index":
        """The next index; where only the newest stage is kept, that serves the earlier ones too."""
        earlier = [replace(old, files={}, notes={}) for old in self.stages] if newest_only else self.stages
        found = Index([*earlier, stage])
        states = [fit_state(len(self.stages), phase) for phase in self.phases]
        return replace(found, unused=[*sorted(self.used - found.used), *states])

    def without_memory(self) -> "Index":
        """The index of a run that does not learn on."""
        found = Index([replace(stage, files=_weights(stage.files)) for stage in self.stages])
        gone = sorted(self.used - found.used)
        return replace(found, unused=gone) if gone else self


def fit_state(stage: int, phase: str) -> str:
    """The file with the state of a phase of the task that is learned at a stage."""
    return f"state/fit.{stage}.sealed" if phase == ONLY_PHASE else f"state/fit.{stage}.{phase}.sealed"


def check_phase(phase: str) -> None:
    """Raises unless this is the name of a phase."""
    if not PHASE.fullmatch(phase):
        raise Mistake(f"a phase of training must be named with letters, digits, - and _, got {phase!r}")


def check_ours(path: str) -> None:
    """Raises unless a path is one that a run writes what it learned to."""
    if not OURS.fullmatch(path):
        raise Mistake(f"{path!r} is not the path of a file that a run writes")


def _weights(files: Mapping[str, File]) -> dict[str, File]:
    return {name: file for name, file in files.items() if name != MEMORY}
