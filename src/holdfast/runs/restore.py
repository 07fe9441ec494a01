"""A learner as a run folder has it, with the certificates of its tasks checked."""

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.learners.learner import Learner
from holdfast.runs.folder import RunFolder
from holdfast.tasks.task import Task


def restore(learner: Learner, folder: RunFolder, tasks: Sequence[Task], stage: int) -> None:
    """Restores the learner as it was after a stage; one that retains may know later tasks as well.

    Raises if a task is not, to the bit, what its certificate says. `tasks` are those of the plan.
    """
    folder.store.restore(learner, stage, older_notes(learner, folder, tasks, stage))


def older_notes(learner: Learner, folder: RunFolder, tasks: Sequence[Task], stage: int) -> Mapping[str, Any]:
    """What version 0.1 did not note of the plan's tasks: their interfaces, targets and routes."""
    roles = {task.name: learner.role_in(task).record() for task in tasks}
    return {"roles": roles, "routes": folder.routes_by(stage)}
