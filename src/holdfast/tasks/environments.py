"""Many episodes of one task, stepped together, from fixed seeds."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import gymnasium
import numpy as np

from holdfast.data.validation import Range, validate

SUCCESS = ("is_success", "success")  # the names under which environments report success


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
        """The start of each episode."""
        return range(self.first_seed, self.first_seed + self.episodes)

    @property
    def rounds(self) -> list[Sequence[int]]:
        """The seeds of those episodes that are stepped together, round after round."""
        return [self.seeds[first : first + self.lanes] for first in range(0, self.episodes, self.lanes)]


@dataclass(frozen=True)
class Step:
    """What one step of N episodes gives; entries of episodes that have ended mean nothing."""

    observations: np.ndarray  # (N, *obs)
    rewards: np.ndarray  # (N,)
    ended: np.ndarray  # (N,) bool, terminated or truncated
    succeeded: np.ndarray  # (N,) bool, where the task knows success
    cut: np.ndarray  # (N,) bool, ended by the clock and not by itself


class Environments(ABC):
    """Up to `lanes` episodes in lock-step; observations and actions are in the task's interface."""

    @abstractmethod
    def reset(self, seeds: Sequence[int]) -> np.ndarray:
        """Starts an episode per seed, (N, *obs)."""

    @abstractmethod
    def begin(self, actions: np.ndarray) -> None:
        """Begins one step of every episode that has not ended; simulators that can work on their own do."""

    @abstractmethod
    def finish(self) -> Step:
        """What the step that was begun gives."""

    def step(self, actions: np.ndarray) -> Step:
        """Begins a step and waits for it."""
        self.begin(actions)
        return self.finish()

    def close(self) -> None:  # noqa: B027  most simulators need no farewell
        """Gives back what the simulators hold."""


class InTurn(Environments):
    """Gymnasium environments of this process, one after the other: right for simulators that cost microseconds."""

    def __init__(self, make: Callable[[], gymnasium.Env], lanes: int) -> None:
        self.environments = [make() for _ in range(lanes)]

    def reset(self, seeds: Sequence[int]) -> np.ndarray:
        starts = [env.reset(seed=seed)[0] for env, seed in zip(self.environments, seeds, strict=False)]
        self.last = Step(np.stack(starts), *(np.zeros(len(starts), dtype) for dtype in (float, bool, bool, bool)))
        return self.last.observations

    def begin(self, actions: np.ndarray) -> None:
        self.actions = actions

    def finish(self) -> Step:
        actions = self.actions
        observations, rewards = self.last.observations.copy(), np.zeros(len(actions))
        ended, succeeded, cut = (part.copy() for part in (self.last.ended, self.last.succeeded, self.last.cut))
        for i in np.flatnonzero(~self.last.ended):
            observations[i], rewards[i], terminated, truncated, info = self.environments[i].step(actions[i])
            ended[i], cut[i] = terminated or truncated, truncated and not terminated
            succeeded[i] = any(bool(info.get(name, False)) for name in SUCCESS)
        self.last = Step(observations, rewards, ended, succeeded, cut)
        return self.last

    def close(self) -> None:
        for environment in self.environments:
            environment.close()
