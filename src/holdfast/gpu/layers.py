"""Fused kernels for layers of the network: LayerNorm, bias and ReLU, and frames as blocks of pixels."""

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS = 16  # tokens per program
COLUMNS = 32  # column sums per program
BLOCK = 2048  # elements per program
PROGRAMS = 1024  # the most programs of a kernel that loops over blocks
Branch = tuple[Tensor, Tensor, float]  # a residual branch, the seed of its dropout, the dropout rate


@triton.jit
def _tile(rows, width, ROWS: tl.constexpr, WIDTH: tl.constexpr):  # type: ignore[no-untyped-def]
    """This program's rows, all columns, which of these elements exist, and their offsets."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, WIDTH)
    return row, column, (row < rows)[:, None] & (column < width)[None, :], row[:, None] * width + column[None, :]


@triton.jit
def _dropped(values, seed, place, share):  # type: ignore[no-untyped-def]
    """Dropout: zeroes a share of the values, decided by the seed, and scales the others up."""
    return tl.where(tl.rand(tl.load(seed), place) >= share, values / (1 - share), 0.0)


@triton.jit
def _norm_forward(  # type: ignore[no-untyped-def]
    tokens, branch, seed, weight, bias, joined, out, means, scales, rows, width, share, epsilon,
    JOINS: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    row, column, inside, place = _tile(rows, width, ROWS, WIDTH)
    x = tl.load(tokens + place, mask=inside, other=0.0).to(tl.float32)
    if JOINS:
        x += _dropped(tl.load(branch + place, mask=inside, other=0.0).to(tl.float32), seed, place, share)
        tl.store(joined + place, x, mask=inside)
    mean = tl.sum(x, 1) / width
    centred = tl.where(inside, x - mean[:, None], 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, 1) / width + epsilon)
    w = tl.load(weight + column, mask=column < width, other=0.0).to(tl.float32)
    b = tl.load(bias + column, mask=column < width, other=0.0).to(tl.float32)
    result = centred * scale[:, None] * w[None, :] + b[None, :]
    tl.store(out + place, result.to(out.dtype.element_ty), mask=inside)
    tl.store(means + row, mean, mask=row < rows)
    tl.store(scales + row, scale, mask=row < rows)


@triton.jit
def _norm_backward(  # type: ignore[no-untyped-def]
    gradient, through, tokens, seed, weight, means, scales, moved, of_branch, parts, rows, width, share,
    JOINS: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    row, column, inside, place = _tile(rows, width, ROWS, WIDTH)
    g = tl.load(gradient + place, mask=inside, other=0.0).to(tl.float32)
    x = tl.load(tokens + place, mask=inside, other=0.0).to(tl.float32)
    mean, scale = tl.load(means + row, mask=row < rows, other=0.0), tl.load(scales + row, mask=row < rows, other=0.0)
    w = tl.load(weight + column, mask=column < width, other=0.0).to(tl.float32)
    normal = tl.where(inside, (x - mean[:, None]) * scale[:, None], 0.0)
    scaled = g * w[None, :]
    along = tl.sum(scaled * normal, 1) / width
    level = tl.sum(scaled, 1) / width
    change = (scaled - level[:, None] - normal * along[:, None]) * scale[:, None]
    if JOINS:
        change += tl.load(through + place, mask=inside, other=0.0).to(tl.float32)
        kept = _dropped(change, seed, place, share)
        tl.store(of_branch + place, kept.to(of_branch.dtype.element_ty), mask=inside)
    tl.store(moved + place, change.to(moved.dtype.element_ty), mask=inside)
    part = parts + tl.program_id(0) * 2 * width  # this program's share of the gradients of weight and bias
    tl.store(part + column, tl.sum(g * normal, 0), mask=column < width)
    tl.store(part + width + column, tl.sum(g, 0), mask=column < width)


@triton.jit
def _sums(parts, out, width, PARTS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # type: ignore[no-untyped-def]
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(0, PARTS, ROWS):
        row = first + tl.arange(0, ROWS)
        inside = (row < PARTS)[:, None] & (column < width)[None, :]
        total += tl.load(parts + row[:, None] * width + column[None, :], mask=inside, other=0.0)
    tl.store(out + column, tl.sum(total, 0).to(out.dtype.element_ty), mask=column < width)


def _added_up(parts: Tensor, dtype: torch.dtype) -> Tensor:
    """Sums the partial results of all programs, in a fixed order so that the result is deterministic."""
    width = parts[0].numel()
    out = torch.empty(parts.shape[1:], dtype=dtype, device=parts.device)
    _sums[(triton.cdiv(width, COLUMNS),)](parts, out, width, len(parts), 4 * ROWS, COLUMNS)
    return out


def norm_forward(
    tokens: Tensor, weight: Tensor, bias: Tensor, *, epsilon: float, dtype: torch.dtype, residual: Branch | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Adds a branch to the tokens and normalises them: the sum, the result, each token's mean and inverse deviation."""
    width = tokens.shape[-1]
    rows = tokens.numel() // width
    out = torch.empty_like(tokens, dtype=dtype)
    means, scales = (torch.empty(rows, device=tokens.device) for _ in range(2))
    grid, wide = (triton.cdiv(rows, ROWS),), triton.next_power_of_2(width)
    joined = torch.empty_like(tokens) if residual else tokens
    branch, seed, share = residual or (tokens, tokens, 0.0)
    _norm_forward[grid](
        tokens, branch, seed, weight, bias, joined, out, means, scales, rows, width, share, epsilon,
        residual is not None, ROWS, wide,
    )  # fmt: skip
    return joined, out, means, scales


def norm_backward(
    gradient: Tensor, tokens: Tensor, weight: Tensor, means: Tensor, scales: Tensor, *, residual: Branch | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of tokens, weight, bias and branch.

    The first entry of `residual` is here the gradient that reaches the sum directly, past the norm.
    """
    width = tokens.shape[-1]
    rows = tokens.numel() // width
    programs, wide = triton.cdiv(rows, ROWS), triton.next_power_of_2(width)
    moved = torch.empty_like(tokens)
    of_branch = torch.empty_like(gradient) if residual else moved
    parts = torch.empty(programs, 2, width, device=tokens.device)
    through, seed, share = residual or (tokens, tokens, 0.0)
    _norm_backward[(programs,)](
        gradient, through, tokens, seed, weight, means, scales, moved, of_branch, parts, rows, width, share,
        residual is not None, ROWS, wide,
    )  # fmt: skip
    of_weight, of_bias = _added_up(parts, weight.dtype)
    return moved, of_weight, of_bias, of_branch


@triton.jit
def _bias_relu(values, bias, out, size, WIDTH: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(values + at, mask=at < size, other=0.0).to(tl.float32) + tl.load(bias + at % WIDTH).to(tl.float32)
    rectified = tl.where(total < 0, 0.0, total)  # not `maximum`: NaN must stay NaN
    tl.store(out + at, rectified.to(out.dtype.element_ty), mask=at < size)


@triton.jit
def _bias_relu_backward(  # type: ignore[no-untyped-def]
    gradient, out, moved, parts, rows, TURNS: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr
):
    column = tl.arange(0, WIDTH)
    total = tl.zeros([ROWS, WIDTH], tl.float32)
    for turn in range(TURNS):
        row = (turn * tl.num_programs(0) + tl.program_id(0)) * ROWS + tl.arange(0, ROWS)
        place, inside = row[:, None] * WIDTH + column[None, :], (row < rows)[:, None]
        positive = tl.load(out + place, mask=inside, other=0.0) > 0
        kept = tl.where(positive, tl.load(gradient + place, mask=inside, other=0.0), 0.0)
        tl.store(moved + place, kept, mask=inside)
        total += kept.to(tl.float32)
    tl.store(parts + tl.program_id(0) * WIDTH + column, tl.sum(total, 0))


def fused_bias_relu(values: Tensor, bias: Tensor) -> Tensor:
    """ReLU of values (..., C) plus a bias (C,); C must be a power of two."""
    out, size = torch.empty_like(values), values.numel()
    _bias_relu[(triton.cdiv(size, BLOCK),)](values, bias, out, size, len(bias), BLOCK)
    return out


def fused_bias_relu_backward(gradient: Tensor, out: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The gradients of values and of bias."""
    width = out.shape[-1]
    rows = out.numel() // width
    tall = 4096 // width
    programs = min(triton.cdiv(rows, tall), PROGRAMS)
    moved, parts = torch.empty_like(out), torch.empty(programs, width, device=out.device)
    turns = triton.cdiv(rows, programs * tall)
    _bias_relu_backward[(programs,)](gradient, out, moved, parts, rows, turns, width, tall)
    return moved, _added_up(parts, dtype)


@triton.jit
def _blocks(  # type: ignore[no-untyped-def]
    frames,
    out,
    channels: tl.constexpr,  # constants, so that the compiler can load four pixels at once
    height: tl.constexpr,
    width: tl.constexpr,
    SIDE: tl.constexpr,
    MOST: tl.constexpr,
):
    across: tl.constexpr = width // SIDE  # blocks in a row
    inside: tl.constexpr = channels * SIDE * SIDE  # numbers in a block
    picture, line = tl.program_id(0) // (height // SIDE), tl.program_id(0) % (height // SIDE)
    at = tl.arange(0, MOST)
    there = at < across * inside
    block, number = at // inside, at % inside
    channel, y, x = number // (SIDE * SIDE), number // SIDE % SIDE, number % SIDE
    source = ((picture * channels + channel) * height + line * SIDE + y) * width + block * SIDE + x
    pixels = tl.load(frames + source, mask=there, other=0)
    tl.store(out + tl.program_id(0) * across * inside + at, pixels.to(out.dtype.element_ty), mask=there)


def blocks(frames: Tensor, side: int, dtype: torch.dtype) -> Tensor:
    """Rearranges bytes (N, C, H, W) into blocks of side x side pixels, (N, H / side, W / side, C * side * side)."""
    count, channels, height, width = frames.shape
    shape = (count, height // side, width // side, channels * side * side)
    out = torch.empty(shape, dtype=dtype, device=frames.device)
    most = triton.next_power_of_2(shape[2] * shape[3])
    _blocks[(count * shape[1],)](frames.contiguous(), out, channels, height, width, side, most)
    return out
