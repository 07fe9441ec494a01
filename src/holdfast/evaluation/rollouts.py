"""Rollouts: a policy acts in a task's environments, all episodes of a protocol in lock-step."""

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

Rollouts = tuple[list[float], list[int], list[bool], list[bytes]]  # returns, lengths, successes, stories
MARK = 8  # bytes for each step of a story: a hash of all that was observed and done until then
END = bytes(MARK)  # the last of one that ended by itself

Key = TypeVar("Key")
Outcome = TypeVar("Outcome")


@dataclass(frozen=True)
class Evaluation:
    """What a policy earned, episode by episode."""

    returns: list[float]
    lengths: list[int]
    successes: list[bool]
    distinct: int  # episodes that differ in anything observed or done; one that was cut may be another's beginning
    recalled: bool = field(default=False, compare=False)  # not played here, but before

    @property
    def mean(self) -> float:
        """The mean return."""
        return float(np.mean(self.returns))


def evaluate(policy: Policy, task: Task, protocol: Protocol) -> Evaluation:
    """Plays every episode of the protocol to its end."""
    ((_, result),) = evaluate_together([(policy, task)], protocol)
    return result


def evaluate_together(
    players: Sequence[tuple[Policy, Task]], protocol: Protocol, groups: int | None = None
) -> Iterator[tuple[str, Evaluation]]:
    """The same for several policies, each in its own task: while some are simulated, others act.

    Yields a task's name and its result as soon as its last episode ends. A policy's episodes are in two groups on a
    GPU, so that one alone has something to do as well.
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
                yield name, evaluation([ended[name][number] for number in range(sizes[name])])


def rollout_groups(
    policy: Policy, task: Task, protocol: Protocol, groups: int | None, stack: ExitStack
) -> list[Generator[None, None, list[Rollouts]]]:
    """A policy's groups of episodes, each with simulators of its own that the stack closes."""
    if task.environments is None:
        raise Mistake(f"{task.name} has no environments to play in: give the task some, or score it offline")
    count = min(groups or (2 if policy.device.type == "cuda" else 1), protocol.episodes)
    share = replace(protocol, lanes=-(-min(protocol.lanes, protocol.episodes) // count))
    simulators = [stack.enter_context(closing(task.environments(share))) for _ in range(count)]
    return [
        rollout_rounds(policy.for_other_episodes(), task, environments, share.rounds[first::count])
        for first, environments in enumerate(simulators)
    ]


def evaluation(groups: Sequence[list[Rollouts]]) -> Evaluation:
    """What all groups had, in the order of the seeds: the rounds went round the groups."""
    rounds = [played for turn in zip_longest(*groups) for played in turn if played is not None]
    returns, lengths, successes, stories = (list(chain(*column)) for column in zip(*rounds, strict=True))
    return Evaluation(returns, lengths, successes, count_distinct(stories))


def count_distinct(stories: Sequence[bytes]) -> int:
    """How many are not the same as another, or its beginning: in order, such a one stands before one it begins."""
    ordered = sorted(stories)
    return len(ordered) - sum(later.startswith(earlier) for earlier, later in pairwise(ordered))


def side_by_side(rollouts: Mapping[Key, Generator[None, None, Outcome]]) -> Iterator[tuple[Key, Outcome]]:
    """Carries these on in turn to their ends; yields the key of each, and what it returned, when it ends."""
    going = dict(rollouts)
    while going:
        for key, rollout in list(going.items()):
            try:
                next(rollout)
            except StopIteration as end:
                del going[key]
                yield key, end.value


def rollout_rounds(
    policy: Policy, task: Task, environments: Environments, rounds: Sequence[Sequence[int]]
) -> Generator[None, None, list[Rollouts]]:
    """One round of seeds after the other."""
    played = []
    for seeds in rounds:
        played.append((yield from rollout(policy, task, environments, seeds)))
    return played


def rollout(
    policy: Policy, task: Task, environments: Environments, seeds: Sequence[int]
) -> Generator[None, None, Rollouts]:
    """One episode per seed; pauses whenever it would wait for the simulators."""
    count = len(seeds)
    observations = environments.reset(seeds)
    policy.reset(count)
    rewards, totals = np.zeros(count), np.zeros(count)
    lengths, successes, live = np.zeros(count, int), np.zeros(count, bool), np.ones(count, bool)
    hashes, stories = [hashlib.sha256() for _ in seeds], [bytearray() for _ in seeds]
    check_step(task, live, lengths, totals, observations)
    while live.any():
        actions = policy.act(observations, rewards)
        environments.begin(actions)
        for lane in np.flatnonzero(live):
            hashes[lane].update(observations[lane].tobytes() + np.asarray(actions[lane]).tobytes())
            stories[lane] += hashes[lane].digest()[:MARK]
        yield
        step = environments.finish()
        rewards = np.where(live, step.rewards, 0.0)
        totals, lengths = totals + rewards, lengths + live
        successes |= live & step.succeeded
        for lane in np.flatnonzero(live & step.ended & ~step.cut):
            stories[lane] += END
        live &= ~step.ended
        observations = step.observations.copy()
        observations[~live] = 0  # what is there means nothing, and a policy need not be able to read it
        check_step(task, live, lengths, totals, observations)
    return totals.tolist(), lengths.tolist(), successes.tolist(), [bytes(story) for story in stories]


def check_step(task: Task, live: np.ndarray, lengths: np.ndarray, totals: np.ndarray, observations: np.ndarray) -> None:
    """Raises if the environments give what is no episode of the task."""
    steps, horizon = lengths.max(), task.interface.horizon
    if live.any() and steps >= horizon:
        raise Mistake(
            f"an episode of {task.name} goes on after {horizon} steps, its horizon: its simulator must end it"
        )
    if not np.isfinite(totals).all() or not finite(observations):
        raise Mistake(f"the simulator of {task.name} gave a reward or an observation that is not finite, step {steps}")
