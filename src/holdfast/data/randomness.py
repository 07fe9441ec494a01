"""Seeds: every random choice has its own stream, named by what it is for, so that none depends on what ran before."""

import hashlib

import numpy as np
import torch


def derive(seed: int, *purpose: object) -> int:
    """The seed of one stream, e.g. derive(0, "fit", "Push", 17)."""
    digest = hashlib.sha256(repr((seed, *purpose)).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1  # 63 bits: what torch and numpy both take


def numpy_stream(seed: int, *purpose: object) -> np.random.Generator:
    """A numpy generator of its own."""
    return np.random.default_rng(derive(seed, *purpose))


def torch_stream(seed: int, *purpose: object) -> torch.Generator:
    """A torch generator of its own, on the CPU."""
    return torch.Generator().manual_seed(derive(seed, *purpose))
