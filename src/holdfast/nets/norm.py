"""LayerNorm, on a GPU one launch each way, and what comes out is of the precision that the next product wants."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.gpu import own_kernels, precision_of_products

EPSILON = 1e-5


class Norm(nn.Module):
    """Zero mean and unit deviation over the last dimension, then scaled and shifted."""

    def __init__(self, width: int, before_product: bool = False) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.before_product = before_product  # then what comes out may have the precision of products

    def forward(self, tokens: Tensor) -> Tensor:
        if not (own_kernels(tokens) and torch.is_grad_enabled()):
            return F.layer_norm(tokens, self.weight.shape, self.weight, self.bias, EPSILON)
        dtype = precision_of_products(tokens.device) if self.before_product else torch.float32
        return OneLaunch.apply(tokens, self.weight, self.bias, dtype)


class OneLaunch(torch.autograd.Function):
    """The same, by our own kernels."""

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, weight: Tensor, bias: Tensor, dtype: torch.dtype) -> Tensor:
        from holdfast.nets.kernels import norm_forward

        tokens = tokens.contiguous()
        out, mean, deviation = norm_forward(tokens, weight, bias, EPSILON, dtype)
        ctx.save_for_backward(tokens, weight, mean, deviation)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        from holdfast.nets.kernels import norm_backward

        return *norm_backward(gradient.contiguous(), *ctx.saved_tensors), None
