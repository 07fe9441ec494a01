"""A network seen through the mask of the task that is being learned: only scores and free weights can move."""

from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from holdfast.data.windows import Batch
from holdfast.gpu.capture import own_kernels, precision_of_products
from holdfast.nets.transformer import DecisionTransformer
from holdfast.subnets.layout import Layout
from holdfast.subnets.selection import Selector


class StraightThrough(torch.autograd.Function):
    """Exactly 0/1 forward; backward, the mask's gradient goes to the magnitude of the score it was chosen by."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, mask: Tensor) -> Tensor:
        ctx.save_for_backward(scores)
        return mask.to(scores.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (scores,) = ctx.saved_tensors
        return gradient * scores.sign(), None


class OneLaunch(torch.autograd.Function):
    """What `Masked.seen` says, by our own kernels."""

    @staticmethod
    def forward(
        ctx: Any, free: Tensor, scores: Tensor, frozen: Tensor, occupied: Tensor, mask: Tensor, dtype: torch.dtype
    ) -> Tensor:
        from holdfast.gpu.masked import seen

        ctx.save_for_backward(frozen, occupied, free, scores, mask)
        return seen(frozen, occupied, free, mask, dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None, None, None]:
        from holdfast.gpu.masked import moved

        return *moved(gradient, *ctx.saved_tensors), None, None, None, None


class Masked(nn.Module):
    """What `fit` trains for a sparse learner.

    `frozen` holds what earlier tasks own. It is a buffer, so no gradient, momentum or weight decay can reach it.
    """

    frozen: Tensor  # (P,)
    occupied: Tensor  # (P,) bool
    feasible: Tensor  # (P,) bool, the entries this task may select

    def __init__(
        self,
        net: DecisionTransformer,
        layout: Layout,
        *,
        weights: Tensor,
        occupied: Tensor,
        feasible: Tensor,
        counts: list[int],
        scores: Tensor,
        outside: dict[str, Tensor],
        train_outside: bool,
    ) -> None:
        super().__init__()
        self.net, self.layout, self.selector = net.requires_grad_(False), layout, Selector(layout.sizes, counts)
        self.register_buffer("frozen", weights, persistent=False)
        self.register_buffer("occupied", occupied, persistent=False)
        self.register_buffer("feasible", feasible, persistent=False)
        self.free, self.scores = nn.Parameter(weights.clone()), nn.Parameter(scores)
        self.outside_names = sorted(outside)  # sums over parameters, as in clipping, depend on their order
        self.outside = nn.ParameterList(
            nn.Parameter(outside[name].clone(), requires_grad=train_outside) for name in self.outside_names
        )

    @torch.no_grad()
    def mask(self) -> Tensor:
        """The k largest scores by magnitude among the feasible entries of each tensor, (P,) bool."""
        return self.selector.select(self.scores.detach(), self.feasible)

    def values(self) -> Tensor:
        """All weights of the copy as this task sees them: the frozen ones where a task owns them, (P,)."""
        return torch.where(self.occupied, self.frozen, self.free)

    def seen(self) -> Tensor:
        """The weights that the task's network runs on, in the precision of its products, (P,)."""
        mask, dtype = self.mask(), precision_of_products(self.free.device)
        if own_kernels(self.free):
            return OneLaunch.apply(self.free, self.scores, self.frozen, self.occupied, mask, dtype)
        return (self.values() * StraightThrough.apply(self.scores, mask)).to(dtype)

    def describe(self) -> dict[str, Any]:
        """The settings of the network and of its masks as plain data, a part of cache keys."""
        return {"net": self.net.describe(), "layout": asdict(self.layout), "counts": self.selector.counts}

    def loss(self, batch: Batch) -> Tensor:
        """What training makes small."""
        tensors = self.layout.split(self.seen()) | dict(zip(self.outside_names, self.outside, strict=True))
        return self.net.head.loss(functional_call(self.net, tensors, (batch,)), batch)
