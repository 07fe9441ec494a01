"""The environment of a user's task, as the network sees it."""

import os
import warnings
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

import gymnasium
import numpy as np

from holdfast.data.layout import Layout
from holdfast.data.validation import shown
from holdfast.errors import Mistake
from holdfast.tasks.environments import InTurn, Protocol
from holdfast.tasks.view import View

HINT = " If a package registers it when it is imported, name the package as well, such as highway_env:parking-v0."
PICTURES = "rgb_array"  # Gymnasium's render mode that gives frames
PYGAME = {"SDL_VIDEODRIVER": "dummy", "PYGAME_HIDE_SUPPORT_PROMPT": "1"}  # renders without a screen and a greeting
RATE = 30  # frames a second, where the environment does not say


class Encoded(gymnasium.Wrapper):
    """Encodes observations, decodes actions, and ends an episode after `horizon` steps."""

    def __init__(self, env: gymnasium.Env, layout: Layout, horizon: int) -> None:
        super().__init__(env)
        self.layout, self.horizon = layout, horizon

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        self.steps = 0
        return self.layout.encode_observation(observation), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, ended, cut, info = self.env.step(self.layout.decode_action(action))
        self.steps += 1
        cut = cut or self.steps >= self.horizon
        return self.layout.encode_observation(observation), float(reward), ended, cut, info


def make(environment: str, **settings: Any) -> gymnasium.Env:
    """The environment with this id."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as that there is a newer version
            return gymnasium.make(environment, **settings)
    except (gymnasium.error.Error, ImportError, ValueError, TypeError) as problem:
        first = str(problem).strip().splitlines()[0] if str(problem).strip() else type(problem).__name__
        unknown = isinstance(problem, gymnasium.error.NameNotFound | gymnasium.error.NamespaceNotFound)
        hint = HINT if unknown and ":" not in environment else ""
        raise Mistake(f"the environment {shown(environment)} cannot be made here: {first}{hint}") from problem


def is_installed(environment: str) -> bool:
    """Whether the environment with this id can be made here."""
    try:
        make(environment).close()
    except Mistake:
        return False
    return True


def longest_episode(environment: str | None) -> int:
    """After how many steps the environment ends an episode; 0 if that is not known."""
    if environment is None:
        return 0
    spec = make(environment).spec
    return (spec.max_episode_steps or 0) if spec else 0


def view_of(environment: str, layout: Layout, horizon: int) -> View:
    """The environment of a task with a camera, for videos."""
    with closing(make(environment)) as plain:
        if PICTURES not in plain.metadata.get("render_modes", ()):
            raise Mistake(f"the environment {shown(environment)} cannot be filmed: it has no render mode {PICTURES}")
        rate = round(plain.metadata.get("render_fps") or RATE)
    for variable, value in PYGAME.items():
        os.environ.setdefault(variable, value)
    env = make(environment, render_mode=PICTURES)
    return View(InTurn(partial(Encoded, env, layout, horizon), 1), partial(_picture, env), rate)


def _picture(env: gymnasium.Env) -> np.ndarray:
    """What the environment's camera sees."""
    name = shown(env.spec.id if env.spec else str(env))
    try:
        frame = np.asarray(env.render())
    except Exception as problem:  # a user's environment may raise anything
        reason = str(problem).strip() or type(problem).__name__
        raise Mistake(f"the environment {name} cannot be filmed here: {reason.splitlines()[0]}") from problem
    if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3:
        raise Mistake(f"the environment {name} cannot be filmed: it renders {frame.dtype} of shape {frame.shape}")
    return frame


def environments_of(environment: str, layout: Layout, horizon: int) -> Callable[[Protocol], InTurn]:
    """Makes the environments in which a task is evaluated."""
    return partial(_in_turn, partial(_encoded, environment, layout, horizon))


def _encoded(environment: str, layout: Layout, horizon: int) -> Encoded:
    return Encoded(make(environment), layout, horizon)


def _in_turn(made: Callable[[], gymnasium.Env], protocol: Protocol) -> InTurn:
    return InTurn(made, min(protocol.lanes, protocol.episodes))
