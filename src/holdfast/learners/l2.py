"""L2: a penalty keeps all parameters near their values after the last task."""

from dataclasses import dataclass
from typing import Annotated

import torch

from holdfast.data.validation import Range
from holdfast.learners.anchor import Anchor
from holdfast.learners.dense import DenseConfig, DenseLearner, Lesson
from holdfast.learners.learner import LearnerSpec
from holdfast.training.config import FitConfig
from holdfast.training.fit import fit
from holdfast.training.step import trainable


@dataclass(frozen=True)
class L2Config(DenseConfig):
    """A penalty on the distance to the last task's parameters."""

    strength: Annotated[float, Range(least=0)] = 1.0
    """Weight of the penalty that holds parameters near their values after the last task (c)."""


class L2Learner(DenseLearner):
    """The naive learner with a penalty in which all parameters are equally important."""

    config: L2Config

    def fit_task(self, lesson: Lesson) -> None:
        anchor = self.anchor() if self.roles else None  # before the first task there is nothing to stay near
        fit(self.net, lesson.windows, self.config.fit, lesson.seed, lesson.recorder, "task", anchor)

    def anchor(self) -> Anchor:
        """The penalty on the distance to the current parameters, which the last task left."""
        last = {name: parameter.detach().clone() for name, parameter in trainable(self.net).items()}
        importance = {name: torch.ones_like(tensor) for name, tensor in last.items()}
        return Anchor(self.config.strength, importance, last)


L2 = LearnerSpec(L2Learner, lambda net: L2Config(net, FitConfig()), "one dense network, held near its last weights")
