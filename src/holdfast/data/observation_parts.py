"""The parts of a raw observation, and the columns that each becomes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np

from holdfast.data import spaces
from holdfast.data.spaces import ONE_HOT, Space, Tree, value_range
from holdfast.errors import Mistake

SMALLEST_FRAME = 36  # pixels: what the convolutions need
CHANNELS_LAST = 4  # a last axis of at most this many entries holds an image's channels
Path = tuple[str | int, ...]  # the keys of Dicts and the indices of Tuples that lead to a part of an observation


def named(path: Sequence[str | int]) -> str:
    """The path in words, such as `goal.0`."""
    return ".".join(str(key) for key in path)


@dataclass(frozen=True)
class Part(ABC):
    """A part of an observation, and its columns in the vector."""

    path: Path
    shape: tuple[int, ...]
    KIND: ClassVar[str]

    def __post_init__(self) -> None:
        spaces.check_shape(self.shape)

    @property
    @abstractmethod
    def width(self) -> int:
        """Number of columns."""

    @abstractmethod
    def encode(self, values: np.ndarray) -> np.ndarray:
        """The columns of these rows, (N, *shape) -> (N, width)."""

    def take(self, rows: Tree) -> np.ndarray:
        """This part of raw observations, (N, *shape)."""
        place = f" {named(self.path)}" if self.path else ""
        for key in self.path:
            rows = _inner(rows, key, place)
        try:
            values = np.asarray(rows)
        except ValueError:
            raise Mistake(f"the observation{place} must have the same shape at every step") from None
        if values.dtype.kind not in spaces.NUMBERS:
            raise Mistake(f"the observation{place} must be numbers, got {values.dtype}")
        if values.shape[1:] != self.shape:
            raise Mistake(f"the observation{place} must have shape {self.shape}, got {values.shape[1:]}")
        return values


def _inner(rows: Tree, key: str | int, place: str) -> Tree:
    if isinstance(key, str) and not isinstance(rows, Mapping):
        raise Mistake(f"the observation{place} is missing: a dictionary with the key {key!r} is expected")
    if isinstance(key, int) and not isinstance(rows, tuple | list):
        raise Mistake(f"the observation{place} is missing: a tuple with the entry {key} is expected")
    try:
        return rows[key]
    except (KeyError, IndexError):
        raise Mistake(f"the observation{place} is missing: there is no {key!r} in it") from None


@dataclass(frozen=True)
class Numbers(Part):
    """Numbers as they are, flattened."""

    KIND: ClassVar[str] = "numbers"

    @property
    def width(self) -> int:
        """Number of columns."""
        return prod(self.shape)

    def encode(self, values: np.ndarray) -> np.ndarray:
        """The numbers as float32."""
        with np.errstate(over="ignore"):  # what becomes infinite is refused by the dataset
            return values.reshape(len(values), -1).astype(np.float32)


@dataclass(frozen=True)
class OneHot(Part):
    """Integers, each as a vector with a single one."""

    counts: tuple[int, ...]
    starts: tuple[int, ...]
    KIND: ClassVar[str] = "one-hot"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not len(self.counts) == len(self.starts) == prod(self.shape) or min(self.counts) < 1:
            raise Mistake("a one-hot part must have a number of values and a first value for each entry")
        if sum(self.counts) > ONE_HOT:
            raise Mistake(
                f"Discrete observations with {sum(self.counts):,} values are too wide as one-hot vectors: at most "
                f"{ONE_HOT:,} are read"
            )

    @property
    def width(self) -> int:
        """Number of columns."""
        return sum(self.counts)

    def encode(self, values: np.ndarray) -> np.ndarray:
        """A one in the column of each value."""
        flat = values.reshape(len(values), -1)
        if flat.dtype.kind == "f" and not np.array_equal(flat, np.floor(flat)):
            raise Mistake(f"a Discrete observation must be integers, got {values.dtype}")
        indices = flat.astype(np.int64) - np.array(self.starts)
        if ((indices < 0) | (indices >= np.array(self.counts))).any():
            raise Mistake(
                f"a Discrete observation must be one of {value_range(self.counts, self.starts)}, got "
                f"{flat.min()}..{flat.max()}"
            )
        columns = np.zeros((len(flat), self.width), np.float32)
        offsets = np.concatenate([[0], np.cumsum(self.counts)[:-1]])
        np.put_along_axis(columns, (indices + offsets).astype(np.int64), 1.0, axis=1)
        return columns


@dataclass(frozen=True)
class Frames(Part):
    """A stack of frames or the channels of an image, channels first, uint8."""

    KIND: ClassVar[str] = "frames"

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.shape) not in (2, 3):
            raise Mistake(f"an image must have two or three axes, got {self.shape}")

    @property
    def channels_last(self) -> bool:
        """Whether the last axis holds the channels."""
        return len(self.shape) == 3 and self.shape[2] <= CHANNELS_LAST < self.shape[0]

    @property
    def seen(self) -> tuple[int, ...]:
        """The shape (C, H, W) that a network sees."""
        if len(self.shape) == 2:
            return (1, *self.shape)
        return (self.shape[2], *self.shape[:2]) if self.channels_last else self.shape

    @property
    def width(self) -> int:
        """Number of bytes."""
        return prod(self.shape)

    def encode(self, values: np.ndarray) -> np.ndarray:
        """The same pixels as (N, C, H, W)."""
        if values.dtype != np.uint8:
            raise Mistake(f"images must be uint8 from 0 to 255, got {values.dtype}: convert them before")
        if self.channels_last:
            values = np.moveaxis(values, -1, 1)
        return np.ascontiguousarray(values.reshape(len(values), *self.seen))


PARTS: dict[str, type[Part]] = {kind.KIND: kind for kind in (Numbers, OneHot, Frames)}


def leaves(space: Space, path: Path = ()) -> Iterator[tuple[Path, Space]]:
    """The spaces inside Dicts, in sorted key order, and Tuples, each with the path to it."""
    if len(path) > spaces.DEEPEST:
        raise Mistake(f"observations may be nested {spaces.DEEPEST} levels deep at most")
    if isinstance(space, spaces.Dict):
        for name in sorted(space.parts):
            yield from leaves(space.parts[name], (*path, name))
    elif isinstance(space, spaces.Tuple):
        for index, part in enumerate(space.parts):
            yield from leaves(part, (*path, index))
    else:
        yield path, space


def observation_parts(space: Space, notes: list[str]) -> tuple[Part, ...]:
    """The parts of observations of this space; what is left out is added to the notes."""
    parts = []
    for path, leaf in leaves(space):
        if isinstance(leaf, spaces.Text):
            note_text(named(path), notes)
        else:
            parts.append(_part(path, leaf))
    if not parts:
        raise Mistake("the observations have no parts: at least one with numbers is needed")
    images = [part for part in parts if isinstance(part, Frames)]
    if images and len(parts) > 1:
        if len(images) == len(parts):
            names = ", ".join(named(part.path) for part in images)
            raise Mistake(f"observations of several images ({names}) cannot be learned: keep one of them")
        parts = [part for part in parts if part not in images]
        for part in images:
            notes.append(f"The image {named(part.path)} was left out: images are only read where they are alone.")
    return tuple(parts)


def note_text(name: str, notes: list[str]) -> None:
    """Notes that a part of the observations is left out because it is text."""
    note = f"The text {name} was left out: only numbers are learned from."
    if note not in notes:
        notes.append(note)


def _part(path: Path, space: Space) -> Part:
    if isinstance(space, spaces.Discrete):
        return OneHot(path, (), (space.count,), (space.start,))
    if isinstance(space, spaces.MultiDiscrete):
        counts, starts = (tuple(array.ravel().tolist()) for array in (space.counts, space.starts))
        return OneHot(path, space.counts.shape, counts, starts)
    assert isinstance(space, spaces.Box)
    place = f" {named(path)}" if path else ""
    if _is_image(space):
        frames = Frames(path, space.shape)
        if min(frames.seen[1:]) < SMALLEST_FRAME:
            return Numbers(path, space.shape)
        return frames
    if space.dtype == "uint8" and len(space.shape) > 3:
        raise Mistake(f"the images{place} have too many axes, {space.shape}: stack grey frames, or keep one image")
    if len(space.shape) == 3 and min(sorted(space.shape)[1:]) >= SMALLEST_FRAME:
        raise Mistake(f"the images{place} are {space.dtype}, but must be uint8 from 0 to 255: convert them before")
    return Numbers(path, space.shape)


def _is_image(space: spaces.Box) -> bool:
    return space.dtype == "uint8" and len(space.shape) in (2, 3)
