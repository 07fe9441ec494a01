"""Multitask: one network is trained on the data of all tasks at once, the ceiling for learners with one network."""

from collections.abc import Sequence
from dataclasses import replace

from holdfast.data.randomness import derive
from holdfast.data.windows import EqualShares
from holdfast.learners.dense import DenseConfig, OneNetworkLearner, check_fits
from holdfast.learners.learner import JointLearner, LearnerSpec
from holdfast.tasks.task import Task
from holdfast.training.config import FitConfig
from holdfast.training.fit import fit
from holdfast.training.recorder import Recorder


class Multitask(JointLearner, OneNetworkLearner):
    """Not a continual learner: it has the data of all tasks, and as many steps as others take for all of them."""

    def train_jointly(self, tasks: Sequence[Task], recorder: Recorder) -> None:
        for task in tasks:
            check_fits(tasks[0].name, tasks[0].interface, task)
        with self.unchanged_by_failure():
            windows = EqualShares([self.begin(task, place) for place, task in enumerate(tasks)])
            config = replace(self.config.fit, steps=self.config.fit.steps * len(tasks))
            fit(self.net, windows, config, derive(self.seed, "fit"), recorder, "task")


MULTITASK = LearnerSpec(
    Multitask, lambda net: DenseConfig(net, FitConfig()), "one dense network, all tasks at once: the ceiling"
)
