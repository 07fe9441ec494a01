"""What a network sees of a dataset that keeps every frame once: stacks of this frame and those before it."""

import numpy as np

from holdfast.data.episodes import Dataset


def stacked(dataset: Dataset, rows: np.ndarray) -> np.ndarray:
    """The stacks at these rows, (R, stack, H, W), oldest frame first; black before an episode's first frame.

    That is what ale-py's own stack shows after a reset. Without frames to stack, the observations as they are.
    """
    if dataset.stack == 1:
        return dataset.observations[rows]
    back = np.arange(dataset.stack - 1, -1, -1)
    stacks = dataset.observations[np.maximum(rows[:, None] - back, 0)]
    stacks[dataset.timesteps[rows][:, None] < back] = 0
    return stacks
