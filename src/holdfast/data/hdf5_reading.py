"""Reads arrays from HDF5 files of strangers: nothing outside the file is followed, and sizes are checked first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.data.files import damaged
from holdfast.data.raw_episodes import check_size
from holdfast.data.spaces import DEEPEST, NUMBERS
from holdfast.data.transitions import NAMES, split
from holdfast.errors import Mistake

COMPRESSION = 1_032  # the most bytes that deflate can make of one


def library() -> Any:
    """The module h5py."""
    try:
        import h5py
    except ImportError:
        raise Mistake("h5py is not installed: pip install 'holdfast[datasets]'") from None
    return h5py


class Hdf5:
    """An open file, which remembers how many bytes were read from it."""

    def __init__(self, file: Any, path: Path) -> None:
        self.file = file
        self.path = path
        self.size = path.stat().st_size
        self.total = 0

    def child(self, group: Any, name: str) -> Any:
        """An array or a group in a group, or None; links to elsewhere are refused."""
        h5py = library()
        link = group.get(name, getlink=True)
        if link is None:
            return None
        if not isinstance(link, h5py.HardLink):
            raise Mistake(f"{name} in {self.path} is a link: only arrays in the file itself are read")
        return group[name]

    def is_group(self, node: Any) -> bool:
        """Whether this is a group."""
        return isinstance(node, library().Group)

    def array(self, node: Any) -> np.ndarray:
        """The numbers of an array."""
        dtype = self._checked(node)
        if dtype.kind not in NUMBERS:
            raise Mistake(f"{node.name} in {self.path} must be numbers, got {dtype}")
        return np.asarray(node[()]).astype(dtype.newbyteorder("="), copy=False)

    def _checked(self, node: Any) -> np.dtype:
        """The dtype of an array whose size can be true; nothing of it has been read."""
        if not isinstance(node, library().Dataset):
            raise Mistake(f"{getattr(node, 'name', 'an entry')} in {self.path} must be an array")
        if node.external or node.is_virtual:
            raise Mistake(f"{node.name} in {self.path} lies in another file: only arrays in the file itself are read")
        if node.shape is None:
            raise Mistake(f"{node.name} in {self.path} is empty")
        size, stored = prod(node.shape) * node.dtype.itemsize, node.id.get_storage_size()
        if stored > self.size or size > max(stored, 1) * COMPRESSION or (node.chunks is None and size > stored):
            raise damaged(self.path, f"{node.name} is larger than what is stored of it")
        self.total += size
        check_size(self.total, self.path)
        return node.dtype

    def bytes_of_rows(self, node: Any) -> Iterator[bytes]:
        """Rows of bytes, such as encoded images; one at a time, since many rows may claim the same large piece."""
        dtype = self._checked(node)
        differing = library().check_vlen_dtype(dtype) == np.uint8 and node.ndim == 1
        if not differing and (dtype != np.uint8 or node.ndim != 2):
            raise Mistake(f"{node.name} in {self.path} must be encoded images")
        return (np.asarray(node[row], np.uint8).tobytes() for row in range(len(node)))

    def tree(self, node: Any, depth: int = 0) -> Any:
        """An array, or the arrays of a group by name; `_index_0`, `_index_1` ... are the entries of a tuple."""
        if not self.is_group(node):
            return self.array(node)
        if depth > DEEPEST:
            raise damaged(self.path, "groups are nested too deeply")
        parts = {str(name): self.tree(self.child(node, name), depth + 1) for name in node}
        numbered = [f"_index_{index}" for index in range(len(parts))]
        if parts and set(parts) == set(numbered):
            return tuple(parts[name] for name in numbered)
        return parts


@contextmanager
def opened(path: Path) -> Iterator[Hdf5]:
    """The file, open for reading; anything that HDF5 cannot read is the user's message."""
    h5py = library()
    try:
        with h5py.File(path, "r", locking=False) as file:
            yield Hdf5(file, path)
    except Mistake:
        raise
    except (OSError, RuntimeError, ValueError, KeyError, TypeError, OverflowError, AttributeError) as problem:
        raise damaged(path, problem) from problem


def read_d4rl(path: Path) -> Any:
    """The episodes in a file with observations, actions, rewards, terminals and timeouts, as in D4RL."""
    with opened(path) as hdf5:
        if hdf5.child(hdf5.file, "episode_0") is not None:
            raise Mistake(
                f"{path} is the data file of a Minari dataset: give the dataset's folder, two levels above it"
            )
        arrays = {}
        for name in NAMES:
            node = hdf5.child(hdf5.file, name)
            if node is not None:
                arrays.update(_flat(name, hdf5.tree(node)))
        return split(arrays, path)


def _flat(name: str, tree: Any) -> dict[str, np.ndarray]:
    if isinstance(tree, tuple):
        raise Mistake(f"{name} must be an array or a group of arrays")
    if isinstance(tree, dict):
        return {key: array for part in tree for key, array in _flat(f"{name}/{part}", tree[part]).items()}
    return {name: tree}
