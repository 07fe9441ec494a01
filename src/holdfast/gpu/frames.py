"""Stacks frames on a GPU, in one kernel launch."""

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _stacks(frames, index, timesteps, out, stack, size, MOST: tl.constexpr):  # type: ignore[no-untyped-def]
    step, position = tl.program_id(0) // stack, tl.program_id(0) % stack
    back = stack - 1 - position  # the newest frame stands last
    there = back <= tl.load(timesteps + step)
    row = tl.load(index + step) - tl.where(there, back, 0)
    at = tl.arange(0, MOST)
    pixels = tl.load(frames + row * size + at, mask=(at < size) & there, other=0)
    tl.store(out + tl.program_id(0).to(tl.int64) * size + at, pixels, mask=at < size)


def stacks(frames: Tensor, index: Tensor, timesteps: Tensor, stack: int) -> Tensor:
    """The frame of each step and the frames before it, (*index, stack, *frame); zeros before an episode's start."""
    frame = frames.shape[1:]
    out = torch.empty(*index.shape, stack, *frame, dtype=frames.dtype, device=frames.device)
    size = frame.numel()
    most = triton.next_power_of_2(size)
    _stacks[(index.numel() * stack,)](frames, index.contiguous(), timesteps.contiguous(), out, stack, size, most)
    return out
