"""AdamW on a GPU: one kernel launch updates all parameters."""

from dataclasses import dataclass

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


@dataclass(frozen=True)
class AdamwTensors:
    """The tensors of one step: all parameters laid end to end, and scalars on the same device."""

    values: Tensor  # (P,) the parameters
    gradient: Tensor  # (P,)
    mean: Tensor  # (P,) first moment
    square: Tensor  # (P,) second moment
    rate: Tensor  # () the learning rate
    taken: Tensor  # () steps so far, this one included
    norm: Tensor  # () of the gradient


def adamw(tensors: AdamwTensors, *, clip: float, decay: float, betas: tuple[float, float], epsilon: float) -> None:
    """One AdamW step in place, after the gradient is clipped to the norm `clip`."""
    size = tensors.values.numel()
    pointers = (tensors.values, tensors.gradient, tensors.mean, tensors.square)
    scalars = (tensors.rate, tensors.taken, tensors.norm)
    _adamw[(triton.cdiv(size, BLOCK),)](*pointers, *scalars, size, clip, decay, *betas, epsilon, BLOCK)
