"""Rendering of the robot arm for videos."""

import numpy as np

from holdfast.benchmarks.panda.arm import ARMS, make_shared
from holdfast.tasks.environments import InTurn, Protocol
from holdfast.tasks.task import Task
from holdfast.tasks.view import View

CAMERA = {"target_position": np.array([-0.1, 0.0, 0.15]), "distance": 0.95, "yaw": 45, "pitch": -25}


def view(task: Task, protocol: Protocol) -> View:
    """The arm, from a camera beside the table."""
    environments = InTurn(lambda: make_shared(ARMS[task.name].environment), protocol.lanes)
    simulator = environments.environments[0].unwrapped.sim  # type: ignore[attr-defined]
    return View(environments, lambda: simulator.render(320, 240, **CAMERA), rate=8)
