"""Files that are whole or not there: written aside, flushed, then renamed."""

import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from holdfast.errors import Mistake

FLAT, LINES = re.compile(r"\[(\n[^\[\]{}]*)\]"), re.compile(r"\n\s*")  # no string of JSON has a line's end in it
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
RECORD = 2**28  # bytes of a record, at most
TENSORS = 2**33  # bytes of a file of tensors, at most


def read_bytes(path: Path, limit: int = RECORD) -> bytes:
    """What a regular file holds, links followed."""
    try:
        return read_regular(path, path, limit)
    except (OSError, ValueError) as problem:
        raise unreadable(problem, path) from problem


def read_regular(name: str | Path, shown: Path, limit: int, folder: int | None = None, last: bool = False) -> bytes:
    """What a regular file holds, or only the last `limit` bytes of it; below a folder's descriptor no link is followed.

    Opened without waiting, since a pipe that nobody writes to would be waited for.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | (0 if folder is None else os.O_NOFOLLOW)
    with os.fdopen(os.open(name, flags, dir_fd=folder), "rb") as file:
        check_regular(file.fileno(), shown)
        size = os.fstat(file.fileno()).st_size
        if last:
            file.seek(max(size - limit, 0))
        elif size > limit:
            raise Mistake(f"{shown} is too large to be read: it has {size} bytes, at most {limit} are expected")
        return file.read(min(size, limit))  # Python reserves as much memory as it is asked to read


def check_regular(descriptor: int, shown: Path) -> None:
    """Raises if an open file is a pipe, a device or a folder."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise Mistake(f"{shown} is not a regular file: put the file itself there")


def write_bytes(path: Path, content: bytes) -> None:
    """Replaces a file as a whole; whatever goes wrong, the file that was there stays."""
    if os.path.isdir(path):
        raise Mistake(f"{path} is a folder: give the name of a file")
    if os.path.exists(path) and not os.path.isfile(path):  # such as /dev/null, which must not become a file
        raise Mistake(f"{path} is not a regular file: give the name of one")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_whole(path, content)
    except (OSError, ValueError) as problem:
        raise unwritable(problem, path) from problem


def replace_whole(name: str | Path, content: bytes, folder: int | None = None) -> None:
    """Replaces a file as a whole, below a folder's descriptor where there is one."""
    aside = f"{name}.part"
    with suppress(FileNotFoundError):
        os.unlink(aside, dir_fd=folder)  # which a kill may leave
    new = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with os.fdopen(os.open(aside, new, 0o666, dir_fd=folder), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with suppress(OSError):
            os.unlink(aside, dir_fd=folder)
        raise


def make_folder(path: Path) -> None:
    """Makes a folder, if it is not there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as problem:
        raise unwritable(problem, path) from problem


def unwritable(problem: Exception, path: Path) -> Mistake:
    """Why a file cannot be written, for the user."""
    if isinstance(problem, OSError) and problem.errno in FULL:
        return Mistake(f"no space is left to write {path}: free some and run the same command again, nothing is lost")
    return Mistake(f"{path} cannot be written ({why(problem)}): choose another folder")


def unreadable(problem: Exception, path: Path) -> Mistake:
    """Why a file cannot be read, for the user."""
    if isinstance(problem, FileNotFoundError):
        return Mistake(f"{path} is missing: bring it back from a copy")
    return Mistake(f"{path} cannot be read ({why(problem)})")


def why(problem: Exception) -> str:
    """The reason that an exception gives."""
    return (isinstance(problem, OSError) and problem.strerror) or str(problem)


def encoded(record: Any) -> bytes:
    """Plain data as JSON, indented; a list of plain values stands on one line."""
    text = FLAT.sub(lambda found: f"[{LINES.sub(' ', found[1]).strip()}]", json.dumps(record, indent=1))
    return (text + "\n").encode()


def decoded(content: bytes, path: Path) -> Any:
    """The plain data that is JSON in a file."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as problem:
        raise damaged(path, problem) from problem


def damaged(path: Path, problem: object) -> Mistake:
    """That a file does not say what it must."""
    return Mistake(f"{path} is damaged ({problem}): bring it back from a copy")


def read_json(path: Path) -> Any:
    """The plain data in a file."""
    return decoded(read_bytes(path), path)


def packed(tensors: Mapping[str, Tensor]) -> tuple[bytes, str]:
    """Named tensors as safetensors, and the hash of that."""
    content = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    return content, hashlib.sha256(content).hexdigest()


def unpacked(content: bytes, path: Path, expected: str) -> dict[str, Tensor]:
    """The tensors that were packed, which must have the expected hash."""
    if hashlib.sha256(content).hexdigest() != expected:
        raise Mistake(f"{path} was changed or cut off since it was written: bring it back from a copy")
    try:
        return load(content)
    except SafetensorError as problem:
        raise damaged(path, problem) from problem


def sealed(tensors: Mapping[str, Tensor]) -> bytes:
    """Named tensors with their hash before them, for a file that no index knows."""
    content, digest = packed(tensors)
    return digest.encode() + content


def unsealed(content: bytes) -> dict[str, Tensor] | None:
    """The tensors that were sealed; none where anything changed since."""
    if hashlib.sha256(content[64:]).hexdigest().encode() != content[:64]:
        return None
    try:
        return load(content[64:])
    except SafetensorError:
        return None
