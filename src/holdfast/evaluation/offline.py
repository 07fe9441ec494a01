"""Scores without a simulator: how well a policy predicts the actions of held-out episodes."""

from math import exp

import numpy as np
import torch

from holdfast.data.episodes import Dataset
from holdfast.data.windows import Windows, WindowSettings
from holdfast.nets.policy import Policy
from holdfast.tasks.interface import Discrete

BATCH = 64  # windows


def offline_score(policy: Policy, dataset: Dataset) -> dict[str, float]:
    """The mean likelihood of recorded discrete actions, or the mean squared error of continuous ones.

    The likelihood is the geometric mean over steps, exp(-loss).
    """
    loss = offline_loss(policy, dataset)
    return {"likelihood": exp(-loss)} if isinstance(policy.interface.actions, Discrete) else {"squared error": loss}


@torch.no_grad()
def offline_loss(policy: Policy, dataset: Dataset) -> float:
    """The mean loss of a policy on recorded actions: of all steps, each once.

    Episodes are cut into consecutive windows of the network's context; returns to go are the recorded ones.
    """
    losses, steps = 0.0, 0
    actions = policy.interface.actions
    settings = WindowSettings(policy.net.config.context, policy.return_scale, "windows")
    windows = Windows(dataset, policy.normaliser, actions.active, settings, policy.device)
    first, lengths = every_step_once(dataset, windows.steps.context)
    for begin in range(0, len(first), BATCH):
        part = slice(begin, begin + BATCH)
        count = int(lengths[part].sum())
        losses += count * float(policy.net(windows.steps.batch(first[part], lengths[part])))
        steps += count
    return losses / steps


def every_step_once(dataset: Dataset, context: int) -> tuple[np.ndarray, np.ndarray]:
    """The first steps and lengths of consecutive windows that cover every episode."""
    pieces = [
        (start + offset, min(context, length - offset))
        for start, length in zip(dataset.starts.tolist(), dataset.lengths.tolist(), strict=True)
        for offset in range(0, length, context)
    ]
    first, lengths = np.array(pieces).T
    return first, lengths
