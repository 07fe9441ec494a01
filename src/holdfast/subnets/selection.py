"""Which k entries of a tensor a mask keeps: exactly k, the largest first, ties by index, on every device."""

from fractions import Fraction
from math import ceil

import numpy as np
import torch
from torch import Tensor


def entries(ratio: float | Fraction, feasible: int) -> int:
    """k = ceil(ratio * feasible), computed on the ratio as written: 0.07 of 100 is 7, not 8."""
    exact = ratio if isinstance(ratio, Fraction) else Fraction(str(ratio))
    return ceil(exact * feasible)


def largest(values: Tensor, k: int) -> Tensor:
    """A mask, bool, of the k largest values; among equal values those with the lower index."""
    if k == 0:
        return torch.zeros_like(values, dtype=torch.bool)
    threshold = _kth_largest(values, k)
    above, ties = values > threshold, values == threshold
    return above | (ties & (ties.cumsum(0) <= k - above.sum()))


def _kth_largest(values: Tensor, k: int) -> Tensor:
    place = len(values) - k  # from below
    if values.device.type == "cpu":  # several times faster than torch's selection there
        return torch.as_tensor(np.partition(values.numpy(), place)[place])
    return values.kthvalue(place + 1).values
