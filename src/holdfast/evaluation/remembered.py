"""Evaluations that were done before: the same policy in the same episodes is played once."""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial

import torch
from torch import Tensor

from holdfast.evaluation.rollouts import Evaluation, evaluate_together
from holdfast.learners.memo import Memo, key_of
from holdfast.nets.policy import Policy
from holdfast.suites.environments import Protocol
from holdfast.suites.task import Task
from holdfast.versions import versions


def evaluate_once(players: Sequence[tuple[Policy, Task]], protocol: Protocol, memo: Memo) -> list[Evaluation]:
    """As `evaluate_together`, but what the memo knows is recalled, and what it does not know is kept there."""
    order = sorted(range(len(players)), key=lambda place: players[place][1].name)  # so that no two wait for each other
    with ExitStack() as stack:
        entries = {place: stack.enter_context(memo.entry(partial(key, *players[place], protocol))) for place in order}
        found = {place: unpacked(entry.read()) for place, entry in entries.items()}
        missing = [place for place in order if found[place] is None]
        played = evaluate_together([players[place] for place in missing], protocol)
        for place, result in zip(missing, played, strict=True):
            entries[place].write(packed(result))
        results = {place: result for place, result in found.items() if result} | dict(zip(missing, played, strict=True))
    return [results[place] for place in range(len(players))]


def key(policy: Policy, task: Task, protocol: Protocol) -> str | None:
    """The hash of all that decides an evaluation."""
    acting = (policy.normaliser, policy.interface, policy.target, policy.return_scale)
    return key_of(policy.net, acting, task.environments, protocol, versions())


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
    return Evaluation(returns, lengths, successes, int(kept["distinct"]))
