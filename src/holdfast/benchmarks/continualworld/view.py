"""Rendering of Meta-World for videos, on machines with or without a display."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes.util import find_library
from typing import Any

import numpy as np

from holdfast.benchmarks.continualworld.orders import simulated
from holdfast.benchmarks.continualworld.sawyer import make_environment
from holdfast.errors import Mistake
from holdfast.tasks.environments import InTurn, Protocol
from holdfast.tasks.task import Task
from holdfast.tasks.view import View

BACKEND = "MUJOCO_GL"  # environment variable with the way to render
WIDTH, HEIGHT = 320, 240
CAMERA = "corner2"
RATE = 40  # frames per second: half as fast as the arm


def view(task: Task, protocol: Protocol) -> View:
    """The arm and the table, from a corner."""
    environments = InTurn(lambda: make_environment(simulated(task.name)), protocol.lanes)
    arm: Any = environments.environments[0].unwrapped
    from gymnasium.envs.mujoco.mujoco_rendering import MujocoRenderer

    arm.model.vis.quality.shadowsize = 0  # without a GPU, shadows would take two thirds of the time
    arm.mujoco_renderer.close()
    arm.mujoco_renderer = MujocoRenderer(arm.model, arm.data, width=WIDTH, height=HEIGHT, camera_name=CAMERA)

    def picture() -> np.ndarray:
        with rendering():
            return np.ascontiguousarray(arm.mujoco_renderer.render("rgb_array")[::-1])  # this camera is upside down

    return View(environments, picture, RATE)


@contextmanager
def rendering() -> Iterator[None]:
    """Renders without a display inside the block, unless the user has chosen another way."""
    before = os.environ.get(BACKEND)
    os.environ[BACKEND] = before or backend()
    try:
        yield
    finally:
        if before is None:
            del os.environ[BACKEND]


def backend() -> str:
    """The library on this machine that renders without a display."""
    for name, library in {"egl": "EGL", "osmesa": "OSMesa"}.items():
        if find_library(library):
            return name
    raise Mistake("videos of Meta-World need EGL or OSMesa: on Debian and Ubuntu, apt install libegl1")
