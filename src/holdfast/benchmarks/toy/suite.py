"""The toy suites, which are learned in seconds: in every task a point must go to another corner."""

from functools import partial

from holdfast.benchmarks.toy.field import OBSERVATION, ContinuousMoves, DiscreteMoves, Field, Rules, expert_dataset
from holdfast.benchmarks.toy.view import view
from holdfast.tasks.data_choice import DataChoice
from holdfast.tasks.environments import InTurn, Protocol
from holdfast.tasks.interface import Continuous, Discrete, Interface
from holdfast.tasks.suite import SuiteSpec
from holdfast.tasks.task import Task

SIZE = 4_000  # transitions per task
GOALS = {"NorthEast": (0.6, 0.6), "SouthWest": (-0.6, -0.6), "NorthWest": (-0.6, 0.6), "SouthEast": (0.6, -0.6)}


def make_fields(rules: Rules, protocol: Protocol) -> InTurn:
    """Environments with these rules."""
    return InTurn(partial(Field, rules), protocol.lanes)


def task(name: str, rules: Rules, target: float, transitions: int) -> Task:
    """One corner of the field."""
    interface = Interface((OBSERVATION,), rules.moves.actions, rules.horizon)
    return Task(
        name,
        interface,
        target,
        partial(expert_dataset, rules, transitions),
        partial(make_fields, rules),
        f"toy {rules}",
    )


PRESET = {
    "threads": 1,
    "net.width": 32,
    "net.layers": 2,
    "net.heads": 2,
    "net.context": 6,
    "net.dropout": 0.0,
    "fit.learning_rate": 3e-3,
    "fit.batch": 32,
    "subnets.warm_start": 0.3,
    "ewc:strength": 1e3,
}
BUDGETS = {
    "smoke": {"fit.steps": 60, "protocol.episodes": 8, "transitions": 1_000},
    "quick": {"fit.steps": 300, "protocol.episodes": 20},
    "full": {"fit.steps": 1_000, "protocol.episodes": 100},
}
FORMER_BUDGETS = {"paper": "--preset paper --budget full --protocol.episodes 20"}


def near(action: float, latent: float) -> dict[str, float]:
    """The thresholds up to which a task shares a copy."""
    return {
        "affinity-a:routing.threshold": action,
        "affinity-l:routing.threshold": latent,
        "affinity-h:routing.action_threshold": action,
        "affinity-h:routing.latent_threshold": latent,
    }


def corners(choice: DataChoice) -> list[Task]:
    """Discrete moves; the last task has diagonal moves as well."""
    rules = {
        name: Rules(goal, DiscreteMoves(Discrete(9 if name == "SouthEast" else 5, 9)), rail=False, ends=False)
        for name, goal in GOALS.items()
    }
    return [task(name, rule, 20.0, choice.transitions or SIZE) for name, rule in rules.items()]


def continuous_corners(choice: DataChoice) -> list[Task]:
    """Continuous moves; the third task is on a rail."""
    rules = {
        name: Rules(
            goal, ContinuousMoves(Continuous(1 if name == "NorthWest" else 2, 2)), rail=name == "NorthWest", ends=True
        )
        for name, goal in GOALS.items()
    }
    return [task(name, rule, -0.2, choice.transitions or SIZE) for name, rule in rules.items()]


TOY = SuiteSpec(
    "toy",
    "Four corners, discrete moves, reward 1 for each step in the corner; the last task has diagonal moves as well.",
    tuple(GOALS),
    corners,
    presets={"paper": {**PRESET, **near(action=8.0, latent=150.0), "fit.return_scale": 20.0}},
    budgets=BUDGETS,
    former_budgets=FORMER_BUDGETS,
    transitions=SIZE,
    view=view,
)
TOY_CONTINUOUS = SuiteSpec(
    "toy-continuous",
    "Four corners, continuous moves, the negative distance as reward, ends in the corner; the third task is on a rail.",
    tuple(GOALS),
    continuous_corners,
    presets={
        "paper": {
            **PRESET,
            **near(action=1.0, latent=50.0),
            "fit.return_scale": 10.0,
            "fit.sampling": "windows",
        }
    },
    budgets=BUDGETS,
    former_budgets=FORMER_BUDGETS,
    transitions=SIZE,
    view=view,
)
