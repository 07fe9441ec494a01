"""Learners with one dense network for all tasks: what they share."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch

from holdfast.data.episodes import Dataset
from holdfast.data.normaliser import Normaliser
from holdfast.data.randomness import derive
from holdfast.data.windows import Windows
from holdfast.learners.learner import (
    Learner,
    Snapshot,
    Tensors,
    named,
    new_net,
    normaliser_tensors,
    normalisers_from,
    parameters_of,
    part,
    windows_of,
)
from holdfast.learners.plan import LearnerConfig, Plan
from holdfast.nets.policy import Policy
from holdfast.tasks.interface import Interface
from holdfast.tasks.suite import Suite
from holdfast.tasks.task import Task
from holdfast.training.recorder import Recorder

Treatment = Literal["equal", "paper"]


@dataclass(frozen=True)
class DenseConfig(LearnerConfig):
    """A dense network."""

    treatment: Treatment = "equal"
    """equal: normalise and mask actions per task, as sparse learners do. paper: neither, as published for Panda."""


def treat(config: DenseConfig, interface: Interface, dataset: Dataset) -> tuple[Normaliser, torch.Tensor]:
    """A task's normaliser, and the action dimensions that count."""
    if config.treatment == "paper":
        return Normaliser.identity(), torch.ones_like(interface.actions.active)
    return interface.normaliser(dataset), interface.actions.active


class DenseLearner(Learner):
    """One network, trained on task after task: without anything added, it forgets."""

    retains = False
    config: DenseConfig

    def __init__(self, suite: Suite, plan: Plan, device: str = "cpu") -> None:
        super().__init__(suite, plan, device)
        self.net = new_net(self.config.net, suite.interface, self.seed).to(device)
        self.normalisers: dict[str, Normaliser] = {}
        self.memory: Tensors = {}  # what a method keeps to learn on with, beside the network

    @abstractmethod
    def fit_task(self, task: Task, windows: Windows, seed: int, recorder: Recorder) -> None:
        """Trains the network on a task's windows, with what the method adds."""

    def train(self, task: Task, recorder: Recorder) -> None:
        before = self.snapshot()
        try:
            self.fit_task(task, self.windows(task, task.dataset), derive(self.seed, "fit", task.name), recorder)
        except BaseException:  # an interruption too: half a task is no task
            self.restore(before)
            raise

    def windows(self, task: Task, dataset: Dataset) -> Windows:
        """Episodes of a task as the network reads them."""
        normaliser, active = treat(self.config, task.interface, task.dataset)
        self.normalisers[task.name] = normaliser
        return windows_of(dataset, normaliser, active, self.config, self.device)

    def policy(self, name: str, known: int | None = None) -> Policy:
        self.own_or_last(name, known)
        task = self.suite.task(name)
        normaliser = self.normalisers.get(name) or treat(self.config, task.interface, task.dataset)[0]
        return Policy(self.net, normaliser, task.interface, self.target(task), self.config.fit.return_scale)

    def snapshot(self) -> Snapshot:
        weights = {"dense": named("net", parameters_of(self.net)) | normaliser_tensors(self.normalisers)}
        memory = {name: tensor.cpu() for name, tensor in self.memory.items()}
        return Snapshot(weights, memory, {"learned": list(self.learned)}, int(memory.get("bytes", 0)))

    def restore(self, snapshot: Snapshot) -> None:
        tensors = snapshot.weights["dense"]
        self.net.load_state_dict(part(tensors, "net"))
        self.normalisers = normalisers_from(tensors)
        self.memory = {name: tensor.to(self.device) for name, tensor in snapshot.memory.items()}
        self.learned = list(snapshot.notes["learned"])
