"""Rendering of toy tasks for videos."""

import numpy as np

from holdfast.benchmarks.toy.field import Field
from holdfast.tasks.environments import InTurn, Protocol
from holdfast.tasks.task import Task
from holdfast.tasks.view import View

PIXELS = 160  # across
SKY, GROUND, GOAL, POINT = (245, 246, 247), (208, 214, 219), (0, 158, 115), (0, 114, 178)


def view(task: Task, protocol: Protocol) -> View:
    """The square from above, with the goal and the point."""
    environments = task.environments and task.environments(protocol)
    assert isinstance(environments, InTurn)
    field = environments.environments[0]
    assert isinstance(field, Field)
    return View(environments, lambda: draw_field(field), rate=8)


def draw_field(field: Field) -> np.ndarray:
    """A picture of the square, the goal and the point, (160, 160, 3) uint8."""
    across = np.linspace(-1.1, 1.1, PIXELS)
    places = np.stack(np.meshgrid(across, -across), axis=-1)  # (H, W, 2), north is up
    picture = np.full((PIXELS, PIXELS, 3), SKY, np.uint8)
    picture[np.abs(places).max(axis=-1) > 1] = GROUND
    for centre, radius, colour in ((field.goal, field.rules.radius, GOAL), (field.position, 0.07, POINT)):
        picture[np.linalg.norm(places - centre, axis=-1) <= radius] = colour
    return picture
