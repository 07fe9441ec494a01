"""Episodes as an environment of named observations gave them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from holdfast.errors import Mistake

ARRAYS = ("actions", "rewards", "lengths", "seeds")


@dataclass(frozen=True)
class Demonstrations:
    """Recorded episodes as their environment gave them, laid end to end."""

    observations: Mapping[str, np.ndarray]  # by name, (sum of T + 1, n): the one after the last action included
    actions: np.ndarray  # (sum of T, A)
    rewards: np.ndarray  # (sum of T,)
    lengths: np.ndarray  # (E,) T of each episode
    seeds: np.ndarray  # (E,) what each episode was started with

    def __post_init__(self) -> None:
        steps, episodes = int(self.lengths.sum()), len(self.lengths)
        rows = {len(self.actions), len(self.rewards)}
        if rows != {steps} or {len(array) for array in self.observations.values()} != {steps + episodes}:
            raise Mistake("the arrays of a recording do not have as many rows as its episodes have steps")

    def episodes(self) -> Iterator["Demonstrations"]:
        """Each episode by itself, views."""
        ends = np.cumsum(self.lengths)
        for number, (length, end) in enumerate(zip(self.lengths.tolist(), ends.tolist(), strict=True)):
            rows, one = slice(end - length, end), slice(number, number + 1)
            seen = slice(end - length + number, end + number + 1)  # one observation more than actions, in each before
            observations = {name: array[seen] for name, array in self.observations.items()}
            yield Demonstrations(
                observations, self.actions[rows], self.rewards[rows], self.lengths[one], self.seeds[one]
            )

    def first(self, transitions: int) -> "Demonstrations":
        """The first episodes, until there are that many transitions."""
        count = int(np.searchsorted(np.cumsum(self.lengths), transitions)) + 1
        if count > len(self.lengths):
            raise Mistake(f"the recording has {self.lengths.sum()} transitions, not {transitions}")
        steps = int(self.lengths[:count].sum())
        observations = {name: array[: steps + count] for name, array in self.observations.items()}
        return Demonstrations(
            observations, self.actions[:steps], self.rewards[:steps], self.lengths[:count], self.seeds[:count]
        )

    @classmethod
    def join(cls, parts: list["Demonstrations"]) -> "Demonstrations":
        """All episodes of these, in order."""
        names = parts[0].observations
        return cls(
            {name: np.concatenate([part.observations[name] for part in parts]) for name in names},
            *(np.concatenate([getattr(part, name) for part in parts]) for name in ARRAYS),
        )
