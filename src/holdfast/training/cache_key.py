"""A hash of all that can be reached from a thing: equal hashes mean that computing with the things gives equal bits."""

import hashlib
import sys
from collections import OrderedDict
from collections.abc import Iterable
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from holdfast.data.episodes import Dataset
from holdfast.data.windows import Mixture, Windows

PLAIN = (type(None), bool, int, float, str, bytes, range, Fraction, torch.dtype, torch.device, np.dtype, np.generic)
KNOWN = ("holdfast", "torch")  # whose classes are what their version, or their hashed source, says
PYTHON_CLASS = 1 << 9  # set in the flags of a class that is written in Python, whose objects hide nothing
CODE = ("gpu", "data", "tasks", "nets", "subnets", "training", "learners")  # folders that decide what a fit computes


class Unknown(Exception):
    """Something was reached of which we cannot say what decides it."""


def content(*things: Any) -> str:
    """The hash of these things; raises Unknown rather than leave anything out."""
    walk = Walk()
    walk.tell(things)
    return walk.digest.hexdigest()


class Walk:
    """One way through everything; what is met again is named by when it was first met, so sharing counts too."""

    def __init__(self) -> None:
        self.digest, self.met = hashlib.sha256(), dict[int, tuple[int, Any]]()  # held, so that no id is used twice

    def tell(self, thing: Any) -> None:
        """Adds a thing to the hash."""
        if isinstance(thing, PLAIN):
            self._say(type(thing).__name__, repr(thing))
        elif type(thing) is tuple:
            self._each("tuple", thing)
        elif id(thing) in self.met:
            self._say("again", str(self.met[id(thing)][0]))
        else:
            self.met[id(thing)] = len(self.met), thing
            self._tell_new(thing)

    def _tell_new(self, thing: Any) -> None:
        if isinstance(thing, Tensor):
            self._say("tensor", f"{thing.device.type} {thing.requires_grad}")
            self._array(thing.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy())
            self._say(str(thing.dtype), str(tuple(thing.shape)))
        elif isinstance(thing, np.ndarray):
            self._say(thing.dtype.str, str(thing.shape))
            self._array(np.ascontiguousarray(thing))
        elif isinstance(thing, Dataset):
            self._say("dataset", thing.fingerprint)
        elif isinstance(thing, Windows | Mixture):  # not the tensors made of it, which may be gigabytes of frames
            self._each(type(thing).__name__, thing.made_of)
        elif type(thing) in (dict, OrderedDict):
            self._each("dict", (part for item in thing.items() for part in item))
        elif type(thing) is list:
            self._each("list", thing)
        elif type(thing) in (set, frozenset):
            self._each("set", sorted(thing))
        elif isinstance(thing, partial):
            self._each("partial", (thing.func, thing.args, thing.keywords))
        elif isinstance(thing, MethodType):
            self._each("method", (thing.__func__, thing.__self__))
        elif isinstance(thing, FunctionType | type):
            self._named(thing)
        else:
            self._object(thing)

    def _named(self, thing: FunctionType | type) -> None:
        """A function or a class that its name leads to."""
        name, there = f"{thing.__module__}.{thing.__qualname__}", sys.modules.get(thing.__module__)
        for part in thing.__qualname__.split("."):
            there = getattr(there, part, None)
        if there is not thing or thing.__module__.partition(".")[0] not in KNOWN:  # made within a function, or wrapped
            raise Unknown(name)
        self._say("named", name)

    def _object(self, thing: Any) -> None:
        kind = type(thing)
        ours = kind.__module__.partition(".")[0] in KNOWN
        hidden = [base for base in kind.__mro__ if base is not object and not base.__flags__ & PYTHON_CLASS]
        if not ours or hidden or not hasattr(thing, "__dict__"):
            raise Unknown(f"{kind.__module__}.{kind.__qualname__}")
        self._say("object", f"{kind.__module__}.{kind.__qualname__}")
        self.tell(vars(thing))

    def _each(self, kind: str, parts: Iterable[Any]) -> None:
        self._say("begin", kind)
        for part in parts:
            self.tell(part)
        self._say("end", kind)

    def _array(self, array: np.ndarray) -> None:
        self.digest.update(array.data if array.size else b"")

    def _say(self, kind: str, text: str) -> None:
        self.digest.update(f"{kind}:{len(text)}:{text};".encode())


@cache
def code(*more: str) -> str:
    """The hash of our own source, as far as it decides what a fit computes, and of more folders of it."""
    root, digest = Path(__file__).parents[1], hashlib.sha256()
    inside = [path for folder in (*CODE, *more) for path in (root / folder).rglob("*.py")]
    for path in sorted([root / "gpu/capture.py", *inside]):
        digest.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return digest.hexdigest()
