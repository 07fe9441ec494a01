"""Recorded behaviour: episodes, and the fixed dataset of them that a task is learned from."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from holdfast.errors import Mistake


@dataclass(frozen=True)
class Episode:
    """One episode; the observation at t is the one the action at t was chosen from."""

    observations: np.ndarray  # (T, *obs)
    actions: np.ndarray  # (T,) integers, or (T, A) floats
    rewards: np.ndarray  # (T,)

    def __post_init__(self) -> None:
        lengths = {len(self.observations), len(self.actions), len(self.rewards)}
        if len(lengths) != 1:
            raise Mistake(f"an episode's arrays must have one length, got {sorted(lengths)}")
        if lengths == {0}:
            raise Mistake("an episode must have at least one step")
        if self.rewards.ndim != 1:
            raise Mistake(f"an episode's rewards must be one number a step, got shape {self.rewards.shape}")
        for name in ("observations", "actions", "rewards"):
            array = getattr(self, name)
            if not np.isfinite(array).all():
                step = int(np.argwhere(~np.isfinite(array))[0][0])
                raise Mistake(f"an episode's {name} must be finite, step {step} is not")

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def nbytes(self) -> int:
        """What recording it took."""
        return self.observations.nbytes + self.actions.nbytes + self.rewards.nbytes

    @property
    def total(self) -> float:
        """The episode's return."""
        return float(self.rewards.sum(dtype=np.float64))


@dataclass(frozen=True)
class Dataset:
    """Episodes laid end to end, so that a window is a slice and a frame is stored once."""

    observations: np.ndarray  # (N, *obs)
    actions: np.ndarray  # (N,) or (N, A)
    rewards: np.ndarray  # (N,)
    lengths: np.ndarray  # (E,) steps of each episode

    def __post_init__(self) -> None:
        if len(self.lengths) == 0:
            raise Mistake("a dataset must have at least one episode")
        if (self.lengths < 1).any():
            raise Mistake("every episode of a dataset must have at least one step")
        steps = int(self.lengths.sum())
        if {len(self.observations), len(self.actions), len(self.rewards)} != {steps}:
            raise Mistake(f"a dataset's arrays must have as many rows as its episodes have steps ({steps})")
        for name in ("observations", "actions", "rewards"):
            if not np.isfinite(getattr(self, name)).all():
                raise Mistake(f"a dataset's {name} must be finite")

    @classmethod
    def of(cls, episodes: Iterable[Episode]) -> "Dataset":
        """The dataset of these episodes, in this order."""
        episodes = list(episodes)
        if not episodes:
            raise Mistake("a dataset must have at least one episode")
        for name in ("observations", "actions"):
            shapes = {getattr(episode, name).shape[1:] for episode in episodes}
            if len(shapes) != 1:
                raise Mistake(f"all episodes of a dataset must have {name} of one shape, got {sorted(shapes)}")
        return cls(
            observations=np.concatenate([episode.observations for episode in episodes]),
            actions=np.concatenate([episode.actions for episode in episodes]),
            rewards=np.concatenate([episode.rewards for episode in episodes]).astype(np.float32),
            lengths=np.array([len(episode) for episode in episodes]),
        )

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[Episode]:
        return (self.episode(index) for index in range(len(self)))

    def episode(self, index: int) -> Episode:
        """Episode number `index`, a view."""
        rows = slice(self.starts[index], self.starts[index] + self.lengths[index])
        return Episode(self.observations[rows], self.actions[rows], self.rewards[rows])

    def take(self, indices: Sequence[int]) -> "Dataset":
        """The dataset of these episodes alone."""
        return Dataset.of(self.episode(index) for index in indices)

    @property
    def steps(self) -> int:
        """How many transitions there are in all."""
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
        """What each row's episode still earns from that step on, that step included, (N,) float32."""
        total = np.cumsum(self.rewards, dtype=np.float64)
        ends = np.repeat(total[self.starts + self.lengths - 1], self.lengths)
        return (ends - total + self.rewards).astype(np.float32)

    @cached_property
    def totals(self) -> np.ndarray:
        """Each episode's return, (E,) float64."""
        return np.add.reduceat(self.rewards.astype(np.float64), self.starts)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything recorded: two datasets with one fingerprint are the same to the bit."""
        digest = hashlib.sha256()
        for array in (self.observations, self.actions, self.rewards, self.lengths):
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()
