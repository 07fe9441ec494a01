"""Finished work: what decides a fit or an evaluation, and its outcome, which is recalled instead of computed again."""

import platform
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from holdfast.gpu.capture import TRITON
from holdfast.training.cache_key import Unknown, code, content
from holdfast.training.ranks import team
from holdfast.training.step import Addition, trainable

LOSSES, KEY = "losses", "key"
Key = Callable[[], str | None]  # a hash that costs something to make; none where the work has none


class Entry(ABC):
    """The place of one outcome."""

    key: str  # of the work; nothing where it is not kept

    @abstractmethod
    def read(self) -> dict[str, Tensor] | None:
        """The outcome, if it is known and whole."""

    @abstractmethod
    def write(self, tensors: dict[str, Tensor]) -> None:
        """Keeps the outcome."""


class Memo(ABC):
    """Where outcomes are kept; runs/cache.py has the one on disk."""

    @abstractmethod
    def entries(self, keys: Sequence[Key]) -> AbstractContextManager[list[Entry]]:
        """The places of works with these keys; whoever else wants one of them waits."""

    @contextmanager
    def entry(self, key: Key) -> Iterator[Entry]:
        """The place of one."""
        with self.entries([key]) as (entry,):
            yield entry


class Nowhere(Entry):
    """Knows nothing, keeps nothing."""

    key = ""

    def read(self) -> dict[str, Tensor] | None:
        return None

    def write(self, tensors: dict[str, Tensor]) -> None:
        pass


class NoMemo(Memo):
    """Everything is computed."""

    @contextmanager
    def entries(self, keys: Sequence[Key]) -> Iterator[list[Entry]]:
        yield [Nowhere() for _ in keys]


def key_of(model: nn.Module, *others: Any) -> str | None:
    """The hash of all that decides work: what goes in, what it runs on, our code; none where that cannot be told."""
    try:
        return content(model, *others, _surroundings(next(model.parameters()).device), code())
    except Unknown:
        return None


def _surroundings(device: torch.device) -> dict[str, Any]:
    gpu = {"name": torch.cuda.get_device_name(device), "cuda": torch.version.cuda} if device.type == "cuda" else {}
    cudnn = torch.backends.cudnn
    return {
        "versions": (torch.__version__, np.__version__, TRITON),
        "processor": (_processor(), torch.backends.cpu.get_cpu_capability()),
        "gpu": gpu,
        "threads": torch.get_num_threads(),
        "processes": team().size,
        "products": (torch.get_float32_matmul_precision(), cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "dtype": torch.get_default_dtype(),
    }


@cache
def _processor() -> str:
    """Its name: sums are ordered differently on another one."""
    known = Path("/proc/cpuinfo")
    lines = known.read_text().splitlines() if known.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(names), platform.processor()) + platform.machine()


def outcome(model: nn.Module, addition: Addition | None) -> dict[str, Tensor]:
    """What a fit leaves, to be read, or written to in place: moved parameters, and a method's own tensors."""
    moved = {f"parameter/{name}": parameter.detach() for name, parameter in trainable(model).items()}
    return moved | {f"own/{name}": tensor for name, tensor in (addition.tensors() if addition else {}).items()}


def put_back(known: dict[str, Tensor] | None, there: dict[str, Tensor]) -> list[float] | None:
    """Makes the outcome what is known of it and returns its losses; none, nothing changed, where it does not fit."""
    if known is None or known.keys() != {*there, LOSSES}:
        return None
    if any((known[name].shape, known[name].dtype) != (tensor.shape, tensor.dtype) for name, tensor in there.items()):
        return None
    for name, tensor in there.items():
        tensor.copy_(known[name])
    return known[LOSSES].tolist()


def remembered(there: dict[str, Tensor], losses: list[float]) -> dict[str, Tensor]:
    """The outcome as it is kept."""
    return {**there, LOSSES: torch.tensor(losses, dtype=torch.float64)}


def packed_key(key: str) -> dict[str, Tensor]:
    """The key as it is saved with an unfinished fit."""
    return {KEY: torch.tensor(list(key.encode()), dtype=torch.uint8)}


def unmixed(entry: Entry, saved: dict[str, Tensor] | None) -> Entry:
    """The entry of a fit that goes on from what was saved; none if other code or another machine took those steps."""
    whole = saved is None or torch.equal((packed_key("") | saved)[KEY], packed_key(entry.key)[KEY])
    return entry if whole else Nowhere()
