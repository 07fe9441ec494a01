"""Which learned task an episode belongs to: by what each task has seen, and by what its policy would do."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from math import inf, isfinite
from typing import Any

import numpy as np

from holdfast.agent.raw_policy import RawPolicy, with_raw_rewards
from holdfast.agent.sketch import Sketch, largest, relative, spread
from holdfast.agent.task_record import TaskRecord
from holdfast.data.episodes import Dataset, finite, numbers
from holdfast.data.layout import Layout
from holdfast.data.raw_episodes import arrays, mapped
from holdfast.data.spaces import Tree
from holdfast.errors import Mistake
from holdfast.evaluation.offline import offline_loss
from holdfast.learners.learner import Learner
from holdfast.learners.subnetworks import SubnetworkLearner
from holdfast.learners.tensors import part, under
from holdfast.nets.policy import Policy

STEPS = 256  # first steps of an episode whose actions are predicted
EPISODES = 100  # most episodes that the limit of the loss is computed from
KEPT = "sketch"  # the prefix of its tensors in the file of a task
NO_SKETCH = "there is no sketch of its observations, so it cannot be recognised: learn it again"


@dataclass(frozen=True)
class Candidate:
    """A learned task, and how far an episode is from its own ones: 1 is the limit that 99 % of these keep."""

    task: str
    observations: float | None
    """Distance of the first observations; None if they cannot be compared."""
    actions: float | None
    """Loss of the task's policy on the actions; None if they are not given, or the observations are too far."""
    reason: str = ""
    """Why it cannot be compared."""

    @property
    def accepted(self) -> bool:
        """Whether nothing exceeds its limit."""
        return self.observations is not None and max(self.observations, self.actions or 0.0) <= 1

    @property
    def score(self) -> float:
        """The mean of both distances: the smaller, the better it fits."""
        if self.observations is None:
            return inf
        return self.observations if self.actions is None else (self.observations + self.actions) / 2


@dataclass(frozen=True)
class Identification:
    """The learned task that an episode belongs to, and all that were compared."""

    task: str | None
    """None: none of these."""
    candidates: tuple[Candidate, ...]
    """All learned tasks, the best first."""

    @property
    def reason(self) -> str:
        """The decision in a sentence."""
        if not self.candidates:
            return "none of these: the agent has learned no task from your own data yet"
        best = self.candidates[0]
        if self.task is not None:
            return f"{self.task}: {_measured(best)}"
        if best.observations is None:
            return f"none of these: {best.task} cannot be compared ({best.reason})"
        return f"none of these: the nearest is {best.task}, {_measured(best)}"


def _measured(candidate: Candidate) -> str:
    """The distances of a candidate in words."""
    fit = "" if candidate.actions is None else f", and its policy's loss on the actions at {candidate.actions:.2g}"
    return f"the observations are at {candidate.observations:.2g} of the distance that its own episodes keep{fit}"


def decided(candidates: Sequence[Candidate]) -> Identification:
    """The best candidate, unless it is too far; the order in which tasks were learned does not matter."""
    ranked = sorted(candidates, key=lambda one: (not one.accepted, one.score, one.task))
    return Identification(ranked[0].task if ranked and ranked[0].accepted else None, tuple(ranked))


@dataclass(frozen=True)
class KnownTask:
    """A learned task that an episode can be compared with."""

    name: str
    record: TaskRecord
    layout: Layout
    sketch: Sketch | None
    policy: Callable[[], Policy]
    """Its policy, given encoded observations and scaled rewards."""

    def raw_policy(self) -> RawPolicy:
        """Its policy, given those of the environment."""
        return RawPolicy(with_raw_rewards(self.policy(), self.record), self.layout)

    def compare(self, observations: Tree, actions: Any, rewards: Any) -> Candidate:
        """How well the first steps of an episode fit; raw, one row a step. What the layout cannot encode does not."""
        try:
            seen = self.layout.encode_observations(observations)
            done = None if actions is None else self.layout.encode_actions(actions)
        except Mistake as problem:
            return Candidate(self.name, None, None, str(problem))
        if not finite(seen):
            raise Mistake("observations must be finite numbers")
        if self.sketch is None:
            return Candidate(self.name, None, None, NO_SKETCH)
        near = self.sketch.likeness(seen)
        limit = float(self.sketch.loss)
        if done is None or near > 1 or not isfinite(limit):
            return Candidate(self.name, near, None)
        if rewards is None:
            rewards = np.zeros(len(seen))
            rewards[-1] = self.record.target  # so that this is the return to go at every step
        scaled = numbers("rewards", rewards).astype(np.float64) * self.record.reward_scale
        episode = Dataset(seen, done, scaled.astype(np.float32), np.array([len(seen)]))
        return Candidate(self.name, near, relative(episode_losses(self.policy(), episode)[0], limit))


def episode_losses(policy: Policy, dataset: Dataset) -> list[float]:
    """The loss of a policy on the first steps of some episodes, each."""
    return [offline_loss(policy, first_steps(dataset.take([index]))) for index in spread(len(dataset), EPISODES)]


def first_steps(episode: Dataset) -> Dataset:
    """The first steps of a single episode, with the same returns to go."""
    if episode.steps <= STEPS:
        return episode
    rewards = episode.rewards[:STEPS].copy()
    rewards[-1] += episode.rewards[STEPS:].sum()
    return replace(
        episode,
        observations=episode.observations[:STEPS],
        actions=episode.actions[:STEPS],
        rewards=rewards,
        lengths=np.array([STEPS]),
    )


def keep_sketch(learner: Learner, name: str, sketch: Sketch | None, datasets: Sequence[Dataset]) -> None:
    """Keeps the sketch of a task that was just learned in its file, with the limit of its policy's loss.

    It is the larger one of what it learned from, which are more episodes, and of what was held out, which are harder.
    Learners without a file for each task keep no sketch.
    """
    if sketch is None or not isinstance(learner, SubnetworkLearner):
        return
    policy = learner.policy(name)
    limit = max(largest(episode_losses(policy, dataset)) for dataset in datasets)
    sketch = replace(sketch, loss=np.array(limit, np.float32))
    learner.kept[name] = {**learner.kept[name], **under(KEPT, sketch.tensors())}


def kept_sketch(learner: Learner, name: str) -> Sketch | None:
    """The sketch of a learned task, if it has one."""
    tensors = part(learner.kept[name], KEPT) if isinstance(learner, SubnetworkLearner) else {}
    return Sketch.read(tensors) if tensors else None


def known_tasks(learner: Learner, records: Mapping[str, TaskRecord]) -> list[KnownTask]:
    """The learned tasks that an agent has notes about."""
    return [
        KnownTask(
            name=name,
            record=record,
            layout=record.read_layout(),
            sketch=kept_sketch(learner, name),
            policy=cache(partial(learner.policy, name)),
        )
        for name, record in records.items()
    ]


def identify(known: Iterable[KnownTask], observations: Any, actions: Any = None, rewards: Any = None) -> Identification:
    """The learned task that the first steps of an episode fit best, or none."""
    seen = rows(observations)
    return decided([task.compare(seen, actions, rewards) for task in known])


def rows(observations: Any) -> Tree:
    """Observations as arrays with one row a step; a list of an environment's observations is stacked."""
    if isinstance(observations, list):
        observations = mapped(_stacked, *observations) if observations else np.zeros(0)
    found = mapped(np.asarray, observations)  # a part that no layout takes may be text
    if not all(array.ndim and len(array) for _, array in arrays(found)):
        raise Mistake("at least one observation is needed, one row a step")
    return found


def _stacked(*steps: Any) -> np.ndarray:
    try:
        return np.asarray(steps)
    except ValueError:
        raise Mistake("observations must have the same shape at every step") from None
