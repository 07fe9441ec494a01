"""The cache of finished fits and evaluations: one file for each result, shared by all runs that use the folder."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

from torch import Tensor

from holdfast.data.files import TENSORS, read_bytes, sealed, unsealed, why, write_bytes
from holdfast.data.locks import locked
from holdfast.errors import Mistake

KeyFunction = Callable[[], str | None]  # computes a cache key; None for work that is never cached


class CacheEntry(ABC):
    """The entry of one result."""

    key: str  # empty if the result is not kept

    @abstractmethod
    def read(self) -> dict[str, Tensor] | None:
        """The result, or None if it is missing or damaged."""

    @abstractmethod
    def write(self, tensors: dict[str, Tensor]) -> None:
        """Stores the result."""


class Cache(ABC):
    """Results by key."""

    @abstractmethod
    def entries(self, keys: Sequence[KeyFunction]) -> AbstractContextManager[list[CacheEntry]]:
        """The entries of these keys, locked: another process that wants one of them waits."""

    @contextmanager
    def entry(self, key: KeyFunction) -> Iterator[CacheEntry]:
        """The entry of one key, locked."""
        with self.entries([key]) as (entry,):
            yield entry


class NoEntry(CacheEntry):
    """Has no result and keeps none."""

    key = ""

    def read(self) -> dict[str, Tensor] | None:
        return None

    def write(self, tensors: dict[str, Tensor]) -> None:
        pass


class NoCache(Cache):
    """Caches nothing."""

    @contextmanager
    def entries(self, keys: Sequence[KeyFunction]) -> Iterator[list[CacheEntry]]:
        yield [NoEntry() for _ in keys]


class DiskCache(Cache):
    """A folder of results. If it is deleted, full or read-only, results are computed again and nothing else is lost."""

    def __init__(self, path: Path) -> None:
        try:
            path.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as problem:
            raise Mistake(f"{path} cannot be a cache ({why(problem)}): choose another --cache") from None
        self.path = path

    @contextmanager
    def entries(self, keys: Sequence[KeyFunction]) -> Iterator[list[CacheEntry]]:
        names = [key() for key in keys]
        with ExitStack() as stack:
            for name in sorted(set(filter(None, names))):  # always in the same order, so that no deadlock is possible
                with suppress(OSError):  # without a lock file, two processes may compute the same result
                    stack.enter_context(locked(self.path / f"{name}.lock"))
            yield [DiskEntry(self.path, name) if name else NoEntry() for name in names]


class DiskEntry(CacheEntry):
    """A file that carries its own hash."""

    def __init__(self, folder: Path, key: str) -> None:
        self.path = folder / f"{key}.sealed"
        self.key = key

    def read(self) -> dict[str, Tensor] | None:
        try:
            return unsealed(read_bytes(self.path, TENSORS))
        except Mistake:
            return None

    def write(self, tensors: dict[str, Tensor]) -> None:
        with suppress(Mistake):  # a result that cannot be cached is still a result
            write_bytes(self.path, sealed(tensors))
