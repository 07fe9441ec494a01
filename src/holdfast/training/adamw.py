"""AdamW with gradient clipping: torch's own, or on a GPU one kernel over all parameters laid end to end."""

from collections.abc import Sequence
from typing import Protocol

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
    """Torch's own AdamW."""

    def __init__(self, parameters: dict[str, nn.Parameter], decay: float, clip: float) -> None:
        self.parameters, self.clip = parameters, clip
        moved = list(parameters.values())
        on_gpu = moved[0].is_cuda
        # A tensor on a GPU, so that a captured step reads its current value.
        rate = torch.zeros((), device=moved[0].device) if on_gpu else 0.0
        self.adamw = torch.optim.AdamW(moved, rate, BETAS, EPSILON, decay, fused=True, capturable=on_gpu)
        for parameter in moved:  # allocated now, so that its address never changes
            state = {"step": torch.zeros((), device=parameter.device)}
            moments = {name: torch.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}
            self.adamw.state[parameter] = state | moments

    def take(self, gradients: Sequence[Tensor]) -> None:
        for parameter, gradient in zip(self.parameters.values(), gradients, strict=True):
            parameter.grad = gradient

    def step(self) -> None:
        nn.utils.clip_grad_norm_(self.parameters.values(), self.clip)
        self.adamw.step()

    def set_rate(self, rate: float | Tensor) -> None:
        group = self.adamw.param_groups[0]
        group["lr"] = group["lr"].copy_(rate) if isinstance(rate, Tensor) else rate

    def tensors(self) -> dict[str, Tensor]:
        return {
            f"{key}/{name}": tensor
            for name, parameter in self.parameters.items()
            for key, tensor in self.adamw.state[parameter].items()
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
