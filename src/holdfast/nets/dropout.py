"""Dropout, on a CPU with sixteen random bits per activation, since torch draws a float there and is slow at it."""

import torch
import torch.nn.functional as F
from torch import Tensor

LEVELS = 2**16  # on a CPU the dropped share is rounded to a multiple of 1 / LEVELS
PER_WORD = 4  # draws of 16 bits in a random number of 64 bits


def dropout(values: Tensor, share: float, training: bool) -> Tensor:
    """In training, zeroes a share of the values and scales the others up so that the mean stays the same."""
    if not training or share == 0:
        return values
    if values.device.type != "cpu":
        return F.dropout(values, share)
    return values * _factors(values, share)


def _factors(values: Tensor, share: float) -> Tensor:
    """What each value is multiplied by: 0 for a share of them, the same factor for all others."""
    dropped = min(round(share * LEVELS), LEVELS - 1)  # at least one level is kept
    count = values.numel()
    words = torch.empty(-(-count // PER_WORD), dtype=torch.int64).random_(-(2**63), None)  # all 64 bits
    levels = words.view(torch.int16)[:count].view(values.shape)
    kept = levels.to(values.dtype).ge_(dropped - LEVELS // 2)
    return kept.mul_(LEVELS / (LEVELS - dropped))
