"""Atomic files: written to a temporary file, flushed, then renamed."""

import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from holdfast.errors import Mistake

FLAT, LINES = re.compile(r"\[(\n[^\[\]{}]*)\]"), re.compile(r"\n\s*")  # strings in JSON contain no line breaks
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
RECORD = 2**28  # largest JSON file, in bytes
TENSORS = 2**33  # largest file of tensors, in bytes


def read_bytes(path: Path, limit: int = RECORD) -> bytes:
    """The content of a regular file; links are followed."""
    try:
        return read_regular(path, path, limit)
    except (OSError, ValueError) as problem:
        raise unreadable(problem, path) from problem


def read_regular(name: str | Path, shown: Path, limit: int, folder: int | None = None, last: bool = False) -> bytes:
    """The content of a regular file, or with `last` only its last `limit` bytes.

    With the descriptor of a `folder`, links are not followed. The file is opened without blocking, since opening a
    named pipe would wait for a writer.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | (0 if folder is None else os.O_NOFOLLOW)
    with os.fdopen(os.open(name, flags, dir_fd=folder), "rb") as file:
        check_regular(file.fileno(), shown)
        size = os.fstat(file.fileno()).st_size
        if last:
            file.seek(max(size - limit, 0))
        elif size > limit:
            raise Mistake(f"{shown} is too large: it has {size} bytes, and at most {limit} are expected")
        return file.read(min(size, limit))  # Python allocates as much as it is asked to read


def check_regular(descriptor: int, shown: Path) -> None:
    """Raises if an open file is a pipe, a device or a folder."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise Mistake(f"{shown} is not a regular file: put the file itself there")


def check_own_file(path: Path) -> None:
    """Raises unless this is a regular file and no link, as a file in a stranger's folder must be."""
    if path.is_symlink() or not path.is_file():
        raise Mistake(f"{path} is missing or not a regular file: put the file itself there")


def write_bytes(path: Path, content: bytes) -> None:
    """Replaces a file atomically; if writing fails, the old file stays."""
    if os.path.isdir(path):
        raise Mistake(f"{path} is a folder: give the name of a file")
    if os.path.exists(path) and not os.path.isfile(path):  # such as /dev/null, which must not be replaced
        raise Mistake(f"{path} is not a regular file: give the name of one")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_whole(path, content)
    except (OSError, ValueError) as problem:
        raise unwritable(problem, path) from problem


def replace_whole(name: str | Path, content: bytes, folder: int | None = None) -> None:
    """Replaces a file atomically; `name` is relative to the descriptor of a `folder`, if one is given."""
    aside = f"{name}.part"
    with suppress(FileNotFoundError):
        os.unlink(aside, dir_fd=folder)  # left by a killed process
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
    """Makes a folder, unless it exists."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as problem:
        raise unwritable(problem, path) from problem


def unwritable(problem: Exception, path: Path) -> Mistake:
    """The user's message about a file that cannot be written."""
    if isinstance(problem, OSError) and problem.errno in FULL:
        return Mistake(f"no space is left to write {path}: free some and run the same command again, nothing is lost")
    return Mistake(f"{path} cannot be written ({why(problem)}): choose another folder")


def unreadable(problem: Exception, path: Path) -> Mistake:
    """The user's message about a file that cannot be read."""
    if isinstance(problem, FileNotFoundError):
        return Mistake(f"{path} is missing: restore it from a backup")
    return Mistake(f"{path} cannot be read ({why(problem)})")


def why(problem: Exception) -> str:
    """The reason of an exception, in words."""
    return (isinstance(problem, OSError) and problem.strerror) or str(problem)


def encoded(record: Any) -> bytes:
    """Plain data as indented JSON, with each list of plain values on one line."""
    text = FLAT.sub(lambda match: f"[{LINES.sub(' ', match[1]).strip()}]", json.dumps(record, indent=1))
    return (text + "\n").encode()


def decoded(content: bytes, path: Path) -> Any:
    """The plain data in the JSON content of a file."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as problem:
        raise damaged(path, problem) from problem


def damaged(path: Path, problem: object) -> Mistake:
    """The user's message about a file with invalid content."""
    return Mistake(f"{path} is damaged ({problem}): restore it from a backup")


def read_json(path: Path) -> Any:
    """The plain data in a file."""
    return decoded(read_bytes(path), path)


def packed(tensors: Mapping[str, Tensor]) -> tuple[bytes, str]:
    """Named tensors in the safetensors format, and the hash of the result."""
    content = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    return content, hashlib.sha256(content).hexdigest()


def tensor_hashes(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """A short hash of each tensor."""
    return {name: packed({"": tensors[name]})[1][:16] for name in sorted(tensors)}


def unpacked(
    content: bytes, path: Path, expected: str, tensors: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Tensor]:
    """The tensors in the content of a file, which must have the expected hash; `tensors` are those of each tensor."""
    if hashlib.sha256(content).hexdigest() != expected:
        where = _changed_tensor(content, tensors)
        raise Mistake(f"{path} was changed or truncated after it was written{where}: restore it from a backup")
    try:
        return load(content)
    except SafetensorError as problem:
        raise damaged(path, problem) from problem


def _changed_tensor(content: bytes, expected: Mapping[str, str]) -> str:
    """In words, the first tensor that does not have its expected hash, if that can be said."""
    try:
        found = tensor_hashes(load(content))
    except (SafetensorError, ValueError, KeyError, TypeError):
        return ""
    changed = [name for name, digest in expected.items() if found.get(name) != digest]
    return f" (in its tensor {changed[0]})" if changed else ""


def sealed(tensors: Mapping[str, Tensor]) -> bytes:
    """Named tensors in the safetensors format, preceded by their hash."""
    content, digest = packed(tensors)
    return digest.encode() + content


def unsealed(content: bytes) -> dict[str, Tensor] | None:
    """The tensors that `sealed` wrote, or None if the content was changed."""
    if hashlib.sha256(content[64:]).hexdigest().encode() != content[:64]:
        return None
    try:
        return load(content[64:])
    except SafetensorError:
        return None
