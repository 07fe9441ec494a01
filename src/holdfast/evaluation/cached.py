"""Cached evaluations: the same policy is evaluated in the same episodes only once."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import torch
from torch import Tensor

from holdfast.evaluation.rollouts import Evaluation, evaluate_together
from holdfast.nets.policy import Policy
from holdfast.tasks.environments import Protocol
from holdfast.tasks.task import Task
from holdfast.training.cache import Cache
from holdfast.training.cache_key import (
    FIT_CODE,
    class_name,
    code_is_hashed,
    environment_parts,
    key_of,
    model_parts,
    tensors_hash,
)
from holdfast.versions import versions

CODE = (*FIT_CODE, "evaluation", "benchmarks")  # our folders that decide an evaluation


def evaluate_once(
    players: Sequence[tuple[Policy, Task]], protocol: Protocol, cache: Cache
) -> Iterator[tuple[str, Evaluation]]:
    """Like `evaluate_together`, but yields cached results first and caches new ones."""
    with cache.entries([partial(evaluation_key, policy, task, protocol) for policy, task in players]) as locked:
        entries = {task.name: entry for (_, task), entry in zip(players, locked, strict=True)}
        known = {name: evaluation_from(entry.read()) for name, entry in entries.items()}
        yield from ((name, result) for name, result in known.items() if result)
        missing = [(policy, task) for policy, task in players if not known[task.name]]
        for name, result in evaluate_together(missing, protocol):
            entries[name].write(evaluation_tensors(result))
            yield name, result


def evaluation_key(policy: Policy, task: Task, protocol: Protocol) -> str | None:
    """The key of an evaluation, or none if it must not be cached.

    That is the case if the task does not name its simulator, the network does not describe itself, or code that decides
    the evaluation is not hashed here.
    """
    net = model_parts(policy.net)
    make: Any = getattr(task.environments, "func", task.environments)  # of a `partial`
    if net is None or task.simulator is None or not code_is_hashed([type(policy), make]):
        return None
    return key_of(
        {
            **net,
            "policy": class_name(type(policy)),
            "normaliser": tensors_hash({"shift": policy.normaliser.shift, "scale": policy.normaliser.scale}),
            "interface": asdict(policy.interface),
            "target": policy.target,
            "return scale": policy.return_scale,
            "simulator": task.simulator,
            "protocol": asdict(protocol),
            "versions": versions(),
            **environment_parts(policy.device, CODE),
        }
    )


def evaluation_tensors(result: Evaluation) -> dict[str, Tensor]:
    """The result as tensors, for the cache."""
    returns = torch.tensor(result.returns, dtype=torch.float64)
    lengths, successes = torch.tensor(result.lengths), torch.tensor(result.successes)
    return {"returns": returns, "lengths": lengths, "successes": successes, "distinct": torch.tensor(result.distinct)}


def evaluation_from(kept: dict[str, Tensor] | None) -> Evaluation | None:
    """The result from the tensors of the cache, or None."""
    if kept is None:
        return None
    returns, lengths, successes = (kept[name].tolist() for name in ("returns", "lengths", "successes"))
    return Evaluation(returns, lengths, successes, int(kept["distinct"]), recalled=True)
