"""Model copies, and the subnetworks that tasks own in them."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from holdfast.data.normaliser import Normaliser
from holdfast.subnets.layout import Layout

Outside = Literal["private", "frozen", "shared"]


@dataclass(frozen=True)
class Copy:
    """One backbone of weights; a later state of it differs from an earlier one only where nobody owned a weight."""

    weights: Tensor  # (P,)
    occupied: Tensor  # (P,) bool: entries that some task's mask holds
    outside: dict[str, Tensor]  # parameters no mask covers, where tasks do not keep their own


@dataclass(frozen=True)
class Subnetwork:
    """A task's mask and its private parameters: what the task is, next to its copy's weights."""

    copy: int
    mask: Tensor  # (P,) bool
    new: int  # entries that this task claimed and trained; the rest of its mask is reused
    private: dict[str, Tensor]  # parameters no mask covers, of this task alone
    normaliser: Normaliser


def effective(copy: Copy, subnetwork: Subnetwork, layout: Layout) -> dict[str, Tensor]:
    """The dense parameters that a task's policy runs on."""
    # Not weights * mask: a negative weight nobody owns would give -0.0, and a later task may turn that into 0.0.
    weights = torch.where(subnetwork.mask, copy.weights, torch.zeros(()))
    return {**layout.split(weights), **copy.outside, **subnetwork.private}


def to_bits(mask: Tensor) -> Tensor:
    """A mask at one bit an entry, uint8."""
    return torch.from_numpy(np.packbits(mask.cpu().numpy()))


def from_bits(bits: Tensor, total: int) -> Tensor:
    """The mask of `total` entries that `to_bits` made these of."""
    return torch.from_numpy(np.unpackbits(bits.numpy(), count=total).astype(bool))
