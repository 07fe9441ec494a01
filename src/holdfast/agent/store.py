"""What was learned, on disk: weights, memory, certificates, and the saved fits of an unfinished task."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import Any

from torch import Tensor

from holdfast.agent.changes import Change, Update, now
from holdfast.agent.index import MEMORY, ONLY_PHASE, WEIGHTS, File, Index, Stage, fit_state, past_file
from holdfast.data.conform import conform
from holdfast.data.directory import Directory
from holdfast.data.files import TENSORS, damaged, encoded, packed, sealed, tensor_hashes, unpacked, unsealed
from holdfast.errors import Mistake
from holdfast.evaluation.certificates import Certificate, checked, fingerprint, format_of
from holdfast.learners.learner import Learner, Snapshot
from holdfast.learners.tensors import Tensors
from holdfast.tasks.task import Task

COPY = re.compile(r"(copy-\d+)/")  # how the names of tensors of a copy begin
INDEX, CERTIFICATES = "weights/index.json", "certificates.json"
NO_NOTES: Mapping[str, Any] = MappingProxyType({})
UNFIT = (LookupError, TypeError, ValueError, AttributeError, RuntimeError, StopIteration)  # what foreign tensors raise


class Store:
    """What was learned in one folder; tasks that are planned are learned first, in their order.

    An agent's store keeps its past states, a run's does not, unless it was used as an agent.
    """

    def __init__(self, directory: Directory, planned: Sequence[str] = (), keeps_past: bool = False) -> None:
        self.directory, self.planned, self.is_agent = directory, list(planned), keeps_past
        self.load()

    def load(self) -> None:
        """Reads the index again, which another process may have written."""
        self.index = Index()
        if self.directory.exists(INDEX):
            try:
                self.index = Index.from_json(self.directory.read_json(INDEX))
                self._check_order()
            except Mistake as problem:
                raise damaged(self.directory.path / INDEX, problem) from problem

    def _check_order(self) -> None:
        both = min(len(self.learned), len(self.planned))
        if self.learned[:both] != self.planned[:both]:
            raise Mistake(f"{', '.join(self.learned)} were learned, but the order is {', '.join(self.planned)}")

    @property
    def learned(self) -> list[str]:
        """The learned tasks, in order."""
        return self.index.learned

    @property
    def tasks(self) -> list[str]:
        """The learned tasks, then those that are planned."""
        return [*self.learned, *self.planned[len(self.learned) :]]

    @property
    def keeps_past(self) -> bool:
        """Whether one can go back to the states before each change."""
        return self.is_agent or bool(self.index.changes)

    # Learned tasks

    def commit(self, snapshot: Snapshot, update: Update, newest_only: bool) -> None:
        """Keeps a snapshot; the new index makes it valid, all of it at once.

        With `newest_only`, the snapshot serves the earlier stages too, and theirs are dropped. The number of the state
        that is left is a part of the names of new files, so that no file is ever overwritten.
        """
        tensors = files_of(snapshot)
        files = {
            name: File(f"{name}.{self.index.number}.safetensors", packed(found)[1], tensor_hashes(found))
            for name, found in tensors.items()
        }
        before = self.index.stages[-1].files if self.index.stages else {}
        same = {name for name, file in files.items() if name in before and before[name].sha256 == file.sha256}
        new = {name: file.path for name, file in files.items() if name not in same}
        self.write_index(self.index.announcing(list(new.values())))
        written = 0
        for name, path in new.items():
            content, _ = packed(tensors[name])
            self.directory.write_bytes(path, content)
            written += len(content)
        files |= {name: before[name] for name in same}  # one file serves both stages
        stage = Stage(files, snapshot.notes, snapshot.bytes())
        found = self.index.with_newest(stage, update, newest_only)
        if self.keeps_past:
            change = Change(self.index.number + 1, update.kind, now(), update.task, written=written)
            self.change_to(replace(found, certificates=list(update.certificates)), change)
        else:
            self.write_index(self.index.replaced_by(found))
            self.remove_unused()

    def change_to(self, found: Index, change: Change) -> None:
        """Makes this the state of the agent, and keeps the one before in its history."""
        content = encoded(self.index.as_past(self._newest_certificates()).to_json())
        self.directory.write_bytes(past_file(self.index.number), content)
        self.write_index(self.index.changed_to(found, change, hashlib.sha256(content).hexdigest()))
        self.remove_unused()

    def snapshot(self, stage: int, older: Mapping[str, Any] = NO_NOTES) -> Snapshot:
        """What was learned by a stage; if only the newest one is kept, that serves every stage.

        `older` are notes for a folder of version 0.1, which did not keep them.
        """
        if not self.index.stages[stage].files:
            stage = len(self.learned) - 1
        found = self.index.stages[stage]
        weights = {name: self.tensors(file) for name, file in found.weights.items()}
        memory = {name: tensor for file in found.memory.values() for name, tensor in self.tensors(file).items()}
        return Snapshot(weights, memory, {**older, **found.notes})

    def restore(self, learner: Learner, stage: int, older: Mapping[str, Any] = NO_NOTES) -> None:
        """Restores the learner as it was after a stage; one that retains may know later tasks as well.

        Raises if a task is not, to the bit, what its certificate says.
        """
        snapshot, certificates = self.snapshot(stage, older), self.read_certificates()
        try:
            learner.restore(snapshot)
            found = fingerprints(learner, format_of(certificates))
        except UNFIT as problem:
            raise Mistake(
                f"the weights in {self.directory.path} are not those of a learner with this config.json ({problem!r}): "
                "restore the folder from a backup"
            ) from problem
        if len(found) not in (stage + 1, len(self.learned)) or list(found) != self.learned[: len(found)]:
            raise Mistake(
                f"{self.directory.path / INDEX} says that {', '.join(found)} were learned by stage {stage}, but the "
                f"order is {', '.join(self.learned)}: restore it from a backup"
            )
        self._check_certificates(found, certificates)

    def tensors(self, file: File) -> dict[str, Tensor]:
        """The tensors in a file that the index names."""
        path = self.directory.path / file.path
        return unpacked(self.directory.read_bytes(file.path, TENSORS), path, file.sha256, file.tensors)

    def bytes(self, stage: int) -> dict[str, int]:
        """What keeping the learner cost after a stage."""
        return self.index.stages[stage].bytes

    def check_memory_kept(self) -> None:
        """Raises if what the learner needs to learn another task was not kept."""
        if self.index.stages and self.bytes(-1)["memory"] and not self.index.stages[-1].memory:
            raise Mistake(
                f"{self.directory.path} has no memory, which this learner needs to learn another task (version 0.1 did "
                "not keep it): run it again into another folder"
            )

    # Certificates

    def read_certificates(self) -> list[Certificate]:
        """The certificates so far; those of an agent's tasks are in its index."""
        record = self.directory.read_json(CERTIFICATES) if self.directory.exists(CERTIFICATES) else []
        try:
            found = conform(record, list[Certificate], "certificates")
            if self.index.changes:
                planned = min(len(self.planned), len(self.learned) - 1)
                found = [*(one for one in found if one.stage < planned), *self.index.certificates]
            return checked(found, self.tasks)
        except Mistake as problem:
            path = INDEX if self.index.changes else CERTIFICATES
            raise damaged(self.directory.path / path, problem) from problem

    def _newest_certificates(self) -> list[Certificate]:
        return [one for one in self.read_certificates() if one.stage == len(self.learned) - 1]

    def write_certificates(self, certificates: Sequence[Certificate]) -> None:
        """Keeps the certificates so far."""
        self.directory.write_json(CERTIFICATES, [asdict(certificate) for certificate in certificates])

    def _check_certificates(self, found: Mapping[str, str], certificates: Sequence[Certificate]) -> None:
        """Raises unless these are the fingerprints in the certificates of the stage of the last of these tasks."""
        recorded = {known.task: known.fingerprint for known in certificates if known.stage == len(found) - 1}
        changed = [task for task in found if recorded.get(task, found[task]) != found[task]]
        if changed:
            raise Mistake(
                f"the policy of {changed[0]} in {self.directory.path} is not the one that its certificate was given "
                "for: its weights were changed after they were learned, so restore the folder from a backup"
            )

    # The task that is being learned

    def begin_task(self, identity: str) -> dict[str, int]:
        """The saved steps of each phase of the task that is learned next; drops what was saved of another one."""
        if self.index.unfinished not in ("", identity):
            self.drop_unfinished()
        steps = {}
        for phase in self.index.phases or [ONLY_PHASE]:
            saved = self.read_fit(phase)
            steps[phase] = int(saved["done"]) if saved else 0
        return steps

    def drop_unfinished(self) -> None:
        """Drops what was saved of the task that is being learned."""
        self.write_index(self.index.without_unfinished())
        self.remove_unused()

    def begin_phase(self, phase: str, identity: str) -> None:
        """Notes that this task has this phase, so that its state is removed when the task is learned."""
        self.write_index(self.index.with_phase(phase, identity))

    def read_fit(self, phase: str) -> dict[str, Tensor] | None:
        """The saved state of a phase of the unfinished task, if there is one."""
        name = fit_state(len(self.learned), phase)
        if not self.directory.exists(name):
            return None
        tensors = unsealed(self.directory.read_bytes(name, TENSORS))
        if tensors is None or not {"done", "losses"} <= tensors.keys() or tensors["done"].numel() != 1:
            raise Mistake(
                f"{self.directory.path / name} was changed or truncated: delete it, and its task is learned from the "
                "first step"
            )
        return tensors

    def write_fit(self, phase: str, tensors: Mapping[str, Tensor]) -> None:
        """Saves the state of a phase of the unfinished task."""
        self.directory.write_bytes(fit_state(len(self.learned), phase), sealed(tensors))

    # Files

    @property
    def has_unused(self) -> bool:
        """Whether there are files that are not needed any more."""
        return any(self.directory.exists(path) for path in self.index.unused)

    def remove_unused(self) -> None:
        """Removes the files that are not needed any more."""
        for path in self.index.unused:
            self.directory.remove(path)

    def remove_state(self) -> None:
        """Removes the folder of unfinished fits, if nothing is left in it."""
        self.directory.remove_empty("state")

    def write_index(self, index: Index) -> None:
        """Makes this the index, all of it at once."""
        self.directory.write_json(INDEX, index.to_json())
        self.index = index


def files_of(snapshot: Snapshot) -> dict[str, Tensors]:
    """The tensors of each file; the memory of a copy has its own, which stays the same when another copy learns."""
    files = {f"{WEIGHTS}{name}": tensors for name, tensors in snapshot.weights.items()}
    for name, tensor in snapshot.memory.items():
        copy = COPY.match(name)
        files.setdefault(f"{MEMORY}{copy[1] if copy else 'memory'}", {})[name] = tensor
    return files


def fingerprints(learner: Learner, format: int) -> dict[str, str]:
    """The fingerprint of every learned task, as it is now."""
    return {name: fingerprint(learner.policy(name), format) for name in learner.learned}


def identity_of(tasks: Sequence[Task], steps: int) -> str:
    """A hash of what a saved fit of these tasks is good for: names, interfaces, data, and the steps of training."""
    about = [[task.name, task.interface.record(), task.dataset.fingerprint] for task in tasks]
    plain = [*about, steps]  # all other settings stay the same in a folder
    return hashlib.sha256(json.dumps(plain).encode()).hexdigest()
