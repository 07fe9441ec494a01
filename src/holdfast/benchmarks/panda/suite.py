"""Panda-3: a robot arm reaches, pushes, picks and places (panda-gym)."""

from functools import partial
from typing import Any

from holdfast.benchmarks.panda.arm import (
    ACTION,
    ARMS,
    DEFAULT_SIZE,
    HORIZON,
    OBSERVATION,
    ArmTask,
    load_dataset,
    make_simulators,
)
from holdfast.benchmarks.panda.check_datasets import check_all
from holdfast.benchmarks.panda.expert_command import EXPERTS
from holdfast.benchmarks.panda.random_returns import RANDOM_RETURNS
from holdfast.benchmarks.panda.recording import build_datasets
from holdfast.benchmarks.panda.view import view
from holdfast.data.minari import local_datasets
from holdfast.tasks.data_choice import DataChoice
from holdfast.tasks.data_reports import DataCheck, Local, Report
from holdfast.tasks.interface import Continuous, Interface
from holdfast.tasks.suite import RecordedData, Suite, SuiteSpec
from holdfast.tasks.task import Task

RATE: dict[str, Any] = {"fit.batch": 128, "fit.learning_rate": 1e-4, "fit.schedule": "constant"}
PAPER: dict[str, Any] = {
    "net.heads": 1,
    **RATE,
    "fit.clip": 0.25,
    "fit.sampling": "windows",
    "fit.return_scale": 1000.0,
    "subnets.keep": 0.33,
    "ewc:over": "last",
    "ewc:strength": 50.0,
    "si:strength": 0.5,
    "cumulative:capacity": 5_000,
    "affinity-a:routing.threshold": 0.45,
    "affinity-l:routing.threshold": 25.0,
    "affinity-h:routing.threshold": 0.5,
    "affinity-h:routing.action_threshold": 0.45,
    "affinity-h:routing.latent_threshold": 25.0,
}
DECAYED: dict[str, Any] = {"net.dropout": 0.0, "fit.learning_rate": 1e-3, "fit.schedule": "one-cycle"}
BUDGETS: dict[str, dict[str, Any]] = {
    "smoke": {"fit.steps": 20, "fit.batch": 16, "protocol.episodes": 4, "transitions": 300},
    "quick": {
        "fit.steps": 2_000,
        "fit.batch": 64,
        **DECAYED,
        "protocol.episodes": 20,
        "transitions": 10_000,
    },
    "full": {"fit.steps": 20_000, "protocol.name": "full", "protocol.episodes": 100},
    "published": {
        **RATE,
        "fit.steps": 1_000_000,
        "protocol.name": "paper",
        "protocol.episodes": 20,
        "transitions": 1_000_000,
    },
}
FORMER_BUDGETS = {
    "paper": "--preset paper --budget full --fit.steps 50000 --protocol.name paper --protocol.episodes 20"
}


def task(arm: ArmTask, transitions: int) -> Task:
    """One task of the arm."""
    interface = Interface((OBSERVATION,), Continuous(arm.actions, ACTION), HORIZON)
    data, simulators = partial(load_dataset, arm, transitions), partial(make_simulators, arm.environment)
    return Task(arm.task, interface, arm.target, data, simulators, f"panda-gym {arm.environment}")


def tasks(choice: DataChoice) -> list[Task]:
    """The three tasks."""
    return [task(arm, choice.transitions or DEFAULT_SIZE) for arm in ARMS.values()]


def build_demonstrations(suite: Suite, report: Report, rebuild: bool) -> list[str]:
    """Builds the datasets of the suite's tasks with the experts."""
    return build_datasets(
        [ARMS[name] for name in suite.names], suite.choice.transitions or DEFAULT_SIZE, report, rebuild
    )


def check_demonstrations(suite: Suite, replays: int) -> list[DataCheck]:
    """Checks the datasets of the suite's tasks by replaying episodes."""
    return check_all([ARMS[name] for name in suite.names], suite.choice.transitions or DEFAULT_SIZE, replays)


def local_demonstrations() -> list[Local]:
    """The Minari datasets of the arm on this machine."""
    return [dataset for dataset in local_datasets() if dataset[0].startswith("panda/")]


PANDA3 = SuiteSpec(
    "panda3",
    "A robot arm reaches, pushes, picks and places: three tasks of panda-gym, continuous, scripted experts.",
    tuple(ARMS),
    tasks,
    presets={"paper": PAPER, "holdfast": DECAYED},
    budgets=BUDGETS,
    former_budgets=FORMER_BUDGETS,
    transitions=DEFAULT_SIZE,
    recorded=RecordedData(build_demonstrations, check_demonstrations, local_demonstrations),
    experts=EXPERTS,
    view=view,
    random_returns=RANDOM_RETURNS,
)
