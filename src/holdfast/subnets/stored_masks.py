"""The masks of a copy's tasks as they are stored: in one bit an entry, or in fewer where that is possible.

Entries that the same earlier tasks use stand next to each other in the stored form. A mask that is sparse, or similar
to an earlier one, then has long stretches that are nearly all 0 or nearly all 1, which compress well.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

PLAIN, DEFLATED = "mask", "mask-deflated"  # version 0.1 only wrote the first


def to_bits(bits: np.ndarray) -> Tensor:
    """Bits packed into bytes, eight in each, uint8."""
    return torch.from_numpy(np.packbits(bits))


def from_bits(packed: Tensor, count: int) -> np.ndarray:
    """The `count` bits that `to_bits` packed, (count,) bool."""
    if packed.dtype != torch.uint8 or packed.shape != (-(-count // 8),):
        raise ValueError(f"{count} bits are not packed in {tuple(packed.shape)} {packed.dtype}")
    return np.unpackbits(packed.numpy(), count=count).astype(bool)


def stored_masks(masks: Sequence[Tensor]) -> list[dict[str, Tensor]]:
    """The masks of a copy's tasks, in the order they were learned: each as one named tensor of bytes."""
    stored, order = [], None
    for mask in masks:
        entries = mask.cpu().numpy()
        order = np.arange(len(entries)) if order is None else order
        plain, deflated = to_bits(entries), _deflated(np.packbits(entries[order]).tobytes())
        stored.append({DEFLATED: deflated} if deflated.nbytes < plain.nbytes else {PLAIN: plain})
        order = _grouped(order, entries)
    return stored


def read_masks(stored: Sequence[Mapping[str, Tensor]], total: int) -> Iterator[Tensor]:
    """The masks with `total` entries that `stored_masks` stored, (P,) bool each; other tensors are ignored."""
    order = np.arange(total)
    for tensors in stored:
        if DEFLATED in tensors:
            entries = np.empty(total, dtype=bool)
            entries[order] = from_bits(_inflated(tensors[DEFLATED], -(-total // 8)), total)
        else:
            entries = from_bits(tensors[PLAIN], total)
        yield torch.from_numpy(entries)
        order = _grouped(order, entries)


def _grouped(order: np.ndarray, entries: np.ndarray) -> np.ndarray:
    """The order with the entries of this mask first, so that entries with the same tasks stay together."""
    inside = entries[order]
    return np.concatenate([order[inside], order[~inside]])


def _deflated(plain: bytes) -> Tensor:
    """The bytes after zlib's compression, with the better of two strategies: for rare bits and for long runs."""
    forms = []
    for strategy in (zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE):
        compressor = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS, 9, strategy)
        forms.append(compressor.compress(plain) + compressor.flush())
    return torch.frombuffer(bytearray(min(forms, key=len)), dtype=torch.uint8)


def _inflated(deflated: Tensor, size: int) -> Tensor:
    """The bytes before the compression; raises unless there are exactly `size` of them."""
    decompressor = zlib.decompressobj()
    try:
        plain = decompressor.decompress(deflated.numpy().tobytes(), size + 1)  # never more than a little too many
    except zlib.error as problem:
        raise ValueError(f"a mask is not compressed as it should be: {problem}") from problem
    if len(plain) != size or not decompressor.eof:
        raise ValueError(f"a mask must have {size} bytes when it is decompressed")
    return torch.frombuffer(bytearray(plain), dtype=torch.uint8)
