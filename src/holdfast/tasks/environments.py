"""Environments of a task: many episodes with fixed seeds, stepped together."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import gymnasium
import numpy as np

from holdfast.data.validation import Range, validate

SUCCESS = ("is_success", "success")  # keys of `info` under which environments report success


@dataclass(frozen=True)
class Protocol:
    """How a policy is evaluated."""

    name: str = "fixed-seeds"
    """Name of the protocol; some suites have several (atari5: paper, noop, sticky)."""
    episodes: Annotated[int, Range(least=1, most=10**6)] = 20
    """Episodes per task, each from its own seed."""
    lanes: Annotated[int, Range(least=1, most=4_096)] = 20
    """Number of episodes that are stepped together."""
    first_seed: Annotated[int, Range(least=0, most=2**30)] = 1_000_000
    """Seed of the first episode; the others count up from it."""

    def __post_init__(self) -> None:
        validate(self, "protocol.")

    @property
    def seeds(self) -> range:
        """The reset seed of each episode."""
        return range(self.first_seed, self.first_seed + self.episodes)

    @property
    def rounds(self) -> list[Sequence[int]]:
        """The seeds of the episodes that are stepped together, for each round."""
        return [self.seeds[first : first + self.lanes] for first in range(0, self.episodes, self.lanes)]


@dataclass(frozen=True)
class Step:
    """The result of one step of N episodes; entries of episodes that ended earlier are undefined."""

    observations: np.ndarray  # (N, *obs)
    rewards: np.ndarray  # (N,)
    ended: np.ndarray  # (N,) bool, terminated or truncated
    succeeded: np.ndarray  # (N,) bool, False in tasks that do not report success
    cut: np.ndarray  # (N,) bool, truncated and not terminated


class Environments(ABC):
    """Up to `lanes` episodes, stepped together; observations and actions have the shapes of the task's interface."""

    @abstractmethod
    def reset(self, seeds: Sequence[int]) -> np.ndarray:
        """Starts one episode per seed and returns the first observations, (N, *obs)."""

    @abstractmethod
    def begin(self, actions: np.ndarray) -> None:
        """Begins one step of every episode that has not ended, without waiting for the simulators if possible."""

    @abstractmethod
    def finish(self) -> Step:
        """Waits for the step that was begun and returns its result."""

    def step(self, actions: np.ndarray) -> Step:
        """Takes one step of every episode that has not ended."""
        self.begin(actions)
        return self.finish()

    def close(self) -> None:  # noqa: B027  most simulators have nothing to release
        """Releases the resources of the simulators."""


class InTurn(Environments):
    """Gymnasium environments that are stepped one after the other in this process: for fast simulators."""

    def __init__(self, make: Callable[[], gymnasium.Env], lanes: int) -> None:
        self.environments = [make() for _ in range(lanes)]

    def reset(self, seeds: Sequence[int]) -> np.ndarray:
        starts = [env.reset(seed=seed)[0] for env, seed in zip(self.environments, seeds, strict=False)]
        none = np.zeros(len(starts), bool)
        self.last = Step(np.stack(starts), np.zeros(len(starts)), ended=none, succeeded=none, cut=none)
        return self.last.observations

    def begin(self, actions: np.ndarray) -> None:
        self.actions = actions

    def finish(self) -> Step:
        actions = self.actions
        observations, rewards = self.last.observations.copy(), np.zeros(len(actions))
        ended = self.last.ended.copy()
        succeeded, cut = self.last.succeeded.copy(), self.last.cut.copy()
        for i in np.flatnonzero(~self.last.ended):
            observations[i], rewards[i], terminated, truncated, info = self.environments[i].step(actions[i])
            ended[i], cut[i] = terminated or truncated, truncated and not terminated
            succeeded[i] = any(bool(info.get(name, False)) for name in SUCCESS)
        self.last = Step(observations, rewards, ended, succeeded, cut)
        return self.last

    def close(self) -> None:
        for environment in self.environments:
            environment.close()
