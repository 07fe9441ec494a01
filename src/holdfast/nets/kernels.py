"""What the network spends most launches on, as few launches on a GPU."""

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS = 16  # of tokens that a program takes


@triton.jit
def _tile(rows, width, ROWS: tl.constexpr, WIDTH: tl.constexpr):  # type: ignore[no-untyped-def]
    """This program's rows and all columns: which are tokens, and where they lie."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, WIDTH)
    return row, column, (row < rows)[:, None] & (column < width)[None, :], row[:, None] * width + column[None, :]


@triton.jit
def _norm_forward(  # type: ignore[no-untyped-def]
    tokens, weight, bias, out, means, scales, rows, width, epsilon, ROWS: tl.constexpr, WIDTH: tl.constexpr
):
    row, column, inside, place = _tile(rows, width, ROWS, WIDTH)
    x = tl.load(tokens + place, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(x, 1) / width
    centred = tl.where(inside, x - mean[:, None], 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, 1) / width + epsilon)
    w = tl.load(weight + column, mask=column < width, other=0.0)
    b = tl.load(bias + column, mask=column < width, other=0.0)
    result = centred * scale[:, None] * w[None, :] + b[None, :]
    tl.store(out + place, result.to(out.dtype.element_ty), mask=inside)
    tl.store(means + row, mean, mask=row < rows)
    tl.store(scales + row, scale, mask=row < rows)


@triton.jit
def _norm_backward(  # type: ignore[no-untyped-def]
    gradient, tokens, weight, means, scales, moved, parts, rows, width, ROWS: tl.constexpr, WIDTH: tl.constexpr
):
    row, column, inside, place = _tile(rows, width, ROWS, WIDTH)
    g = tl.load(gradient + place, mask=inside, other=0.0).to(tl.float32)
    x = tl.load(tokens + place, mask=inside, other=0.0).to(tl.float32)
    mean, scale = tl.load(means + row, mask=row < rows, other=0.0), tl.load(scales + row, mask=row < rows, other=0.0)
    w = tl.load(weight + column, mask=column < width, other=0.0)
    normal = tl.where(inside, (x - mean[:, None]) * scale[:, None], 0.0)
    scaled = g * w[None, :]
    along = tl.sum(scaled * normal, 1) / width
    level = tl.sum(scaled, 1) / width
    change = (scaled - level[:, None] - normal * along[:, None]) * scale[:, None]
    tl.store(moved + place, change.to(moved.dtype.element_ty), mask=inside)
    part = parts + tl.program_id(0) * 2 * width  # this program's share of the gradients of weight and bias
    tl.store(part + column, tl.sum(g * normal, 0), mask=column < width)
    tl.store(part + width + column, tl.sum(g, 0), mask=column < width)


def norm_forward(
    tokens: Tensor, weight: Tensor, bias: Tensor, epsilon: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """The normalised tokens, and each one's mean and the reciprocal of its deviation."""
    width = tokens.shape[-1]
    rows = tokens.numel() // width
    out = torch.empty_like(tokens, dtype=dtype)
    means, scales = (torch.empty(rows, device=tokens.device) for _ in range(2))
    grid, wide = (triton.cdiv(rows, ROWS),), triton.next_power_of_2(width)
    _norm_forward[grid](tokens, weight, bias, out, means, scales, rows, width, epsilon, ROWS, wide)
    return out, means, scales


def norm_backward(
    gradient: Tensor, tokens: Tensor, weight: Tensor, means: Tensor, scales: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of tokens, weight and bias; sums are taken in one order, so they are the same every time."""
    width = tokens.shape[-1]
    rows = tokens.numel() // width
    programs, wide = triton.cdiv(rows, ROWS), triton.next_power_of_2(width)
    moved = torch.empty_like(tokens)
    parts = torch.empty(programs, 2, width, device=tokens.device)
    _norm_backward[(programs,)](gradient, tokens, weight, means, scales, moved, parts, rows, width, ROWS, wide)
    of_weight, of_bias = parts.sum(0)
    return moved, of_weight, of_bias


@triton.jit
def _blocks(frames, out, channels, height, width, SIDE: tl.constexpr, MOST: tl.constexpr):  # type: ignore[no-untyped-def]
    across, inside = width // SIDE, channels * SIDE * SIDE  # blocks in a row; numbers in a block
    picture, line = tl.program_id(0) // (height // SIDE), tl.program_id(0) % (height // SIDE)
    at = tl.arange(0, MOST)
    there = at < across * inside
    block, number = at // inside, at % inside
    channel, y, x = number // (SIDE * SIDE), number // SIDE % SIDE, number % SIDE
    source = ((picture * channels + channel) * height + line * SIDE + y) * width + block * SIDE + x
    pixels = tl.load(frames + source, mask=there, other=0)
    tl.store(out + tl.program_id(0) * across * inside + at, pixels.to(out.dtype.element_ty), mask=there)


def blocks(frames: Tensor, side: int, dtype: torch.dtype) -> Tensor:
    """Bytes (N, C, H, W) as numbers in blocks of side x side pixels, (N, H / side, W / side, C * side * side)."""
    count, channels, height, width = frames.shape
    shape = (count, height // side, width // side, channels * side * side)
    out = torch.empty(shape, dtype=dtype, device=frames.device)
    most = triton.next_power_of_2(shape[2] * shape[3])
    _blocks[(count * shape[1],)](frames.contiguous(), out, channels, height, width, side, most)
    return out
