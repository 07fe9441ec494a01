"""Finished fits on disk: a file each, which runs share, and which whoever makes it keeps locked."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from holdfast.data.locks import locked
from holdfast.learners.memo import Entry, Memo, Nowhere
from holdfast.runs.files import packed, write_bytes


class DiskMemo(Memo):
    """A folder of outcomes by key; it can be deleted at any time, and then fits are trained again."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def entry(self, key: Callable[[], str | None]) -> Iterator[Entry]:
        name = key()
        if name is None:
            yield Nowhere()
        else:
            with locked(self.path / f"{name}.lock"):
                yield File(self.path, name)


class File(Entry):
    """The hash of what follows, then the tensors as safetensors."""

    def __init__(self, folder: Path, key: str) -> None:
        self.path, self.key = folder / f"{key}.fit", key

    def read(self) -> dict[str, Tensor] | None:
        content = self.path.read_bytes() if self.path.exists() else b""
        if hashlib.sha256(content[64:]).hexdigest().encode() != content[:64]:
            return None  # not there, cut off or changed
        try:
            return load(content[64:])
        except SafetensorError:
            return None

    def write(self, tensors: dict[str, Tensor]) -> None:
        content, digest = packed(tensors)
        write_bytes(self.path, digest.encode() + content)
