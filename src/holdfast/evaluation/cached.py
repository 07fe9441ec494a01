"""Evaluations that were done before: the same policy in the same episodes is played once."""

from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from holdfast.evaluation.rollouts import Evaluation, evaluate_together
from holdfast.nets.policy import Policy
from holdfast.tasks.environments import Protocol
from holdfast.tasks.task import Task
from holdfast.training.cache import Memo, key_of
from holdfast.training.cache_key import code
from holdfast.versions import versions


def evaluate_once(
    players: Sequence[tuple[Policy, Task]], protocol: Protocol, memo: Memo
) -> Iterator[tuple[int, Evaluation]]:
    """As `evaluate_together`, but what the memo knows is recalled first, and what it does not know is kept there."""
    with memo.entries([partial(key, policy, task, protocol) for policy, task in players]) as entries:
        known = {place: unpacked(entry.read()) for place, entry in enumerate(entries)}
        yield from ((place, result) for place, result in known.items() if result)
        missing = [place for place, result in known.items() if not result]
        for number, result in evaluate_together([players[place] for place in missing], protocol):
            entries[missing[number]].write(packed(result))
            yield missing[number], result


def key(policy: Policy, task: Task, protocol: Protocol) -> str | None:
    """The hash of all that decides an evaluation."""
    acting = (type(policy), policy.normaliser, policy.interface, policy.target, policy.return_scale)
    return key_of(policy.net, acting, task.environments, protocol, versions(), code("evaluation"))


def packed(result: Evaluation) -> dict[str, Tensor]:
    """The result as it is kept."""
    returns = torch.tensor(result.returns, dtype=torch.float64)
    lengths, successes = torch.tensor(result.lengths), torch.tensor(result.successes)
    return {"returns": returns, "lengths": lengths, "successes": successes, "distinct": torch.tensor(result.distinct)}


def unpacked(kept: dict[str, Tensor] | None) -> Evaluation | None:
    """The result that was kept."""
    if kept is None:
        return None
    returns, lengths, successes = (kept[name].tolist() for name in ("returns", "lengths", "successes"))
    return Evaluation(returns, lengths, successes, int(kept["distinct"]), recalled=True)
