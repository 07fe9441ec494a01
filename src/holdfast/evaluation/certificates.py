"""Proof of retention: fingerprints of all that a task's policy is made of, stage after stage."""

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
    """What a task's policy was after a stage."""

    stage: int
    task: str
    fingerprint: str
    format: int = 1  # what the fingerprint covers


def fingerprint(policy: Policy, format: int = FORMAT) -> str:
    """A hash of all that a policy is made of: equal fingerprints, equal policies.

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
    """The certificates, which must be of tasks that are learned by their stage, each once."""
    seen = set()
    if len({found.format for found in certificates}) > 1 or format_of(certificates) not in range(1, FORMAT + 1):
        raise Mistake(f"certificates must all have one format, from 1 to {FORMAT}")
    for found in certificates:
        if not 0 <= found.stage < len(order) or found.task not in order[: found.stage + 1]:
            raise Mistake(f"a certificate of {found.task} after stage {found.stage}")
        if (found.stage, found.task) in seen:
            raise Mistake(f"two certificates of {found.task} after stage {found.stage}")
        if not HASH.fullmatch(found.fingerprint):
            raise Mistake(f"{found.fingerprint!r} is not a fingerprint")
        seen.add((found.stage, found.task))
    return list(certificates)


def format_of(certificates: Sequence[Certificate]) -> int:
    """The format of a run's certificates, which stays the same so that they can be compared; that of a new run."""
    return certificates[0].format if certificates else FORMAT


def changed(certificates: Sequence[Certificate]) -> list[Certificate]:
    """The certificates that differ from the same task's first one."""
    first: dict[str, str] = {}
    return [found for found in certificates if first.setdefault(found.task, found.fingerprint) != found.fingerprint]


def verdict(certificates: Sequence[Certificate]) -> str:
    """Whether anything that was learned has changed since, in words."""
    if not certificates:
        return "none"
    if moved := dict.fromkeys(found.task for found in changed(certificates)):
        return f"changed by later learning: {', '.join(moved)}"
    stages = len({found.stage for found in certificates})
    return f"every task equal to the bit after each of {stages} {'stage' if stages == 1 else 'stages'}"
