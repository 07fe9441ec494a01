"""Environments in parallel processes, stepped together: right for simulators that cost milliseconds."""

import os
import signal
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

import gymnasium
import numpy as np

from holdfast.suites.environments import Environments, InTurn, Step
from holdfast.suites.processes import forkserver


class Workers(Environments):
    """Each process has a share of the lanes; results do not depend on how many processes there are."""

    def __init__(self, make: Callable[[], gymnasium.Env], lanes: int, processes: int | None = None) -> None:
        count = min(processes or os.cpu_count() or 1, lanes)
        self.bounds = [lanes * index // count for index in range(count + 1)]  # the lanes of each process
        context = forkserver()
        self.pipes: list[Connection] = []
        self.processes = []
        for first, end in zip(self.bounds, self.bounds[1:], strict=False):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, make, end - first), daemon=True)
            process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)

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
        self.busy = [pipe for pipe, share in zip(self.pipes, shares, strict=True) if len(share)]
        for pipe, share in zip(self.pipes, shares, strict=True):
            if len(share):
                pipe.send((what, share))

    def _answers(self) -> list[Any]:
        """The answers of those that had a share."""
        return [self._answer(pipe) for pipe in self.busy]

    def _answer(self, pipe: Connection) -> Any:
        try:
            answer = pipe.recv()
        except EOFError:
            raise RuntimeError("a simulator's process died") from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        for pipe in self.pipes:
            pipe.close()
        for process in self.processes:
            process.join()


def _serve(pipe: Connection, make: Callable[[], gymnasium.Env], lanes: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    environments: InTurn | None = None
    answer: Any
    while True:
        try:
            what, values = pipe.recv()
        except (EOFError, OSError):  # closed, or reset by who left with an answer unread
            break
        try:
            environments = environments or InTurn(make, lanes)
            answer = environments.reset(values) if what == "reset" else environments.step(values)
        except Exception as problem:  # the process that asked shall see it
            answer = problem
        try:
            pipe.send(answer)
        except OSError:  # it has gone
            break
    if environments:
        environments.close()
