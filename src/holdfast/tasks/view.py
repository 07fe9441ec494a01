"""Rendering of a task's simulator, for videos."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from holdfast.tasks.environments import Environments


@dataclass(frozen=True)
class View:
    """A simulator with one lane, and a function that renders it."""

    environments: Environments
    picture: Callable[[], np.ndarray]  # renders the current state, (H, W, 3) uint8
    rate: int  # frames per second
