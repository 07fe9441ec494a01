"""Playing: a policy in a task's environments, all episodes of a protocol in lock-step."""

import hashlib
from dataclasses import dataclass

import numpy as np

from holdfast.nets.policy import Policy
from holdfast.suites.environments import Protocol
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
    count = protocol.episodes
    environments = task.environments(protocol)
    try:
        observations = environments.reset()
        policy.reset(count)
        rewards, totals = np.zeros(count), np.zeros(count)
        lengths, successes, live = np.zeros(count, int), np.zeros(count, bool), np.ones(count, bool)
        stories = [hashlib.sha256() for _ in range(count)]
        while live.any():
            actions = policy.act(observations, rewards)
            for i in np.flatnonzero(live):
                stories[i].update(observations[i].tobytes() + np.asarray(actions[i]).tobytes())
            step = environments.step(actions)
            rewards = np.where(live, step.rewards, 0.0)
            totals, lengths = totals + rewards, lengths + live
            successes |= live & step.succeeded
            live &= ~step.ended
            observations = step.observations
    finally:
        environments.close()
    distinct = len({story.digest() for story in stories})
    return Evaluation(totals.tolist(), lengths.tolist(), successes.tolist(), distinct)
