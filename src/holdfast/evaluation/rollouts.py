"""Rollouts: a policy acts in the environments of a task, in many episodes at once."""

import hashlib
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise, zip_longest
from typing import TypeVar

import numpy as np

from holdfast.data.episodes import finite
from holdfast.errors import Mistake
from holdfast.nets.policy import Policy
from holdfast.tasks.environments import Environments, Protocol
from holdfast.tasks.task import Task

Rollouts = tuple[list[float], list[int], list[bool], list[bytes]]  # returns, lengths, successes, histories
MARK = 8  # bytes per step of a history: a hash of all observations and actions so far
END = bytes(MARK)  # marks the end of a terminated episode

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class Evaluation:
    """The results of a policy, episode by episode."""

    returns: list[float]
    lengths: list[int]
    successes: list[bool]
    distinct: int  # number of different episodes; a truncated one that is the start of another does not count
    recalled: bool = field(default=False, compare=False)  # whether it comes from the cache

    @property
    def mean(self) -> float:
        """The mean return."""
        return float(np.mean(self.returns))


def evaluate(policy: Policy, task: Task, protocol: Protocol) -> Evaluation:
    """Plays all episodes of the protocol."""
    ((_, result),) = evaluate_together([(policy, task)], protocol)
    return result


def evaluate_together(
    players: Sequence[tuple[Policy, Task]], protocol: Protocol, groups: int | None = None
) -> Iterator[tuple[str, Evaluation]]:
    """Evaluates several policies, each in its own task: while some environments step, other policies act.

    Yields the name of a task and its result as soon as its last episode ends. On a GPU the episodes of a policy are
    played in two groups, so that a single policy does not wait either.
    """
    with ExitStack() as stack:
        rollouts = {
            (task.name, number): playing
            for policy, task in players
            for number, playing in enumerate(rollout_groups(policy, task, protocol, groups, stack))
        }
        sizes = Counter(name for name, _ in rollouts)
        ended: dict[str, dict[int, list[Rollouts]]] = {name: {} for name in sizes}
        for (name, number), played in side_by_side(rollouts):
            ended[name][number] = played
            if len(ended[name]) == sizes[name]:
                yield name, merge_groups([ended[name][number] for number in range(sizes[name])])


def rollout_groups(
    policy: Policy, task: Task, protocol: Protocol, groups: int | None, stack: ExitStack
) -> list[Generator[None, None, list[Rollouts]]]:
    """The groups of a policy's episodes, each with its own environments, which the stack closes."""
    if task.environments is None:
        raise Mistake(f"{task.name} has no environments: add environments to the task, or score it offline")
    count = min(groups or (2 if policy.device.type == "cuda" else 1), protocol.episodes)
    share = replace(protocol, lanes=-(-min(protocol.lanes, protocol.episodes) // count))
    simulators = [stack.enter_context(closing(task.environments(share))) for _ in range(count)]
    return [
        rollout_rounds(policy.for_other_episodes(), task, environments, share.rounds[first::count])
        for first, environments in enumerate(simulators)
    ]


def merge_groups(groups: Sequence[list[Rollouts]]) -> Evaluation:
    """Merges the rounds of all groups in the order of the seeds; round i belongs to group i % len(groups)."""
    rounds = [played for turn in zip_longest(*groups) for played in turn if played is not None]
    returns, lengths, successes, histories = (list(chain(*column)) for column in zip(*rounds, strict=True))
    return Evaluation(returns, lengths, successes, count_distinct(histories))


def count_distinct(histories: Sequence[bytes]) -> int:
    """The number of histories that are not a prefix of another; sorting puts a prefix before what it starts."""
    ordered = sorted(histories)
    return len(ordered) - sum(later.startswith(earlier) for earlier, later in pairwise(ordered))


def side_by_side(rollouts: Mapping[K, Generator[None, None, V]]) -> Iterator[tuple[K, V]]:
    """Advances these generators in turn; yields the key and the return value of each when it ends."""
    running = dict(rollouts)
    while running:
        for key, rollout in list(running.items()):
            try:
                next(rollout)
            except StopIteration as end:
                del running[key]
                yield key, end.value


def rollout_rounds(
    policy: Policy, task: Task, environments: Environments, rounds: Sequence[Sequence[int]]
) -> Generator[None, None, list[Rollouts]]:
    """Plays one round of seeds after another."""
    played = []
    for seeds in rounds:
        played.append((yield from rollout(policy, task, environments, seeds)))
    return played


def rollout(
    policy: Policy, task: Task, environments: Environments, seeds: Sequence[int]
) -> Generator[None, None, Rollouts]:
    """Plays one episode per seed; yields whenever it would wait for the simulators."""
    count = len(seeds)
    observations = environments.reset(seeds)
    policy.reset(count)
    rewards, totals = np.zeros(count), np.zeros(count)
    lengths, successes, live = np.zeros(count, int), np.zeros(count, bool), np.ones(count, bool)
    hashes, histories = [hashlib.sha256() for _ in seeds], [bytearray() for _ in seeds]
    check_step(task, live, lengths, totals, observations)
    while live.any():
        actions = policy.act(observations, rewards)
        environments.begin(actions)
        for lane in np.flatnonzero(live):
            hashes[lane].update(observations[lane].tobytes() + np.asarray(actions[lane]).tobytes())
            histories[lane] += hashes[lane].digest()[:MARK]
        yield
        step = environments.finish()
        rewards = np.where(live, step.rewards, 0.0)
        totals, lengths = totals + rewards, lengths + live
        successes |= live & step.succeeded
        for lane in np.flatnonzero(live & step.ended & ~step.cut):
            histories[lane] += END
        live &= ~step.ended
        observations = step.observations.copy()
        observations[~live] = 0  # undefined after the end, and a policy may not be able to read it
        check_step(task, live, lengths, totals, observations)
    return totals.tolist(), lengths.tolist(), successes.tolist(), [bytes(history) for history in histories]


def check_step(task: Task, live: np.ndarray, lengths: np.ndarray, totals: np.ndarray, observations: np.ndarray) -> None:
    """Raises if an episode exceeds the horizon, or a reward or an observation is not finite."""
    steps, horizon = lengths.max(), task.interface.horizon
    if live.any() and steps >= horizon:
        raise Mistake(
            f"an episode of {task.name} continues after its horizon of {horizon} steps: its simulator must end it"
        )
    if not np.isfinite(totals).all() or not finite(observations):
        raise Mistake(f"the simulator of {task.name} gave a reward or observation that is not finite, at step {steps}")
