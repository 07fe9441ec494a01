"""The change that a task adds for itself alone as it is stored: which entries, and what is added to each."""

from collections.abc import Mapping

from torch import Tensor

from holdfast.subnets.copies import Change
from holdfast.subnets.layout import Layout
from holdfast.subnets.stored_masks import read_masks, stored_masks
from holdfast.subnets.stored_weights import read_weights, stored_weights


def stored_change(change: Change | None, layout: Layout) -> dict[str, Tensor]:
    """The change as a few named tensors; none if there is no change."""
    if change is None:
        return {}
    (mask,) = stored_masks([change.mask])
    return {**mask, **stored_weights(change.values.split(_counts(change.mask, layout)))}


def read_change(stored: Mapping[str, Tensor], layout: Layout) -> Change | None:
    """The change that `stored_change` stored."""
    if not stored:
        return None
    (mask,) = read_masks([stored], layout.total)
    return Change(mask, read_weights(stored, _counts(mask, layout)))


def _counts(mask: Tensor, layout: Layout) -> list[int]:
    """The number of entries of each tensor."""
    return [int(chosen.sum()) for (chosen,) in layout.pieces(mask)]
