"""Finished fits and evaluations on disk: a file each, which runs share, and which whoever makes it keeps locked."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from torch import Tensor

from holdfast.data.files import TENSORS, read_bytes, sealed, unsealed, why, write_bytes
from holdfast.data.locks import locked
from holdfast.errors import Mistake
from holdfast.training.cache import Entry, Key, Memo, Nowhere


class DiskMemo(Memo):
    """A folder of outcomes by key; deleted, full or not to be written at any time, it is one that knows less."""

    def __init__(self, path: Path) -> None:
        try:
            path.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as problem:
            raise Mistake(f"{path} cannot be a cache ({why(problem)}): choose another --cache") from None
        self.path = path

    @contextmanager
    def entries(self, keys: Sequence[Key]) -> Iterator[list[Entry]]:
        names = [key() for key in keys]
        with ExitStack() as stack:
            for name in sorted(set(filter(None, names))):  # all in one order, so that no two wait for each other
                with suppress(OSError):  # where no lock can be written, work may be done twice
                    stack.enter_context(locked(self.path / f"{name}.lock"))
            yield [File(self.path, name) if name else Nowhere() for name in names]


class File(Entry):
    """A sealed file."""

    def __init__(self, folder: Path, key: str) -> None:
        self.path, self.key = folder / f"{key}.memo", key

    def read(self) -> dict[str, Tensor] | None:
        try:
            return unsealed(read_bytes(self.path, TENSORS))
        except Mistake:
            return None

    def write(self, tensors: dict[str, Tensor]) -> None:
        with suppress(Mistake):  # what was computed is worth more than that it is kept here
            write_bytes(self.path, sealed(tensors))
