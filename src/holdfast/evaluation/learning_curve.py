"""The learning curve of a task: its policy is played at some moments while it is trained."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from holdfast.evaluation.cached import evaluate_once
from holdfast.evaluation.curves import CurvePoint
from holdfast.nets.policy import Policy
from holdfast.tasks.environments import Protocol
from holdfast.tasks.task import Task
from holdfast.training.cache import Cache

EPISODES = 10  # that are played at each moment, the first ones of the protocol


@dataclass(frozen=True)
class LearningCurve:
    """Plays the policy of one task at shares of its training steps; points that are kept are not played again."""

    task: Task
    shares: Sequence[int]  # per cent of the training steps, of the points that are not measured yet
    protocol: Protocol
    cache: Cache
    keep: Callable[[CurvePoint, int], None]  # is given a point, and the training steps that it was played after

    def steps(self, total: int) -> dict[int, int]:
        """For each share, the number of training steps, of this many, after which the policy is played."""
        return {share: max(round(total * share / 100), 1) for share in self.shares}

    def play(self, policy: Policy, done: int, total: int) -> None:
        """Plays the policy after so many of all training steps, and keeps the results."""
        protocol = replace(self.protocol, episodes=EPISODES)
        ((_, result),) = evaluate_once([(policy, self.task)], protocol, self.cache)
        for share, step in self.steps(total).items():
            if step == done:
                self.keep(CurvePoint(share, result.returns, result.successes, result.distinct), done)
