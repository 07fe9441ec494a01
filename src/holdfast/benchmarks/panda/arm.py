"""The robot arm of panda-gym: tasks, simulators and recorded episodes in one shared interface."""

import ctypes
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import gymnasium
import numpy as np

from holdfast.data.demonstrations import Demonstrations
from holdfast.data.episodes import Dataset
from holdfast.data.minari import exists, metadata, read
from holdfast.errors import MissingData, Mistake
from holdfast.tasks.environments import Protocol
from holdfast.tasks.workers import Workers

HORIZON, OBSERVATION, ACTION = 50, 26, 4
INTERFACE = "panda-1"  # version of the recorded format
DEFAULT_SIZE = 50_000
MISSING = "panda-gym is not installed: pip install 'holdfast[panda]'"


@dataclass(frozen=True)
class ArmTask:
    """One of the three tasks."""

    task: str
    short: str  # the name in datasets
    environment: str
    actions: int
    target: float  # R*, as published

    def dataset(self, transitions: int) -> str:
        """The name of its Minari dataset of that many transitions."""
        size = "" if transitions == DEFAULT_SIZE else f"-{transitions}"
        return f"panda/{self.short}-expert{size}-v0"


ARMS = {
    arm.task: arm
    for arm in (
        ArmTask("PandaReach", "reach", "PandaReachDense-v3", 3, -0.00032),
        ArmTask("PandaPush", "push", "PandaPushDense-v3", 3, -0.436),
        ArmTask("PandaPickAndPlace", "pick-and-place", "PandaPickAndPlaceDense-v3", 4, -0.001),
    )
}


@contextmanager
def quiet() -> Iterator[None]:
    """Hides what the simulator's C code prints when it starts."""
    kept = [os.dup(stream) for stream in (1, 2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for stream in (1, 2):
            os.dup2(nowhere, stream)
        yield
    finally:
        ctypes.CDLL(None).fflush(None)  # discards C output that is still buffered
        for stream, saved in zip((1, 2), kept, strict=True):
            os.dup2(saved, stream)
            os.close(saved)
        os.close(nowhere)


class ExactReset(gymnasium.Wrapper):
    """Makes an episode depend only on its seed and its actions.

    The simulator keeps contacts of the last episode, which still push in the next one. Restoring a state in which
    nothing touches the cube, and stepping once, clears them. It also processes contacts in the order of their memory
    addresses unless it is set to sort them.
    """

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self.simulator = env.unwrapped.sim.physics_client  # type: ignore[attr-defined]
        self.simulator.setPhysicsEngineParameter(deterministicOverlappingPairs=1)
        env.reset(seed=0)
        if "object" in env.unwrapped.sim._bodies_idx:  # type: ignore[attr-defined]
            env.unwrapped.sim.set_base_pose("object", np.array([0.0, 0.0, 5.0]), np.array([0.0, 0.0, 0.0, 1.0]))  # type: ignore[attr-defined]
        for _ in range(2):
            self.simulator.stepSimulation()
        self.untouched = self.simulator.saveState()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.simulator.restoreState(self.untouched)
        self.simulator.stepSimulation()
        return super().reset(seed=seed, options=options)


class Shared(gymnasium.Wrapper):
    """Wraps an environment in the interface that all three tasks share."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = super().reset(seed=seed, options=options)
        self.steps = 0
        return self._shared(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        self.steps += 1
        return self._shared(observation), reward, terminated, truncated, info

    def _shared(self, observation: Mapping[str, np.ndarray]) -> np.ndarray:
        return shared({name: part[None] for name, part in observation.items()}, np.array([self.steps]))[0]


def shared(observations: Mapping[str, np.ndarray], steps: np.ndarray) -> np.ndarray:
    """[observation, time left, achieved goal, desired goal] and padding, (N, 26)."""
    time = (1 - steps[:, None] / HORIZON).astype(np.float32)
    parts = [observations["observation"], time, observations["achieved_goal"], observations["desired_goal"]]
    flat = np.concatenate(parts, axis=1, dtype=np.float32)
    return np.pad(flat, ((0, 0), (0, OBSERVATION - flat.shape[1])))


def plain(environment: str) -> gymnasium.Env:
    """The environment of panda-gym, without wrappers."""
    with quiet():
        try:
            import panda_gym  # noqa: F401  registers the environments
        except ImportError:
            raise Mistake(MISSING) from None
        return gymnasium.make(environment)


def make_environment(environment: str) -> gymnasium.Env:
    """The environment with exact resets."""
    return ExactReset(plain(environment))


def make_shared(environment: str) -> gymnasium.Env:
    """The environment in the shared interface."""
    return Shared(make_environment(environment))


def to_dataset(demonstrations: Demonstrations) -> Dataset:
    """Recorded episodes in the shared interface."""
    lengths = demonstrations.lengths
    steps = np.concatenate([np.arange(length + 1) for length in lengths])
    acted = np.concatenate([np.arange(length + 1) < length for length in lengths])  # False for the last observation
    actions = np.pad(demonstrations.actions, ((0, 0), (0, ACTION - demonstrations.actions.shape[1])))
    observations = shared(demonstrations.observations, steps)[acted]
    return Dataset(observations, actions.astype(np.float32), demonstrations.rewards.astype(np.float32), lengths)


def load_dataset(arm: ArmTask, transitions: int) -> Dataset:
    """The task's recorded episodes: a dataset of this size, or the first episodes of the default dataset."""
    sizes = (transitions, DEFAULT_SIZE) if transitions <= DEFAULT_SIZE else (transitions,)
    for name in map(arm.dataset, sizes):
        if exists(name):
            made = metadata(name).get("holdfast_interface")
            if made != INTERFACE:
                raise Mistake(
                    f"{name} was made for interface {made}, not {INTERFACE}: {_again(arm, name, transitions)}"
                )
            return to_dataset(read(name).first(transitions))
    raise MissingData(f"there is no dataset {arm.dataset(transitions)}: run holdfast data build panda3")


def _again(arm: ArmTask, name: str, transitions: int) -> str:
    size = "" if name == arm.dataset(DEFAULT_SIZE) else f" --transitions {transitions}"
    return f"holdfast data build panda3{size} --rebuild"


def make_simulators(environment: str, protocol: Protocol) -> Workers:
    """Simulators of a task, in parallel processes."""
    if find_spec("panda_gym") is None:
        raise Mistake(f"{MISSING}, or learn with --evaluate none and evaluate where it is")
    return Workers(partial(make_shared, environment), min(protocol.lanes, protocol.episodes))
