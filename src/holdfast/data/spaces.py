"""The spaces of recorded observations and actions: declared by a file or an environment, or inferred from the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from holdfast.data.validation import shown
from holdfast.errors import Mistake

DEEPEST = 16  # levels of Dict and Tuple inside each other
WIDEST = 2**24  # numbers in one observation or action
LARGEST = 2**53  # values of Discrete spaces
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = ("bool", *INTEGERS, "float16", "float32", "float64")
NUMBERS = "biuf"  # kinds of dtype: booleans, integers, floats
ONE_HOT = 4_096  # most values of a Discrete observation


@dataclass(frozen=True)
class Box:
    """Arrays of numbers, with bounds where they are known."""

    shape: tuple[int, ...]
    dtype: str
    low: np.ndarray | None = None  # (*shape,)
    high: np.ndarray | None = None

    def __post_init__(self) -> None:
        check_shape(self.shape)


@dataclass(frozen=True)
class Discrete:
    """Integers from `start` on."""

    count: int
    start: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.count <= LARGEST or abs(self.start) > LARGEST:
            raise Mistake("a Discrete space must have at least one value, and values that fit into 53 bits")


@dataclass(frozen=True)
class MultiDiscrete:
    """Arrays of integers, each with its own number of values and its own first value."""

    counts: np.ndarray  # (*shape,)
    starts: np.ndarray  # (*shape,)

    def __post_init__(self) -> None:
        if self.counts.shape != self.starts.shape or self.counts.size == 0 or self.counts.min() < 1:
            raise Mistake("a MultiDiscrete space must have a positive number of values for each entry")
        if self.counts.max() > LARGEST or np.abs(self.starts).max() > LARGEST:
            raise Mistake("a MultiDiscrete space must have values that fit into 53 bits")
        check_shape(self.counts.shape)


@dataclass(frozen=True)
class Dict:
    """Named parts."""

    parts: Mapping[str, Space]


@dataclass(frozen=True)
class Tuple:
    """Numbered parts."""

    parts: tuple[Space, ...]


@dataclass(frozen=True)
class Text:
    """Words, such as the task in MiniGrid's observations; a part that is left out."""


Space = Box | Discrete | MultiDiscrete | Dict | Tuple | Text
Tree = Any  # an array with one row per step, or a dict or tuple of such


def check_shape(shape: tuple[int, ...]) -> None:
    """Raises unless one observation or action of this shape has a reasonable size."""
    if min(shape, default=1) < 1 or len(shape) > 8 or prod(shape) > WIDEST:
        raise Mistake(f"the shape {shown(shape)} is empty or too large: at most {WIDEST:,} numbers are read per step")


def from_json(record: Any, depth: int = 0) -> Space:
    """The space that Minari's metadata describe."""
    if not isinstance(record, dict) or depth > DEEPEST:
        raise Mistake("a space in the metadata is not described as Minari does")
    try:
        return _from_json(record, depth)
    except (KeyError, TypeError, ValueError, OverflowError) as problem:
        raise Mistake(f"a space in the metadata is not described as Minari does ({problem})") from problem


def _from_json(record: dict[str, Any], depth: int) -> Space:
    kind = record["type"]
    if kind == "Box":
        shape = tuple(int(size) for size in record["shape"])
        check_shape(shape)
        bounds = [np.asarray(record[name], np.float64) for name in ("low", "high")]
        if any(bound.shape != shape for bound in bounds):
            raise Mistake(f"the bounds of a Box must have its shape {shape}")
        return Box(shape, _dtype(record["dtype"]), *bounds)
    if kind == "Discrete":
        return Discrete(int(record["n"]), int(record.get("start", 0)))
    if kind == "MultiDiscrete":
        counts = np.asarray(record["nvec"], np.int64)
        return MultiDiscrete(counts, np.asarray(record.get("start", np.zeros_like(counts)), np.int64))
    if kind == "MultiBinary":
        return _binary(record["n"])
    if kind == "Dict":
        return Dict({str(name): from_json(part, depth + 1) for name, part in record["subspaces"].items()})
    if kind == "Tuple":
        return Tuple(tuple(from_json(part, depth + 1) for part in record["subspaces"]))
    if kind == "Text":
        return Text()
    raise Mistake(f"a space of type {shown(kind)} cannot be learned from: it must consist of numbers")


def _dtype(name: Any) -> str:
    if name not in DTYPES:
        raise Mistake(f"a Box must hold numbers, got {shown(name)}")
    return str(name)


def _binary(sizes: Any) -> MultiDiscrete:
    shape = tuple(int(size) for size in np.atleast_1d(sizes))
    check_shape(shape)
    return MultiDiscrete(np.full(shape, 2, np.int64), np.zeros(shape, np.int64))


def from_gymnasium(space: Any) -> Space:
    """The same as a space of Gymnasium."""
    from gymnasium import spaces

    if isinstance(space, spaces.Box):
        return Box(space.shape, space.dtype.name, space.low.astype(np.float64), space.high.astype(np.float64))
    if isinstance(space, spaces.Discrete):
        return Discrete(int(space.n), int(space.start))
    if isinstance(space, spaces.MultiDiscrete):
        return MultiDiscrete(space.nvec.astype(np.int64), space.start.astype(np.int64))
    if isinstance(space, spaces.MultiBinary):
        return _binary(space.n)
    if isinstance(space, spaces.Dict):
        return Dict({name: from_gymnasium(part) for name, part in space.spaces.items()})
    if isinstance(space, spaces.Tuple):
        return Tuple(tuple(from_gymnasium(part) for part in space.spaces))
    if space.dtype is not None and space.dtype.kind == "U":
        return Text()
    raise Mistake(f"a space of type {type(space).__name__} cannot be learned from: it must consist of numbers")


def observed(values: Tree) -> Space:
    """The space of observations that no file and no environment declares."""
    if isinstance(values, Mapping):
        return Dict({name: observed(part) for name, part in values.items()})
    if isinstance(values, tuple):
        return Tuple(tuple(observed(part) for part in values))
    if values.ndim == 1 and values.dtype.kind in "iu" and values.min() >= 0 and values.max() < ONE_HOT:
        return Discrete(int(values.max()) + 1)
    return Box(values.shape[1:], values.dtype.name)


def acted(values: Tree) -> Space:
    """The space of actions that no file and no environment declares."""
    if isinstance(values, Mapping | tuple):
        return Dict({}) if isinstance(values, Mapping) else Tuple(())
    if values.dtype.kind not in "biu":
        return Box(values.shape[1:], values.dtype.name)
    values = values.astype(np.int64)
    if values.ndim == 1:
        start = min(int(values.min()), 0)
        return Discrete(int(values.max()) - start + 1, start)
    starts = np.minimum(values.min(axis=0), 0)
    return MultiDiscrete(values.max(axis=0) - starts + 1, starts)


def value_range(counts: Sequence[int], starts: Sequence[int]) -> str:
    """The values of integers in words, such as `0..3 x 1..2`."""
    if len(counts) == 1:
        return f"{starts[0]}..{starts[0] + counts[0] - 1}"
    return " x ".join(f"{start}..{start + count - 1}" for count, start in zip(counts, starts, strict=True))[:60]
