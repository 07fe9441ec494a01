"""Processes that take work, and end with the one that gives it."""

import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.context import ForkServerContext, ForkServerProcess
from threading import Lock, Thread
from types import ModuleType
from typing import Any

from holdfast.errors import Mistake
from holdfast.registry import PLUGINS, Plugin, add_plugin

STARTING = Lock()


class Process(ForkServerProcess):
    """A process that does not run the user's script again.

    Python hands the path of the main module on, for functions defined there, and the new process imports it: a script
    without `if __name__ == "__main__"` would start itself over and over. Functions of a script travel by cloudpickle.
    """

    def start(self) -> None:
        with STARTING:
            main = sys.modules["__main__"]
            sys.modules["__main__"] = ModuleType("__main__")  # has no path to hand on
            try:
                super().start()
            finally:
                sys.modules["__main__"] = main


class Context(ForkServerContext):
    """Where such processes come from."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[Process] = []

    def Process(self, *arguments: Any, **named: Any) -> Process:  # type: ignore[override]
        """A process, not started yet."""
        self.started.append(Process(*arguments, **named))
        return self.started[-1]


def forkserver() -> Context:
    """Processes that start with the package loaded."""
    context = Context()
    context.set_forkserver_preload(["holdfast"])
    return context


@contextmanager
def processes(count: int | None = None) -> Iterator[Executor]:
    """Processes that take work, one per core by default, and end with this one, however it ends."""
    environment = dict(os.environ)  # the server of forks has that of when it was started
    context = forkserver()
    pool = ProcessPoolExecutor(count or os.cpu_count(), context, _follow, (environment, tuple(PLUGINS)))
    try:
        yield pool
    except BrokenProcessPool:
        pool.shutdown()
        codes = [process.exitcode or 0 for process in context.started]
        first = next((code for code in codes if code not in (0, -signal.SIGTERM)), -signal.SIGTERM)  # others are ended
        raise Mistake(f"a process that was given work died ({ending(first)}): what it printed says why") from None
    finally:
        pool.shutdown(cancel_futures=True)


def ending(code: int) -> str:
    """How a process ended, in words, from its exit code."""
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _follow(environment: dict[str, str], plugins: Sequence[Plugin]) -> None:
    os.environ.update(environment)
    for plugin in plugins:  # their functions may be the work
        add_plugin(plugin)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interruption is for the process that gives the work
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "only a process of a pool follows another"
    parent.join()
    os._exit(1)
