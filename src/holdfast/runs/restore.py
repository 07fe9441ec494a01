"""A learner as a run folder has it, with the certificates of its tasks checked."""

from collections.abc import Sequence

from holdfast.learners.learner import Learner
from holdfast.runs.folder import RunFolder
from holdfast.tasks.task import Task


def restore(learner: Learner, folder: RunFolder, tasks: Sequence[Task], stage: int) -> None:
    """Restores the learner as it was after a stage; one that retains may know later tasks as well.

    Raises if a task is not, to the bit, what its certificate says. `tasks` are those of the plan: version 0.1 did not
    note their interfaces and targets.
    """
    roles = {task.name: learner.role_in(task).record() for task in tasks}
    folder.store.restore(learner, stage, {"roles": roles, "routes": folder.routes_by(stage)})
