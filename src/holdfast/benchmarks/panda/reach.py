"""Trains the network of the Reach expert with a learned model of the arm."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn

from holdfast.benchmarks.panda.experts import STEP, Layers, Reach
from holdfast.benchmarks.panda.tune import Say, open_environment, score_fresh
from holdfast.data.validation import validate
from holdfast.errors import Mistake

HORIZON = 5  # steps; the furthest goal takes five
SUCCESS = 0.05  # metres


@dataclass(frozen=True)
class ReachConfig:
    """How the network is trained and scored."""

    out: Path = Path("runs/benchmarks/panda/reach.npz")
    """File that the network's weights are written to."""
    hidden: int = 32
    """Width of the network's two hidden layers."""
    generations: int = 5
    """Rounds of playing, fitting the model and fitting the network; with 0 the expert is only scored."""
    episodes: int = 2000
    """Number of episodes that are played in a generation."""
    updates: int = 3000
    """Gradient steps of the model, and of the network, in a generation."""
    noise: float = 0.5
    """Largest standard deviation of the noise added to actions; each episode draws its own."""
    seed: int = 0
    """Seed of the training and of its episodes."""
    scored: int = 1000
    """Number of new episodes that the result is scored on."""

    def __post_init__(self) -> None:
        validate(self)
        if self.generations < 0 or min(self.hidden, self.episodes, self.updates, self.scored) < 1:
            raise Mistake("training takes 0 generations or more, and at least 1 of everything else")


def network(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    layers = (nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, outputs))
    return nn.Sequential(*layers)


def layers_of(net: nn.Sequential) -> Layers:
    linear = [layer for layer in net if isinstance(layer, nn.Linear)]
    return tuple((layer.weight.detach().numpy().copy(), layer.bias.detach().numpy().copy()) for layer in linear)


def explore(env: gymnasium.Env[Any, Any], expert: Reach, settings: ReachConfig, rng: np.random.Generator) -> np.ndarray:
    """Steps (N, 15): hand, velocity, action, then the hand and its velocity one step later."""
    steps = []
    for _ in range(settings.episodes):
        observation, _ = env.reset(seed=int(rng.integers(1_000_000)))
        noise = settings.noise * rng.random()
        for _ in range(HORIZON):
            before = observation["observation"]
            action = np.clip(expert(observation) + noise * rng.standard_normal(3), -1, 1).astype(np.float32)
            observation, _, ended, *_ = env.step(action)
            steps.append(np.concatenate([before, action, observation["observation"]]))
            if ended:
                break
    return np.array(steps, np.float32)


class ArmModel(nn.Module):
    """A model of one step: from hand, velocity (N, 6) and action (N, 3) to hand and velocity (N, 6)."""

    def __init__(self) -> None:
        super().__init__()
        self.net = network(9, 96, 6)

    def forward(self, state: Tensor, action: Tensor) -> Tensor:
        hand, velocity = state.split(3, -1)
        moved, velocity = self.net(torch.cat([5 * hand, velocity, action], -1)).split(3, -1)
        return torch.cat([hand + STEP * moved, velocity], -1)

    def error(self, steps: Tensor) -> Tensor:
        """The squared error; positions are in units of `STEP`, and velocities weigh less."""
        wrong = self(steps[:, :6], steps[:, 6:9]) - steps[:, 9:]
        return (wrong[:, :3] / STEP).square().mean() + 0.2 * wrong[:, 3:].square().mean()


def act(net: nn.Sequential, state: Tensor, goal: Tensor) -> Tensor:
    """The actions of `Reach` for a batch, differentiable and not clipped."""
    hand, velocity = state.split(3, -1)
    return 1.2 * (goal - hand) / STEP + net(torch.cat([5 * hand, velocity, 10 * (goal - hand)], -1))


def loss_of(net: nn.Sequential, arm: ArmModel, start: Tensor, goal: Tensor, blur: float) -> Tensor:
    """The negative mean return; the end of an episode is smoothed so that it has a gradient."""
    state, going, loss = start.expand(len(goal), 6), torch.ones(len(goal)), torch.zeros(())
    for _ in range(HORIZON):
        wanted = act(net, state, goal)
        action = wanted.clamp(-1, 1)
        state = arm(state, action)
        distance = (goal - state[:, :3]).square().sum(-1).add(1e-8).sqrt()
        excess = (wanted - action).square().mean()  # penalised, because clamp has no gradient outside [-1, 1]
        loss = loss + (going * distance).mean() + 1e-4 * excess
        going = going * torch.sigmoid((distance - SUCCESS) / blur)
    return loss


class CosineAdam:
    """Adam with a cosine schedule."""

    def __init__(self, module: nn.Module, updates: int) -> None:
        self.parameters = list(module.parameters())
        self.optimiser = torch.optim.Adam(self.parameters, 2e-3)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimiser, updates, 1e-5)

    def step(self, loss: Tensor) -> None:
        for parameter, gradient in zip(self.parameters, torch.autograd.grad(loss, self.parameters), strict=True):
            parameter.grad = gradient
        self.optimiser.step()
        self.schedule.step()


def optimise(env: gymnasium.Env[Any, Any], settings: ReachConfig) -> Layers:
    rng, generator = np.random.default_rng(settings.seed), torch.Generator().manual_seed(settings.seed)
    torch.manual_seed(settings.seed)
    net, arm = network(9, settings.hidden, 3), ArmModel()
    with torch.no_grad():
        for parameter in net[-1].parameters():
            parameter.mul_(0.1)  # starts almost straight to the goal
    low, high = torch.tensor([-0.15, -0.15, 0.0]), torch.tensor([0.15, 0.15, 0.3])  # panda-gym's goals
    seen = []
    for _ in range(settings.generations):
        seen.append(explore(env, Reach(layers_of(net)), settings, rng))
        steps = torch.from_numpy(np.concatenate(seen))
        descent = CosineAdam(arm, settings.updates)
        for _ in range(settings.updates):
            descent.step(arm.error(steps[torch.randint(len(steps), (512,), generator=generator)]))
        descent = CosineAdam(net, settings.updates)
        for update in range(settings.updates):
            goal = low + (high - low) * torch.rand(512, 3, generator=generator)
            blur = 0.0015 + 0.006 * (1 - update / settings.updates)
            descent.step(loss_of(net, arm, steps[0, :6], goal, blur))
    return layers_of(net)


def train_reach(settings: ReachConfig, say: Say) -> None:
    """Trains the network, writes its weights and reports its score."""
    env, expert = open_environment("reach"), Reach()
    if settings.generations > 0:
        layers = optimise(env, settings)
        write_layers(layers, settings.out)
        say(f"wrote {settings.out}")
        expert = Reach(layers)
    say(score_fresh(env, expert, settings.scored))
    env.close()


def write_layers(layers: Layers, path: Path) -> None:
    numbers: dict[str, np.ndarray] = {}
    for i, (weight, bias) in enumerate(layers):
        numbers |= {f"weight{i}": weight, f"bias{i}": bias}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:  # given a path, numpy would append .npz
        np.savez(file, allow_pickle=False, **numbers)
