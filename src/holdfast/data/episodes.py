"""Recorded episodes, and the dataset of them that a task is learned from."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from holdfast.errors import Mistake


def finite(array: np.ndarray) -> bool:
    """Whether all numbers are finite; arrays of integers, such as frames, are not read."""
    return not np.issubdtype(array.dtype, np.inexact) or bool(np.isfinite(array).all())


def first_not_finite(array: np.ndarray) -> int | None:
    """The first row with a number that is not finite, or None."""
    return None if finite(array) else int(np.argwhere(~np.isfinite(array))[0][0])


def numbers(name: str, given: ArrayLike) -> np.ndarray:
    """Converts an array or nested lists to an array of numbers with one row per step."""
    try:
        array = given if isinstance(given, np.ndarray) else np.asarray(given)
    except ValueError:
        raise Mistake(f"{name} must have the same shape at every step") from None
    if array.ndim == 0 or array.dtype.kind not in "biuf":
        raise Mistake(f"{name} must be numbers with one row per step, got {array.dtype} {array.shape}")
    return array


@dataclass(frozen=True)
class Episode:
    """One episode; the action at step t answers the observation at step t."""

    observations: np.ndarray  # (T, *obs)
    actions: np.ndarray  # (T,) integers, or (T, A) floats
    rewards: np.ndarray  # (T,)

    def __post_init__(self) -> None:
        for name in ("observations", "actions", "rewards"):
            object.__setattr__(self, name, numbers(f"an episode's {name}", getattr(self, name)))
        lengths = {len(self.observations), len(self.actions), len(self.rewards)}
        if len(lengths) != 1:
            raise Mistake(f"an episode's arrays must have the same length, got {sorted(lengths)}")
        if lengths == {0}:
            raise Mistake("an episode must have at least one step")
        if self.rewards.ndim != 1:
            raise Mistake(f"an episode must have one reward per step, got shape {self.rewards.shape}")
        for name in ("observations", "actions", "rewards"):
            if (step := first_not_finite(getattr(self, name))) is not None:
                raise Mistake(f"an episode's {name} must be finite, but step {step} is not")

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.observations.nbytes + self.actions.nbytes + self.rewards.nbytes

    @property
    def total(self) -> float:
        """The episode's return."""
        return float(self.rewards.sum(dtype=np.float64))


@dataclass(frozen=True)
class Dataset:
    """Episodes laid end to end, so that a window is a slice and each frame is stored once."""

    observations: np.ndarray  # (N, *obs), or single frames (N, H, W)
    actions: np.ndarray  # (N,) or (N, A)
    rewards: np.ndarray  # (N,)
    lengths: np.ndarray  # (E,) steps of each episode
    stack: int = 1  # number of frames that a network sees at once; see data/frames.py
    origin: str = ""  # a hash of the recording that large observations were made from; used instead of hashing them

    def __post_init__(self) -> None:
        for name in ("observations", "actions", "rewards", "lengths"):
            object.__setattr__(self, name, numbers(f"a dataset's {name}", getattr(self, name)))
        if self.rewards.ndim != 1 or self.lengths.ndim != 1 or self.lengths.dtype.kind not in "iu":
            raise Mistake("a dataset must have one reward per step, and an integer length for each episode")
        if len(self.lengths) == 0:
            raise Mistake("a dataset must have at least one episode")
        if (self.lengths < 1).any():
            raise Mistake("every episode of a dataset must have at least one step")
        steps = int(self.lengths.sum())
        if {len(self.observations), len(self.actions), len(self.rewards)} != {steps}:
            raise Mistake(f"a dataset's arrays must have one row for each of the {steps} steps of its episodes")
        for name in ("observations", "actions", "rewards"):
            if (row := first_not_finite(getattr(self, name))) is not None:
                episode = int(np.searchsorted(self.starts, row, "right")) - 1
                step = row - self.starts[episode]
                raise Mistake(f"a dataset's {name} must be finite, but step {step} of episode {episode} is not")
        if self.stack < 1 or (self.stack > 1 and self.observations.ndim != 3):
            raise Mistake(f"only single frames can be stacked, got {self.stack} of {self.observations.shape[1:]}")

    @classmethod
    def of(cls, episodes: Iterable[Episode], stack: int = 1, origin: str = "") -> "Dataset":
        """The dataset of these episodes, in this order."""
        episodes = list(episodes)
        if not all(isinstance(episode, Episode) for episode in episodes):
            raise Mistake("Dataset.of takes holdfast.Episode objects: Episode(observations, actions, rewards)")
        if not episodes:
            raise Mistake("a dataset must have at least one episode")
        for name in ("observations", "actions"):
            shapes = {getattr(episode, name).shape[1:] for episode in episodes}
            if len(shapes) != 1:
                raise Mistake(f"all episodes of a dataset must have {name} of the same shape, got {sorted(shapes)}")
        return cls(
            observations=np.concatenate([episode.observations for episode in episodes]),
            actions=np.concatenate([episode.actions for episode in episodes]),
            rewards=np.concatenate([episode.rewards for episode in episodes]).astype(np.float32),
            lengths=np.array([len(episode) for episode in episodes]),
            stack=stack,
            origin=origin,
        )

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[Episode]:
        return (self.episode(index) for index in range(len(self)))

    def episode(self, index: int) -> Episode:
        """Episode number `index`, as a view."""
        rows = slice(self.starts[index], self.starts[index] + self.lengths[index])
        return Episode(self.observations[rows], self.actions[rows], self.rewards[rows])

    def take(self, indices: Sequence[int]) -> "Dataset":
        """The dataset of these episodes only; a view if they are consecutive."""
        origin = f"{self.origin}{[int(index) for index in indices]}" if self.origin else ""
        first, end = min(indices, default=-1), max(indices, default=-1) + 1
        if not 0 <= first < end <= len(self) or list(indices) != list(range(first, end)):
            return Dataset.of((self.episode(index) for index in indices), self.stack, origin)
        rows = slice(self.starts[first], self.starts[end - 1] + self.lengths[end - 1])
        arrays = self.observations[rows], self.actions[rows], self.rewards[rows]
        return Dataset(*arrays, self.lengths[first:end], self.stack, origin)

    @property
    def observation(self) -> tuple[int, ...]:
        """The shape of one observation as a network sees it."""
        shape = self.observations.shape[1:]
        return (self.stack, *shape) if self.stack > 1 else shape

    @property
    def steps(self) -> int:
        """Total number of transitions."""
        return len(self.rewards)

    @cached_property
    def starts(self) -> np.ndarray:
        """The row of each episode's first step, (E,)."""
        return np.concatenate([[0], np.cumsum(self.lengths)[:-1]])

    @cached_property
    def timesteps(self) -> np.ndarray:
        """Each row's step within its episode, (N,)."""
        return np.arange(self.steps) - np.repeat(self.starts, self.lengths)

    @cached_property
    def returns_to_go(self) -> np.ndarray:
        """The return to go of each row, its own reward included, (N,) float32."""
        total = np.cumsum(self.rewards, dtype=np.float64)
        ends = np.repeat(total[self.starts + self.lengths - 1], self.lengths)
        return (ends - total + self.rewards).astype(np.float32)

    @cached_property
    def totals(self) -> np.ndarray:
        """Each episode's return, (E,) float64."""
        return np.add.reduceat(self.rewards.astype(np.float64), self.starts)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all arrays: two datasets with the same fingerprint are bit-identical."""
        digest = hashlib.sha256(f"{self.origin}{self.stack}".encode() if self.stack > 1 or self.origin else b"")
        recorded = [self.actions, self.rewards, self.lengths]
        for array in recorded if self.origin else [self.observations, *recorded]:
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()
