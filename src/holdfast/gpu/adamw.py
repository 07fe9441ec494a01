"""The optimiser's pass over all parameters, as one launch on a GPU."""

import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024


@triton.jit
def _adamw(  # type: ignore[no-untyped-def]
    values, gradient, mean, square, rate, taken, norm, size, clip, decay, beta1, beta2, epsilon, BLOCK: tl.constexpr
):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < size
    lr, steps = tl.load(rate), tl.load(taken)
    shrink = tl.minimum(clip / (tl.load(norm) + 1e-6), 1.0)
    g = tl.load(gradient + offset, mask=inside) * shrink
    m = tl.load(mean + offset, mask=inside)
    v = tl.load(square + offset, mask=inside)
    p = tl.load(values + offset, mask=inside)
    m += (1 - beta1) * (g - m)
    v = beta2 * v + (1 - beta2) * g * g
    first = 1 - tl.exp2(steps * tl.log2(beta1))  # the bias corrections
    second = 1 - tl.exp2(steps * tl.log2(beta2))
    p = p * (1 - lr * decay) - lr / first * m / (tl.sqrt(v) / tl.sqrt(second) + epsilon)
    tl.store(mean + offset, m, mask=inside)
    tl.store(square + offset, v, mask=inside)
    tl.store(values + offset, p, mask=inside)


def adamw(
    values: Tensor,
    gradient: Tensor,
    mean: Tensor,
    square: Tensor,
    rate: Tensor,
    taken: Tensor,
    norm: Tensor,
    clip: float,
    decay: float,
    betas: tuple[float, float],
    epsilon: float,
) -> None:
    """One step of AdamW in place, the gradient first shrunk to a norm of at most `clip`."""
    size = values.numel()
    grid = (triton.cdiv(size, BLOCK),)
    _adamw[grid](values, gradient, mean, square, rate, taken, norm, size, clip, decay, *betas, epsilon, BLOCK)
