"""One gradient step: loss, gradients, what a method adds, the optimiser."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn

from holdfast.data.windows import Batch
from holdfast.errors import Mistake
from holdfast.training.adamw import optimiser
from holdfast.training.config import FitConfig
from holdfast.training.ranks import team


class Addition(ABC):
    """What a method adds to a step, where it adds anything; with tensors alone, since a step may be captured."""

    @abstractmethod
    def on_gradients(self, parameters: dict[str, nn.Parameter]) -> None:
        """The task's gradients are there; the step is not taken yet."""

    def on_step(self, parameters: dict[str, nn.Parameter]) -> None:  # noqa: B027  most need only the gradients
        """The step was taken."""

    def tensors(self) -> dict[str, Tensor]:
        """What changes during a fit, in place, and must be kept when the fit is interrupted and resumed."""
        return {}


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that training moves, by name."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


class Descent:
    """A model that has a `loss`, its optimiser, and what a method adds: all that a step moves."""

    def __init__(self, model: nn.Module, config: FitConfig, addition: Addition | None) -> None:
        self.model, self.config, self.addition, self.team = model, config, addition, team()
        self.parameters = trainable(model)
        self.device = next(iter(self.parameters.values())).device
        if config.precision == "bfloat16" and self.device.type == "cpu":  # some processors die of it
            raise Mistake("bfloat16 is for a GPU: leave fit.precision at auto, or use --device cuda")
        self.optimiser = optimiser(self.parameters, config.weight_decay, config.clip)

    def step(self, batch: Batch, rate: float | Tensor) -> Tensor:
        """Moves the parameters, and returns the loss they had before."""
        with self.arithmetic():
            loss = self.model.loss(batch)  # type: ignore[operator]
        self.optimiser.set_rate(rate)
        # Not accumulated: nothing to set to zero, and nothing bound to the stream of a warm-up.
        gradients: Sequence[Tensor] = torch.autograd.grad(loss, list(self.parameters.values()))
        loss, gradients = self.team.mean(loss, gradients, batch)
        self.optimiser.take(gradients)
        if self.addition:
            self.addition.on_gradients(self.parameters)
        self.optimiser.step()
        if self.addition:
            self.addition.on_step(self.parameters)
        return loss.detach()

    def arithmetic(self) -> AbstractContextManager:
        """The precision of products; casts of weights are not cached, since weights change between replays."""
        precision = self.config.precision
        half = precision == "bfloat16" or (precision == "auto" and self.device.type == "cuda")
        return torch.autocast(self.device.type, torch.bfloat16, enabled=half, cache_enabled=False)

    def moving(self) -> dict[str, Tensor]:
        """All that steps change, in place: parameters, the optimiser's memory, a method's own."""
        return {
            **{f"parameter/{name}": parameter.detach() for name, parameter in self.parameters.items()},
            **{f"optimiser/{name}": tensor for name, tensor in self.optimiser.tensors().items()},
            **{f"own/{name}": tensor for name, tensor in (self.addition.tensors() if self.addition else {}).items()},
        }

    @torch.no_grad()
    def put_back(self, tensors: dict[str, Tensor]) -> None:
        """Makes all that moves what it was."""
        moving = self.moving()
        if not moving.keys() <= tensors.keys():
            raise Mistake("this fit was begun on another kind of device: resume it there, or start again")
        if any(tensors[name].shape != tensor.shape for name, tensor in moving.items()):
            raise Mistake("what was saved of this fit is of another network: delete it, or start again")
        for name, tensor in moving.items():
            tensor.copy_(tensors[name])
