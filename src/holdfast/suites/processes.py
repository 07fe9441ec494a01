"""Processes that take work, and end with the one that gives it."""

import multiprocessing
import os
import signal
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from threading import Thread


def forkserver() -> multiprocessing.context.ForkServerContext:
    """Processes that start with the package loaded."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["holdfast"])
    return context


@contextmanager
def processes(count: int | None = None) -> Iterator[Executor]:
    """Processes that take work, one per core by default, and end with this one, however it ends."""
    environment = dict(os.environ)  # the server of forks has that of when it was started
    pool = ProcessPoolExecutor(count or os.cpu_count(), forkserver(), _follow, (environment,))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _follow(environment: dict[str, str]) -> None:
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interruption is for the process that gives the work
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "only a process of a pool follows another"
    parent.join()
    os._exit(1)
