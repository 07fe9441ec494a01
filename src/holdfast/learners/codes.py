"""Codes that tell a network which task it is."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from holdfast.errors import Mistake
from holdfast.tasks.interface import Interface
from holdfast.tasks.task import Task


@dataclass(frozen=True)
class TaskCodes:
    """One-hot codes of tasks, by their place in the order; there are none if `count` is 0.

    A code is appended to normalised observations. The encoder's first layer multiplies it by a matrix, so each task
    selects one column of this matrix: the learned embedding of the task.
    """

    count: int

    def __call__(self, place: int) -> Tensor | None:
        """The code of the task at this place, (count,)."""
        return torch.eye(self.count)[place] if self.count else None

    def widened(self, interface: Interface) -> Interface:
        """The interface of a network whose observations end with a code."""
        if not self.count:
            return interface
        (features,) = interface.observation
        return replace(interface, observation=(features + self.count,))

    def check(self, task: Task, place: int) -> None:
        """Raises unless the task at this place can have a code."""
        if not self.count:
            return
        if len(task.interface.observation) != 1:
            raise Mistake(f"{task.name} has frames, and task_id is only for vector observations: leave task_id off")
        if place >= self.count:
            raise Mistake(
                f"{task.name} is task number {place + 1}, but the network was made to tell {self.count} tasks apart: "
                "set tasks to the number of tasks to learn"
            )
