"""Who is told how learning goes, and keeps what an interrupted fit needs to go on."""

from typing import Any, NoReturn, Protocol

from torch import Tensor

from holdfast.training.cache import Memo, NoMemo


class Recorder(Protocol):
    """Told by learners; runs/progress.py has the one that writes to disk."""

    memo: Memo  # of finished fits

    def event(self, kind: str, **data: Any) -> None:
        """Something worth keeping happened."""
        ...

    def progress(self, done: int, total: int, loss: float) -> None:
        """How far the current fit is."""
        ...

    def resume(self) -> dict[str, Tensor] | None:
        """What the current fit had saved before it was interrupted."""
        ...

    def due(self) -> bool:
        """Whether it is time to save."""
        ...

    def save(self, tensors: dict[str, Tensor]) -> None:
        """Keeps the state of the current fit."""
        ...

    def interrupted(self) -> bool:
        """Whether the fit is to be saved now and stopped."""
        ...

    def stop(self, done: int, total: int) -> NoReturn:
        """Ends an interrupted fit, which is saved, by raising; says how far it came."""
        ...


class Silent:
    """Keeps nothing."""

    memo: Memo = NoMemo()

    def event(self, kind: str, **data: Any) -> None:
        pass

    def progress(self, done: int, total: int, loss: float) -> None:
        pass

    def resume(self) -> dict[str, Tensor] | None:
        return None

    def due(self) -> bool:
        return False

    def save(self, tensors: dict[str, Tensor]) -> None:
        pass

    def interrupted(self) -> bool:
        return False

    def stop(self, done: int, total: int) -> NoReturn:
        raise KeyboardInterrupt
