"""Suites, plans and learners small enough for a law to be checked in a second."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.agent.configure import apply
from holdfast.benchmarks.toy.field import DiscreteMoves, Field, Rules
from holdfast.data.episodes import Dataset, Episode
from holdfast.data.windows import Windows
from holdfast.learners.dense import DenseConfig, treat
from holdfast.learners.learner import Learner, windows_of
from holdfast.learners.sparse import Sparse
from holdfast.registry import LEARNERS
from holdfast.runs.configure import configure, learner_for
from holdfast.runs.options import Options
from holdfast.runs.plan import Plan
from holdfast.tasks.environments import InTurn, Protocol
from holdfast.tasks.interface import Discrete, Interface
from holdfast.tasks.suite import Suite, suite
from holdfast.tasks.task import Task

QUIET = Options(tensorboard=False, quiet=True)
PATIENCE = 600.0  # seconds until a test gives up that waits for something; only a defect takes so long

SMALL = {
    "net.width": 16,
    "net.layers": 1,
    "net.context": 4,
    "net.dropout": 0.1,
    "fit.steps": 12,
    "fit.batch": 8,
    "fit.log_every": 4,
    "fit.weight_decay": 0.1,
    "protocol.episodes": 3,
    "ewc:fisher_batches": 2,
}


def tiny_suite(name: str = "toy", tasks: int = 3) -> Suite:
    """The first tasks of a toy suite, with little data."""
    found = suite(name, transitions=200)
    return found.ordered(found.names[:tasks])


def tiny_plan(found: Suite, learner: str, backbone: str = "dt", preset: str | None = None, **settings: Any) -> Plan:
    """A plan of a few steps; settings are dotted names with __ for the dots."""
    plan = configure(found.name, learner, preset, budget="smoke", suite=found, backbone=backbone)
    own = {name.replace("__", "."): value for name, value in settings.items()}
    return replace(apply(plan, {**SMALL, **own}), transitions=found.choice.transitions)


def tiny_learner(learner: str, found: Suite | None = None, device: str = "cpu", **settings: Any) -> Learner:
    """A learner for a tiny suite, nothing learned yet."""
    found = found or tiny_suite()
    return learner_for(tiny_plan(found, learner, **settings), found, device)


def windows_in(learner: Learner, task: Task) -> Windows:
    """A task's data as a dense learner reads it."""
    assert isinstance(learner.config, DenseConfig)
    normaliser, active = treat(learner.config, task.interface, task.dataset)
    return windows_of(task.dataset, normaliser, active, learner.config, "cpu")


def pixel_suite(tasks: int = 2) -> Suite:
    """Tasks with frames instead of vectors, so that convolutions are there; random frames, not meant to be solved."""
    return Suite("pixels", tuple(_pixel_task(f"Pixel{number}", number) for number in range(tasks)))


def _pixel_task(name: str, number: int) -> Task:
    interface = Interface((4, 36, 36), Discrete(5, 9), 20, normalised=False)
    return Task(name, interface, 1.0, partial(_frames, number), partial(_no_pixels))


def _frames(seed: int) -> Dataset:
    rng = np.random.default_rng(seed)

    def episode() -> Episode:
        frames = rng.integers(0, 256, (6, 4, 36, 36), dtype=np.uint8)
        return Episode(frames, rng.integers(0, 5, 6), rng.random(6).astype(np.float32))

    return Dataset.of(episode() for _ in range(4))


def _no_pixels(protocol: Protocol) -> InTurn:
    rules = Rules((0.0, 0.0), DiscreteMoves(Discrete(5, 9)), rail=False, ends=False)
    return InTurn(partial(Field, rules), protocol.lanes)


def contents(folder: Path) -> dict[str, bytes]:
    """Everything in a run folder that must be equal to the bit between two runs of one plan."""
    names = [path for path in folder.rglob("*") if path.is_file()]
    kept = [path for path in names if path.parent.name in ("weights", "memory") or path.suffix == ".json"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in kept if path.name != "config.json"}


# A law holds for every learner that says it is under it, so that one that is registered tomorrow is under it too.
ALL = list(LEARNERS)
RETAINING = [name for name in ALL if tiny_learner(name).retains]
IN_TURN = [name for name in ALL if not tiny_learner(name).joint]  # they learn one task after another
FORGETTING = [name for name in IN_TURN if name not in RETAINING]
SPARSE = [name for name in ALL if isinstance(tiny_learner(name), Sparse)]
