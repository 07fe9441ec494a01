"""Which k entries of a tensor a mask keeps: exactly k, the largest first, ties by index, on every device."""

from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from holdfast.gpu.capture import own_kernels

if TYPE_CHECKING:
    from holdfast.gpu.radix import Radix


def entries(ratio: float | Fraction, feasible: int) -> int:
    """k = ceil(ratio * feasible), computed on the ratio as written: 0.07 of 100 is 7, not 8."""
    exact = ratio if isinstance(ratio, Fraction) else Fraction(str(ratio))
    return ceil(exact * feasible)


def largest(values: Tensor, k: int) -> Tensor:
    """A mask, bool, of the k largest values; among equal values those with the lower index."""
    if k == 0:
        return torch.zeros_like(values, dtype=torch.bool)
    return at_least(values, k, values.kthvalue(len(values) - k + 1).values)


def at_least(values: Tensor, k: int, threshold: Tensor) -> Tensor:
    """The mask of the k largest values when the k-th largest is known."""
    above, ties = values > threshold, values == threshold
    return above | (ties & (ties.cumsum(0) <= k - above.sum()))


class Selector:
    """Selects in every tensor of a layout, again and again while scores move a little; `largest` says what."""

    def __init__(self, sizes: Sequence[int], counts: Sequence[int]) -> None:
        self.sizes, self.counts = list(sizes), list(counts)
        self.thresholds = [Threshold(k) for k in counts]
        self.radix: Radix | None = None  # made where there is a GPU

    def select(self, scores: Tensor, feasible: Tensor) -> Tensor:
        """The k largest scores by magnitude among the feasible entries of each tensor, (P,) bool."""
        if own_kernels(scores):
            return self._radix(scores.device).select(scores, feasible)
        magnitudes = scores.abs().masked_fill_(~feasible, -1.0)
        pieces = zip(magnitudes.split(self.sizes), self.thresholds, strict=True)
        return torch.cat([threshold.mask(values) for values, threshold in pieces])

    def _radix(self, device: torch.device) -> "Radix":
        if self.radix is None:
            from holdfast.gpu.radix import Radix

            self.radix = Radix(self.sizes, self.counts, device)
        return self.radix


class Threshold:
    """The k-th largest of values that change little from one time to the next: looked for near where it last was."""

    def __init__(self, k: int) -> None:
        self.k, self.last, self.reach = k, np.float32(0), np.float32(0)

    def mask(self, values: Tensor) -> Tensor:
        """The mask of the k largest."""
        if self.k == 0 or values.is_cuda:
            return largest(values, self.k)
        array = values.numpy()
        found = self._near(array)
        if found is None:
            found = np.partition(array, len(array) - self.k)[len(array) - self.k]
        self.reach = max(2 * abs(found - self.last), found * np.float32(1e-3))
        self.last = found
        mask = array >= found
        if np.count_nonzero(mask) == self.k:
            return torch.from_numpy(mask)
        return at_least(values, self.k, torch.tensor(found))

    def _near(self, array: np.ndarray) -> np.float32 | None:
        """The k-th largest if it is within reach of the last one."""
        low, high = self.last - self.reach, self.last + self.reach
        above = np.count_nonzero(array > high)
        near = array[(array >= low) & (array <= high)]  # the same bounds: every value is below, near or above
        place = len(near) - (self.k - above)
        return np.partition(near, place)[place] if 0 <= place < len(near) else None
