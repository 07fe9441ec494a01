"""A task's delta: what it adds to a model copy, so that it can be added to an equal copy elsewhere."""

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.data.files import packed
from holdfast.data.normaliser import Normaliser
from holdfast.subnets.copies import Change, Copy, Subnetwork


@dataclass(frozen=True)
class Delta:
    """A task's subnetwork, without the weights that earlier tasks own."""

    mask: Tensor  # (P,) bool
    new: Tensor  # (P,) bool: entries of the mask whose weights are in the delta; the others are reused
    values: Tensor  # the weights of the new entries
    private: dict[str, Tensor]  # parameters that no mask covers, of this task only
    outside: dict[str, Tensor]  # the same of its copy; only in a delta that reuses nothing
    normaliser: Normaliser
    change: Change | None
    base: str  # a hash of what it needs of a copy

    def __post_init__(self) -> None:
        if (self.new & ~self.mask).any():
            raise ValueError("a new entry must be in the mask")

    @property
    def reused(self) -> Tensor:
        """The entries whose weights must be in a copy already, (P,) bool."""
        return self.mask & ~self.new

    def has_base(self, copy: Copy) -> bool:
        """Whether a copy has what the delta needs: tasks own all reused entries, and their weights are the same."""
        return bool(copy.occupied[self.reused].all()) and base_of(copy, self.reused) == self.base

    def taken(self, copy: Copy) -> Tensor:
        """The new entries that tasks of a copy own with other weights, (P,) bool."""
        different = copy.weights[self.new].view(torch.int32) != self.values.view(torch.int32)  # compared as bits
        found = torch.zeros_like(self.new)
        found[self.new] = copy.occupied[self.new] & different
        return found

    def added_to(self, copy: Copy, index: int) -> tuple[Copy, Subnetwork]:
        """The copy with the delta, and the task's subnetwork in it; `index` is the copy's number."""
        weights = copy.weights.clone()
        weights[self.new] = self.values
        added = Copy(weights, copy.occupied | self.mask, copy.outside or self.outside)
        new = int((self.mask & ~copy.occupied).sum())
        return added, Subnetwork(index, self.mask, new, self.private, self.normaliser, self.change)


def delta_of(subnetwork: Subnetwork, copy: Copy, owned: Tensor, *, whole: bool) -> Delta:
    """The delta of a task; `owned` are the entries that earlier tasks own, (P,) bool. If `whole`, it reuses nothing."""
    new = subnetwork.mask if whole else subnetwork.mask & ~owned
    reused = subnetwork.mask & ~new
    return Delta(
        mask=subnetwork.mask,
        new=new,
        values=copy.weights[new],
        private=subnetwork.private,
        outside={} if reused.any() else copy.outside,
        normaliser=subnetwork.normaliser,
        change=subnetwork.change,
        base=base_of(copy, reused),
    )


def base_of(copy: Copy, reused: Tensor) -> str:
    """A hash of the weights of these entries, and of the copy's parameters that no mask covers."""
    outside = {f"outside/{name}": tensor for name, tensor in copy.outside.items()}
    return packed({"weights": copy.weights[reused], **outside})[1]
