"""AdamW with gradient clipping: torch's own, or on a GPU one kernel over all parameters laid end to end."""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from holdfast.gpu.capture import own_kernels

BETAS, EPSILON = (0.9, 0.999), 1e-8
ALIGNED = 64  # each parameter starts at a multiple of this many elements


class Optimiser(Protocol):
    """What a training step needs of an optimiser."""

    def take(self, gradients: Sequence[Tensor]) -> None:
        """Sets each parameter's `grad`, which an addition may then change in place."""
        ...

    def step(self) -> None:
        """Clips the gradients and updates the parameters."""
        ...

    def set_rate(self, rate: float | Tensor) -> None:
        """Sets the learning rate of the next step."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """The optimiser's state by name; it may be read, or changed in place."""
        ...


class TorchAdamW:
    """Torch's own fused AdamW, without `torch.optim`, which takes a second to import what only compilers need."""

    def __init__(self, parameters: dict[str, nn.Parameter], decay: float, clip: float) -> None:
        self.parameters, self.decay, self.clip = parameters, decay, clip
        values = list(parameters.values())
        # A tensor on a GPU, so that a captured step reads its current value.
        self.rate: Any = torch.zeros((), device=values[0].device) if values[0].is_cuda else 0.0
        self.steps = [torch.zeros((), device=value.device) for value in values]
        self.means, self.squares = ([torch.zeros_like(value) for value in values] for _ in range(2))

    def take(self, gradients: Sequence[Tensor]) -> None:
        for parameter, gradient in zip(self.parameters.values(), gradients, strict=True):
            parameter.grad = gradient

    @torch.no_grad()
    def step(self) -> None:
        values: list[Tensor] = list(self.parameters.values())
        nn.utils.clip_grad_norm_(values, self.clip)
        gradients = [value.grad for value in values if value.grad is not None]
        torch._foreach_add_(self.steps, 1)
        torch._fused_adamw_(
            values,
            gradients,
            self.means,
            self.squares,
            [],
            self.steps,
            lr=self.rate,
            beta1=BETAS[0],
            beta2=BETAS[1],
            weight_decay=self.decay,
            eps=EPSILON,
            amsgrad=False,
            maximize=False,
        )

    def set_rate(self, rate: float | Tensor) -> None:
        self.rate = self.rate.copy_(rate) if isinstance(rate, Tensor) else rate

    def tensors(self) -> dict[str, Tensor]:
        state = {"step": self.steps, "exp_avg": self.means, "exp_avg_sq": self.squares}
        return {
            f"{kind}/{name}": tensor
            for place, name in enumerate(self.parameters)
            for kind, tensor in ((kind, tensors[place]) for kind, tensors in state.items())
        }


class FlatAdamW:
    """Updates all parameters in one kernel launch; they become views of one flat tensor, and so do their gradients."""

    def __init__(self, parameters: dict[str, nn.Parameter], decay: float, clip: float) -> None:
        self.parameters, self.decay, self.clip = parameters, decay, clip
        self.starts, total = [], 0
        for parameter in parameters.values():
            self.starts.append(total)
            total += -(-parameter.numel() // ALIGNED) * ALIGNED
        device = next(iter(parameters.values())).device
        self.values, self.gradient, self.mean, self.square = (torch.zeros(total, device=device) for _ in range(4))
        self.rate, self.taken = torch.zeros((), device=device), torch.zeros((), device=device)
        self.gradients = self._views(self.gradient)
        for parameter, value, gradient in zip(
            parameters.values(), self._views(self.values), self.gradients, strict=True
        ):
            value.copy_(parameter.detach())
            parameter.data, parameter.grad = value, gradient

    def _views(self, flat: Tensor) -> list[Tensor]:
        pairs = zip(self.starts, self.parameters.values(), strict=True)
        return [flat[start : start + parameter.numel()].view_as(parameter) for start, parameter in pairs]

    def take(self, gradients: Sequence[Tensor]) -> None:
        torch._foreach_copy_(self.gradients, list(gradients))

    def step(self) -> None:
        from holdfast.gpu.adamw import AdamwTensors, adamw

        self.taken += 1
        norm = torch.linalg.vector_norm(self.gradient)
        flat = (self.values, self.gradient, self.mean, self.square)
        tensors = AdamwTensors(*flat, rate=self.rate, taken=self.taken, norm=norm)
        adamw(tensors, clip=self.clip, decay=self.decay, betas=BETAS, epsilon=EPSILON)

    def set_rate(self, rate: float | Tensor) -> None:
        if isinstance(rate, Tensor):
            self.rate.copy_(rate)
        else:
            self.rate.fill_(rate)

    def tensors(self) -> dict[str, Tensor]:
        moments = {"exp_avg": self._views(self.mean), "exp_avg_sq": self._views(self.square)}
        tensors = {
            f"{key}/{name}": view
            for key, views in moments.items()
            for name, view in zip(self.parameters, views, strict=True)
        }
        return tensors | {"step": self.taken}


def optimiser(parameters: dict[str, nn.Parameter], decay: float, clip: float) -> Optimiser:
    """The fastest optimiser for the device of the parameters."""
    if own_kernels(next(iter(parameters.values()))):
        return FlatAdamW(parameters, decay, clip)
    return TorchAdamW(parameters, decay, clip)
