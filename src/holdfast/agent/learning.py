"""Learning a user's task: it is scored on held-out episodes, and may replace one of the same name."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp
from typing import Any

import numpy as np

from holdfast.agent.agent_folder import AgentFolder
from holdfast.agent.changes import Update
from holdfast.agent.identify import keep_sketch
from holdfast.agent.own_task import constant_score, nearest_task
from holdfast.agent.removal import removable
from holdfast.agent.session import Session
from holdfast.agent.sketch import Sketch
from holdfast.agent.task_record import TaskRecord
from holdfast.data.episodes import Dataset
from holdfast.errors import Mistake
from holdfast.evaluation.certificates import Certificate, changed, verdict
from holdfast.evaluation.offline import offline_loss, offline_score
from holdfast.evaluation.rollouts import Evaluation
from holdfast.learners.learner import Learner
from holdfast.learners.removing import RemovingLearner
from holdfast.tasks.interface import Discrete
from holdfast.tasks.task import Task


@dataclass(frozen=True)
class Comparison:
    """A task that was learned anew, and the one that it is to replace, on the same held-out episodes."""

    measure: str
    old: float
    new: float
    replaced: bool
    """Whether the new one was no worse, and so took the old one's place."""


@dataclass(frozen=True)
class Learned:
    """What learning a task gave."""

    name: str
    record: TaskRecord
    route: dict[str, Any]
    bytes: dict[str, int]
    """What keeping the agent costs now: weights, memory, total; and task, the part that only this task needs."""
    played: Evaluation | None
    """Episodes in the environment, if it is known and installed; rewards as the environment gives them."""
    notes: tuple[str, ...]
    """What was left out or assumed."""
    certificate: str
    """Whether every task is still equal to the bit, in words."""
    comparison: Comparison | None = None
    """With the task that it was to replace."""


@dataclass
class AgentSession(Session[AgentFolder]):
    """An agent's folder that this process works in; scores what it learned."""

    note: TaskRecord
    held_out: Dataset | None
    sketch: Sketch | None
    replaced: TaskRecord | None
    """The notes about the task that is to be replaced; while the new one is learned, it has another name."""
    comparison: Comparison | None = None

    def keep(self, tasks: Sequence[Task]) -> None:
        if self.replaced is None:
            super().keep(tasks)
            return
        assert isinstance(self.learner, RemovingLearner)  # which `make_room` has checked
        (task,) = tasks
        self.comparison = self._compare(task.name, self.replaced)
        number = self.folder.store.index.number
        if not self.comparison.replaced:
            self.folder.store.drop_unfinished()
            self.folder.event("keep", stage=number, task=task.name)
            return
        update = Update("replace", task.name, {task.name: task.dataset.fingerprint}, self.records(tasks))
        self.learner.remove(former(task.name), number + 1)
        self.commit(update)

    def _compare(self, name: str, old: TaskRecord) -> Comparison:
        assert self.held_out is not None  # which `make_room` has checked
        rewards = self.held_out.rewards * np.float32(old.reward_scale / self.note.reward_scale)
        before = self.learner.policy(former(name))
        was = offline_loss(before, replace(self.held_out, rewards=rewards))
        now = offline_loss(self.learner.policy(name), self.held_out)
        if isinstance(before.interface.actions, Discrete):
            return Comparison("likelihood", exp(-was), exp(-now), now <= was)
        return Comparison("squared error", was, now, now <= was)

    def records(self, tasks: Sequence[Task]) -> dict[str, dict[str, Any]]:
        task = tasks[0]
        episodes = [task.dataset, *filter(None, [self.held_out])]
        keep_sketch(self.learner, task.name, self.sketch, episodes)
        nearest = nearest_task(self.learner, task)
        score: dict[str, float] = {}
        if self.held_out:
            score = offline_score(self.learner.policy(task.name), self.held_out)
            score |= constant_score(task, self.held_out)
        if self.held_out and nearest:
            others = offline_score(self.learner.policy(nearest, task), self.held_out)
            score |= {f"nearest {measure}": value for measure, value in others.items()}
        self.note = replace(self.note, score=score, nearest=nearest)
        return {task.name: self.note.record()}


def former(name: str) -> str:
    """What a task is called while its replacement is learned."""
    return f"{name} (before)"


def make_room(folder: AgentFolder, learner: Learner, name: str, held_out: Dataset | None) -> None:
    """Gives a task another name in the learner, so that its replacement can be learned; raises if it must stay."""
    if held_out is None:
        raise Mistake(
            f"{name} is replaced only by what scores no worse on held-out episodes, and the data has a single episode: "
            "record more"
        )
    removable(folder, learner, name).rename(name, former(name))


def retention(certificates: Sequence[Certificate]) -> str:
    """In words, whether all tasks are as they were when they were learned."""
    if changed(certificates):
        return verdict(certificates)
    count = len({one.task for one in certificates})
    return "1 task equal to the bit" if count == 1 else f"all {count} tasks equal to the bit"
