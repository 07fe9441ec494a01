"""The base of learners with one dense network for all tasks."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, ones_like

from holdfast.data.episodes import Dataset
from holdfast.data.normaliser import Normaliser
from holdfast.data.randomness import derive
from holdfast.data.windows import Windows
from holdfast.errors import Mistake
from holdfast.learners.learner import Datasets, Learner, LearnerConfig, Snapshot, new_net, windows_of
from holdfast.learners.tensors import Tensors, normaliser_tensors, normalisers_from, parameters_of, part, under
from holdfast.nets.backbone import Backbone
from holdfast.nets.policy import Policy
from holdfast.tasks.interface import Interface
from holdfast.tasks.task import Task
from holdfast.training.recorder import Recorder

Treatment = Literal["equal", "paper"]


@dataclass(frozen=True)
class DenseConfig(LearnerConfig):
    """The settings of learners with one dense network."""

    treatment: Treatment = "equal"
    """equal: normalise and mask actions per task, as sparse learners do. paper: neither, as published for Panda."""


@dataclass(frozen=True)
class Lesson:
    """A task that is about to be learned, with everything that a method needs."""

    task: Task
    windows: Windows  # of the task
    seed: int
    recorder: Recorder
    datasets: Datasets  # of earlier tasks


def treat(config: DenseConfig, interface: Interface, dataset: Dataset) -> tuple[Normaliser, Tensor]:
    """A task's normaliser, and one for each action dimension that counts in the loss."""
    if config.treatment == "paper":
        return Normaliser.identity(), ones_like(interface.actions.active)
    return interface.normaliser(dataset), interface.actions.active


class DenseLearner(Learner):
    """One network that is trained on one task after another; it forgets unless a method prevents it."""

    retains = False
    config: DenseConfig
    net: Backbone  # from the first task on

    def __init__(self, config: DenseConfig, seed: int = 0, device: str = "cpu") -> None:
        super().__init__(config, seed, device)
        self.normalisers: dict[str, Normaliser] = {}
        self.memory: Tensors = {}  # what the method needs for later tasks, besides the network

    @property
    def shape(self) -> Interface:
        """The interface that the network was built for: that of the first task."""
        return next(iter(self.roles.values())).interface

    @abstractmethod
    def fit_task(self, lesson: Lesson) -> None:
        """Trains the network on a task's windows; this is the method."""

    def train(self, task: Task, datasets: Datasets, recorder: Recorder) -> None:
        if self.roles and not self.shape.fits(task.interface):
            raise Mistake(
                f"{task.name} differs from {self.learned[0]} in observations or actions, or has a longer horizon, but "
                "this learner has one network for all tasks: use a learner that can open a copy, such as affinity-l"
            )
        before = self.snapshot()
        try:
            if not self.roles:
                self.net = new_net(self.config.net, task.interface, self.seed).to(self.device)
            self.normalisers[task.name], active = treat(self.config, task.interface, task.dataset)
            windows = windows_of(task.dataset, self.normalisers[task.name], active, self.config, self.device)
            self.fit_task(Lesson(task, windows, derive(self.seed, "fit", task.name), recorder, datasets))
        except BaseException:  # also when interrupted: a task is learned completely or not at all
            self.restore(before)
            raise

    def policy(self, name: str, task: Task | None = None) -> Policy:
        role = self.role(name, task)
        if task is None or task.name in self.normalisers:
            normaliser = self.normalisers[task.name if task else name]
        else:
            normaliser, _ = treat(self.config, task.interface, task.dataset)
        return self.acting(role, self.shape, parameters_of(self.net), normaliser)

    def snapshot(self) -> Snapshot:
        if not self.roles:
            return Snapshot({}, {}, self.notes())
        weights = {"dense": under("net", parameters_of(self.net)) | normaliser_tensors(self.normalisers)}
        memory = {name: tensor.cpu() for name, tensor in self.memory.items()}
        return Snapshot(weights, memory, self.notes(), int(memory.get("bytes", 0)))

    def restore(self, snapshot: Snapshot) -> None:
        self.read_notes(snapshot.notes)
        self.memory = {name: tensor.to(self.device) for name, tensor in snapshot.memory.items()}
        tensors = snapshot.weights.get("dense", {})
        self.normalisers = normalisers_from(tensors)
        if self.roles:
            self.net = new_net(self.config.net, self.shape, self.seed).to(self.device)
            self.net.load_state_dict(part(tensors, "net"))
