"""Playing: a policy in a task's environments, all episodes of a protocol in lock-step."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from holdfast.nets.policy import Policy
from holdfast.suites.environments import Environments, Protocol
from holdfast.suites.task import Task


@dataclass(frozen=True)
class Evaluation:
    """What a policy earned, episode by episode."""

    returns: list[float]
    lengths: list[int]
    successes: list[bool]
    distinct: int  # episodes that differ in anything observed or done

    @property
    def mean(self) -> float:
        """The mean return."""
        return float(np.mean(self.returns))


def evaluate(policy: Policy, task: Task, protocol: Protocol) -> Evaluation:
    """Plays every episode of the protocol to its end."""
    environments = task.environments(protocol)
    try:
        rounds = [play(policy, environments, seeds) for seeds in protocol.rounds]
    finally:
        environments.close()
    returns, lengths, successes, stories = (list(chain(*column)) for column in zip(*rounds, strict=True))
    return Evaluation(returns, lengths, successes, len(set(stories)))


def play(
    policy: Policy, environments: Environments, seeds: Sequence[int]
) -> tuple[list[float], list[int], list[bool], list[bytes]]:
    """Returns, lengths, successes and a hash of everything observed and done, of one episode per seed."""
    count = len(seeds)
    observations = environments.reset(seeds)
    policy.reset(count)
    rewards, totals = np.zeros(count), np.zeros(count)
    lengths, successes, live = np.zeros(count, int), np.zeros(count, bool), np.ones(count, bool)
    stories = [hashlib.sha256() for _ in seeds]
    while live.any():
        actions = policy.act(observations, rewards)
        for lane in np.flatnonzero(live):
            stories[lane].update(observations[lane].tobytes() + np.asarray(actions[lane]).tobytes())
        step = environments.step(actions)
        rewards = np.where(live, step.rewards, 0.0)
        totals, lengths = totals + rewards, lengths + live
        successes |= live & step.succeeded
        live &= ~step.ended
        observations = step.observations
    return totals.tolist(), lengths.tolist(), successes.tolist(), [story.digest() for story in stories]
