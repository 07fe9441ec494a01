"""Selection of exactly k entries of a tensor: the largest, ties by index, the same on every device."""

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
    """k = ceil(ratio * feasible), computed with the decimal ratio: 0.07 of 100 is 7, not 8."""
    exact = ratio if isinstance(ratio, Fraction) else Fraction(str(ratio))
    return ceil(exact * feasible)


def largest(values: Tensor, k: int) -> Tensor:
    """A bool mask of the k largest values; of equal values, those with the lower index."""
    if k == 0:
        return torch.zeros_like(values, dtype=torch.bool)
    return at_least(values, k, values.kthvalue(len(values) - k + 1).values)


def at_least(values: Tensor, k: int, threshold: Tensor) -> Tensor:
    """The mask of the k largest values, given the k-th largest."""
    above, ties = values > threshold, values == threshold
    return above | (ties & (ties.cumsum(0) <= k - above.sum()))


class Selector:
    """Applies `largest` to each quota of every tensor of a layout; fast if scores change little between calls.

    Entries of the same quota compete with each other. Quotas count from 1; an entry of quota 0 is never selected.
    """

    def __init__(self, sizes: Sequence[int], counts: Sequence[Sequence[int]]) -> None:
        self.sizes = list(sizes)
        self.counts = [list(quota) for quota in counts]  # for each quota, the number of entries of each tensor
        self.thresholds = [[Threshold(k) for k in quota] for quota in self.counts]
        self.others: list[Tensor] | None = None  # for each quota, the entries that are not in it; not used on a GPU
        self.radix: Radix | None = None  # only on a GPU

    def select(self, scores: Tensor, quotas: Tensor) -> Tensor:
        """The k largest scores by magnitude of each quota of each tensor, (P,) bool.

        `quotas` is (P,) uint8, and the same in every call.
        """
        if own_kernels(scores):
            return self._radix(scores.device).select(scores, quotas)
        if self.others is None:
            self.others = [(quotas != quota).nonzero()[:, 0] for quota in range(1, len(self.counts) + 1)]
        magnitudes, mask = scores.abs(), torch.zeros_like(quotas, dtype=torch.bool)
        for thresholds, others in zip(self.thresholds, self.others, strict=True):
            if any(threshold.k for threshold in thresholds):
                pieces = magnitudes.index_fill(0, others, -1.0).split(self.sizes)
                mask |= torch.cat([threshold.mask(piece) for threshold, piece in zip(thresholds, pieces, strict=True)])
        return mask

    def _radix(self, device: torch.device) -> "Radix":
        if self.radix is None:
            from holdfast.gpu.radix import Radix

            self.radix = Radix(self.sizes, self.counts, device)
        return self.radix


class Threshold:
    """Finds the k-th largest of values that change little between calls, by searching near the last result."""

    def __init__(self, k: int) -> None:
        self.k, self.last, self.reach = k, np.float32(0), np.float32(0)

    def mask(self, values: Tensor) -> Tensor:
        """The mask of the k largest."""
        if self.k == 0 or values.is_cuda:
            return largest(values, self.k)
        array = values.numpy()
        threshold = self._near(array)
        if threshold is None:
            threshold = np.partition(array, len(array) - self.k)[len(array) - self.k]
        self.reach = max(2 * abs(threshold - self.last), threshold * np.float32(1e-3))
        self.last = threshold
        mask = array >= threshold
        if np.count_nonzero(mask) == self.k:
            return torch.from_numpy(mask)
        return at_least(values, self.k, torch.tensor(threshold))

    def _near(self, array: np.ndarray) -> np.float32 | None:
        """The k-th largest if it is within reach of the last one."""
        low, high = self.last - self.reach, self.last + self.reach
        above = np.count_nonzero(array > high)
        near = array[(array >= low) & (array <= high)]  # inclusive bounds: every value is below, near or above
        place = len(near) - (self.k - above)
        return np.partition(near, place)[place] if 0 <= place < len(near) else None
