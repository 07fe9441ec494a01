"""Masked weights on a GPU: one kernel launch forward and one backward."""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024


@triton.jit
def _masked_weights(frozen, occupied, free, mask, out, size, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    owned = tl.load(occupied + at, mask=inside, other=0) != 0
    chosen = tl.load(mask + at, mask=inside, other=0) != 0
    value = tl.load(frozen + at, mask=owned & chosen, other=0.0) + tl.load(free + at, mask=~owned & chosen, other=0.0)
    tl.store(out + at, value.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _masked_weights_backward(  # type: ignore[no-untyped-def]
    gradient, frozen, occupied, free, scores, mask, of_free, of_scores, size, BLOCK: tl.constexpr
):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    g = tl.load(gradient + at, mask=inside, other=0.0).to(tl.float32)
    owned = tl.load(occupied + at, mask=inside, other=0) != 0
    chosen = tl.load(mask + at, mask=inside, other=0) != 0
    value = tl.where(owned, tl.load(frozen + at, mask=inside), tl.load(free + at, mask=inside))
    score = tl.load(scores + at, mask=inside, other=0.0)
    sign = tl.where(score > 0, 1.0, tl.where(score < 0, -1.0, 0.0))
    tl.store(of_free + at, tl.where(chosen & ~owned, g, 0.0), mask=inside)
    tl.store(of_scores + at, g * value * sign, mask=inside)


def masked_weights(frozen: Tensor, occupied: Tensor, free: Tensor, mask: Tensor, dtype: torch.dtype) -> Tensor:
    """The weights under the mask, (P,): frozen ones where a task owns the entry, free ones elsewhere, zero outside."""
    out = torch.empty_like(free, dtype=dtype)
    _masked_weights[(triton.cdiv(free.numel(), BLOCK),)](frozen, occupied, free, mask, out, free.numel(), BLOCK)
    return out


def masked_weights_backward(
    gradient: Tensor, frozen: Tensor, occupied: Tensor, free: Tensor, *, scores: Tensor, mask: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of the free weights and of the scores, (P,) each."""
    of_free, of_scores = torch.empty_like(free), torch.empty_like(scores)
    grid = (triton.cdiv(free.numel(), BLOCK),)
    _masked_weights_backward[grid](
        gradient, frozen, occupied, free, scores, mask, of_free, of_scores, free.numel(), BLOCK
    )
    return of_free, of_scores
