"""The task of a user's data: how it is read, what is learned from and held out, and what other policies score."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from holdfast.agent.own_environment import is_installed, longest_episode, make
from holdfast.agent.plan import AgentPlan
from holdfast.agent.routes import nearest
from holdfast.agent.task_record import TaskRecord, note
from holdfast.data.episodes import Dataset
from holdfast.data.sources import Where
from holdfast.learners.learner import Learner
from holdfast.tasks.recorded import Recorded, defaults_from, held_out, read
from holdfast.tasks.task import Task

SHORTEST = 64  # horizons are rounded up to this or twice as much, and so on, so that tasks can share a copy


def read_own(
    data: Where,
    env: str | None,
    plan: AgentPlan,
    *,
    budget: str,
    target: float | None = None,
    old: TaskRecord | None = None,
) -> tuple[Recorded, TaskRecord]:
    """The data, and the notes about its task; a task that is replaced keeps its environment and its layout."""
    if env is None and old and old.environment and ":" not in old.environment and is_installed(old.environment):
        env = old.environment  # unless it imports a module: a stranger may have written the folder
    found = read(data, make(env) if env else None, old.read_layout() if old else None)
    where = str(data) if isinstance(data, str | Path) else "Python"
    if env is None and found.environment and not is_installed(found.environment):
        missing = f"Its environment {found.environment} is not installed here, so the policy is not played."
        found = replace(found, environment=None, notes=(*found.notes, missing))
    found = replace(found, environment=env or found.environment)
    defaults = defaults_from(found.dataset)
    factor = plan.config.fit.return_scale / defaults.return_scale
    return found, note(
        found, where, target=defaults.target if target is None else target, reward_scale=factor, budget=budget
    )


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
