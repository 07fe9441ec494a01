"""Environments in parallel processes, stepped together: right for simulators that cost milliseconds."""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from tempfile import TemporaryFile
from typing import Any, NoReturn

import cloudpickle
import gymnasium
import numpy as np

from holdfast.errors import Mistake
from holdfast.tasks.environments import Environments, InTurn, Step
from holdfast.tasks.processes import ending, forkserver


class Workers(Environments):
    """Each process has a share of the lanes; results do not depend on how many processes there are."""

    def __init__(self, make: Callable[[], gymnasium.Env], lanes: int, processes: int | None = None) -> None:
        count = min(processes or os.cpu_count() or 1, lanes)
        self.bounds = [lanes * index // count for index in range(count + 1)]  # the lanes of each process
        packed = cloudpickle.dumps(make)  # by value where it is defined in the user's script
        self.workers = [Worker(packed, end - first) for first, end in zip(self.bounds, self.bounds[1:], strict=False)]

    def reset(self, seeds: Sequence[int]) -> np.ndarray:
        self._send("reset", list(seeds))
        return np.concatenate(self._answers())

    def begin(self, actions: np.ndarray) -> None:
        self._send("step", actions)

    def finish(self) -> Step:
        columns = zip(*(vars(answer).values() for answer in self._answers()), strict=True)
        return Step(*map(np.concatenate, columns))

    def _send(self, what: str, values: Any) -> None:
        """Gives every process its share."""
        shares = [values[first:end] for first, end in zip(self.bounds, self.bounds[1:], strict=False)]
        self.busy = [worker for worker, share in zip(self.workers, shares, strict=True) if len(share)]
        for worker, share in zip(self.workers, shares, strict=True):
            if len(share):
                worker.send(what, share)

    def _answers(self) -> list[Any]:
        """The answers of those that had a share."""
        return [worker.answer() for worker in self.busy]

    def close(self) -> None:
        for worker in self.workers:
            worker.pipe.close()
        for worker in self.workers:
            worker.close()


class Worker:
    """One process; what it prints as errors is kept, to say why it died, and passed on when it ends."""

    def __init__(self, make: bytes, lanes: int) -> None:
        context = forkserver()
        self.errors = TemporaryFile()  # noqa: SIM115  open until the process ends
        self.pipe, theirs = context.Pipe()
        errors = Connection(os.dup(self.errors.fileno()), readable=False)  # a descriptor that can be sent
        self.process = context.Process(target=_work, args=(errors, theirs, make, lanes), daemon=True)
        self.process.start()
        theirs.close()
        errors.close()

    def send(self, what: str, values: Any) -> None:
        """Asks for something."""
        try:
            self.pipe.send((what, values))
        except OSError:
            self._say_why_it_died()

    def answer(self) -> Any:
        """What was asked for last; raises what went wrong in the simulator."""
        try:
            answer = self.pipe.recv()
        except (EOFError, OSError):
            self._say_why_it_died()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _say_why_it_died(self) -> NoReturn:
        self.process.join()
        lines = [line.strip() for line in self._printed().splitlines() if line.strip()]
        last = lines[-1] if lines else "it printed nothing"
        raise Mistake(f"a simulator's process died ({ending(self.process.exitcode or 0)}): {last}") from None

    def _printed(self) -> str:
        """What it printed as errors, said once; after its end, for both have one place in the file."""
        self.errors.seek(0)
        printed = self.errors.read().decode(errors="replace")
        self.errors.truncate(0)
        return printed

    def close(self) -> None:
        """Waits for its end; the pipe is closed already."""
        self.process.join()
        sys.stderr.write(self._printed())
        self.errors.close()


def _work(errors: Connection, pipe: Connection, make: bytes, lanes: int) -> None:
    os.dup2(errors.fileno(), 2)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _serve(pipe, make, lanes)


def _serve(pipe: Connection, make: bytes, lanes: int) -> None:
    environments: InTurn | None = None
    answer: Any
    while True:
        try:
            what, values = pipe.recv()
        except (EOFError, OSError):  # closed, or reset by who left with an answer unread
            break
        try:
            environments = environments or InTurn(cloudpickle.loads(make), lanes)
            answer = environments.reset(values) if what == "reset" else environments.step(values)
        except Exception as problem:  # the process that asked shall see it
            answer = _portable(problem)
        try:
            pipe.send(answer)
        except OSError:  # it has gone
            break
    if environments:
        environments.close()


def _portable(problem: Exception) -> Exception:
    """The exception, or one with its text where it cannot be sent to another process."""
    try:
        return cloudpickle.loads(ForkingPickler.dumps(problem))
    except Exception:  # whatever a simulator's own exceptions need
        return RuntimeError(f"{type(problem).__name__}: {problem}")
