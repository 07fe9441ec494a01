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
class Change:
    """What a task adds to weights of its copy for itself alone; no other task sees it."""

    mask: Tensor  # (P,) bool: the entries that it adds to
    values: Tensor  # what it adds, one value for each of them

    def added_to(self, weights: Tensor) -> Tensor:
        """The weights with the change, (P,)."""
        changed = weights.clone()
        changed[self.mask] += self.values
        return changed


@dataclass(frozen=True)
class Subnetwork:
    """A task's mask, change and private parameters; with the weights of its copy they define its network."""

    copy: int
    mask: Tensor  # (P,) bool
    new: int  # number of entries that this task claimed and trained; the rest of its mask is reused
    private: dict[str, Tensor]  # parameters that no mask covers, of this task only
    normaliser: Normaliser
    change: Change | None = None  # without one, its weights are those of the copy

    def laid_over(self, weights: Tensor, copy: Copy) -> Tensor:
        """Other weights with those of the task in the place of its entries, (P,)."""
        laid = torch.where(self.mask, copy.weights, weights)
        return self.change.added_to(laid) if self.change else laid


def effective(copy: Copy, subnetwork: Subnetwork, layout: Layout) -> dict[str, Tensor]:
    """The dense parameters of a task's policy."""
    # Not weights * mask: a negative free weight would give -0.0, which may become 0.0 when a later task trains it.
    weights = subnetwork.laid_over(torch.zeros(()), copy)
    return {**layout.split(weights), **copy.outside, **subnetwork.private}
