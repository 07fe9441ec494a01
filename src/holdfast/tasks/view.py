"""A way to look at a task's simulator, for videos."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from holdfast.tasks.environments import Environments


@dataclass(frozen=True)
class View:
    """A task's simulator with one lane, and what it shows."""

    environments: Environments
    picture: Callable[[], np.ndarray]  # what the simulator shows now, (H, W, 3) uint8
    rate: int  # frames per second
