"""Naive: the network is simply trained on, task after task."""

from holdfast.learners.dense import DenseConfig, DenseLearner, Lesson
from holdfast.learners.learner import LearnerSpec
from holdfast.training.config import FitConfig
from holdfast.training.fit import fit


class Naive(DenseLearner):
    """The baseline that adds nothing, and forgets."""

    def fit_task(self, lesson: Lesson) -> None:
        fit(self.net, lesson.windows, self.config.fit, lesson.seed, lesson.recorder, "task")


NAIVE = LearnerSpec(Naive, lambda net: DenseConfig(net, FitConfig()), "one dense network, trained on: forgets")
