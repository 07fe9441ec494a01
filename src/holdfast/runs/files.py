"""Files that are whole or not there: written aside, flushed, then renamed."""

import errno
import hashlib
import json
import os
import re
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


def write_bytes(path: Path, content: bytes) -> None:
    """Replaces a file as a whole; whatever goes wrong, the file that was there stays."""
    if path.is_dir():
        raise Mistake(f"{path} is a folder: give the name of a file")
    aside = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with aside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as problem:
        with suppress(OSError):
            aside.unlink()
        raise _explained(problem, path) from problem


def make_folder(path: Path) -> None:
    """Makes a folder, if it is not there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise _explained(problem, path) from problem


def append_line(path: Path, line: str) -> None:
    """Adds one line to a log."""
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
    except OSError as problem:
        raise _explained(problem, path) from problem


def _explained(problem: OSError, path: Path) -> Exception:
    if problem.errno in FULL:
        return Mistake(f"no space is left to write {path}: free some and run the same command again, nothing is lost")
    refused = isinstance(problem, PermissionError | NotADirectoryError | FileExistsError | FileNotFoundError)
    if refused or problem.errno == errno.EROFS:
        return Mistake(f"{path} cannot be written ({problem.strerror}): choose another folder")
    return problem


def write_json(path: Path, record: Any) -> None:
    """Plain data, indented; a list of plain values stands on one line. A file that says just this is left alone."""
    text = FLAT.sub(lambda found: f"[{LINES.sub(' ', found[1]).strip()}]", json.dumps(record, indent=1))
    content = (text + "\n").encode()
    if not (path.is_file() and path.read_bytes() == content):
        write_bytes(path, content)


def read_json(path: Path) -> Any:
    """The plain data in a file."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise Mistake(f"{path} is missing") from None
    except PermissionError as problem:
        raise Mistake(f"{path} cannot be read ({problem.strerror})") from problem
    except (json.JSONDecodeError, UnicodeDecodeError) as problem:
        raise Mistake(f"{path} is damaged ({problem})") from problem


def packed(tensors: Mapping[str, Tensor]) -> tuple[bytes, str]:
    """Named tensors as safetensors, and the hash of that."""
    content = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    return content, hashlib.sha256(content).hexdigest()


def sealed(tensors: Mapping[str, Tensor]) -> bytes:
    """The same with its hash before it, for a file that no index knows."""
    content, digest = packed(tensors)
    return digest.encode() + content


def unsealed(content: bytes) -> dict[str, Tensor] | None:
    """The tensors that were sealed; none where anything changed since."""
    whole = hashlib.sha256(content[64:]).hexdigest().encode() == content[:64]
    return load(content[64:]) if whole else None


def read_tensors(path: Path, expected: str | None = None) -> dict[str, Tensor]:
    """The tensors in a file, which must have the expected hash."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise Mistake(f"{path} is missing: bring it back, or delete the run folder and start again") from None
    except PermissionError as problem:
        raise Mistake(f"{path} cannot be read ({problem.strerror})") from problem
    if expected is not None and hashlib.sha256(content).hexdigest() != expected:
        raise Mistake(f"{path} was changed or cut off since it was written: bring it back from a copy")
    try:
        return load(content)
    except SafetensorError as problem:
        raise Mistake(f"{path} is damaged ({problem})") from problem
