"""Holdfast: continual offline reinforcement learning that forgets nothing, and proves it."""

from holdfast.errors import Mistake
from holdfast.learners import LEARNERS, Learner, configure, learner
from holdfast.runs.run import Options, reopen, run
from holdfast.suites import SUITES, Suite, Task, suite

__version__ = "0.1.0"
__all__ = [
    "LEARNERS",
    "SUITES",
    "Learner",
    "Mistake",
    "Options",
    "Suite",
    "Task",
    "configure",
    "learner",
    "reopen",
    "run",
    "suite",
]
