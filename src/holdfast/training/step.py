"""One training step: the loss, its gradients, the additions of a method, and the optimiser."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.data.windows import Batch
from holdfast.errors import Mistake
from holdfast.training.adamw import optimiser
from holdfast.training.config import FitConfig
from holdfast.training.ranks import ranks


class Addition(ABC):
    """What a method adds to a training step; only tensor operations, since a step may be captured."""

    @abstractmethod
    def on_gradients(self, parameters: dict[str, nn.Parameter]) -> None:
        """Called when the gradients of the loss are computed, before the optimiser's step."""

    def on_step(self, parameters: dict[str, nn.Parameter]) -> None:  # noqa: B027  most need only the gradients
        """Called after the optimiser's step."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """The settings, as plain data that JSON can hold; a part of the cache key."""

    @abstractmethod
    def given(self) -> dict[str, Tensor]:
        """All tensors that decide what is added, by name; a part of the cache key."""

    def tensors(self) -> dict[str, Tensor]:
        """The tensors that steps change in place: they are saved and resumed, and cached with a finished fit."""
        return {}


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that training changes, by name."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def result(model: nn.Module, addition: Addition | None) -> dict[str, Tensor]:
    """The tensors that a fit changes in place: trained parameters, persistent buffers, those of the addition."""
    parameters = dict(model.named_parameters())
    buffers = {name: tensor for name, tensor in model.state_dict().items() if name not in parameters}
    return {
        **{f"parameter/{name}": parameter.detach() for name, parameter in trainable(model).items()},
        **{f"buffer/{name}": tensor for name, tensor in buffers.items()},
        **{f"own/{name}": tensor for name, tensor in (addition.tensors() if addition else {}).items()},
    }


class Trainer:
    """A model whose output is its loss, its optimiser, and what a method adds: everything that a step changes."""

    def __init__(self, model: nn.Module, config: FitConfig, addition: Addition | None) -> None:
        self.model, self.config, self.addition = model, config, addition
        self.ranks = ranks()
        self.parameters = trainable(model)
        self.device = next(iter(self.parameters.values())).device
        if config.precision == "bfloat16" and self.device.type == "cpu":  # some processors crash
            raise Mistake("bfloat16 is for a GPU: leave fit.precision at auto, or use --device cuda")
        self.optimiser = optimiser(self.parameters, config.weight_decay, config.clip)

    def step(self, batch: Batch, rate: float | Tensor) -> Tensor:
        """Takes one step and returns the loss before it."""
        with self.autocast():
            loss = self.model(batch)
        self.optimiser.set_rate(rate)
        # Not accumulated: nothing to set to zero, and nothing bound to the stream of a warm-up.
        gradients: Sequence[Tensor] = torch.autograd.grad(loss, list(self.parameters.values()))
        loss, gradients = self.ranks.mean(loss, gradients, batch)
        self.optimiser.take(gradients)
        if self.addition:
            self.addition.on_gradients(self.parameters)
        self.optimiser.step()
        if self.addition:
            self.addition.on_step(self.parameters)
        return loss.detach()

    def autocast(self) -> AbstractContextManager:
        """The precision of products; casts of weights are not cached, since weights change between replays."""
        precision = self.config.precision
        half = precision == "bfloat16" or (precision == "auto" and self.device.type == "cuda")
        return torch.autocast(self.device.type, torch.bfloat16, enabled=half, cache_enabled=False)

    def state(self) -> dict[str, Tensor]:
        """Everything that steps change in place: what the fit changes, and the optimiser's state."""
        optimised = {f"optimiser/{name}": tensor for name, tensor in self.optimiser.tensors().items()}
        return {**result(self.model, self.addition), **optimised}

    @torch.no_grad()
    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Sets everything that steps change to what it was when it was saved."""
        state = self.state()
        if not state.keys() <= tensors.keys():
            raise Mistake("this fit was begun on another kind of device: resume it there, or start again")
        if any(tensors[name].shape != tensor.shape for name, tensor in state.items()):
            raise Mistake("what was saved of this fit is of another network: delete it, or start again")
        for name, tensor in state.items():
            tensor.copy_(tensors[name])
