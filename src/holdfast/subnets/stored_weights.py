"""The weights that a task claims as they are stored: float32 numbers, or codes and a table of what they stand for.

A tensor whose new weights have few distinct values, as after quantisation, gets a table of these values, and each
weight the number of its value in the table, in as few bits as that takes. Nothing is rounded.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from holdfast.subnets.stored_masks import from_bits, to_bits

VALUES, SIZES, TABLES, CODES = "values", "table-sizes", "tables", "codes"


def stored_weights(pieces: Sequence[Tensor]) -> dict[str, Tensor]:
    """The new weights of each tensor, as a few named tensors."""
    values, sizes, tables, codes = [], [], [], []
    for piece in pieces:
        bits = piece.cpu().numpy().view(np.int32)  # compared as bits, so that 0.0 and -0.0 are two values
        table, numbers = np.unique(bits, return_inverse=True)
        if 8 * table.nbytes + _width(len(table)) * len(bits) < 8 * bits.nbytes:
            sizes.append(len(table))
            tables.append(table)
            codes.append(_to_binary(numbers, _width(len(table))))
        else:
            sizes.append(0)
            values.append(bits)
    if not tables:
        return {VALUES: _floats(values)}
    coded = {TABLES: _floats(tables), CODES: to_bits(np.concatenate(codes))}
    return {VALUES: _floats(values), SIZES: torch.tensor(sizes, dtype=torch.int32), **coded}


def read_weights(stored: Mapping[str, Tensor], counts: Sequence[int]) -> Tensor:
    """The new weights of all tensors in one vector; `counts` says how many of them each tensor has."""
    if SIZES not in stored:
        return _checked(stored[VALUES], sum(counts))
    sizes = stored[SIZES].tolist()
    plain = [0 if size else count for count, size in zip(counts, sizes, strict=True)]
    widths = [_width(size) for size in sizes]
    lengths = [width * count for count, width in zip(counts, widths, strict=True)]
    values = _checked(stored[VALUES], sum(plain)).split(plain)
    tables = _checked(stored[TABLES], sum(sizes)).split(sizes)
    codes = np.split(from_bits(stored[CODES], sum(lengths)), np.cumsum(lengths)[:-1])
    found = []
    for place, size in enumerate(sizes):
        if size:
            numbers = _from_binary(codes[place], counts[place], widths[place])
            found.append(tables[place][torch.from_numpy(numbers)])
        else:
            found.append(values[place])
    return torch.cat(found)


def _width(size: int) -> int:
    """The number of bits that tell so many values apart."""
    return max(size - 1, 0).bit_length()


def _to_binary(numbers: np.ndarray, width: int) -> np.ndarray:
    return (numbers[:, None] >> np.arange(width) & 1).astype(bool).ravel()


def _from_binary(bits: np.ndarray, count: int, width: int) -> np.ndarray:
    return bits.reshape(count, width) @ (1 << np.arange(width))


def _floats(parts: Sequence[np.ndarray]) -> Tensor:
    """Float32 numbers that are given as the integers with the same bits."""
    return torch.from_numpy(np.concatenate([np.empty(0, np.int32), *parts]).view(np.float32))


def _checked(numbers: Tensor, count: int) -> Tensor:
    if numbers.dtype != torch.float32 or numbers.shape != (count,):
        raise ValueError(f"{count} weights are not stored in {tuple(numbers.shape)} {numbers.dtype}")
    return numbers
