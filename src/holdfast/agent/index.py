"""The record weights/index.json: which files hold what was learned, stage by stage, and what an agent was before."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any

from holdfast.agent.changes import Change, Past, Update
from holdfast.data.conform import conform
from holdfast.errors import Mistake
from holdfast.evaluation.certificates import HASH, Certificate

WEIGHTS = "weights/"  # what acts
MEMORY = "memory/"  # what only learning another task needs
OLD_MEMORY = "state/memory"  # the same in folders of version 0.1, which removed it when a run was finished
OURS = re.compile(
    r"weights/[A-Za-z0-9._-]+\.safetensors|memory/(memory|copy-\d+)\.\d+\.safetensors|state/memory\.\d+\.safetensors"
    r"|state/fit\.\d+\.([A-Za-z0-9_-]+\.)?sealed|history/\d+\.json"
)
PHASE = re.compile(r"[A-Za-z0-9_-]{1,64}")  # the name of a phase, which is a part of a file's name
ONLY_PHASE = "task"  # the phase of a learner that fits once; version 0.1 knew no other


@dataclass(frozen=True)
class File:
    """A file of tensors, and what it must hash to."""

    path: str  # in the folder
    sha256: str
    tensors: dict[str, str] = field(default_factory=dict)  # a short hash of each, to say which one was changed

    def __post_init__(self) -> None:
        check_ours(self.path)
        if not HASH.fullmatch(self.sha256):
            raise Mistake(f"{self.sha256!r} is not a hash")


@dataclass(frozen=True)
class Stage:
    """What was learned by a stage; every stage learns one task."""

    files: dict[str, File]  # by what is in them: weights/copy-0, weights/task-Reach, memory/copy-0
    notes: dict[str, Any]  # the learner's own plain data
    bytes: dict[str, int]  # what keeping the learner cost: weights, memory, total
    joint: bool = False  # whether its task was learned in one call with the next one, so that nothing is known of it

    def __post_init__(self) -> None:
        if set(self.bytes) != {"weights", "memory", "total"} or min(self.bytes.values()) < 0:
            raise Mistake(f"bytes must say weights, memory and total, got {self.bytes}")

    @property
    def memory(self) -> dict[str, File]:
        """The files of what only learning another task needs."""
        return {name: file for name, file in self.files.items() if is_memory(name)}

    @property
    def weights(self) -> dict[str, File]:
        """The files of what acts, by name."""
        return {name.removeprefix(WEIGHTS): file for name, file in self.files.items() if not is_memory(name)}

    def without_memory(self) -> "Stage":
        """The same stage, to act with."""
        files = {name: file for name, file in self.files.items() if not is_memory(name)}
        return replace(self, files=files)

    def emptied(self) -> "Stage":
        """The same stage, when a later one holds all that it learned."""
        return replace(self, files={}, notes={})


SEAL = "sha256"  # the field with the hash of the others
AN_AGENTS = ("records", "certificates", "changes", "past")  # fields that only an agent has
TOGETHER = Stage({}, {}, {"weights": 0, "memory": 0, "total": 0}, joint=True)


@dataclass(frozen=True)
class Index:
    """Only files that it names are ever removed."""

    stages: list[Stage] = field(default_factory=list)
    datasets: dict[str, str] = field(default_factory=dict)  # by task: the fingerprint of the data it was learned from
    records: dict[str, dict[str, Any]] = field(default_factory=dict)  # by task: what an agent notes about it
    unused: list[str] = field(default_factory=list)  # files that the next process to work in the folder may remove
    unfinished: str = ""  # identifies the task that is being learned
    phases: list[str] = field(default_factory=list)  # the fits of the task that is being learned, in order
    certificates: list[Certificate] = field(default_factory=list)  # after the last change of an agent
    changes: list[Change] = field(default_factory=list)  # of an agent, in order
    past: list[Past] = field(default_factory=list)  # the states that an agent can go back to, in order

    def __post_init__(self) -> None:
        for phase in self.phases:
            check_phase(phase)
        for path in (*self.unused, *(path for past in self.past for path in past.files)):
            check_ours(path)
        if self.stages and not self.stages[-1].files:
            raise Mistake("the last stage has no files")
        if len(self.learned) != len(self.stages) or len(set(self.learned)) != len(self.stages):
            raise Mistake(f"{len(self.stages)} stages of the tasks {', '.join(self.learned)}")
        changes, past = ([one.number for one in ones] for ones in (self.changes, self.past))
        for numbers in (changes, [*past, self.number]):
            if any(one >= following for one, following in pairwise([-1, *numbers])):
                raise Mistake(f"changes and past states must have increasing numbers, got {numbers}")

    @property
    def learned(self) -> list[str]:
        """The learned tasks, in order; the notes of the last stage name them."""
        if not self.stages:
            return []
        return conform(self.stages[-1].notes.get("learned"), list[str], "notes.learned")

    @property
    def number(self) -> int:
        """The number of the last change, and so of this state; a run makes one change for each task, unrecorded."""
        return self.changes[-1].number if self.changes else len(self.stages)

    @property
    def used(self) -> set[str]:
        """The files that some stage needs."""
        return {file.path for stage in self.stages for file in stage.files.values()}

    @classmethod
    def from_json(cls, record: Any) -> "Index":
        """The index that a record describes; raises if it is none, or an agent's that was changed."""
        if isinstance(record, dict) and record.get("changes"):
            record = dict(record)
            if record.pop(SEAL, None) != hash_of(record):
                raise Mistake("it was changed after it was written")
        found = conform(record, cls)
        try:
            asdict(found)
        except RecursionError:
            raise Mistake("it is nested too deeply") from None
        if both := found.used & set(found.unused):
            raise Mistake(f"{min(both)} is said to be used and not to be used")
        return found

    def to_json(self) -> dict[str, Any]:
        """The record that weights/index.json is; an agent's has a hash, since nothing else tells of changed records."""
        record = {name: value for name, value in asdict(self).items() if value or name not in AN_AGENTS}
        return {**record, SEAL: hash_of(record)} if self.changes else record

    def announcing(self, paths: list[str]) -> "Index":
        """The index while these files are written: if that is interrupted, they are known to be unused."""
        return replace(self, unused=paths)

    def with_phase(self, phase: str, task: str) -> "Index":
        """The index with one more phase of the task that is being learned; its state is about to be written."""
        check_phase(phase)
        return self if phase in self.phases else replace(self, phases=[*self.phases, phase], unfinished=task)

    def without_unfinished(self) -> "Index":
        """The index without the task that is being learned."""
        return replace(self, unused=self.states, unfinished="", phases=[])

    def with_newest(self, newest: Stage, update: Update, newest_only: bool) -> "Index":
        """The state whose last stage is the newest; tasks that it has not learned are gone.

        Of earlier stages, no memory is kept, and nothing at all if `newest_only`.
        """
        learned = conform(newest.notes.get("learned"), list[str], "notes.learned")
        before = dict(zip(self.learned, self.stages, strict=True))
        earlier = [before.get(name, TOGETHER) for name in learned[:-1]]
        stages = [stage.emptied() if newest_only else stage.without_memory() for stage in earlier]
        return Index(
            stages=[*stages, newest] if learned else [],
            datasets={name: value for name, value in {**self.datasets, **update.datasets}.items() if name in learned},
            records={name: value for name, value in {**self.records, **update.records}.items() if name in learned},
        )

    def replaced_by(self, found: "Index") -> "Index":
        """The next index of a run: files that it does not use are removed."""
        return replace(found, unused=[*sorted(self.used - found.used), *self.states])

    def changed_to(self, found: "Index", change: Change, sha256: str) -> "Index":
        """The next index of an agent, which can go back to this one; `sha256` is the hash of this one's file."""
        past = Past(self.number, sha256, sorted(self.used - found.used))
        return replace(found, changes=[*self.changes, change], past=[*self.past, past], unused=self.states)

    def as_past(self, certificates: Sequence[Certificate]) -> "Index":
        """The index of this state in the history."""
        return Index(self.stages, self.datasets, self.records, certificates=list(certificates))

    def pruned(self, keep: int) -> "Index":
        """The index without all but the last `keep` past states; a file is listed by the last state that used it."""
        kept = self.past[len(self.past) - keep :] if keep < len(self.past) else self.past
        dropped = self.past[: len(self.past) - len(kept)]
        needed = self.used | {path for past in kept for path in past.files}
        files = {path for past in dropped for path in past.files} - needed
        return replace(self, past=kept, unused=[*sorted(files), *(past_file(past.number) for past in dropped)])

    @property
    def states(self) -> list[str]:
        """The files of the task that is being learned."""
        return [fit_state(len(self.stages), phase) for phase in self.phases]


def hash_of(record: dict[str, Any]) -> str:
    """A hash of plain data, equal before it is written and after it is read."""
    try:
        plain = json.dumps(json.loads(json.dumps(record)), sort_keys=True)
    except RecursionError:
        raise Mistake("it is nested too deeply") from None
    return hashlib.sha256(plain.encode()).hexdigest()


def is_memory(name: str) -> bool:
    """Whether this is what only learning another task needs."""
    return name.startswith(MEMORY) or name == OLD_MEMORY


def past_file(number: int) -> str:
    """The file with the index of a past state."""
    return f"history/{number}.json"


def fit_state(stage: int, phase: str) -> str:
    """The file with the state of a phase of the task that is learned at a stage."""
    return f"state/fit.{stage}.sealed" if phase == ONLY_PHASE else f"state/fit.{stage}.{phase}.sealed"


def check_phase(phase: str) -> None:
    """Raises unless this is the name of a phase."""
    if not PHASE.fullmatch(phase):
        raise Mistake(f"a phase of training must be named with letters, digits, - and _, got {phase!r}")


def check_ours(path: str) -> None:
    """Raises unless a path is one that holdfast writes what was learned to."""
    if not OURS.fullmatch(path):
        raise Mistake(f"{path!r} is not the path of a file that holdfast writes")
