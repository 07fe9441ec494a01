"""Reference numbers of each task: the target return, and what scripted and random actions reach."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np

from holdfast.benchmarks.continualworld.recording import demonstrate
from holdfast.benchmarks.continualworld.sawyer import ACTION, make_environment
from holdfast.data.demonstrations import Demonstrations
from holdfast.tasks.environments import Protocol
from holdfast.tasks.recording import play_episode

FILE = Path(__file__).with_name("reference.json")


@dataclass(frozen=True)
class Reference:
    """The numbers of one task; those of scripted and random actions are from the first starts of an evaluation."""

    target: float  # median return of the first 100 demonstrations
    attempts: int  # episodes that were played for these 100 demonstrations
    expert_success: float  # share of episodes in which the scripted policy succeeds within 200 steps
    expert_return: float  # its mean return
    random_return: float  # mean return of uniform random actions


@dataclass(frozen=True)
class Played:
    """Every episode of a policy."""

    returns: list[float]
    successes: list[bool]

    @classmethod
    def of(cls, episodes: list[tuple[Demonstrations, bool]]) -> "Played":
        """The results of these episodes."""
        return cls([float(recorded.rewards.sum()) for recorded, _ in episodes], [success for _, success in episodes])


@cache
def references() -> Mapping[str, Reference]:
    """The numbers of all tasks of Meta-World, by name."""
    return {name: Reference(**numbers) for name, numbers in json.loads(FILE.read_text()).items()}


def play_scripted(name: str, protocol: Protocol) -> Played:
    """The scripted policy, from the starts that learners are evaluated from."""
    environment = make_environment(name)
    played = Played.of([demonstrate(environment, name, seed) for seed in protocol.seeds])
    environment.close()
    return played


def play_random(name: str, protocol: Protocol) -> Played:
    """Uniform random actions, from the same starts."""
    environment, rng = make_environment(name), np.random.default_rng(0)
    played = Played.of([play_episode(environment, partial(_random_action, rng), seed) for seed in protocol.seeds])
    environment.close()
    return played


def _random_action(rng: np.random.Generator, observation: np.ndarray) -> np.ndarray:
    return rng.uniform(-1, 1, ACTION).astype(np.float32)
