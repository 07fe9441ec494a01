"""When in its episode a token stands: a learned table, or a compact code of waves."""

import math
from typing import Literal

import torch
from torch import Tensor, nn

Timesteps = Literal["table", "waves"]


class TimestepTable(nn.Module):
    """One learned vector per step of the longest episode: the publication's choice, most of its Atari model."""

    def __init__(self, horizon: int, width: int) -> None:
        super().__init__()
        self.horizon = horizon
        self.table = nn.Embedding(horizon + 1, width)
        nn.init.normal_(self.table.weight, std=0.02)

    def forward(self, timesteps: Tensor) -> Tensor:
        return self.table(timesteps.clamp(max=self.horizon))


class TimestepWaves(nn.Module):
    """Sines and cosines, periods from two steps to twice the horizon, mixed by one layer: small at any horizon."""

    frequencies: Tensor  # (WAVES,)
    WAVES = 16

    def __init__(self, horizon: int, width: int) -> None:
        super().__init__()
        periods = torch.logspace(math.log2(2.0), math.log2(max(2.0 * horizon, 4.0)), self.WAVES, base=2.0)
        self.register_buffer("frequencies", 2 * math.pi / periods, persistent=False)
        self.mix = nn.Linear(2 * self.WAVES, width, bias=False)

    def forward(self, timesteps: Tensor) -> Tensor:
        angles = timesteps[..., None] * self.frequencies
        return self.mix(torch.cat([angles.sin(), angles.cos()], dim=-1))


def timestep_code(kind: Timesteps, horizon: int, width: int) -> nn.Module:
    """The code of this kind for episodes of at most `horizon` steps."""
    return TimestepTable(horizon, width) if kind == "table" else TimestepWaves(horizon, width)
