"""A folder that is held open by its descriptor: reads, writes and removals never follow links out of it."""

import fcntl
import os
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from holdfast.data.files import (
    RECORD,
    check_regular,
    decoded,
    encoded,
    read_regular,
    replace_whole,
    unreadable,
    unwritable,
)
from holdfast.errors import Mistake

FOLDER = os.O_RDONLY | os.O_DIRECTORY


class Directory:
    """A folder, whose own path may contain links; names in it are relative, such as `state/fit.json`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.place = path.absolute()  # independent of the working directory
            self.descriptor = os.open(path, FOLDER)
        except (OSError, ValueError) as problem:
            raise unreadable(problem, path) from problem
        weakref.finalize(self, os.close, self.descriptor)

    def lock(self) -> bool:
        """Locks the folder until `unlock` or the end of the process; returns False if another process has locked it."""
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(self) -> None:
        """Releases the lock."""
        fcntl.flock(self.descriptor, fcntl.LOCK_UN)

    def check_place(self) -> None:
        """Raises if the folder was moved or removed, so that nothing is written to another folder at its path."""
        current = None
        with suppress(OSError):
            current = os.stat(self.place)
        if current is None or not os.path.samestat(os.fstat(self.descriptor), current):
            raise Mistake(
                f"{self.path} was moved or removed while this process was using it: everything saved so far is in the "
                "moved folder; give its new path to go on"
            )

    def exists(self, name: str) -> bool:
        """Whether an entry with this name exists; a broken link counts."""
        try:
            with self._parent(name) as (folder, last):
                os.stat(last, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return False
        except OSError as problem:
            raise self._unreadable(problem, name) from problem
        return True

    def size(self, name: str) -> int:
        """The bytes of a file."""
        try:
            with self._parent(name) as (folder, last):
                return os.stat(last, dir_fd=folder, follow_symlinks=False).st_size
        except OSError as problem:
            raise self._unreadable(problem, name) from problem

    def names(self) -> list[str]:
        """The names of the entries in the folder."""
        return os.listdir(self.descriptor)

    def read_bytes(self, name: str, limit: int = RECORD, last: bool = False) -> bytes:
        """The content of a file, or with `last` only its last `limit` bytes."""
        try:
            with self._parent(name) as (folder, file):
                return read_regular(file, self.path / name, limit, folder, last)
        except OSError as problem:
            raise self._unreadable(problem, name) from problem

    def read_json(self, name: str) -> Any:
        """The plain data in a file."""
        return decoded(self.read_bytes(name), self.path / name)

    def write_bytes(self, name: str, content: bytes) -> None:
        """Replaces a file atomically: even after a power failure it is the old file or the new one."""
        self.check_place()
        try:
            with self._parent(name, make=True) as (folder, last):
                replace_whole(last, content, folder)
                os.fsync(folder)
        except OSError as problem:
            raise self._unwritable(problem, name) from problem

    def write_json(self, name: str, record: Any) -> None:
        """Writes plain data as JSON, unless the file already has this content."""
        content = encoded(record)
        if not (self.exists(name) and self.read_bytes(name) == content):
            self.write_bytes(name, content)

    def append_line(self, name: str, line: str) -> None:
        """Appends one line to a log."""
        self.check_place()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            with self._parent(name) as (folder, last), _opened(last, flags, folder) as file:
                check_regular(file.fileno(), self.path / name)
                file.write(line.encode() + b"\n")
        except OSError as problem:
            raise self._unwritable(problem, name) from problem

    def make_folder(self, name: str) -> None:
        """Makes a folder in this one, unless it exists."""
        try:
            with self._parent(f"{name}/", make=True):
                pass
        except OSError as problem:
            raise self._unwritable(problem, name) from problem

    def remove(self, name: str) -> None:
        """Removes a file, if it exists, and the temporary file of an interrupted write."""
        self.check_place()
        try:
            with self._parent(name) as (folder, last):
                for file in (last, f"{last}.part"):
                    with suppress(FileNotFoundError):
                        os.unlink(file, dir_fd=folder)
        except FileNotFoundError:
            return
        except OSError as problem:
            raise self._unwritable(problem, name) from problem

    def remove_empty(self, name: str) -> None:
        """Removes a folder in this one if it is empty."""
        with suppress(OSError):
            os.rmdir(name, dir_fd=self.descriptor)

    @contextmanager
    def _parent(self, name: str, make: bool = False) -> Iterator[tuple[int, str]]:
        """The descriptor of the folder that contains a name (made if `make`), and the last part of the name."""
        *folders, last = name.split("/")
        with ExitStack() as stack:
            inner = self.descriptor
            for folder in folders:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(folder, dir_fd=inner)
                inner = os.open(folder, FOLDER | os.O_NOFOLLOW, dir_fd=inner)
                stack.callback(os.close, inner)
            yield inner, last

    def _unreadable(self, problem: OSError, name: str) -> Mistake:
        return self._link_above(name) or unreadable(problem, self.path / name)

    def _unwritable(self, problem: OSError, name: str) -> Mistake:
        return self._link_above(name) or unwritable(problem, self.path / name)

    def _link_above(self, name: str) -> Mistake | None:
        """An error if a part of the path to a file is a link."""
        way = [self.path / name, *(self.path / name).parents]
        for part in way[: name.count("/") + 1]:
            if part.is_symlink():
                return Mistake(
                    f"{part} is a link: a run must keep its files in its folder, so replace the link by its target"
                )
        return None


def _opened(name: str, flags: int, folder: int) -> BinaryIO:
    return os.fdopen(os.open(name, flags, 0o666, dir_fd=folder), "ab")
