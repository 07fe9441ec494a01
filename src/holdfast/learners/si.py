"""SI: a penalty keeps parameters that lowered the loss of earlier tasks near their values."""

from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from holdfast.data.validation import Range
from holdfast.learners.anchor import Anchor
from holdfast.learners.dense import DenseConfig, DenseLearner, Lesson
from holdfast.learners.learner import LearnerSpec
from holdfast.learners.tensors import part, under
from holdfast.training.config import FitConfig
from holdfast.training.fit import fit
from holdfast.training.step import Addition, trainable


@dataclass(frozen=True)
class SiConfig(DenseConfig):
    """Synaptic intelligence."""

    strength: Annotated[float, Range(least=0)] = 1.0
    """Weight of the penalty that holds parameters near earlier values (c)."""
    damping: Annotated[float, Range(over=0)] = 0.1
    """Damping added to the squared parameter change (xi)."""


class Path(Addition):
    """The penalty, and the path integral of the loss gradient (without penalty and clipping) over training."""

    def __init__(self, anchor: Anchor, parameters: dict[str, nn.Parameter]) -> None:
        self.anchor = anchor
        self.integral = {name: torch.zeros_like(parameter) for name, parameter in parameters.items()}
        self.start = {name: parameter.detach().clone() for name, parameter in parameters.items()}
        # Before each step; kept, so that all tensors are copied at once.
        self.gradients, self.before = ([torch.zeros_like(tensor) for tensor in self.start.values()] for _ in range(2))

    @torch.no_grad()
    def on_gradients(self, parameters: dict[str, nn.Parameter]) -> None:
        torch._foreach_copy_(self.gradients, [value.grad for value in parameters.values() if value.grad is not None])
        torch._foreach_copy_(self.before, list(parameters.values()))
        self.anchor.on_gradients(parameters)

    @torch.no_grad()
    def on_step(self, parameters: dict[str, nn.Parameter]) -> None:
        change = torch._foreach_sub(list(parameters.values()), self.before)
        torch._foreach_mul_(change, self.gradients)
        torch._foreach_sub_(list(self.integral.values()), change)

    def describe(self) -> dict[str, Any]:
        return self.anchor.describe()

    def given(self) -> dict[str, Tensor]:
        return self.anchor.given() | self.tensors()

    def tensors(self) -> dict[str, Tensor]:
        return under("integral", self.integral)  # a resumed fit begins with the same start

    @torch.no_grad()
    def importance(self, parameters: dict[str, nn.Parameter], damping: float) -> dict[str, Tensor]:
        """Per parameter: its part in the decrease of the loss, divided by its squared change plus damping."""
        return {
            name: self.integral[name].clamp(min=0) / ((parameter - self.start[name]) ** 2 + damping)
            for name, parameter in parameters.items()
        }


class Si(DenseLearner):
    """The naive learner with a penalty weighted by path integrals."""

    config: SiConfig

    def fit_task(self, lesson: Lesson) -> None:
        parameters = trainable(self.net)
        total, pulled = part(self.memory, "importance"), part(self.memory, "pulled")
        path = Path(Anchor(2 * self.config.strength, total, pulled), parameters)  # 2: SI's penalty has no factor 1/2
        fit(self.net, lesson.windows, self.config.fit, lesson.seed, lesson.recorder, "task", path)
        for name, importance in path.importance(parameters, self.config.damping).items():
            total[name] = total.get(name, 0) + importance
            pulled[name] = total[name] * parameters[name].detach()  # one anchor: the parameters after the last task
        self.memory = under("importance", total) | under("pulled", pulled)


SI = LearnerSpec(Si, lambda net: SiConfig(net, FitConfig()), "one dense network, penalty by path integrals")
