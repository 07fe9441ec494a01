"""A network under the mask of the task that is being learned: only scores and free weights are trained."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from holdfast.data.windows import Batch
from holdfast.gpu.capture import own_kernels, precision_of_products
from holdfast.nets.backbone import Backbone
from holdfast.subnets.copies import Change, Copy
from holdfast.subnets.layout import Layout
from holdfast.subnets.selection import Selector


class StraightThrough(torch.autograd.Function):
    """The mask, exactly 0 or 1, in the forward pass; its gradient goes to the magnitude of the scores."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, mask: Tensor) -> Tensor:
        ctx.save_for_backward(scores)
        return mask.to(scores.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (scores,) = ctx.saved_tensors
        return gradient * scores.sign(), None


class SparseChange(torch.autograd.Function):
    """The selected entries of a change in the forward pass; the gradient reaches all, so that others can grow."""

    @staticmethod
    def forward(ctx: Any, change: Tensor, mask: Tensor) -> Tensor:
        return change * mask

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


class FusedMaskedWeights(torch.autograd.Function):
    """`Masked.weights` as fused kernels."""

    @staticmethod
    def forward(
        ctx: Any, free: Tensor, scores: Tensor, frozen: Tensor, occupied: Tensor, mask: Tensor, dtype: torch.dtype
    ) -> Tensor:
        from holdfast.gpu.masked import masked_weights

        ctx.save_for_backward(frozen, occupied, free, scores, mask)
        return masked_weights(frozen, occupied, free, mask, dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None, None, None]:
        from holdfast.gpu.masked import masked_weights_backward

        frozen, occupied, free, scores, mask = ctx.saved_tensors
        gradients = masked_weights_backward(gradient, frozen, occupied, free, scores=scores, mask=mask)
        return *gradients, None, None, None, None


@dataclass(frozen=True)
class LearnedMask:
    """A learned mask: it selects the entries with the largest scores of each quota in each tensor."""

    quotas: Tensor  # (P,) uint8: the quota of each entry, from 1; 0 if it may not be selected
    counts: Sequence[Sequence[int]]  # for each quota, how many entries of each tensor are selected
    scores: Tensor  # (P,) the initial scores


@dataclass(frozen=True)
class FixedMask:
    """A mask that does not change in training."""

    mask: Tensor  # (P,) bool


@dataclass(frozen=True)
class Unmasked:
    """The parameters that no mask covers, and whether they are trained."""

    parameters: dict[str, Tensor]
    trained: bool


@dataclass(frozen=True)
class LearnedChange:
    """A learned change: the entries with the largest magnitudes of each tensor are added to the masked weights."""

    counts: Sequence[int]  # how many entries of each tensor
    values: Tensor  # (P,) the initial values


class Masked(nn.Module):
    """A network under a mask, as `fit` trains it for learners with subnetworks.

    `frozen` holds the weights that earlier tasks own. It is a buffer, so no gradient, momentum or weight decay can
    change it.
    """

    frozen: Tensor  # (P,)
    occupied: Tensor  # (P,) bool
    quotas: Tensor  # (P,) uint8, of a learned mask
    fixed: Tensor  # (P,) bool, a fixed mask
    one_quota: Tensor  # (P,) uint8: all entries of a change compete

    def __init__(
        self,
        net: Backbone,
        layout: Layout,
        copy: Copy,
        selection: LearnedMask | FixedMask,
        outside: Unmasked,
        *,
        change: LearnedChange | None = None,
    ) -> None:
        super().__init__()
        self.net, self.layout = net.requires_grad_(False), layout
        self.register_buffer("frozen", copy.weights, persistent=False)
        self.register_buffer("occupied", copy.occupied, persistent=False)
        self.free = nn.Parameter(copy.weights.clone())
        self.selector: Selector | None = None
        if isinstance(selection, LearnedMask):
            self.selector = Selector(layout.sizes, selection.counts)
            self.scores = nn.Parameter(selection.scores)
            self.register_buffer("quotas", selection.quotas, persistent=False)
        else:
            self.register_buffer("fixed", selection.mask, persistent=False)
        self.change_selector: Selector | None = None
        if change is not None:
            self.change_selector = Selector(layout.sizes, [change.counts])
            self.change = nn.Parameter(change.values)
            self.register_buffer("one_quota", torch.ones_like(copy.occupied, dtype=torch.uint8), persistent=False)
        self.outside_names = sorted(outside.parameters)  # sums over parameters, as in clipping, depend on their order
        self.outside = nn.ParameterList(
            nn.Parameter(outside.parameters[name].clone(), requires_grad=outside.trained) for name in self.outside_names
        )

    @torch.no_grad()
    def mask(self) -> Tensor:
        """The selected entries, (P,) bool."""
        if self.selector is None:
            return self.fixed
        return self.selector.select(self.scores.detach(), self.quotas)

    @torch.no_grad()
    def sparse_change(self) -> Change | None:
        """What the task adds to the masked weights, on the CPU."""
        if self.change_selector is None:
            return None
        mask = self.change_selector.select(self.change.detach(), self.one_quota).cpu()
        return Change(mask, self.change.detach().cpu()[mask])

    def unmasked(self) -> dict[str, Tensor]:
        """The current values of the parameters that no mask covers, on the CPU."""
        tensors = (tensor.detach().cpu().clone() for tensor in self.outside)
        return dict(zip(self.outside_names, tensors, strict=True))

    def values(self) -> Tensor:
        """All weights of the copy, (P,): frozen where a task owns the entry, otherwise trained."""
        return torch.where(self.occupied, self.frozen, self.free)

    def weights(self) -> Tensor:
        """The weights that the network uses, in the precision of matrix products, (P,)."""
        dtype = precision_of_products(self.free.device)
        if self.change_selector is None:
            return self.masked_weights(dtype)
        mask = self.change_selector.select(self.change.detach(), self.one_quota)
        return (self.masked_weights(torch.float32) + SparseChange.apply(self.change, mask)).to(dtype)

    def masked_weights(self, dtype: torch.dtype) -> Tensor:
        """The weights of the copy under the mask, (P,)."""
        mask = self.mask()
        if self.selector is None:
            return (self.values() * mask).to(dtype)
        if own_kernels(self.free):
            return FusedMaskedWeights.apply(self.free, self.scores, self.frozen, self.occupied, mask, dtype)
        return (self.values() * StraightThrough.apply(self.scores, mask)).to(dtype)

    def describe(self) -> dict[str, Any]:
        """The settings of the network and of its mask as plain data; a part of cache keys."""
        counts = self.selector.counts if self.selector else None
        changes = self.change_selector.counts if self.change_selector else None
        return {"net": self.net.describe(), "layout": asdict(self.layout), "counts": counts, "changes": changes}

    def forward(self, batch: Batch) -> Tensor:
        """The training loss of the task's network."""
        return self.loss(self.weights(), batch)

    def loss(self, weights: Tensor, batch: Batch) -> Tensor:
        """The loss of the network with these weights, (P,)."""
        tensors = self.layout.split(weights) | dict(zip(self.outside_names, self.outside, strict=True))
        return functional_call(self.net, tensors, (batch,))
