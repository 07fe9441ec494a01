"""Continual World: ten tasks of Meta-World, the same ten twice, and all fifty."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from holdfast.benchmarks.continualworld.check_datasets import check_all
from holdfast.benchmarks.continualworld.orders import CW10, CW20, MT50, simulated
from holdfast.benchmarks.continualworld.recording import DEFAULT_COUNT, build_datasets, load_dataset
from holdfast.benchmarks.continualworld.reference import references
from holdfast.benchmarks.continualworld.sawyer import ACTION, HORIZON, OBSERVATION, make_simulators
from holdfast.benchmarks.continualworld.view import view
from holdfast.data.minari import local_datasets
from holdfast.tasks.data_choice import DataChoice
from holdfast.tasks.data_reports import DataCheck, Local, Report
from holdfast.tasks.interface import Continuous, Interface
from holdfast.tasks.suite import RecordedData, Suite, SuiteSpec
from holdfast.tasks.task import Task

PRESET: dict[str, Any] = {
    "net.dropout": 0.0,
    "fit.whole": False,
    "fit.learning_rate": 1e-3,
    "fit.schedule": "one-cycle",
    "fit.return_scale": 100.0,
    "task_id": True,
    "ewc:strength": 1e10,  # a sweep over the first three tasks: docs/results/continualworld.md
    "si:strength": 1e4,
}
BUDGETS: dict[str, dict[str, Any]] = {
    "smoke": {
        "order": CW10[:2],
        "fit.steps": 20,
        "fit.batch": 16,
        "protocol.episodes": 2,
        "demonstrations": 2,
    },
    "quick": {
        "order": ("hammer", "faucet-close", "handle-press-side", "window-close"),
        "fit.steps": 500,
        "protocol.episodes": 20,
        "demonstrations": 25,
    },
    "full": {"fit.steps": 4_000, "protocol.episodes": 50, "protocol.lanes": 25},
}


def task(name: str, demonstrations: int) -> Task:
    """One task; the second time that it is learned, it has the same data and the same environment."""
    interface = Interface((OBSERVATION,), Continuous(ACTION, ACTION), HORIZON)
    data, simulators = partial(load_dataset, name, demonstrations), partial(make_simulators, simulated(name))
    return Task(
        name, interface, references()[simulated(name)].target, data, simulators, f"metaworld {simulated(name)}-v3"
    )


def tasks(names: Sequence[str], choice: DataChoice) -> list[Task]:
    """The tasks with these names."""
    return [task(name, choice.demonstrations or DEFAULT_COUNT) for name in names]


def build_demonstrations(suite: Suite, report: Report, rebuild: bool) -> list[str]:
    """Records the demonstrations of the suite's tasks."""
    return build_datasets(suite.names, suite.choice.demonstrations or DEFAULT_COUNT, report, rebuild)


def check_demonstrations(suite: Suite, replays: int) -> list[DataCheck]:
    """Checks the demonstrations of the suite's tasks by replaying episodes."""
    return check_all(suite.names, suite.choice.demonstrations or DEFAULT_COUNT, replays)


def local_demonstrations() -> list[Local]:
    """The Minari datasets of Meta-World on this machine."""
    return [dataset for dataset in local_datasets() if dataset[0].startswith("metaworld/")]


def suite_of(name: str, about: str, order: tuple[str, ...]) -> SuiteSpec:
    """A suite of tasks of Meta-World in this order."""
    return SuiteSpec(
        name,
        about,
        order,
        partial(tasks, order),
        presets={"paper": PRESET},
        budgets=BUDGETS,
        demonstrations=DEFAULT_COUNT,
        recorded=RecordedData(build_demonstrations, check_demonstrations, local_demonstrations),
        view=view,
        ends=tuple(range(len(CW10), len(order) + 1, len(CW10))),
        random_returns={name: references()[simulated(name)].random_return for name in order},
    )


CW10_SUITE = suite_of(
    "cw10", "Ten tasks of Meta-World with a robot arm, in Continual World's order, scripted demonstrations.", CW10
)
CW20_SUITE = suite_of("cw20", "The ten tasks of cw10 twice, the second time under second names.", CW20)
MT50_SUITE = suite_of("mt50", "All fifty tasks of Meta-World, those of cw10 first.", MT50)
