"""The only gradient loop: every learner is what it adds to it."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import cos, isfinite, pi
from typing import Literal

import torch
from torch import Tensor, nn

from holdfast.data.randomness import derive, numpy_stream
from holdfast.data.windows import Sampling, Source
from holdfast.errors import Mistake
from holdfast.learners.recorder import Recorder


@dataclass(frozen=True)
class FitConfig:
    """How a task is trained."""

    steps: int = 1_000
    """Gradient steps per task."""
    batch: int = 64
    """Windows per step."""
    learning_rate: float = 3e-4
    """Of AdamW."""
    schedule: Literal["constant", "one-cycle"] = "constant"
    """Constant (the publication), or up over the first tenth and down to zero along a cosine."""
    weight_decay: float = 1e-4
    """Of AdamW."""
    clip: float = 1.0
    """Largest global norm of the gradient."""
    sampling: Sampling = "episodes"
    """Windows are drawn uniformly over episodes and then over starts (episodes), or uniformly over all (windows)."""
    packed: bool = True
    """Short windows share rows, so that padding is not computed; the loss is the same."""
    return_scale: float = 1.0
    """Returns-to-go are divided by this."""
    log_every: int = 50
    """Steps between two recorded losses."""

    def __post_init__(self) -> None:
        if min(self.steps, self.batch, self.log_every) < 1:
            raise Mistake("fit.steps, fit.batch and fit.log_every must be at least 1")
        if not (self.learning_rate > 0 and self.clip > 0 and self.return_scale > 0 and self.weight_decay >= 0):
            raise Mistake(
                "fit.learning_rate, fit.clip and fit.return_scale must be over 0, fit.weight_decay at least 0"
            )


def share_of_rate(config: FitConfig, step: int) -> float:
    """The share of the learning rate that a step has."""
    if config.schedule == "constant":
        return 1.0
    rising = max(config.steps // 10, 1)
    if step < rising:
        return (step + 1) / rising
    return (1 + cos(pi * (step - rising) / max(config.steps - rising, 1))) / 2


class Addition(ABC):
    """What a method adds to a step, where it adds anything."""

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


def fit(
    model: nn.Module, source: Source, config: FitConfig, seed: int, recorder: Recorder, addition: Addition | None = None
) -> None:
    """Trains a model that has a `loss` in place; interrupted and resumed, it ends at the same bits."""
    parameters = trainable(model)
    optimiser = torch.optim.AdamW(
        parameters.values(), lr=config.learning_rate, weight_decay=config.weight_decay, fused=True
    )
    kept = Kept(parameters, optimiser, addition.tensors() if addition else {})
    losses: list[Tensor] = []
    model.train()
    with torch.random.fork_rng():
        for step in range(kept.load(recorder.resume()), config.steps):
            torch.manual_seed(derive(seed, "dropout", step))
            loss = model.loss(source.sample(config.batch, numpy_stream(seed, "windows", step)))  # type: ignore[operator]
            for group in optimiser.param_groups:
                group["lr"] = config.learning_rate * share_of_rate(config, step)
            optimiser.zero_grad()
            loss.backward()
            if addition:
                addition.on_gradients(parameters)
            nn.utils.clip_grad_norm_(parameters.values(), config.clip)
            optimiser.step()
            if addition:
                addition.on_step(parameters)
            losses.append(loss.detach())
            done = step + 1
            if done % config.log_every == 0 or done == config.steps:
                _report(done, config.steps, losses, recorder)
                if done < config.steps and recorder.due():
                    recorder.save(kept.tensors(done))
    model.eval()


def _report(done: int, steps: int, losses: list[Tensor], recorder: Recorder) -> None:
    mean = float(torch.stack(losses).mean())
    losses.clear()
    if not isfinite(mean):
        raise Mistake(f"the loss is {mean} after {done} steps: lower fit.learning_rate or look at the data")
    recorder.event("train", step=done, loss=mean)
    recorder.progress(done, steps, mean)


class Kept:
    """What an interrupted fit needs to go on: parameters, the optimiser's state, a method's own, and the position."""

    def __init__(self, parameters: dict[str, nn.Parameter], optimiser: torch.optim.Optimizer, own: dict[str, Tensor]):
        self.parameters, self.optimiser, self.own = parameters, optimiser, own

    def tensors(self, done: int) -> dict[str, Tensor]:
        """All of it, by name."""
        tensors = {f"parameter/{name}": parameter.detach() for name, parameter in self.parameters.items()}
        for name, parameter in self.parameters.items():
            tensors |= {f"optimiser/{key}/{name}": value for key, value in self.optimiser.state[parameter].items()}
        tensors |= {f"own/{name}": tensor for name, tensor in self.own.items()}
        return tensors | {"done": torch.tensor(done)}

    @torch.no_grad()
    def load(self, tensors: dict[str, Tensor] | None) -> int:
        """Puts it back where it was and returns how many steps were done."""
        if tensors is None:
            return 0
        for name, parameter in self.parameters.items():
            parameter.copy_(tensors[f"parameter/{name}"])
            state = {key: tensors[f"optimiser/{key}/{name}"] for key in ("step", "exp_avg", "exp_avg_sq")}
            self.optimiser.state[parameter] = {key: value.to(parameter.device) for key, value in state.items()}
        for name, tensor in self.own.items():
            tensor.copy_(tensors[f"own/{name}"])
        return int(tensors["done"])
