"""Certificates of retention: fingerprints of every task's policy after every stage."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from holdfast.errors import Mistake
from holdfast.nets.policy import Policy

HASH = re.compile(r"[0-9a-f]{64}")
FORMAT = 2  # of new runs; version 0.1 wrote format 1


@dataclass(frozen=True)
class Certificate:
    """The fingerprint of a task's policy after a stage."""

    stage: int
    task: str
    fingerprint: str
    format: int = 1  # what the fingerprint covers


def fingerprint(policy: Policy, format: int = FORMAT) -> str:
    """A hash of everything that determines a policy: equal fingerprints mean equal policies.

    Format 1 covers effective weights, private parameters and the normaliser; format 2 also buffers, the interface,
    the settings of the network and the scale of returns.
    """
    tensors: dict[str, Tensor] = dict(policy.net.named_parameters())
    digest = hashlib.sha256()
    if format > 1:
        tensors |= dict(policy.net.named_buffers())
        settings = [policy.net.describe(), policy.return_scale]
        digest.update(json.dumps(settings, sort_keys=True).encode())
    tensors |= {"normaliser.shift": policy.normaliser.shift, "normaliser.scale": policy.normaliser.scale}
    for name in sorted(tensors):
        array = tensors[name].detach().cpu().contiguous().numpy()
        digest.update(f"{name}{array.dtype.str}{array.shape}".encode())
        digest.update(array.data)
    return digest.hexdigest()


def checked(certificates: Sequence[Certificate], order: Sequence[str]) -> list[Certificate]:
    """The certificates; raises unless each is of a task learned by its stage, and none occurs twice."""
    seen = set()
    if len({one.format for one in certificates}) > 1 or format_of(certificates) not in range(1, FORMAT + 1):
        raise Mistake(f"certificates must all have one format, from 1 to {FORMAT}")
    for one in certificates:
        if not 0 <= one.stage < len(order) or one.task not in order[: one.stage + 1]:
            raise Mistake(f"{one.task} has a certificate after stage {one.stage}, before it is learned")
        if (one.stage, one.task) in seen:
            raise Mistake(f"{one.task} has two certificates after stage {one.stage}")
        if not HASH.fullmatch(one.fingerprint):
            raise Mistake(f"{one.fingerprint!r} is not a fingerprint")
        seen.add((one.stage, one.task))
    return list(certificates)


def format_of(certificates: Sequence[Certificate]) -> int:
    """The format of a run's certificates, which never changes within a run; for a new run, the current format."""
    return certificates[0].format if certificates else FORMAT


def changed(certificates: Sequence[Certificate]) -> list[Certificate]:
    """The certificates that differ from the first one of the same task."""
    first: dict[str, str] = {}
    return [one for one in certificates if first.setdefault(one.task, one.fingerprint) != one.fingerprint]


def verdict(certificates: Sequence[Certificate]) -> str:
    """In words, whether any learned task has changed."""
    if not certificates:
        return "none"
    if moved := dict.fromkeys(one.task for one in changed(certificates)):
        return f"changed by later learning: {', '.join(moved)}"
    stages = len({one.stage for one in certificates})
    return f"every task equal to the bit after each of {stages} {'stage' if stages == 1 else 'stages'}"
