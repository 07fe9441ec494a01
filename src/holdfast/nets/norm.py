"""LayerNorm, on a GPU one launch each way, and what comes out is of the precision that the next product wants."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.gpu.capture import own_kernels, precision_of_products

EPSILON = 1e-5
SEEDS = 2**31


class Norm(nn.Module):
    """Zero mean and unit deviation over the last dimension, then scaled and shifted."""

    def __init__(self, width: int, before_product: bool = False, dropout: float = 0.0) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.before_product = before_product  # then what comes out may have the precision of products
        self.dropout = dropout  # of what joins the tokens

    def forward(self, tokens: Tensor) -> Tensor:
        if not (own_kernels(tokens) and torch.is_grad_enabled()):
            return F.layer_norm(tokens, self.weight.shape, self.weight, self.bias, EPSILON)
        return FusedNorm.apply(tokens, self.weight, self.bias, self._precision(tokens))

    def add_and_norm(self, tokens: Tensor, branch: Tensor, seed: Tensor | None) -> tuple[Tensor, Tensor]:
        """The tokens with a branch added, some of it dropped while training; and these normalised."""
        if seed is None:
            tokens = tokens + F.dropout(branch, self.dropout, self.training)
            return tokens, self(tokens)
        share = self.dropout if self.training else 0.0
        return FusedAddNorm.apply(tokens, branch, seed, share, self.weight, self.bias, self._precision(tokens))

    def _precision(self, tokens: Tensor) -> torch.dtype:
        return precision_of_products(tokens.device) if self.before_product else torch.float32


def seeds(tokens: Tensor, branches: int) -> Sequence[Tensor | None]:
    """For each branch what decides how much of it is dropped, where our kernels drop it: all are drawn at once."""
    if own_kernels(tokens) and torch.is_grad_enabled():
        return torch.randint(SEEDS, (branches, 1), device=tokens.device).unbind()
    return [None] * branches


class FusedNorm(torch.autograd.Function):
    """`Norm.forward` by our own kernels."""

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, weight: Tensor, bias: Tensor, dtype: torch.dtype) -> Tensor:
        from holdfast.gpu.layers import norm_forward

        tokens, out, *moments = norm_forward(tokens.contiguous(), weight, bias, EPSILON, dtype)
        ctx.save_for_backward(tokens, weight, *moments)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        from holdfast.gpu.layers import norm_backward

        return *norm_backward(gradient.contiguous(), *ctx.saved_tensors)[:3], None


class FusedAddNorm(torch.autograd.Function):
    """`Norm.add_and_norm` by our own kernels; what is dropped is drawn again backward, not kept."""

    @staticmethod
    def forward(
        ctx: Any,
        tokens: Tensor,
        branch: Tensor,
        seed: Tensor,
        share: float,
        weight: Tensor,
        bias: Tensor,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        from holdfast.gpu.layers import norm_forward

        ctx.share, joining = share, (branch.contiguous(), seed, share)
        add_and_norm, out, *moments = norm_forward(tokens.contiguous(), weight, bias, EPSILON, dtype, joining)
        ctx.save_for_backward(seed, add_and_norm, weight, *moments)
        return add_and_norm, out

    @staticmethod
    def backward(
        ctx: Any, through: Tensor, gradient: Tensor
    ) -> tuple[Tensor, Tensor, None, None, Tensor, Tensor, None]:
        from holdfast.gpu.layers import norm_backward

        seed, tokens, weight, means, scales = ctx.saved_tensors
        joining = (through.contiguous(), seed, ctx.share)
        moved, of_weight, of_bias, of_branch = norm_backward(
            gradient.contiguous(), tokens, weight, means, scales, joining
        )
        return moved, of_branch, None, None, of_weight, of_bias, None
