"""A lock between processes, which goes when the one that holds it ends, however it ends."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Waits until no other process has this file locked."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = _locked(path)
    try:
        yield
    finally:
        os.close(lock)


def _locked(path: Path) -> int:
    """The descriptor of the file, locked; one that was moved or removed in the meantime keeps nobody out."""
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW, 0o666)
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            if os.path.samestat(os.fstat(lock), os.stat(path)):
                return lock
        except FileNotFoundError:
            pass
        os.close(lock)
