"""About how many bytes a task's subnetwork will take, before it is trained."""

from collections.abc import Sequence
from fractions import Fraction
from math import log2

from holdfast.subnets.config import SubnetConfig
from holdfast.subnets.layout import Layout
from holdfast.subnets.quotas import Counts
from holdfast.subnets.selection import entries

WEIGHT = 4  # bytes of a weight


def subnetwork_bytes(config: SubnetConfig, layout: Layout, free: Sequence[int], counts: Counts, *, warm: bool) -> int:
    """The bytes of the mask, new weights and change of the next task of a copy; `warm` if a mask begins its scores."""
    new, left = claimed_counts(config, layout, free, counts, warm=warm), sum(free)
    # free and owned entries stand apart in a stored mask
    masks = mask_bytes(sum(new), left) + mask_bytes(sum(counts.selected) - sum(new), layout.total - left)
    found = masks + weight_bytes(new, config.quantise_bits)
    if counts.changed is not None:
        found += mask_bytes(sum(counts.changed), layout.total) + weight_bytes(counts.changed, config.quantise_bits)
    return found


def claimed_counts(
    config: SubnetConfig, layout: Layout, free: Sequence[int], counts: Counts, *, warm: bool
) -> list[int]:
    """The number of new entries of each tensor; where the scores decide, as many as random scores would select, or
    after a warm start as few as possible: in recorded runs, these were 0 to 8 % of a task's entries."""
    if counts.new is not None:
        return counts.new
    if not config.reuse:
        return counts.selected
    rows = zip(counts.selected, free, layout.sizes, strict=True)
    if warm:
        return [max(selected - (size - left), 0) for selected, left, size in rows]
    return [entries(Fraction(left, size), selected) for selected, left, size in rows]


def weight_bytes(counts: Sequence[int], bits: int) -> int:
    """The bytes of so many weights of each tensor; with `bits`, as codes and a table where these are smaller."""
    plain = [WEIGHT * count for count in counts]
    if bits == 0:
        return sum(plain)
    coded = [WEIGHT * 2**bits + count * bits // 8 for count in counts]
    sizes = WEIGHT * len(counts) if any(map(int.__lt__, coded, plain)) else 0  # of the tables
    return sum(map(min, plain, coded)) + sizes


def mask_bytes(selected: int, total: int) -> int:
    """The bytes of a random mask after compression: its entropy."""
    if selected in (0, total):
        return 0
    share = selected / total
    return round(-total * (share * log2(share) + (1 - share) * log2(1 - share)) / 8)
