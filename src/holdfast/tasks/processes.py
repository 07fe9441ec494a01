"""Worker processes that end together with their parent process."""

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

CORES = "HOLDFAST_CORES"  # environment variable: how many cores a process may count on, if not all
STARTING = Lock()


class Process(ForkServerProcess):
    """A process that does not run the user's script again.

    By default Python imports the main module in the new process, to find functions defined there: a script without
    `if __name__ == "__main__"` would start itself again and again. Here cloudpickle sends these functions instead.
    """

    def start(self) -> None:
        with STARTING:
            main = sys.modules["__main__"]
            sys.modules["__main__"] = ModuleType("__main__")  # has no path to import
            try:
                super().start()
            finally:
                sys.modules["__main__"] = main


class Context(ForkServerContext):
    """A multiprocessing context that starts such processes."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[Process] = []

    def Process(self, *arguments: Any, **named: Any) -> Process:  # type: ignore[override]
        """A process, not started yet."""
        self.started.append(Process(*arguments, **named))
        return self.started[-1]


def usable_cores() -> int:
    """The number of processor cores that this process may use; a sweep gives each of its runs a share."""
    if share := os.environ.get(CORES):
        if not share.isdecimal() or int(share) == 0:
            raise Mistake(f"{CORES} must be a number of cores, from 1 on, got {share!r}")
        return int(share)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def forkserver() -> Context:
    """A context whose processes start with the package imported."""
    context = Context()
    context.set_forkserver_preload(["holdfast"])
    return context


@contextmanager
def processes(count: int | None = None) -> Iterator[Executor]:
    """A pool of processes, one per core by default, that end with this process even if it is killed."""
    environment = dict(os.environ)  # the fork server may have been started with another environment
    context = forkserver()
    pool = ProcessPoolExecutor(count or usable_cores(), context, _initialise, (environment, tuple(PLUGINS)))
    try:
        yield pool
    except BrokenProcessPool:
        pool.shutdown()
        codes = [process.exitcode or 0 for process in context.started]
        failed = [code for code in codes if code not in (0, -signal.SIGTERM)]  # the others were ended by the pool
        first = failed[0] if failed else -signal.SIGTERM
        raise Mistake(f"a worker process died ({ending(first)}): see its output above for the reason") from None
    finally:
        pool.shutdown(cancel_futures=True)


def ending(code: int) -> str:
    """How a process with this exit code ended, in words."""
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _initialise(environment: dict[str, str], plugins: Sequence[Plugin]) -> None:
    os.environ.update(environment)
    for plugin in plugins:  # tasks may call their functions
        add_plugin(plugin)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "only a process of a pool has a parent"
    parent.join()
    os._exit(1)
