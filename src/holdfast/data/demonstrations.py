"""Recorded episodes of an environment with dictionary observations."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from holdfast.errors import Mistake

ARRAYS = ("actions", "rewards", "lengths", "seeds")


@dataclass(frozen=True)
class Demonstrations:
    """Episodes as their environment returned them, laid end to end."""

    observations: Mapping[str, np.ndarray]  # by name, (sum of T + 1, n); includes the observation after the last action
    actions: np.ndarray  # (sum of T, A)
    rewards: np.ndarray  # (sum of T,)
    lengths: np.ndarray  # (E,) T of each episode
    seeds: np.ndarray  # (E,) the reset seed of each episode

    def __post_init__(self) -> None:
        steps, episodes = int(self.lengths.sum()), len(self.lengths)
        rows = {len(self.actions), len(self.rewards)}
        if rows != {steps} or {len(array) for array in self.observations.values()} != {steps + episodes}:
            raise Mistake("the arrays of a recording must have one row for each step of its episodes")

    def episodes(self) -> Iterator["Demonstrations"]:
        """Each episode on its own, as views."""
        ends = np.cumsum(self.lengths)
        for number, (length, end) in enumerate(zip(self.lengths.tolist(), ends.tolist(), strict=True)):
            rows, one = slice(end - length, end), slice(number, number + 1)
            seen = slice(end - length + number, end + number + 1)  # T + 1 observations per episode
            observations = {name: array[seen] for name, array in self.observations.items()}
            yield Demonstrations(
                observations, self.actions[rows], self.rewards[rows], self.lengths[one], self.seeds[one]
            )

    def first(self, transitions: int) -> "Demonstrations":
        """The first episodes that together have at least this many transitions."""
        count = int(np.searchsorted(np.cumsum(self.lengths), transitions)) + 1
        if count > len(self.lengths):
            raise Mistake(f"the recording has {self.lengths.sum()} transitions, fewer than {transitions}")
        return self.first_episodes(count)

    def first_episodes(self, count: int) -> "Demonstrations":
        """The first episodes, this many."""
        steps = int(self.lengths[:count].sum())
        observations = {name: array[: steps + count] for name, array in self.observations.items()}
        return Demonstrations(
            observations, self.actions[:steps], self.rewards[:steps], self.lengths[:count], self.seeds[:count]
        )

    @classmethod
    def join(cls, parts: list["Demonstrations"]) -> "Demonstrations":
        """All episodes of these parts, in order."""
        names = parts[0].observations
        return cls(
            {name: np.concatenate([part.observations[name] for part in parts]) for name in names},
            *(np.concatenate([getattr(part, name) for part in parts]) for name in ARRAYS),
        )
