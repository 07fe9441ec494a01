"""The task of a user's data: what is learned from, what is held out, and what a constant policy would score."""

from dataclasses import replace

import numpy as np

from holdfast.agent.own_environment import longest_episode
from holdfast.agent.routes import nearest
from holdfast.agent.task_record import TaskRecord
from holdfast.data.episodes import Dataset
from holdfast.learners.learner import Learner
from holdfast.tasks.recorded import Recorded, held_out
from holdfast.tasks.task import Task

SHORTEST = 64  # horizons are rounded up to this or twice as much, and so on, so that tasks can share a copy


def own_task(name: str, found: Recorded, record: TaskRecord, seed: int) -> tuple[Task, Dataset | None]:
    """The task of a user's data, and its held-out episodes."""
    scaled = replace(found.dataset, rewards=found.dataset.rewards * np.float32(record.reward_scale))
    learned_from, kept_back = held_out(scaled, seed)
    longest = max(int(scaled.lengths.max()), longest_episode(record.environment))
    horizon = SHORTEST
    while horizon < longest:
        horizon *= 2
    interface = replace(found.interface, horizon=horizon)
    return Task(name, interface, record.target * record.reward_scale, lambda: learned_from), kept_back


def constant_score(task: Task, dataset: Dataset) -> dict[str, float]:
    """The score on these episodes of a policy that always does the same: the mean or the most frequent action."""
    recorded = task.dataset.actions
    if recorded.ndim > 1:
        mean = recorded.mean(axis=0)
        return {"constant squared error": float(((dataset.actions - mean) ** 2).mean())}
    counts = np.bincount(recorded, minlength=int(max(recorded.max(), dataset.actions.max())) + 1) + 1
    likelihoods = np.log(counts / counts.sum())
    return {"constant likelihood": float(np.exp(likelihoods[dataset.actions].mean()))}


def nearest_task(learner: Learner, task: Task) -> str | None:
    """The learned task that was nearest to a task when it was routed, if the learner compares tasks."""
    route = next((route for route in learner.routes() if route["task"] == task.name), None)
    candidate = nearest(route) if route else None
    return candidate["task"] if candidate else None
