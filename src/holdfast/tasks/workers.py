"""Environments in parallel processes, stepped together: for simulators that take milliseconds per step."""

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
from holdfast.tasks.processes import ending, forkserver, usable_cores


class Workers(Environments):
    """Each process steps a share of the lanes; results do not depend on the number of processes."""

    def __init__(self, make: Callable[[], gymnasium.Env], lanes: int, processes: int | None = None) -> None:
        count = min(processes or usable_cores(), lanes)
        self.bounds = [lanes * index // count for index in range(count + 1)]  # the lanes of each process
        pickled = cloudpickle.dumps(make)  # by value if it is defined in the user's script
        self.workers = [Worker(pickled, end - first) for first, end in zip(self.bounds, self.bounds[1:], strict=False)]

    def reset(self, seeds: Sequence[int]) -> np.ndarray:
        self._send("reset", list(seeds))
        return np.concatenate(self._answers())

    def begin(self, actions: np.ndarray) -> None:
        self._send("step", actions)

    def finish(self) -> Step:
        columns = zip(*(vars(answer).values() for answer in self._answers()), strict=True)
        return Step(*map(np.concatenate, columns))

    def _send(self, what: str, values: Any) -> None:
        """Sends every process its share of the values."""
        shares = [values[first:end] for first, end in zip(self.bounds, self.bounds[1:], strict=False)]
        self.busy = [worker for worker, share in zip(self.workers, shares, strict=True) if len(share)]
        for worker, share in zip(self.workers, shares, strict=True):
            if len(share):
                worker.send(what, share)

    def _answers(self) -> list[Any]:
        """The answers of the processes that got a share."""
        return [worker.answer() for worker in self.busy]

    def close(self) -> None:
        for worker in self.workers:
            worker.pipe.close()
        for worker in self.workers:
            worker.close()


class Worker:
    """One process; its stderr is kept, to report why it died, and printed when it ends."""

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
        """Sends a request."""
        try:
            self.pipe.send((what, values))
        except OSError:
            self._raise_cause_of_death()

    def answer(self) -> Any:
        """The answer to the last request; raises the exception that the simulator raised."""
        try:
            answer = self.pipe.recv()
        except (EOFError, OSError):
            self._raise_cause_of_death()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _raise_cause_of_death(self) -> NoReturn:
        self.process.join()
        lines = [line.strip() for line in self._printed().splitlines() if line.strip()]
        last = lines[-1] if lines else "it printed nothing"
        raise Mistake(f"a simulator's process died ({ending(self.process.exitcode or 0)}): {last}") from None

    def _printed(self) -> str:
        """Its stderr, which is then cleared. Only after its end: both processes share the position in the file."""
        self.errors.seek(0)
        printed = self.errors.read().decode(errors="replace")
        self.errors.truncate(0)
        return printed

    def close(self) -> None:
        """Waits for its end; the pipe must be closed before."""
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
        except (EOFError, OSError):  # closed or reset by the parent
            break
        try:
            environments = environments or InTurn(cloudpickle.loads(make), lanes)
            answer = environments.reset(values) if what == "reset" else environments.step(values)
        except Exception as problem:  # raised again in the parent
            answer = _portable(problem)
        try:
            pipe.send(answer)
        except OSError:  # the parent is gone
            break
    if environments:
        environments.close()


def _portable(problem: Exception) -> Exception:
    """The exception, or one with the same text if it cannot be pickled."""
    try:
        return cloudpickle.loads(ForkingPickler.dumps(problem))
    except Exception:  # exceptions of simulators may fail in any way
        return RuntimeError(f"{type(problem).__name__}: {problem}")
