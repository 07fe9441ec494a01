"""The base of learners that can take a task out again, while all others stay equal to the bit."""

from abc import abstractmethod
from typing import Any

from holdfast.errors import Mistake
from holdfast.learners.learner import Learner


class RemovingLearner(Learner):
    """A learner in which every task has parts of its own."""

    @abstractmethod
    def parts(self) -> list[dict[str, Any]]:
        """What the learner keeps of each task, by name, besides its role."""

    @abstractmethod
    def free(self, name: str, draw: int) -> None:
        """Frees what only this task used, and draws it anew by the seed and the number `draw`."""

    def check_removable(self, name: str) -> None:
        """Raises unless this task can be removed."""
        self.role(name, None)  # raises if it is not learned
        if not self.retains:
            raise Mistake("tasks share parameters here that every one of them trains, so none of them can be removed")

    def remove(self, name: str, draw: int) -> None:
        """Forgets a task; all others stay equal to the bit."""
        self.check_removable(name)
        self.free(name, draw)
        for part in (self.roles, *self.parts()):
            del part[name]

    def rename(self, name: str, new: str) -> None:
        """Gives a learned task another name; the order stays."""
        for part in (self.roles, *self.parts()):
            items = list(part.items())
            part.clear()
            part.update({new if key == name else key: value for key, value in items})
