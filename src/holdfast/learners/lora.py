"""LoRA: the first task trains a network, which is then frozen; every later task trains a low-rank adapter of it."""

from dataclasses import dataclass
from typing import Annotated, Any

from holdfast.data.normaliser import Normaliser
from holdfast.data.randomness import derive, torch_stream
from holdfast.data.validation import Range
from holdfast.errors import Mistake
from holdfast.learners.dense import TreatmentConfig, check_fits, treat
from holdfast.learners.learner import Datasets, LearnerSpec, Snapshot, new_net, windows_of
from holdfast.learners.removing import RemovingLearner
from holdfast.learners.tensors import Tensors, normaliser_tensors, normalisers_from, part, under
from holdfast.nets.adapted import Adapted
from holdfast.nets.backbone import Backbone
from holdfast.nets.policy import Policy
from holdfast.tasks.interface import Interface
from holdfast.tasks.task import Task
from holdfast.training.config import FitConfig
from holdfast.training.fit import fit
from holdfast.training.recorder import Recorder
from holdfast.training.step import trainable


@dataclass(frozen=True)
class LoraConfig(TreatmentConfig):
    """Low-rank adapters."""

    rank: Annotated[int, Range(least=1, most=65_536)] = 8
    """Rank of the change of each matrix."""
    alpha: Annotated[float, Range(over=0)] = 16.0
    """Scale of the change: it is multiplied by alpha / rank."""
    vectors: bool = True
    """Also give each task its own biases and norms, which have no rank to lower."""


class Lora(RemovingLearner):
    """A network that only the first task changes, and a small adapter for each later task."""

    retains = True
    config: LoraConfig

    def __init__(self, config: LoraConfig, seed: int = 0, device: str = "cpu") -> None:
        super().__init__(config, seed, device)
        self.base: Tensors = {}  # the parameters of the first task's network
        self.adapters: dict[str, Tensors] = {}  # of each task; the first one has none
        self.normalisers: dict[str, Normaliser] = {}

    @property
    def shape(self) -> Interface:
        """The interface that the network was built for: that of the first task."""
        return next(iter(self.roles.values())).interface

    def train(self, task: Task, datasets: Datasets, recorder: Recorder) -> None:
        if self.roles:
            check_fits(self.learned[0], self.shape, task)
            net: Backbone = self.adapted(task.name, self.own_net(self.role_in(task), self.shape, self.base))
        else:
            net = new_net(self.config.net, task.interface, self.seed)
        normaliser, active = treat(self.config, task.interface, task.dataset)
        windows = windows_of(task.dataset, normaliser, active, self.config, self.device)
        fit(net.to(self.device), windows, self.config.fit, derive(self.seed, "fit", task.name), recorder, "task")
        trained = {name: parameter.detach().cpu().clone() for name, parameter in trainable(net).items()}
        if self.roles:
            self.adapters[task.name] = trained
        else:
            self.base, self.adapters[task.name] = trained, {}
        self.normalisers[task.name] = normaliser

    def adapted(self, name: str, net: Backbone) -> Adapted:
        """The network with a new adapter for a task."""
        scale = self.config.alpha / self.config.rank
        return Adapted(net, self.config.rank, scale, self.config.vectors, torch_stream(self.seed, "adapter", name))

    def policy(self, name: str, task: Task | None = None) -> Policy:
        role = self.role(name, task)
        net: Backbone = self.own_net(role, self.shape, self.base)
        if self.adapters[name]:
            net = self.adapted(name, net)
            net.load_state_dict({f"net.{key}": tensor for key, tensor in self.base.items()} | self.adapters[name])
        return self.acting(role, net, self.normalisers[name])

    def snapshot(self) -> Snapshot:
        weights = {"base": under("net", self.base)} if self.roles else {}
        for name, adapter in self.adapters.items():
            weights[f"task-{name}"] = under("adapter", adapter) | normaliser_tensors({name: self.normalisers[name]})
        return Snapshot(weights, {}, self.notes())

    def restore(self, snapshot: Snapshot) -> None:
        self.read_notes(snapshot.notes)
        self.base = part(snapshot.weights.get("base", {}), "net")
        self.adapters, self.normalisers = {}, {}
        for name in self.roles:
            tensors = snapshot.weights[f"task-{name}"]
            self.adapters[name] = part(tensors, "adapter")
            self.normalisers |= normalisers_from(tensors)

    def parts(self) -> list[dict[str, Any]]:
        return [self.adapters, self.normalisers]

    def check_removable(self, name: str) -> None:
        super().check_removable(name)
        if name == self.learned[0]:
            raise Mistake(f"all other tasks are adapters of the network of {name}, so it cannot be removed")

    def free(self, name: str, draw: int) -> None:
        """Nothing is to be done: a task's adapter is its own."""


LORA = LearnerSpec(Lora, lambda net: LoraConfig(net, FitConfig()), "the first task's network, with an adapter per task")
