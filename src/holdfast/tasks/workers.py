"""Environments in parallel processes, stepped together: for simulators that take milliseconds per step."""

import atexit
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
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

KEPT = 2  # processes per core that are kept,
FEWEST = 10  # or this many, if that is more: a run evaluates five tasks at a time, in two groups of episodes each
IDLE: "list[Worker]" = []


class Workers(Environments):
    """Each process steps a share of the lanes; results do not depend on the number of processes.

    Some processes are kept for the next environments: importing a simulator takes longer than many an episode.
    """

    def __init__(self, make: Callable[[], gymnasium.Env], lanes: int, processes: int | None = None) -> None:
        count = min(processes or usable_cores(), lanes)
        self.bounds = [lanes * index // count for index in range(count + 1)]  # the lanes of each process
        pickled = cloudpickle.dumps(make)  # by value if it is defined in the user's script
        self.workers = [IDLE.pop() if IDLE else Worker() for _ in range(count)]
        for worker, first, end in zip(self.workers, self.bounds, self.bounds[1:], strict=False):
            worker.send("make", (pickled, end - first))

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
        room = max(kept_processes() - len(IDLE), 0)
        kept = [worker for worker in self.workers if worker.clear()][:room]
        IDLE.extend(kept)
        end_all([worker for worker in self.workers if worker not in kept])


def kept_processes() -> int:
    """How many idle processes are kept."""
    return max(KEPT * usable_cores(), FEWEST)


class Worker:
    """One process; its stderr is kept, to report why it died, and printed when its environments are closed."""

    def __init__(self) -> None:
        context = forkserver()
        self.waiting = False  # whether it has not answered the last request
        self.errors = TemporaryFile()  # noqa: SIM115  open until the process ends
        self.pipe, theirs = context.Pipe()
        errors = Connection(os.dup(self.errors.fileno()), readable=False)  # a descriptor that can be sent
        self.process = context.Process(target=_work, args=(errors, theirs), daemon=True)
        self.process.start()
        theirs.close()
        errors.close()

    def send(self, what: str, values: Any) -> None:
        """Sends a request."""
        self.waiting = True
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
        self.waiting = False
        if isinstance(answer, Exception):
            raise answer
        return answer

    def clear(self) -> bool:
        """Closes its environments, so that it can be given others; returns False if it is busy or dead."""
        if self.waiting:
            return False
        try:
            self.send("close", None)
            self.answer()
        except Mistake:  # it died, and its stderr will say why
            return False
        sys.stderr.write(self._printed())
        return True

    def _raise_cause_of_death(self) -> NoReturn:
        self.process.join()
        lines = [line.strip() for line in self._printed().splitlines() if line.strip()]
        last = lines[-1] if lines else "it printed nothing"
        raise Mistake(f"a simulator's process died ({ending(self.process.exitcode or 0)}): {last}") from None

    def _printed(self) -> str:
        """Its stderr, which is then cleared. Only while it is idle: both processes share the position in the file."""
        self.errors.seek(0)
        printed = self.errors.read().decode(errors="replace")
        self.errors.seek(0)
        self.errors.truncate()
        return printed

    def close(self) -> None:
        """Waits for its end; the pipe must be closed before."""
        self.process.join()
        sys.stderr.write(self._printed())
        self.errors.close()


def end_all(workers: Sequence[Worker]) -> None:
    """Ends these processes and waits for them."""
    for worker in workers:
        worker.pipe.close()
    for worker in workers:
        worker.close()


@atexit.register
def end_idle() -> None:
    """Ends the processes that are kept for later."""
    end_all(IDLE)
    IDLE.clear()


os.register_at_fork(after_in_child=IDLE.clear)  # they serve the parent


def _work(errors: Connection, pipe: Connection) -> None:
    os.dup2(errors.fileno(), 2)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _serve(pipe)


def _serve(pipe: Connection) -> None:
    """Serves environments one after another until the parent closes the pipe."""
    with suppress(EOFError, OSError):  # closed or reset by the parent
        while True:
            _, (make, lanes) = pipe.recv()
            _serve_environments(pipe, make, lanes)


def _serve_environments(pipe: Connection, make: bytes, lanes: int) -> None:
    """Serves requests until the environments are to be closed."""
    environments: InTurn | None = None
    answer: Any
    try:
        while True:
            what, values = pipe.recv()
            if what == "close":
                break
            try:
                environments = environments or InTurn(cloudpickle.loads(make), lanes)
                answer = environments.reset(values) if what == "reset" else environments.step(values)
            except Exception as problem:  # raised again in the parent
                answer = _portable(problem)
            pipe.send(answer)
    finally:
        if environments:
            environments.close()
    pipe.send("closed")


def _portable(problem: Exception) -> Exception:
    """The exception, or one with the same text if it cannot be pickled."""
    try:
        return cloudpickle.loads(ForkingPickler.dumps(problem))
    except Exception:  # exceptions of simulators may fail in any way
        return RuntimeError(f"{type(problem).__name__}: {problem}")
