"""EWC: a penalty keeps parameters with high Fisher information near their values after earlier tasks."""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from holdfast.data.randomness import numpy_stream
from holdfast.data.validation import Range
from holdfast.data.windows import Sampler
from holdfast.learners.anchor import Anchor
from holdfast.learners.dense import DenseConfig, DenseLearner, Lesson
from holdfast.learners.learner import LearnerSpec
from holdfast.learners.tensors import part, under
from holdfast.training.config import FitConfig
from holdfast.training.fit import fit
from holdfast.training.step import trainable


@dataclass(frozen=True)
class EwcConfig(DenseConfig):
    """Elastic weight consolidation."""

    strength: Annotated[float, Range(least=0)] = 50.0
    """Weight of the penalty that holds parameters near earlier values (lambda)."""
    fisher_batches: Annotated[int, Range(least=1, most=10**9)] = 50
    """Number of batches that the Fisher information is estimated from."""
    over: Literal["all", "last"] = "all"
    """Tasks whose Fisher information is used: the sum over all earlier tasks, or only the last task."""


class Ewc(DenseLearner):
    """The naive learner with a penalty weighted by the Fisher information."""

    config: EwcConfig

    def fit_task(self, lesson: Lesson) -> None:
        importance, pulled = part(self.memory, "importance"), part(self.memory, "pulled")
        anchor = Anchor(self.config.strength, importance, pulled) if importance else None
        fit(self.net, lesson.windows, self.config.fit, lesson.seed, lesson.recorder, "task", anchor)
        fisher = fisher_information(self.net, lesson.windows, self.config, lesson.seed)
        if self.config.over == "last":
            importance, pulled = {}, {}
        for name, parameter in trainable(self.net).items():
            importance[name] = importance.get(name, 0) + fisher[name]
            pulled[name] = pulled.get(name, 0) + fisher[name] * parameter.detach()
        self.memory = under("importance", importance) | under("pulled", pulled)


def fisher_information(net: nn.Module, windows: Sampler, config: EwcConfig, seed: int) -> dict[str, Tensor]:
    """The diagonal Fisher information: the mean over batches of the squared gradient of the batch loss."""
    parameters = trainable(net)
    fisher = {name: torch.zeros_like(parameter) for name, parameter in parameters.items()}
    for batch in range(config.fisher_batches):
        net.zero_grad()
        net(windows.sample(config.fit.batch, numpy_stream(seed, "fisher", batch))).backward()
        for name, parameter in parameters.items():
            assert parameter.grad is not None
            fisher[name] += parameter.grad.detach() ** 2 / config.fisher_batches
    net.zero_grad()
    return fisher


EWC = LearnerSpec(Ewc, lambda net: EwcConfig(net, FitConfig()), "one dense network, penalty by Fisher information")
