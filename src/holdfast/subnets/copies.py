"""Model copies, and the subnetworks that tasks own in them."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from holdfast.data.normaliser import Normaliser
from holdfast.subnets.layout import Layout

Outside = Literal["private", "frozen", "shared"]


@dataclass(frozen=True)
class Copy:
    """The weights of one backbone; later tasks change only entries that no task owns."""

    weights: Tensor  # (P,)
    occupied: Tensor  # (P,) bool: entries in the mask of some task
    outside: dict[str, Tensor]  # parameters that no mask covers, unless they are private to each task


@dataclass(frozen=True)
class Subnetwork:
    """A task's mask and private parameters; with the weights of its copy they define its network."""

    copy: int
    mask: Tensor  # (P,) bool
    new: int  # number of entries that this task claimed and trained; the rest of its mask is reused
    private: dict[str, Tensor]  # parameters that no mask covers, of this task only
    normaliser: Normaliser


def effective(copy: Copy, subnetwork: Subnetwork, layout: Layout) -> dict[str, Tensor]:
    """The dense parameters of a task's policy."""
    # Not weights * mask: a negative free weight would give -0.0, which may become 0.0 when a later task trains it.
    weights = torch.where(subnetwork.mask, copy.weights, torch.zeros(()))
    return {**layout.split(weights), **copy.outside, **subnetwork.private}
