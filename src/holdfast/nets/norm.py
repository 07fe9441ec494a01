"""LayerNorm, on a GPU as one kernel launch forward and one backward, in the precision of the next matrix product."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.gpu.capture import own_kernels, precision_of_products
from holdfast.nets.dropout import dropout

EPSILON = 1e-5
SEEDS = 2**31


class Norm(nn.Module):
    """LayerNorm over the last dimension, with scale and shift."""

    def __init__(self, width: int, before_product: bool = False, dropout: float = 0.0) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.before_product = before_product  # whether the output may have the precision of products
        self.dropout = dropout  # rate of the branch that `add_and_norm` adds

    def forward(self, tokens: Tensor) -> Tensor:
        if not (own_kernels(tokens) and torch.is_grad_enabled()):
            return F.layer_norm(tokens, self.weight.shape, self.weight, self.bias, EPSILON)
        return FusedNorm.apply(tokens, self.weight, self.bias, self._precision(tokens))

    def add_and_norm(self, tokens: Tensor, branch: Tensor, seed: Tensor | None) -> tuple[Tensor, Tensor]:
        """Adds a residual branch to the tokens, with dropout in training; returns the sum and its LayerNorm."""
        if seed is None:
            tokens = tokens + dropout(branch, self.dropout, self.training)
            return tokens, self(tokens)
        share = self.dropout if self.training else 0.0
        return FusedAddNorm.apply(tokens, branch, seed, share, self.weight, self.bias, self._precision(tokens))

    def _precision(self, tokens: Tensor) -> torch.dtype:
        return precision_of_products(tokens.device) if self.before_product else torch.float32


def seeds(tokens: Tensor, branches: int) -> Sequence[Tensor | None]:
    """The dropout seed of each residual branch, drawn at once; None where our kernels are not used."""
    if own_kernels(tokens) and torch.is_grad_enabled():
        return torch.randint(SEEDS, (branches, 1), device=tokens.device).unbind()
    return [None] * branches


class FusedNorm(torch.autograd.Function):
    """`Norm.forward` as fused kernels."""

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, weight: Tensor, bias: Tensor, dtype: torch.dtype) -> Tensor:
        from holdfast.gpu.layers import norm_forward

        tokens, out, *moments = norm_forward(tokens.contiguous(), weight, bias, epsilon=EPSILON, dtype=dtype)
        ctx.save_for_backward(tokens, weight, *moments)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        from holdfast.gpu.layers import norm_backward

        return *norm_backward(gradient.contiguous(), *ctx.saved_tensors)[:3], None


class FusedAddNorm(torch.autograd.Function):
    """`Norm.add_and_norm` as fused kernels; the dropout mask is drawn again in the backward pass instead of stored."""

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

        ctx.share = share
        residual = (branch.contiguous(), seed, share)
        total, out, *moments = norm_forward(
            tokens.contiguous(), weight, bias, epsilon=EPSILON, dtype=dtype, residual=residual
        )
        ctx.save_for_backward(seed, total, weight, *moments)
        return total, out

    @staticmethod
    def backward(
        ctx: Any, through: Tensor, gradient: Tensor
    ) -> tuple[Tensor, Tensor, None, None, Tensor, Tensor, None]:
        from holdfast.gpu.layers import norm_backward

        seed, tokens, weight, means, scales = ctx.saved_tensors
        residual = (through.contiguous(), seed, ctx.share)
        of_tokens, of_weight, of_bias, of_branch = norm_backward(
            gradient.contiguous(), tokens, weight, means, scales, residual=residual
        )
        return of_tokens, of_branch, None, None, of_weight, of_bias, None
