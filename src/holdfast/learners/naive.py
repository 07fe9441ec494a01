"""Naive: one network is fine-tuned on one task after another."""

from holdfast.learners.dense import DenseConfig, DenseLearner, Lesson
from holdfast.learners.learner import LearnerSpec
from holdfast.training.config import FitConfig
from holdfast.training.fit import fit


class Naive(DenseLearner):
    """The baseline without any protection against forgetting."""

    def fit_task(self, lesson: Lesson) -> None:
        fit(self.net, lesson.windows, self.config.fit, lesson.seed, lesson.recorder, "task")


NAIVE = LearnerSpec(Naive, lambda net: DenseConfig(net, FitConfig()), "one dense network, fine-tuned: forgets")
