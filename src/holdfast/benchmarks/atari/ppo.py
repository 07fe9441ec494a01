"""PPO for Atari experts (Schulman et al., 2017)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.benchmarks.atari.actor import STACK, ActorCritic, Decision, captured_call
from holdfast.benchmarks.atari.traces import Origin
from holdfast.data.validation import Range, validate
from holdfast.errors import Mistake

VECTORS = 2  # one vector of emulators steps while the GPU computes actions for the other


@dataclass(frozen=True)
class Ppo:
    """The settings of PPO; the defaults work for every game of the suite."""

    envs: int = 64
    """Number of emulators in each of the two vectors."""
    horizon: int = Origin.horizon
    """Steps after which the first emulator cuts games, others later, up to 27,000; use fewer for long games (3,000)."""
    steps: int = 32
    """Steps of every emulator between two rounds of learning."""
    minibatch: int = 256
    """Number of steps that one gradient is taken over."""
    epochs: int = 4
    """Number of passes over the data in one round of learning."""
    rate: Annotated[float, Range(over=0)] = 3e-4
    """Adam's learning rate; it falls linearly to a twentieth at the end of the budget."""
    gamma: Annotated[float, Range(least=0, most=1)] = 0.99
    """Discount factor of rewards."""
    smoothing: Annotated[float, Range(least=0, most=1)] = 0.95
    """Lambda of the generalised advantage estimate."""
    clip: Annotated[float, Range(over=0)] = 0.1
    """Clipping range of the ratio between new and old policy (PPO's epsilon)."""
    entropy: Annotated[float, Range(least=0)] = 0.01
    """Weight of the policy's entropy in the objective."""
    value: Annotated[float, Range(least=0)] = 0.25
    """Weight of the value loss."""
    norm: Annotated[float, Range(over=0)] = 0.5
    """Norm that the gradient is clipped to."""

    def __post_init__(self) -> None:
        validate(self)
        if min(self.envs, self.steps, self.minibatch, self.epochs) < 1:
            raise Mistake("envs, steps, minibatch and epochs must be at least 1")
        if (VECTORS * self.envs * self.steps) % self.minibatch:
            raise Mistake(
                f"{VECTORS} x {self.envs} x {self.steps} steps must be a multiple of minibatch ({self.minibatch})"
            )
        if not 0 < self.horizon <= Origin.horizon:
            raise Mistake(f"the horizon must lie in 1..{Origin.horizon}, got {self.horizon}")


def advantages(rewards: Tensor, ends: Tensor, values: Tensor, gamma: float, smoothing: float) -> Tensor:
    """Generalised advantage estimates (T, ...) from rewards and ends (T, ...) and values (T + 1, ...)."""
    estimates = torch.zeros_like(rewards)
    ahead = torch.zeros_like(rewards[0])
    for t in reversed(range(len(rewards))):
        alive = 1 - ends[t]
        error = rewards[t] + gamma * alive * values[t + 1] - values[t]  # temporal difference
        ahead = error + gamma * smoothing * alive * ahead
        estimates[t] = ahead
    return estimates


class Rollout:
    """The last T steps of all emulators; slot T holds the actions that are being executed."""

    def __init__(self, steps: int, envs: int, device: torch.device) -> None:
        slots = (steps + 1, VECTORS, envs)
        self.frames = torch.zeros(*slots, *STACK, dtype=torch.uint8, device=device)
        self.actions = torch.zeros(slots, dtype=torch.int64, device=device)
        self.log_probs = torch.zeros(slots, device=device)
        self.values = torch.zeros(slots, device=device)
        self.rewards = np.zeros((steps, VECTORS, envs), np.float32)
        self.ends = np.zeros((steps, VECTORS, envs), np.float32)
        self.beyond = np.zeros((steps, VECTORS, envs), np.float32)  # value of the state at a cut, otherwise 0

    def put(self, slot: int, vector: int, frames: Tensor, decision: Decision) -> None:
        self.frames[slot, vector] = frames
        self.actions[slot, vector] = decision.actions
        self.log_probs[slot, vector] = decision.log_probs
        self.values[slot, vector] = decision.values

    def receive(self, slot: int, vector: int, rewards: np.ndarray, ends: np.ndarray, beyond: np.ndarray) -> None:
        self.rewards[slot, vector] = rewards
        self.ends[slot, vector] = ends
        self.beyond[slot, vector] = beyond

    def wrap(self) -> None:
        """Moves the actions being executed to the first slot of the next round."""
        for slots in (self.frames, self.actions, self.log_probs, self.values):
            slots[0] = slots[-1]


class PpoUpdater:
    """Updates a network on rollouts; one gradient step is one CUDA graph over fixed buffers."""

    def __init__(
        self, network: ActorCritic, rollout: Rollout, config: Ppo, generator: torch.Generator, graphs: bool = True
    ) -> None:
        self.network, self.rollout, self.config, self.generator = network, rollout, config, generator
        device = generator.device
        self.parameters = list(network.parameters())
        self.optimiser = torch.optim.Adam(
            self.parameters,
            lr=torch.tensor(config.rate, device=device),  # a tensor, so that a graph reads its present value
            eps=1e-5,
            fused=True,
            capturable=device.type == "cuda",
        )
        self.frames = rollout.frames[:-1].view(-1, *STACK)  # (B, 4, 84, 84), B = T x vectors x envs
        self.actions = rollout.actions[:-1].view(-1)
        self.log_probs = rollout.log_probs[:-1].view(-1)
        self.size = len(self.actions)
        self.gradients = config.epochs * self.size // config.minibatch  # in one round
        self.advantages = torch.zeros(self.size, device=device)
        self.targets = torch.zeros(self.size, device=device)
        self.batch = torch.zeros(config.minibatch, dtype=torch.int64, device=device)
        self._update = self._captured_without_a_trace(graphs)

    def update(self, rate: float) -> Tensor:
        """Trains some epochs on the rollout; returns the policy's entropy in the last minibatch."""
        rollout, config, device = self.rollout, self.config, self.generator.device
        # A cut is not an end: the value of the next state is added to the last reward.
        rewards = torch.as_tensor(rollout.rewards + config.gamma * rollout.beyond).to(device)
        ends = torch.as_tensor(rollout.ends).to(device)
        gains = advantages(rewards, ends, rollout.values, config.gamma, config.smoothing)
        self.advantages.copy_(gains.view(-1))
        self.targets.copy_((gains + rollout.values[:-1]).view(-1))
        for group in self.optimiser.param_groups:
            group["lr"].fill_(rate)
        for _ in range(config.epochs):
            order = torch.randperm(self.size, generator=self.generator, device=device)
            for batch in order.split(config.minibatch):
                self.batch.copy_(batch)
                entropy = self._update()
        return entropy

    def _step(self) -> Tensor:
        batch, config = self.batch, self.config
        logits, values = self.network(self.frames[batch])
        log_probs = logits.log_softmax(-1)
        chosen = log_probs.gather(1, self.actions[batch][:, None]).squeeze(1)
        ratio = (chosen - self.log_probs[batch]).exp()
        gain = self.advantages[batch]
        gain = (gain - gain.mean()) / (gain.std() + 1e-8)
        surrogate = torch.min(gain * ratio, gain * ratio.clamp(1 - config.clip, 1 + config.clip)).mean()  # eq. 7
        entropy = -(log_probs.exp() * log_probs).sum(-1).mean()
        error = F.mse_loss(values, self.targets[batch])
        loss = config.value * error - surrogate - config.entropy * entropy  # eq. 9
        # Assigned, not accumulated: nothing to zero, and no accumulator tied to the warm-up stream.
        for parameter, gradient in zip(self.parameters, torch.autograd.grad(loss, self.parameters), strict=True):
            parameter.grad = gradient
        nn.utils.clip_grad_norm_(self.parameters, config.norm)
        self.optimiser.step()
        return entropy.detach()

    def _captured_without_a_trace(self, graphs: bool) -> Callable[[], Tensor]:
        """Captures the step, which runs it on an empty rollout, and restores weights and moments afterwards."""
        before = {name: weight.clone() for name, weight in self.network.state_dict().items()}
        step = captured_call(self._step, graphs)
        self.network.load_state_dict(before)
        for state in self.optimiser.state.values():
            for moment in state.values():
                moment.zero_()
        return step
