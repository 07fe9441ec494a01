"""The robot arm of Meta-World: tasks that end at success, in episodes that depend only on seed and actions."""

from copy import copy
from functools import partial
from importlib.util import find_spec
from typing import Any, ClassVar

import gymnasium
import numpy as np

from holdfast.errors import Mistake
from holdfast.tasks.environments import Protocol
from holdfast.tasks.workers import Workers

HORIZON, OBSERVATION, ACTION = 200, 39, 4
MISSING = "metaworld is not installed: pip install 'holdfast[metaworld]'"


class UntilSuccess(gymnasium.Wrapper):
    """Every step earns -1, and an episode ends at success or after 200 steps.

    Meta-World's own reward is dense and is earned until step 500, so that a slower success earns more. Its `reset`
    ignores the seed: goals and objects are drawn anew for each episode only with the settings below, and from the
    generator that `seed` sets.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (OBSERVATION,), np.float32)
        self.arm = env.unwrapped
        self.arm._partially_observable = False  # observations show the goal
        del self.arm.sawyer_observation_space  # was computed without the goal, and observations are clipped to it
        self.arm._freeze_rand_vec = False
        self.arm.seeded_rand_vec = True
        self.arm._set_task_called = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        if seed is not None:
            self.arm.seed(seed)
        observation, _ = self.env.reset()
        self.steps = 0
        return observation.astype(np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        observation, _, _, _, info = self.env.step(np.clip(action, -1, 1))
        self.steps += 1
        success = bool(info["success"])
        truncated = self.steps == HORIZON and not success
        return observation.astype(np.float32), -1.0, success, truncated, {"success": success}


class CompiledOnce:
    """A part of an environment's class: its model is copied if this process compiled it last, which is faster."""

    last: ClassVar[dict[str, Any]] = {}  # the file and the model

    def _initialize_simulation(self) -> tuple[Any, Any]:
        from mujoco import MjData

        file = self.fullpath  # type: ignore[attr-defined]
        if file not in self.last:
            self.last.clear()
            self.last[file] = super()._initialize_simulation()[0]  # type: ignore[misc]
        model = copy(self.last[file])  # environments change theirs
        return model, MjData(model)


def make_environment(name: str) -> UntilSuccess:
    """The environment of a task, such as `hammer`."""
    try:
        from metaworld.env_dict import ALL_V3_ENVIRONMENTS
    except ImportError:
        raise Mistake(MISSING) from None
    arm = ALL_V3_ENVIRONMENTS[f"{name}-v3"]
    return UntilSuccess(type(arm.__name__, (CompiledOnce, arm), {})())


def make_simulators(name: str, protocol: Protocol) -> Workers:
    """Environments of a task, in parallel processes."""
    if find_spec("metaworld") is None:
        raise Mistake(f"{MISSING}, or learn with --evaluate none and evaluate where it is")
    return Workers(partial(make_environment, name), min(protocol.lanes, protocol.episodes))
