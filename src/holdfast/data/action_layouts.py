"""How raw actions become the network's, and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np

from holdfast.data import spaces
from holdfast.data.spaces import Space, value_range
from holdfast.data.validation import shown
from holdfast.errors import Mistake

COMBINATIONS = 1_024  # most values of a MultiDiscrete action as one Discrete
UNBOUNDED = 1e30  # bounds of this size, such as the largest float, are none
DIMENSIONS = 1_024  # most dimensions of a continuous action


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
            f"a discrete action must be one of {value_range(counts.tolist(), starts.tolist())}, got "
            f"{found.min()}..{found.max()}"
        )


ACTIONS: dict[str, Any] = {kind.KIND: kind for kind in (ScaledActions, DiscreteActions, CombinedActions)}


def action_layout(space: Space, actions: np.ndarray, notes: list[str]) -> Actions:
    """The layout of actions of this space; unknown bounds are taken from the actions, which the notes say."""
    if isinstance(space, spaces.Dict | spaces.Tuple | spaces.Text):
        raise Mistake(
            "actions that are dictionaries, tuples or texts cannot be learned: put them into one vector or one integer "
            "before"
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
