"""Recorders: they keep what happens while a task is learned, and the state that an interrupted fit needs to go on."""

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol

from torch import Tensor

from holdfast.nets.policy import Policy
from holdfast.training.cache import Cache, NoCache


class Recorder(Protocol):
    """Records the learning of one task; agent/progress.py has the recorder that writes to a run folder."""

    cache: Cache  # of finished fits

    def event(self, kind: str, **data: Any) -> None:
        """Records an event."""
        ...

    def progress(self, done: int, total: int, loss: float) -> None:
        """Shows how many steps of the current phase are done."""
        ...

    def resume(self, phase: str) -> dict[str, Tensor] | None:
        """Begins a phase; returns what was saved of it before the process was interrupted, if anything was."""
        ...

    def due(self) -> bool:
        """Whether it is time to save."""
        ...

    def save(self, phase: str, tensors: dict[str, Tensor]) -> None:
        """Saves the state of a phase, which is kept until the task is learned."""
        ...

    def interrupted(self) -> bool:
        """Whether the fit is to be saved now and stopped."""
        ...

    def stop(self, done: int, total: int) -> NoReturn:
        """Ends an interrupted fit, which is saved, by raising an exception that says how far it came."""
        ...

    def playable(self, policy: Callable[[], Policy]) -> None:
        """Takes a function that makes the policy of the task as it is now; a learner may call this before its fit."""
        ...

    def pauses(self, phase: str, steps: int) -> Sequence[int]:
        """The numbers of steps of a phase, which has so many, after which the policy is to be played."""
        ...

    def pause(self, done: int) -> None:
        """Plays the policy after so many steps of the current phase; parameters are up to date."""
        ...


class Silent:
    """Keeps nothing."""

    cache: Cache = NoCache()

    def event(self, kind: str, **data: Any) -> None:
        pass

    def progress(self, done: int, total: int, loss: float) -> None:
        pass

    def resume(self, phase: str) -> dict[str, Tensor] | None:
        return None

    def due(self) -> bool:
        return False

    def save(self, phase: str, tensors: dict[str, Tensor]) -> None:
        pass

    def interrupted(self) -> bool:
        return False

    def stop(self, done: int, total: int) -> NoReturn:
        raise KeyboardInterrupt

    def playable(self, policy: Callable[[], Policy]) -> None:
        pass

    def pauses(self, phase: str, steps: int) -> Sequence[int]:
        return ()

    def pause(self, done: int) -> None:
        pass
