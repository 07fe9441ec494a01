"""Signals that ask a process to stop: it stops when it has saved its work."""

import signal
import threading
from typing import Any, NoReturn, Self

from holdfast.errors import Interrupted
from holdfast.training.ranks import ranks

USUAL = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}  # other handlers are left alone


class Interruption:
    """`with Interruption()`: the first signal is noted, the second ends the process at once."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self.before: dict[int, Any] = {}

    @property
    def asked(self) -> bool:
        """Whether a signal came."""
        return self.signal is not None

    def __enter__(self) -> Self:
        # If several ranks train together, all get the signal, and none could reach the point where it saves.
        if threading.current_thread() is threading.main_thread() and ranks().size == 1:
            for number, usual in USUAL.items():
                if signal.getsignal(number) == usual:
                    self.before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def _note(self, number: int, _: object) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.signal = number

    def stop(self, how_far: str) -> NoReturn:
        """Stops the process after its work was saved, and says how far it came."""
        raise Interrupted(f"interrupted {how_far}; the same command goes on from there", self.signal or signal.SIGINT)

    def stop_if_asked(self, how_far: str) -> None:
        """Stops the process if a signal came."""
        if self.asked:
            self.stop(how_far)
