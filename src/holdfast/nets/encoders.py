"""Observations to vectors: what a state token is made of."""

import torch
from torch import Tensor, nn


class VectorEncoder(nn.Module):
    """A flat observation through one layer."""

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(features, width), nn.GELU(), nn.LayerNorm(width))

    def forward(self, observations: Tensor) -> Tensor:
        return self.layers(observations.to(next(self.parameters()).dtype))


class PixelEncoder(nn.Module):
    """A stack of grey frames through three convolutions (8/4, 4/2, 3/1)."""

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
        self.layers = nn.Sequential(nn.Linear(features, width), nn.GELU(), nn.LayerNorm(width))

    def forward(self, observations: Tensor) -> Tensor:
        batch = observations.shape[: -len(self.shape)]
        frames = observations.reshape(-1, *self.shape).float() / 255  # bytes until here
        return self.layers(self.convolutions(frames)).reshape(*batch, -1)


def encoder(shape: tuple[int, ...], width: int) -> nn.Module:
    """The encoder for observations of this shape."""
    return PixelEncoder(shape, width) if len(shape) == 3 else VectorEncoder(shape[0], width)
