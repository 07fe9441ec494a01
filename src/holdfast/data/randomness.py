"""Random streams: every random choice has its own seed, derived from its purpose, independent of what ran before."""

import hashlib

import numpy as np
import torch


def derive(seed: int, *purpose: object) -> int:
    """The seed of one stream, e.g. derive(0, "fit", "Push", 17)."""
    digest = hashlib.sha256(repr((seed, *purpose)).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1  # 63 bits, which torch and numpy both accept


def numpy_stream(seed: int, *purpose: object) -> np.random.Generator:
    """The numpy generator of one stream."""
    return np.random.default_rng(derive(seed, *purpose))


def torch_stream(seed: int, *purpose: object) -> torch.Generator:
    """The torch generator of one stream, on the CPU."""
    return torch.Generator().manual_seed(derive(seed, *purpose))


def default_generator(device: torch.device) -> torch.Generator:
    """The generator that dropout draws from; `torch.manual_seed` would look for every kind of device at each call."""
    return torch.cuda.default_generators[device.index or 0] if device.type == "cuda" else torch.default_generator
