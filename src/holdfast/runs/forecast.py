"""What a run would do, and about how long its training would take."""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from statistics import median

import numpy as np
import torch

from holdfast.agent.devices import check_device
from holdfast.agent.session import threads
from holdfast.data.episodes import Dataset, Episode
from holdfast.errors import MissingData
from holdfast.evaluation.learning_curve import EPISODES
from holdfast.learners.learner import learner_spec
from holdfast.runs.configure import learner_for, suite_for
from holdfast.runs.folder import RunFolder
from holdfast.runs.plan import Plan
from holdfast.runs.spec import RunSpec
from holdfast.runs.state import State, state_of
from holdfast.tasks.interface import Discrete, Interface
from holdfast.tasks.suite import Suite
from holdfast.tasks.task import Task
from holdfast.training.recorder import Silent

STEPS = 50  # training steps that are timed
ENOUGH = 5.0  # seconds after which fewer will do
EPISODE = 200  # steps of an invented episode, at most


def forecast(spec: RunSpec) -> str:
    """What a run would do, in lines of text; nothing is written."""
    plan, device = spec.plan, check_device(spec.device)
    found = suite_for(plan, report=None)  # makes no data
    state = state_there(spec)
    missing = [task.name for task in found.tasks if dataset_of(task) is None]
    steps = plan.config.fit.steps
    joint = getattr(learner_spec(plan.learner).learner, "joint", False)
    total = steps * len(found.tasks)
    lines = {
        "suite": plan.suite,
        "tasks": ", ".join(found.names),
        "learner": f"{plan.learner} (preset {plan.preset}, budget {plan.budget}, seed {plan.seed})",
        "training": f"{steps} steps per task, {total} {'for all tasks at once' if joint else 'in all'}, on {device}",
        "evaluation": evaluation(spec, found.spec.ends),
        "data": f"would be made first: {', '.join(missing)}" if missing else "all there",
        "folder": f"{spec.out} ({folder_line(state)})",
        "time": duration(total - (state.done if state else 0), plan, found, device),
    }
    return "\n".join(f"{name:<12}{line}" for name, line in lines.items())


def state_there(spec: RunSpec) -> State | None:
    """How far the run in the folder is, if there is one; raises if this run cannot be carried out there."""
    if not spec.out.exists() or (spec.out.is_dir() and not any(spec.out.iterdir())):
        return None
    folder = RunFolder(spec.out)
    folder.check_plan(spec.plan)
    return state_of(folder)


def folder_line(state: State | None) -> str:
    """Whether a run begins in the folder or continues."""
    if state is None:
        return "new"
    if state.complete:
        return "complete: its results would be shown"
    return f"continues; {'; '.join(state.known())}"


def evaluation(spec: RunSpec, ends: Sequence[int]) -> str:
    """What is played, and when."""
    episodes, count = f"{spec.plan.protocol.episodes} episodes of", len(spec.plan.order)
    numbers = " and ".join(str(end) for end in sorted({*ends, count}) if end <= count)
    said = {
        "none": "none",
        "every": f"{episodes} every learned task after each task",
        "ends": f"{episodes} each task after it is learned, and of every learned task after {numbers} tasks",
    }[spec.options.evaluate]
    moments = ", ".join(map(str, spec.options.evaluate_at))
    return f"{said}; {EPISODES} episodes at {moments} % of a task's training" if moments else said


def duration(steps: int, plan: Plan, found: Suite, device: str) -> str:
    """About how long so many training steps take."""
    if steps <= 0:
        return "all tasks are trained"
    seconds = step_seconds(plan, found, device)
    total = timedelta(seconds=round(seconds * steps))
    return f"about {total} of training ({1000 * seconds:.3g} ms per step here); evaluation comes on top"


def step_seconds(plan: Plan, found: Suite, device: str) -> float:
    """The median time of a few training steps on the first task, with invented data if its own is not there yet."""
    fit = replace(plan.config.fit, steps=STEPS, log_every=1)
    short = replace(plan, config=replace(plan.config, fit=fit))
    task, clock = found.tasks[0], Clock()
    data = dataset_of(task) or invented(task.interface)
    with threads(plan.threads or torch.get_num_threads()), suppress(Enough):
        learner_for(short, found, device).learn(replace(task, load=lambda: data), recorder=clock)
    return median(np.diff(clock.times))


class Enough(Exception):
    """Enough steps were timed."""


class Clock(Silent):
    """Records when each step ended."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def progress(self, done: int, total: int, loss: float) -> None:
        self.times.append(time.perf_counter())
        if len(self.times) > 2 and self.times[-1] - self.times[0] > ENOUGH:
            raise Enough


def dataset_of(task: Task) -> Dataset | None:
    """A task's data, if it need not be made first."""
    try:
        return task.load()
    except MissingData:
        return None


def invented(interface: Interface) -> Dataset:
    """Random data of the same shape as a task's own, which takes as long to learn from."""
    length, random = min(interface.horizon, EPISODE), np.random.default_rng(0)
    kind = np.float32 if len(interface.observation) == 1 else np.uint8
    observations = random.integers(256, size=(length, *interface.observation)).astype(kind)
    if isinstance(interface.actions, Discrete):
        actions = np.zeros(length, np.int64)
    else:
        actions = np.zeros((length, interface.actions.width), np.float32)
    return Dataset.of([Episode(observations, actions, np.zeros(length))] * 4)
