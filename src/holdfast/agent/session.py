"""A session: one process that learns and certifies tasks in a folder."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import torch

from holdfast.agent.changes import Update
from holdfast.agent.folder import LearningFolder
from holdfast.agent.progress import Board, CurrentTask, FolderRecorder, Screen
from holdfast.agent.signals import Interruption
from holdfast.agent.store import NO_NOTES, fingerprints
from holdfast.errors import BrokenRetention
from holdfast.evaluation.certificates import Certificate, changed, format_of
from holdfast.evaluation.learning_curve import LearningCurve
from holdfast.learners.learner import Datasets, Learner
from holdfast.tasks.task import Task
from holdfast.training.cache import Cache

ALL_TASKS = "all tasks"  # in events and on the screen, for the tasks of a joint learner
Folder = TypeVar("Folder", bound=LearningFolder)


@dataclass
class Session(Generic[Folder]):
    """A folder that this process works in, and the learner that learns into it."""

    folder: Folder
    learner: Learner
    screen: Screen
    board: Board | None
    cache: Cache
    save_every: float  # seconds

    def __post_init__(self) -> None:
        self.certificates = self.folder.read_certificates()

    def older_notes(self, stage: int) -> Mapping[str, Any]:
        """Notes of a stage that an older folder may lack."""
        return NO_NOTES

    def records(self, tasks: Sequence[Task]) -> dict[str, dict[str, Any]]:
        """What is noted about tasks that were just learned, by name."""
        return {}

    def bring_learner_to(self, stage: int) -> None:
        """Restores the learner as it was after a stage; one that retains may know later tasks as well."""
        known = len(self.learner.learned) - 1
        if stage >= 0 and known != stage and not (self.learner.retains and known > stage):
            self.folder.store.restore(self.learner, stage, self.older_notes(stage))

    def learn(self, tasks: Sequence[Task], datasets: Datasets, curve: LearningCurve | None = None) -> None:
        """Learns a task, or all tasks of a joint learner, and keeps and certifies the result."""
        stage = self.folder.store.index.number
        self.bring_learner_to(len(self.folder.store.learned) - 1)
        name = ALL_TASKS if self.learner.joint else tasks[0].name
        steps = self.learner.config.fit.steps
        identity = self.folder.begin_learning(tasks, name, steps)
        in_turn = not self.learner.joint and stage < len(self.folder.order)
        planned = len(self.folder.order) if in_turn else 0
        current = CurrentTask(name, stage, identity, planned=planned, steps=steps * len(tasks))
        with Interruption() as interruption:
            recorder = FolderRecorder(
                self.folder,
                self.screen,
                current,
                save_every=self.save_every,
                board=self.board,
                cache=self.cache,
                interruption=interruption,
                curve=curve,
            )
            if self.learner.joint:
                self.learner.learn_all(tasks, datasets, recorder)
            else:
                self.learner.learn(tasks[0], datasets, recorder)
            self.keep(tasks)
        interruption.stop_if_asked(f"after {name} {'were' if self.learner.joint else 'was'} learned")

    def keep(self, tasks: Sequence[Task]) -> None:
        """Keeps tasks that were just learned."""
        datasets = {task.name: task.dataset.fingerprint for task in tasks}
        self.commit(Update("learn", tasks[-1].name, datasets, self.records(tasks)))

    def commit(self, update: Update) -> None:
        """Keeps the learner as it is now, with certificates, unless a task changed that must not change."""
        stage = len(self.learner.learned) - 1
        found = self._fingerprinted(stage)
        self.certificates = [known for known in self.certificates if known.task not in update.datasets]
        if self.learner.retains and (moved := changed([*self.certificates, *found])):
            verb = "removing" if update.kind == "remove" else "adding"
            raise BrokenRetention(
                f"{verb} {update.task} changed {moved[0].task}, which must stay equal to the bit (a fault in the "
                "learner or in this machine): it is not kept, and the folder is as it was before"
            )
        self.folder.commit(self.learner.snapshot(), replace(update, certificates=found), self.learner.retains)
        self._certify(stage, found)

    def certify(self, stage: int) -> None:
        """Certifies every task learned by a stage, unless that is done."""
        if len(self.fingerprints(stage)) <= stage:
            self.bring_learner_to(stage)
            if len(self.learner.learned) == stage + 1:  # policies of a later stage prove nothing about this one
                self._certify(stage, self._fingerprinted(stage))

    def _fingerprinted(self, stage: int) -> list[Certificate]:
        format = format_of(self.certificates)
        return [Certificate(stage, name, found, format) for name, found in fingerprints(self.learner, format).items()]

    def _certify(self, stage: int, found: Sequence[Certificate]) -> None:
        self.certificates = [known for known in self.certificates if known.stage != stage] + [*found]
        if not self.folder.store.keeps_past:  # otherwise they are in the index
            self.folder.store.write_certificates(self.certificates)
            self.folder.event("certify", stage=stage, tasks=self.fingerprints(stage))

    def fingerprints(self, stage: int) -> dict[str, str]:
        """The certified fingerprints of the tasks learned by a stage."""
        return {found.task: found.fingerprint for found in self.certificates if found.stage == stage}


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Sets the number of processor threads for a while: sums, and so bits, depend on it."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
