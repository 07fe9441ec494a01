"""Selection on a GPU: a radix search for the k-th largest magnitude of all tensors at once."""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 2048
DIGITS = ((23, 256), (15, 256), (7, 256), (0, 128))  # the 31 bits of a magnitude, from the top: shift, values
MOST = 256  # values of a digit

# The bits of a non-negative float, read as an integer, have the same order; entries of other quotas are -1.


@triton.jit
def _place(blocks, block):  # type: ignore[no-untyped-def]
    row = blocks + 5 * block
    return tl.load(row), tl.load(row + 1), tl.load(row + 2), tl.load(row + 3)


@triton.jit
def _score_keys(scores, quotas, start, length, quota, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    offset = tl.arange(0, BLOCK)
    score = tl.load(scores + start + offset, mask=offset < length, other=0.0)
    belongs = tl.load(quotas + start + offset, mask=offset < length, other=0) == quota
    return tl.where(belongs, tl.abs(score).to(tl.int32, bitcast=True), -1)


@triton.jit
def _count(  # type: ignore[no-untyped-def]
    scores,
    quotas,
    blocks,
    prefixes,
    histogram,
    SHIFT: tl.constexpr,
    BINS: tl.constexpr,
    BLOCK: tl.constexpr,
    ROOM: tl.constexpr,
):
    """Counts the values of the next digit among the keys of a group that start with the prefix found so far."""
    block = tl.program_id(0)
    group, start, length, quota = _place(blocks, block)
    keys = _score_keys(scores, quotas, start, length, quota, BLOCK)
    fits = (keys >> SHIFT) // BINS == tl.load(prefixes + group)
    fits = fits & (keys >= 0)
    digits = tl.where(fits, (keys >> SHIFT) & (BINS - 1), 0)
    bins = tl.arange(0, BINS)
    counts = tl.histogram(digits, BINS)
    counts -= tl.where(bins == 0, BLOCK - tl.sum(fits.to(tl.int32), 0), 0)  # keys without the prefix were counted as 0
    tl.atomic_add(histogram + group * ROOM + bins, counts, mask=counts > 0)


@triton.jit
def _descend(histogram, prefixes, wanted, BINS: tl.constexpr, ROOM: tl.constexpr):  # type: ignore[no-untyped-def]
    """Appends the digit of the k-th largest key to the prefix, and reduces k by the keys with larger digits."""
    group = tl.program_id(0)
    bins = tl.arange(0, BINS)
    counts = tl.load(histogram + group * ROOM + bins)
    tl.store(histogram + group * ROOM + bins, tl.zeros_like(counts))
    k = tl.load(wanted + group)
    enough = tl.cumsum(counts, 0, reverse=True) >= k
    digit = tl.max(tl.where(enough, bins, 0), 0)
    tl.store(prefixes + group, tl.load(prefixes + group) * BINS + digit)
    tl.store(wanted + group, k - tl.sum(tl.where(bins > digit, counts, 0), 0))


@triton.jit
def _ties(scores, quotas, blocks, thresholds, ties, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Counts the keys of each block that equal the k-th largest."""
    block = tl.program_id(0)
    group, start, length, quota = _place(blocks, block)
    same = _score_keys(scores, quotas, start, length, quota, BLOCK) == tl.load(thresholds + group)
    tl.store(ties + block, tl.sum(same.to(tl.int32), 0))


@triton.jit
def _write(scores, quotas, blocks, thresholds, wanted, ties, mask, BLOCK: tl.constexpr, MOST: tl.constexpr):  # type: ignore[no-untyped-def]
    """Writes the mask: all keys above the k-th largest, and the first keys equal to it until there are k."""
    block = tl.program_id(0)
    group, start, length, quota = _place(blocks, block)
    first = tl.load(blocks + 5 * block + 4)
    others = first + tl.arange(0, MOST)
    before = tl.sum(tl.load(ties + others, mask=others < block, other=0), 0)
    keys = _score_keys(scores, quotas, start, length, quota, BLOCK)
    threshold = tl.load(thresholds + group)
    same = keys == threshold
    rank = before + tl.cumsum(same.to(tl.int32), 0)
    chosen = (keys > threshold) | (same & (rank <= tl.load(wanted + group)))
    offset = tl.arange(0, BLOCK)
    tl.store(mask + start + offset, chosen, mask=keys >= 0)  # other quotas write their own entries


class Radix:
    """Selects k entries of each group; its buffers keep their addresses, as CUDA graphs require.

    A group is the entries of one quota in one tensor, see `subnets/selection.py:Selector`.
    """

    def __init__(self, sizes: Sequence[int], counts: Sequence[Sequence[int]], device: torch.device) -> None:
        rows: list[tuple[int, int, int, int, int]] = []
        for quota in range(len(counts)):
            start = 0
            for tensor, size in enumerate(sizes):
                group, first = quota * len(sizes) + tensor, len(rows)
                rows += [(group, start + at, min(BLOCK, size - at), quota + 1, first) for at in range(0, size, BLOCK)]
                start += size
        self.blocks = torch.tensor(rows, dtype=torch.int32, device=device)  # group, start, length, quota, first block
        self.most = triton.next_power_of_2(max(-(-size // BLOCK) for size in sizes))
        self.counts = torch.tensor(counts, dtype=torch.int32, device=device).flatten()
        self.wanted, self.prefixes = self.counts.clone(), torch.zeros_like(self.counts)
        self.histogram = torch.zeros(len(self.counts), MOST, dtype=torch.int32, device=device)
        self.ties = torch.zeros(len(rows), dtype=torch.int32, device=device)

    def select(self, scores: Tensor, quotas: Tensor) -> Tensor:
        """The k largest scores by magnitude of each quota of each tensor, (P,) bool."""
        mask = torch.zeros_like(quotas, dtype=torch.bool)
        blocks, groups = (len(self.blocks),), (len(self.counts),)
        self.wanted.copy_(self.counts)
        self.prefixes.zero_()
        for shift, values in DIGITS:
            _count[blocks](scores, quotas, self.blocks, self.prefixes, self.histogram, shift, values, BLOCK, MOST)
            _descend[groups](self.histogram, self.prefixes, self.wanted, values, MOST)
        _ties[blocks](scores, quotas, self.blocks, self.prefixes, self.ties, BLOCK)
        _write[blocks](scores, quotas, self.blocks, self.prefixes, self.wanted, self.ties, mask, BLOCK, self.most)
        return mask
