"""Learners: what they are, which there are, how they are set up."""

from holdfast.learners.configure import configure, learner, learner_for, suite_for
from holdfast.learners.learner import Learner
from holdfast.learners.plan import Plan
from holdfast.learners.registry import LEARNERS

__all__ = ["LEARNERS", "Learner", "Plan", "configure", "learner", "learner_for", "suite_for"]
