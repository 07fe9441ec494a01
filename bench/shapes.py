"""The networks and batches of the publication on Panda and Atari, with random data, for measurements."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from holdfast.data.episodes import Dataset
from holdfast.data.normaliser import Normaliser
from holdfast.data.windows import Windows, WindowSettings
from holdfast.learners.learner import new_net
from holdfast.nets.policy import Policy
from holdfast.nets.transformer import DecisionTransformer, DtConfig
from holdfast.routing.affinities import HybridAffinity
from holdfast.routing.distances import Learned, Probe
from holdfast.subnets.claim import Start, begin
from holdfast.subnets.config import SubnetConfig
from holdfast.subnets.copies import Copy
from holdfast.subnets.layout import Layout
from holdfast.subnets.masked import Masked
from holdfast.tasks.interface import Continuous, Discrete, Interface
from holdfast.tasks.suite import suite
from holdfast.tasks.task import Task


class Compared(Probe):
    """A probe with given windows and observations."""

    def __init__(self, windows: Windows, observations: torch.Tensor) -> None:
        self.seed, self.drawn, self.observations = 0, windows, observations

    def windows(self) -> Windows:
        return self.drawn


@dataclass(frozen=True)
class Shape:
    """A network, a batch size, and episodes of realistic lengths."""

    name: str
    interface: Interface
    net: DtConfig
    batch: int
    keep: float
    lengths: tuple[float, ...]  # mean episode length of each task
    simulator: str  # the package
    suite: str
    protocol: str
    game: int  # steps of an episode that are timed; Panda's experts need 3 to 9

    def data(self) -> Dataset:
        """A dataset of random numbers."""
        rng = np.random.default_rng(0)
        pixels = len(self.interface.observation) == 3
        count = 2 if pixels else 500
        lengths = np.concatenate(
            [np.clip(rng.poisson(mean, count), 1, self.interface.horizon) for mean in self.lengths]
        )
        steps = int(lengths.sum())
        if pixels:
            frames = rng.integers(0, 255, (steps, *self.interface.observation[1:]), dtype=np.uint8)
            return Dataset(frames, rng.integers(0, 18, steps), np.ones(steps, np.float32), lengths, stack=4)
        observations, actions = rng.normal(size=(steps, 26)), rng.uniform(-1, 1, (steps, 4))
        return Dataset(observations.astype(np.float32), actions.astype(np.float32), np.ones(steps, np.float32), lengths)

    def windows(self, device: str, packed: bool = True) -> Windows:
        """The training windows of the data."""
        settings = WindowSettings(self.net.context, 1.0, "windows", packed=packed)
        return Windows(self.data(), Normaliser.identity(), self.interface.actions.active, settings, device)

    def dense(self) -> DecisionTransformer:
        """A new network."""
        net = new_net(self.net, self.interface, 0)
        assert isinstance(net, DecisionTransformer)
        return net

    def masked(self) -> Masked:
        """The masked network of a first task, with the publication's keep ratio."""
        net = self.dense()
        layout = Layout.of(net, ("timestep",))
        weights = layout.join(dict(net.named_parameters()))
        copy = Copy(weights, torch.zeros(layout.total, dtype=torch.bool), {})
        config = SubnetConfig(keep=self.keep)
        return begin(config, net, layout, Start(copy, [], [], torch.Generator().manual_seed(0)))

    def policy(self, device: str, interface: Interface | None = None) -> Policy:
        """A policy with a new network."""
        net = new_net(self.net, interface or self.interface, 0)
        return Policy(net.to(device), Normaliser.identity(), 0.0, 1.0)

    def observations(self, count: int) -> np.ndarray:
        """Observations of zeros, (count, *obs)."""
        dtype = np.uint8 if len(self.interface.observation) == 3 else np.float32
        return np.zeros((count, *self.interface.observation), dtype)

    def actions(self, count: int) -> np.ndarray:
        """Actions of zeros, for simulators without a policy."""
        discrete = isinstance(self.interface.actions, Discrete)
        return np.zeros(count, int) if discrete else np.zeros((count, 4), np.float32)

    def task(self) -> Task:
        """The task whose simulator is timed."""
        return suite(self.suite).tasks[0]

    def routing(self, count: int, device: str) -> Callable[[], object]:
        """A function that compares a task with this many learned ones."""
        net, windows = self.dense().to(device).eval(), self.windows(device)
        rows = torch.as_tensor(self.observations(256))
        probe = Compared(windows, rows)
        parameters = {name: value.detach() for name, value in net.named_parameters()}
        kept = {"mean": torch.zeros(self.net.width), "variance": torch.ones(self.net.width)}
        learned = [Learned(f"Task{i}", 0, net, parameters, Normaliser.identity(), kept) for i in range(count)]
        return lambda: HybridAffinity(0.5).candidates(probe, learned)

    def cost(self, device: str) -> tuple[float, float]:
        """Operations and bytes of a masked training step, without padding: forward, backward (twice), optimiser.

        The last block is read at a third of the tokens, the states; only its keys and values are needed of all.
        """
        rng = np.random.default_rng(0)
        windows = self.windows("cpu")
        tokens = 3 * float(np.mean([windows.draw(self.batch, rng)[1].sum() for _ in range(20)]))
        net = self.dense()
        linear = sum(layer.weight.numel() for layer in net.trunk.modules() if isinstance(layer, nn.Linear))
        attention = 4 * self.net.layers * 3 * self.net.context * self.net.width
        block = (2 * linear + attention) / self.net.layers  # operations per token
        keys_and_values = 2 * 2 * self.net.width**2
        spared = tokens * 2 / 3 * (block - keys_and_values)
        states = tokens / 3 * self._per_state(net)
        numbers = sum(parameter.numel() for parameter in net.parameters())
        width = 2 if device == "cuda" else 4
        moved = numbers * 2 * 28 + tokens * self.net.width * width * 20 * self.net.layers
        return 3 * (tokens * self.net.layers * block - spared + states), moved

    def _per_state(self, net: DecisionTransformer) -> float:
        """Operations for encoding one observation."""
        total, side = 0.0, self.interface.observation[-1]
        for layer in net.encoder.modules():
            if isinstance(layer, nn.Conv2d):
                side = (side - layer.kernel_size[0]) // layer.stride[0] + 1
                total += 2 * layer.weight.numel() * side * side
            elif isinstance(layer, nn.Linear):
                total += 2 * layer.weight.numel()
        return total


PANDA = Shape(
    name="Panda",
    interface=Interface((26,), Continuous(4, 4), 50),
    net=DtConfig(heads=1),
    batch=128,
    keep=0.33,
    lengths=(2.6, 7.7, 8.9),
    simulator="panda_gym",
    suite="panda3",
    protocol="fixed-seeds",
    game=9,
)
ATARI = Shape(
    name="Atari",
    interface=Interface((4, 84, 84), Discrete(18, 18), 27_000),
    net=DtConfig(),
    batch=64,
    keep=0.5,
    lengths=(800.0,) * 5,
    simulator="ale_py",
    suite="atari5",
    protocol="noop",
    game=300,
)
