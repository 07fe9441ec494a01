"""The quadratic penalty of EWC and SI, which keeps parameters near their earlier values."""

from typing import Any

import torch
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

    @torch.no_grad()
    def on_gradients(self, parameters: dict[str, nn.Parameter]) -> None:
        if not self.importance:
            return
        held: list[Tensor] = [parameters[name] for name in self.importance]
        pull = torch._foreach_mul(held, tuple(self.importance.values()))  # a loop would launch kernels for each tensor
        torch._foreach_sub_(pull, [self.pulled[name] for name in self.importance])
        torch._foreach_mul_(pull, self.strength)
        torch._foreach_add_([parameter.grad for parameter in held if parameter.grad is not None], pull)

    def describe(self) -> dict[str, Any]:
        return {"strength": self.strength}

    def given(self) -> dict[str, Tensor]:
        return under("importance", self.importance) | under("pulled", self.pulled)
