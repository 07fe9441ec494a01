"""The network of an Atari expert, and sampling of its actions, on a GPU as one CUDA graph."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from holdfast.errors import Mistake
from holdfast.gpu import capture

log = logging.getLogger(__name__)

STACK = (4, 84, 84)  # shape of an observation: the last four frames
Returned = TypeVar("Returned")
Layer = TypeVar("Layer", nn.Conv2d, nn.Linear)


class ActorCritic(nn.Module):
    """The network of Mnih et al. (2015) with a policy head and a value head."""

    def __init__(self, actions: int) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            _orthogonal(nn.Conv2d(4, 32, 8, 4), 2**0.5),
            nn.ReLU(),
            _orthogonal(nn.Conv2d(32, 64, 4, 2), 2**0.5),
            nn.ReLU(),
            _orthogonal(nn.Conv2d(64, 64, 3, 1), 2**0.5),
            nn.ReLU(),
            nn.Flatten(),
            _orthogonal(nn.Linear(3136, 512), 2**0.5),
            nn.ReLU(),
        )
        self.actor = _orthogonal(nn.Linear(512, actions), 0.01)
        self.critic = _orthogonal(nn.Linear(512, 1), 1.0)

    def forward(self, frames: Tensor) -> tuple[Tensor, Tensor]:
        """From (B, 4, 84, 84) uint8 to logits (B, A) and values (B,)."""
        # No cache: a graph must contain the casts of the weights, because weights change between replays.
        with torch.autocast(frames.device.type, torch.bfloat16, enabled=frames.is_cuda, cache_enabled=False):
            features = self.trunk(frames.float() / 255)  # (B, 512)
        features = features.float()  # float32 heads: ratios of probabilities are sensitive to rounding
        return self.actor(features), self.critic(features).squeeze(-1)


def _orthogonal(layer: Layer, gain: float) -> Layer:
    nn.init.orthogonal_(layer.weight, gain)
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)
    return layer


def save_actor(network: ActorCritic, trained: int, path: Path) -> None:
    """Writes the weights, and the number of steps they were trained for."""
    partial = path.with_name(path.name + ".partial")
    weights = {name: weight.cpu().contiguous() for name, weight in network.state_dict().items()}
    save_file(weights, partial, metadata={"trained": str(trained)})
    partial.replace(path)


def load_actor(network: ActorCritic, path: Path) -> int:
    """Reads weights of any float type into the network; returns the number of steps they were trained for."""
    if not path.is_file():
        raise Mistake(f"there is no checkpoint {path}")
    try:
        network.load_state_dict(load_file(path))
    except (OSError, SafetensorError, RuntimeError):
        raise Mistake(f"{path} is not a checkpoint of a network with {network.actor.out_features} actions") from None
    with safe_open(path, framework="pt") as file:
        return int((file.metadata() or {}).get("trained", 0))


def captured_call(function: Callable[[], Returned], graphs: bool = True) -> Callable[[], Returned]:
    """Captures the function as one CUDA graph; returns it unchanged without a GPU, or if capture fails."""
    if not (graphs and torch.cuda.is_available()):
        return function
    home = torch.cuda.current_stream()
    try:
        return capture.captured(function)
    except RuntimeError as error:
        torch.cuda.set_stream(home)
        log.warning("WARNING: no CUDA graph, plain calls instead: %s", error)
        return function


class Decision(NamedTuple):
    actions: Tensor  # (N,) int64
    log_probs: Tensor  # (N,) of those actions
    values: Tensor  # (N,)


class ActionSampler:
    """Samples actions for a fixed number of emulators; the next call overwrites the returned tensors."""

    def __init__(self, network: ActorCritic, count: int, generator: torch.Generator, graphs: bool = True) -> None:
        device = generator.device
        self.network, self.generator = network, generator
        self.frames = torch.zeros(count, *STACK, dtype=torch.uint8, device=device)
        self.temperatures = torch.ones(count, device=device)  # one per emulator; callers set them
        self._noise = torch.ones(count, network.actor.out_features, device=device)
        self._host = torch.zeros(count, *STACK, dtype=torch.uint8, pin_memory=device.type == "cuda")
        self._decide = captured_call(self._draw, graphs)

    def decide(self, screens: np.ndarray) -> Decision:
        # Callers read the actions before the next call, so the copy from pinned memory has finished by then.
        self._host.numpy()[:] = screens
        self.frames.copy_(self._host, non_blocking=True)
        self._noise.exponential_(generator=self.generator)  # outside the graph, to use the caller's generator
        return self._decide()

    def act(self, screens: np.ndarray) -> np.ndarray:
        """From frames (N, 4, 84, 84) to actions (N,) int64."""
        return self.decide(screens).actions.cpu().numpy()

    @torch.no_grad()
    def _draw(self) -> Decision:
        logits, values = self.network(self.frames)
        log_probs = (logits / self.temperatures[:, None]).log_softmax(-1)
        actions = (log_probs - self._noise.log()).argmax(-1)  # a categorical sample (exponential race)
        return Decision(actions, log_probs.gather(1, actions[:, None]).squeeze(1), values)
