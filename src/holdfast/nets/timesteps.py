"""Timestep encodings: a learned table, or sines and cosines."""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Timesteps = Literal["table", "waves"]


SMALL = 256  # rows of a table


def looked_up(table: Tensor, rows: Tensor) -> Tensor:
    """Rows of a table; a small one on a GPU by a matrix product, whose gradient is many times faster."""
    if rows.is_cuda and len(table) <= SMALL:
        return F.one_hot(rows, len(table)).to(table.dtype) @ table
    return F.embedding(rows, table)


class TimestepTable(nn.Module):
    """One learned vector per step of the longest episode, as published; most of the Atari model's parameters."""

    def __init__(self, horizon: int, width: int) -> None:
        super().__init__()
        self.horizon = horizon
        self.table = nn.Embedding(horizon + 1, width)
        nn.init.normal_(self.table.weight, std=0.02)

    def forward(self, timesteps: Tensor) -> Tensor:
        return looked_up(self.table.weight, timesteps.clamp(max=self.horizon))


class TimestepWaves(nn.Module):
    """Sines and cosines with periods from two steps to twice the horizon, mixed by one layer; small at any horizon."""

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
    """The encoding of this kind for episodes of at most `horizon` steps."""
    return TimestepTable(horizon, width) if kind == "table" else TimestepWaves(horizon, width)
