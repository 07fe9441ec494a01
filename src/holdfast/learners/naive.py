"""Naive: the network is simply trained on, task after task."""

from holdfast.data.windows import Windows
from holdfast.learners.dense import DenseLearner
from holdfast.tasks.task import Task
from holdfast.training.fit import fit
from holdfast.training.recorder import Recorder


class Naive(DenseLearner):
    """The baseline that adds nothing, and forgets."""

    def fit_task(self, task: Task, windows: Windows, seed: int, recorder: Recorder) -> None:
        fit(self.net, windows, self.config.fit, seed, recorder, "task")
