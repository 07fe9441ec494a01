"""How raw observations and actions become what a network sees, and back: recorded once, applied everywhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np

from holdfast.data import spaces
from holdfast.data.conform import conform
from holdfast.data.spaces import ONE_HOT, Space, Tree
from holdfast.data.validation import shown
from holdfast.errors import Mistake

SMALLEST_FRAME = 36  # pixels: what the convolutions need
CHANNELS_LAST = 4  # a last axis of at most this many entries holds an image's channels
COMBINATIONS = 1_024  # most values of a MultiDiscrete action as one Discrete
UNBOUNDED = 1e30  # bounds of this size, such as the largest float, are none
DIMENSIONS = 1_024  # most dimensions of a continuous action
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
                f"a Discrete observation must be one of {_range(self.counts, self.starts)}, got "
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


def _range(counts: Sequence[int], starts: Sequence[int]) -> str:
    if len(counts) == 1:
        return f"{starts[0]}..{starts[0] + counts[0] - 1}"
    return " x ".join(f"{start}..{start + count - 1}" for count, start in zip(counts, starts, strict=True))[:60]


class Actions(ABC):
    """How actions become what a network puts out, and back."""

    KIND: ClassVar[str]

    @abstractmethod
    def encode(self, actions: np.ndarray) -> np.ndarray:
        """Raw actions, (N, *shape), as the network's: (N,) int64 or (N, A) float32."""

    @abstractmethod
    def decode(self, actions: np.ndarray) -> np.ndarray:
        """The network's actions as the environment expects them."""


@dataclass(frozen=True)
class ScaledActions(Actions):
    """Continuous actions of any bounds, scaled to [-1, 1]; a constant dimension becomes 0."""

    shape: tuple[int, ...]
    dtype: str
    low: tuple[float, ...]
    high: tuple[float, ...]
    KIND: ClassVar[str] = "scaled"

    def __post_init__(self) -> None:
        spaces.check_shape(self.shape)
        if self.dtype not in spaces.DTYPES[1:]:
            raise Mistake(f"continuous actions must be numbers, got {shown(self.dtype)}")
        if not len(self.low) == len(self.high) == prod(self.shape):
            raise Mistake("the bounds of actions must have one number for each dimension")
        if len(self.low) > DIMENSIONS:
            raise Mistake(f"actions with {len(self.low):,} dimensions are too wide: at most {DIMENSIONS:,} are read")
        if not (np.isfinite(self.low).all() and np.isfinite(self.high).all()) or (self.half < 0).any():
            raise Mistake("the bounds of actions must be finite, the lower ones below the upper ones")

    @property
    def middle(self) -> np.ndarray:
        """The middle of each dimension's bounds."""
        return np.array(self.low) / 2 + np.array(self.high) / 2

    @property
    def half(self) -> np.ndarray:
        """Half of each dimension's range."""
        return np.array(self.high) / 2 - np.array(self.low) / 2

    def encode(self, actions: np.ndarray) -> np.ndarray:
        """Actions in [-1, 1], (N, A); what lies outside the bounds is clipped."""
        values = _rows(actions, self.shape, "biuf").reshape(len(actions), -1).astype(np.float64)
        scale = np.where(self.half > 0, self.half, 1.0)
        scaled = np.where(self.half > 0, (values - self.middle) / scale, 0.0)
        return np.clip(scaled, -1, 1).astype(np.float32)

    def decode(self, actions: np.ndarray) -> np.ndarray:
        """Actions in the original bounds and shape; integers are rounded."""
        values = self.middle + self.half * np.clip(np.asarray(actions, np.float64), -1, 1)
        values = np.clip(values, self.low, self.high)
        if np.dtype(self.dtype).kind in "iu":
            values = np.rint(values)
        return values.reshape(len(values), *self.shape).astype(self.dtype)


@dataclass(frozen=True)
class DiscreteActions(Actions):
    """Integers from `start` on, counted from 0."""

    count: int
    start: int = 0
    KIND: ClassVar[str] = "discrete"

    def __post_init__(self) -> None:
        if not 1 <= self.count <= COMBINATIONS:
            raise Mistake(f"{self.count:,} different actions are too many: at most {COMBINATIONS:,} can be learned")

    def encode(self, actions: np.ndarray) -> np.ndarray:
        """Integers from 0 on, (N,)."""
        actions = np.asarray(actions)
        if actions.ndim == 2 and actions.shape[1] == 1:
            actions = actions[:, 0]
        indices = _integers(_rows(actions, (), "biuf")) - self.start
        _check_range(indices, np.array([self.count]), np.array([self.start]))
        return indices

    def decode(self, actions: np.ndarray) -> np.ndarray:
        """Integers from `start` on, (N,)."""
        return np.asarray(actions, np.int64) + self.start


@dataclass(frozen=True)
class CombinedActions(Actions):
    """Several integers as one: the first counts most, as in a number with these radices."""

    shape: tuple[int, ...]
    counts: tuple[int, ...]  # radices
    starts: tuple[int, ...]
    KIND: ClassVar[str] = "combined"

    def __post_init__(self) -> None:
        if not len(self.counts) == len(self.starts) == prod(self.shape) or min(self.counts) < 1:
            raise Mistake("combined actions must have a number of values and a first value for each entry")
        if self.count > COMBINATIONS:
            raise Mistake(
                f"MultiDiscrete actions with {self.count:,} combinations cannot be learned: at most {COMBINATIONS:,} "
                "can, so leave out or coarsen some"
            )

    @property
    def count(self) -> int:
        """Number of combinations."""
        return prod(self.counts)

    def encode(self, actions: np.ndarray) -> np.ndarray:
        """One integer per step, (N,)."""
        actions = np.asarray(actions)
        digits = _integers(_rows(actions, self.shape, "biuf")).reshape(len(actions), -1) - np.array(self.starts)
        _check_range(digits, np.array(self.counts), np.array(self.starts))
        return np.ravel_multi_index(tuple(digits.T), self.counts).astype(np.int64)

    def decode(self, actions: np.ndarray) -> np.ndarray:
        """The integers of each step, (N, *shape)."""
        digits = np.stack(np.unravel_index(np.asarray(actions, np.int64), self.counts), axis=-1)
        return (digits + np.array(self.starts)).reshape(-1, *self.shape).astype(np.int64)


def _rows(actions: Any, shape: tuple[int, ...], kinds: str) -> np.ndarray:
    actions = np.asarray(actions)
    if actions.dtype.kind not in kinds or actions.shape[1:] != shape:
        raise Mistake(f"an action must be numbers of shape {shape}, got {actions.dtype} of shape {actions.shape[1:]}")
    return actions


def _integers(actions: np.ndarray) -> np.ndarray:
    if actions.dtype.kind == "f" and not np.array_equal(actions, np.floor(actions)):
        raise Mistake("discrete actions must be whole numbers")
    return actions.astype(np.int64)


def _check_range(indices: np.ndarray, counts: np.ndarray, starts: np.ndarray) -> None:
    if ((indices < 0) | (indices >= counts)).any():
        found = indices + starts
        raise Mistake(
            f"a discrete action must be one of {_range(counts.tolist(), starts.tolist())}, got "
            f"{found.min()}..{found.max()}"
        )


PARTS: dict[str, type[Part]] = {kind.KIND: kind for kind in (Numbers, OneHot, Frames)}
ACTIONS: dict[str, Any] = {kind.KIND: kind for kind in (ScaledActions, DiscreteActions, CombinedActions)}


@dataclass(frozen=True)
class Layout:
    """The parts of an observation in the order of their columns, and the actions."""

    parts: tuple[Part, ...]
    actions: Actions

    def __post_init__(self) -> None:
        if not self.parts:
            raise Mistake("an observation must have at least one part")
        if len(self.parts) > 1 and any(isinstance(part, Frames) for part in self.parts):
            raise Mistake("an image cannot be combined with other observations")
        if sum(part.width for part in self.parts) > spaces.WIDEST:
            raise Mistake(f"an observation may have at most {spaces.WIDEST:,} numbers")

    @property
    def observation(self) -> tuple[int, ...]:
        """The shape of an encoded observation."""
        first = self.parts[0]
        return first.seen if isinstance(first, Frames) else (sum(part.width for part in self.parts),)

    @property
    def itemsize(self) -> int:
        """Bytes of each number of an encoded observation."""
        return 1 if isinstance(self.parts[0], Frames) else 4

    @property
    def columns(self) -> dict[str, tuple[int, int]]:
        """The first column of each part, and the column after its last one."""
        ends = np.cumsum([part.width for part in self.parts]).tolist()
        return {named(part.path): (end - part.width, end) for part, end in zip(self.parts, ends, strict=True)}

    def encode_observations(self, raw: Tree) -> np.ndarray:
        """Raw observations, one row per step in every part, as arrays: (N, D) float32 or (N, C, H, W) uint8."""
        columns = [part.encode(part.take(raw)) for part in self.parts]
        if len({len(column) for column in columns}) != 1:
            raise Mistake("all parts of the observations must have the same number of steps")
        return columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1)

    def encode_observation(self, raw: Tree) -> np.ndarray:
        """One raw observation, as its environment returns it."""
        return self.encode_observations(_as_rows(raw))[0]

    def encode_actions(self, raw: Any) -> np.ndarray:
        """Raw actions, (N, *shape), as the network's."""
        return self.actions.encode(np.asarray(raw))

    def encode_action(self, raw: Any) -> np.ndarray:
        """One raw action."""
        return self.encode_actions(np.asarray(raw)[None])[0]

    def decode_actions(self, actions: np.ndarray) -> np.ndarray:
        """The network's actions as the environment expects them, (N, *shape)."""
        return self.actions.decode(np.asarray(actions))

    def decode_action(self, action: Any) -> np.ndarray:
        """One action as the environment expects it: an array, or for Discrete an integer, which can be a key."""
        decoded = self.decode_actions(np.asarray(action)[None])
        return decoded[0] if isinstance(self.actions, DiscreteActions) else decoded[0, ...]

    def record(self) -> dict[str, Any]:
        """The layout as plain data."""
        parts = [{"kind": part.KIND, **_plain(part)} for part in self.parts]
        return {"parts": parts, "actions": {"kind": self.actions.KIND, **_plain(self.actions)}}

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> Layout:
        """The layout that `record` described."""
        try:
            parts = tuple(_read(part, PARTS, "parts") for part in record["parts"])
            return cls(parts, _read(record["actions"], ACTIONS, "actions"))
        except (KeyError, TypeError, AttributeError) as problem:
            raise Mistake(f"the recorded layout is damaged ({problem})") from problem


def _plain(value: Any) -> dict[str, Any]:
    return {name: list(entry) if isinstance(entry, tuple) else entry for name, entry in asdict(value).items()}


def _read(record: Mapping[str, Any], kinds: Mapping[str, Any], where: str) -> Any:
    fields = dict(record)
    kind = fields.pop("kind")
    if kind not in kinds:
        raise Mistake(f"the recorded layout has unknown {where}: {shown(kind)}")
    return conform(fields, kinds[kind], where)


def _as_rows(raw: Tree) -> Tree:
    """One raw observation as a batch of one."""
    if isinstance(raw, Mapping):
        return {key: _as_rows(part) for key, part in raw.items()}
    if isinstance(raw, tuple):
        return tuple(_as_rows(part) for part in raw)
    try:
        return np.asarray(raw)[None]
    except ValueError:
        raise Mistake(f"an observation must be numbers, got {shown(raw)}") from None


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
    parts = [_part(path, leaf) for path, leaf in leaves(space)]
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


def action_layout(space: Space, actions: np.ndarray, notes: list[str]) -> Actions:
    """The layout of actions of this space; unknown bounds are taken from the actions, which the notes say."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        raise Mistake(
            "actions that are dictionaries or tuples cannot be learned: put them into one vector or one integer before"
        )
    if isinstance(space, spaces.Discrete):
        return DiscreteActions(space.count, space.start)
    if isinstance(space, spaces.MultiDiscrete):
        counts, starts = (tuple(array.ravel().tolist()) for array in (space.counts, space.starts))
        return CombinedActions(space.counts.shape, counts, starts)
    return _scaled(space, actions, notes)


def _scaled(space: spaces.Box, actions: np.ndarray, notes: list[str]) -> ScaledActions:
    values = _rows(actions, space.shape, "biuf").reshape(len(actions), -1).astype(np.float64)
    size = values.shape[1]
    low = np.full(size, -np.inf) if space.low is None else space.low.ravel()
    high = np.full(size, np.inf) if space.high is None else space.high.ravel()
    known = (np.abs(low) < UNBOUNDED) & (np.abs(high) < UNBOUNDED)
    low = np.where(known, low, values.min(axis=0))
    high = np.where(known, high, values.max(axis=0))
    if not known.all():
        which = "actions" if not known.any() else f"action dimensions {np.flatnonzero(~known).tolist()}"
        notes.append(f"The bounds of the {which} are not known: the smallest and largest recorded values are used.")
    outside = float(((values < low) | (values > high)).any(axis=1).mean())
    if outside:
        notes.append(f"{outside:.1%} of the recorded actions lie outside their bounds and were clipped.")
    dtype = "float32" if space.dtype == "bool" else space.dtype
    return ScaledActions(space.shape, dtype, tuple(low.tolist()), tuple(high.tolist()))
