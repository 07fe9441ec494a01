"""Holdfast: continual offline reinforcement learning that forgets nothing, and proves it."""

from holdfast.data.episodes import Dataset, Episode
from holdfast.errors import Mistake
from holdfast.evaluation.matrix import Matrix
from holdfast.evaluation.rollouts import evaluate
from holdfast.experts.supply import suite
from holdfast.learners import LEARNERS, Learner, configure, learner
from holdfast.nets.policy import Policy
from holdfast.runs.options import Options
from holdfast.runs.run import reopen, run
from holdfast.suites import SUITES, Suite, Task
from holdfast.suites.environments import InTurn, Protocol
from holdfast.suites.interface import Continuous, Discrete, Interface
from holdfast.versions import VERSION

__version__ = VERSION
__all__ = [
    "LEARNERS",
    "SUITES",
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
    "Suite",
    "Task",
    "configure",
    "evaluate",
    "learner",
    "reopen",
    "run",
    "suite",
]
