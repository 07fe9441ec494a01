"""Playing: a policy in a task's environments, all episodes of a protocol in lock-step."""

import hashlib
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from holdfast.nets.policy import Policy
from holdfast.suites.environments import Environments, Protocol
from holdfast.suites.task import Task

Played = tuple[list[float], list[int], list[bool], list[bytes]]  # returns, lengths, successes, hashes of all observed


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


def evaluate(policy: Policy, task: Task, protocol: Protocol, groups: int | None = None) -> Evaluation:
    """Plays every episode of the protocol to its end; of two groups one acts while the other is simulated."""
    groups = groups or (2 if policy.device.type == "cuda" else 1)
    lanes = -(-min(protocol.lanes, protocol.episodes) // groups)
    share = replace(protocol, lanes=lanes)
    played: list[Played] = []
    with ExitStack() as stack:
        tables = [(policy.apart(), stack.enter_context(closing(task.environments(share)))) for _ in range(groups)]
        for first in range(0, len(share.rounds), groups):
            rounds = zip(tables, share.rounds[first : first + groups], strict=False)
            played += side_by_side([play(mine, environments, seeds) for (mine, environments), seeds in rounds])
    returns, lengths, successes, stories = (list(chain(*column)) for column in zip(*played, strict=True))
    return Evaluation(returns, lengths, successes, len(set(stories)))


def side_by_side(plays: Sequence[Generator[None, None, Played]]) -> list[Played]:
    """Carries these on in turn to their ends, and returns what each had in the end."""
    results: dict[int, Played] = {}
    while len(results) < len(plays):
        for number, playing in enumerate(plays):
            if number not in results:
                try:
                    next(playing)
                except StopIteration as end:
                    results[number] = end.value
    return [results[number] for number in range(len(plays))]


def play(policy: Policy, environments: Environments, seeds: Sequence[int]) -> Generator[None, None, Played]:
    """One episode per seed; pauses whenever it would wait for the simulators."""
    count = len(seeds)
    observations = environments.reset(seeds)
    policy.reset(count)
    rewards, totals = np.zeros(count), np.zeros(count)
    lengths, successes, live = np.zeros(count, int), np.zeros(count, bool), np.ones(count, bool)
    stories = [hashlib.sha256() for _ in seeds]
    while live.any():
        actions = policy.act(observations, rewards)
        environments.begin(actions)
        for lane in np.flatnonzero(live):
            stories[lane].update(observations[lane].tobytes() + np.asarray(actions[lane]).tobytes())
        yield
        step = environments.finish()
        rewards = np.where(live, step.rewards, 0.0)
        totals, lengths = totals + rewards, lengths + live
        successes |= live & step.succeeded
        live &= ~step.ended
        observations = step.observations
    return totals.tolist(), lengths.tolist(), successes.tolist(), [story.digest() for story in stories]
