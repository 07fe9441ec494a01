"""The quadratic penalty of EWC and SI, which keeps parameters near their earlier values."""

from typing import Any

from torch import Tensor, nn

from holdfast.learners.tensors import under
from holdfast.training.step import Addition


class Anchor(Addition):
    """Adds the gradient of strength / 2 * sum(importance * (parameter - anchor)^2), summed over tasks.

    Two sums over tasks are sufficient: of `importance`, and of `importance * anchor` (here `pulled`).
    """

    def __init__(self, strength: float, importance: dict[str, Tensor], pulled: dict[str, Tensor]) -> None:
        self.importance, self.pulled = dict(sorted(importance.items())), dict(sorted(pulled.items()))
        self.strength = strength if importance else 0.0  # has no effect before the second task

    def on_gradients(self, parameters: dict[str, nn.Parameter]) -> None:
        for name, importance in self.importance.items():
            parameter = parameters[name]
            assert parameter.grad is not None
            parameter.grad += self.strength * (importance * parameter.detach() - self.pulled[name])

    def describe(self) -> dict[str, Any]:
        return {"strength": self.strength}

    def given(self) -> dict[str, Tensor]:
        return under("importance", self.importance) | under("pulled", self.pulled)
