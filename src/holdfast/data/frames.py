"""Stacks of frames, built from a dataset that stores each frame once."""

import numpy as np

from holdfast.data.episodes import Dataset


def stacked(dataset: Dataset, rows: np.ndarray) -> np.ndarray:
    """The stacks at these rows, (R, stack, H, W), oldest frame first; black before an episode's first frame.

    ale-py pads its stacks in the same way after a reset. If `stack` is 1, the observations themselves.
    """
    if dataset.stack == 1:
        return dataset.observations[rows]
    back = np.arange(dataset.stack - 1, -1, -1)
    stacks = dataset.observations[np.maximum(rows[:, None] - back, 0)]
    stacks[dataset.timesteps[rows][:, None] < back] = 0
    return stacks
