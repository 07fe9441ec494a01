"""Encoders: from observations to vectors."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.gpu.capture import own_kernels, precision_of_products
from holdfast.nets.norm import Norm

BLOCK = 4  # pixels; the first convolution's stride


class VectorEncoder(nn.Module):
    """One layer for flat observations."""

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(features, width), nn.GELU(), Norm(width))

    def forward(self, observations: Tensor) -> Tensor:
        return self.layers(observations.to(next(self.parameters()).dtype))


class PixelEncoder(nn.Module):
    """Three convolutions (8/4, 4/2, 3/1) for stacks of grey frames."""

    def __init__(self, shape: tuple[int, ...], width: int) -> None:
        super().__init__()
        self.shape = shape
        self.convolutions = nn.Sequential(
            nn.Conv2d(shape[0], 32, 8, 4), nn.ReLU(),
            nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
            nn.Conv2d(64, 64, 3, 1), nn.ReLU(),
            nn.Flatten(),
        )  # fmt: skip
        features = self.convolutions(torch.zeros(1, *shape)).shape[1]
        self.layers = nn.Sequential(nn.Linear(features, width), nn.GELU(), Norm(width))

    def forward(self, observations: Tensor) -> Tensor:
        batch = observations.shape[: -len(self.shape)]
        frames = observations.reshape(-1, *self.shape)  # still uint8
        if self._fits_blocks(frames):
            return self._in_blocks(frames).reshape(*batch, -1)
        return self.layers(self.convolutions(frames.float() / 255)).reshape(*batch, -1)

    def _fits_blocks(self, frames: Tensor) -> bool:
        whole = self.shape[1] % BLOCK == 0 and self.shape[2] % BLOCK == 0
        return whole and own_kernels(frames) and frames.dtype == torch.uint8

    def _in_blocks(self, frames: Tensor) -> Tensor:
        """The same convolutions; the first (kernel 8, stride 4) becomes a kernel of 2 over blocks of 4 x 4 pixels."""
        from holdfast.gpu.layers import blocks

        first, second, third = (layer for layer in self.convolutions if isinstance(layer, nn.Conv2d))
        seen = blocks(frames, BLOCK, precision_of_products(frames.device))  # (N, 21, 21, 4 * 16)
        seen = seen.permute(0, 3, 1, 2)  # channels last only in memory
        out, channels = first.weight.shape[:2]
        kernel = first.weight.view(out, channels, 2, BLOCK, 2, BLOCK).permute(0, 1, 3, 5, 2, 4).reshape(out, -1, 2, 2)
        seen = bias_relu(F.conv2d(seen, _channels_last(kernel / 255)), first.bias)
        seen = bias_relu(F.conv2d(seen, _channels_last(second.weight), None, second.stride), second.bias)
        seen = bias_relu(F.conv2d(seen, _channels_last(third.weight)), third.bias)
        return self.layers[1:](self._flattened(seen))

    def _flattened(self, seen: Tensor) -> Tensor:
        """The linear layer on channels-last frames; permuting its weights is cheaper than permuting the frames."""
        linear = self.layers[0]
        assert isinstance(linear, nn.Linear)
        weight = linear.weight.unflatten(1, seen.shape[1:]).permute(0, 2, 3, 1).flatten(1)
        return F.linear(seen.permute(0, 2, 3, 1).flatten(1), weight, linear.bias)


def _channels_last(kernel: Tensor) -> Tensor:
    return kernel.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)  # by hand: vmap does not support memory formats


def bias_relu(frames: Tensor, bias: Tensor | None) -> Tensor:
    """ReLU of frames plus a bias per channel; (N, C, H, W), channels last in memory."""
    assert bias is not None  # every convolution here has one
    if torch.is_grad_enabled():
        return FusedBiasRelu.apply(frames, bias)
    return F.relu(frames + bias[:, None, None])


class FusedBiasRelu(torch.autograd.Function):
    """`bias_relu` as fused kernels."""

    @staticmethod
    def forward(ctx: Any, frames: Tensor, bias: Tensor) -> Tensor:
        from holdfast.gpu.layers import fused_bias_relu

        out = fused_bias_relu(frames.permute(0, 2, 3, 1).contiguous(), bias)
        ctx.save_for_backward(out)
        ctx.dtype = bias.dtype
        return out.permute(0, 3, 1, 2)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        from holdfast.gpu.layers import fused_bias_relu_backward

        (out,) = ctx.saved_tensors
        of_frames, of_bias = fused_bias_relu_backward(gradient.permute(0, 2, 3, 1).contiguous(), out, ctx.dtype)
        return of_frames.permute(0, 3, 1, 2), of_bias


def encoder(shape: tuple[int, ...], width: int) -> nn.Module:
    """The encoder for observations of this shape."""
    return PixelEncoder(shape, width) if len(shape) == 3 else VectorEncoder(shape[0], width)
