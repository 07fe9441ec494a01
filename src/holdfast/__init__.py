"""Holdfast: continual offline reinforcement learning that forgets nothing, and proves it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast.versions import VERSION

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.agent.agent import Agent
    from holdfast.data.episodes import Dataset, Episode
    from holdfast.errors import Mistake
    from holdfast.evaluation.matrix import Matrix
    from holdfast.evaluation.rollouts import evaluate
    from holdfast.learners.learner import Learner
    from holdfast.nets.policy import Policy
    from holdfast.registry import LEARNERS, NETS, SUITES
    from holdfast.runs.configure import configure, learner
    from holdfast.runs.more import learn_more
    from holdfast.runs.options import Options
    from holdfast.runs.run import reopen, run
    from holdfast.tasks.environments import InTurn, Protocol
    from holdfast.tasks.interface import Continuous, Discrete, Interface
    from holdfast.tasks.suite import RecordedData, Suite, SuiteSpec, suite
    from holdfast.tasks.task import Task

__version__ = VERSION
__all__ = [
    "LEARNERS",
    "NETS",
    "SUITES",
    "Agent",
    "Continuous",
    "Dataset",
    "Discrete",
    "Episode",
    "InTurn",
    "Interface",
    "Learner",
    "Matrix",
    "Mistake",
    "Options",
    "Policy",
    "Protocol",
    "RecordedData",
    "Suite",
    "SuiteSpec",
    "Task",
    "configure",
    "evaluate",
    "learn_more",
    "learner",
    "plugin",
    "reopen",
    "run",
    "suite",
]

MODULES = {  # imported when a name is first used, so that `import holdfast` does not import torch
    "holdfast.agent.agent": ("Agent",),
    "holdfast.data.episodes": ("Dataset", "Episode"),
    "holdfast.errors": ("Mistake",),
    "holdfast.evaluation.matrix": ("Matrix",),
    "holdfast.evaluation.rollouts": ("evaluate",),
    "holdfast.learners.learner": ("Learner",),
    "holdfast.nets.policy": ("Policy",),
    "holdfast.registry": ("LEARNERS", "NETS", "SUITES"),
    "holdfast.runs.configure": ("configure", "learner"),
    "holdfast.runs.more": ("learn_more",),
    "holdfast.runs.options": ("Options",),
    "holdfast.runs.run": ("reopen", "run"),
    "holdfast.tasks.environments": ("InTurn", "Protocol"),
    "holdfast.tasks.interface": ("Continuous", "Discrete", "Interface"),
    "holdfast.tasks.suite": ("RecordedData", "Suite", "SuiteSpec", "suite"),
    "holdfast.tasks.task": ("Task",),
}


def plugin(path: "str | Path") -> None:
    """Runs a plugin file and registers the suites, learners and backbones that it defines."""
    from holdfast.registry import load_plugin

    load_plugin(path)


def __getattr__(name: str) -> Any:
    for module, names in MODULES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
