"""Recorders: they keep what happens while a task is learned, and the state that an interrupted fit needs to go on."""

from typing import Any, NoReturn, Protocol

from torch import Tensor

from holdfast.training.cache import Cache, NoCache


class Recorder(Protocol):
    """Records the learning of one task; runs/progress.py has the recorder that writes to a run folder."""

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
