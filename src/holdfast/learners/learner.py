"""What every learner is: it learns tasks one after another, and acts in those it has learned."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from holdfast.data.episodes import Dataset
from holdfast.data.normaliser import Normaliser
from holdfast.data.randomness import derive
from holdfast.data.validation import validate
from holdfast.data.windows import Windows, WindowSettings
from holdfast.errors import Mistake
from holdfast.learners.tensors import Tensors
from holdfast.nets.backbone import Backbone, NetConfig
from holdfast.nets.policy import Policy
from holdfast.tasks.interface import Interface
from holdfast.tasks.task import Task
from holdfast.training.config import FitConfig
from holdfast.training.recorder import Recorder, Silent

SILENT = Silent()
Datasets = Callable[[str], Dataset]  # the data of an earlier task, by the task's name


@dataclass(frozen=True)
class LearnerConfig:
    """The settings that all learners have in common."""

    net: NetConfig
    fit: FitConfig

    def __post_init__(self) -> None:
        validate(self)


@dataclass(frozen=True)
class LearnerSpec:
    """A learner as it is registered: its class, its settings for a backbone, and a line about it."""

    learner: "Callable[..., Learner]"
    config: Callable[[NetConfig], LearnerConfig]
    about: str


@dataclass(frozen=True)
class Role:
    """What a learner keeps of a learned task, beside its weights, to act in it."""

    interface: Interface
    target: float

    def record(self) -> dict[str, Any]:
        """The role as plain data."""
        return {"interface": self.interface.record(), "target": self.target}

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> "Role":
        """The role that was recorded so."""
        return cls(Interface.read(record["interface"]), float(record["target"]))


@dataclass(frozen=True)
class Snapshot:
    """All that a learner has learned, as it is kept on disk."""

    weights: dict[str, Tensors]  # what acts: name of a file -> its tensors
    memory: Tensors  # what only learning the next task needs
    notes: dict[str, Any]  # plain data
    rehearsed: int = 0  # bytes of recorded data that the memory stands for

    def bytes(self) -> dict[str, int]:
        """What keeping this costs: the weights that act, and what only learning on needs."""
        weights = sum(tensor.nbytes for tensors in self.weights.values() for tensor in tensors.values())
        memory = sum(tensor.nbytes for tensor in self.memory.values()) + self.rehearsed
        return {"weights": weights, "memory": memory, "total": weights + memory}


def no_datasets(name: str) -> Dataset:
    """Raises: the data of earlier tasks is not at hand."""
    raise Mistake(
        f"this learner needs the data of {name} to learn another task, and it is not at hand: "
        "use a learner that does not replay data"
    )


class Learner(ABC):
    """One agent that learns tasks as they arrive; it knows no suite and no number of tasks."""

    retains: bool  # whether a learned task stays equal to the bit, so that the newest snapshot serves every stage
    joint = False  # whether all tasks are learned in one call
    targets: Mapping[str, float] = MappingProxyType({})  # returns to ask policies for, where not the tasks' own
    plan: Any = None  # the plan that the learner was made from, if it was made by name (runs/configure.py)

    def __init__(self, config: LearnerConfig, seed: int = 0, device: str = "cpu") -> None:
        self.config, self.seed, self.device = config, seed, device
        self.roles: dict[str, Role] = {}  # of the learned tasks, in order

    @property
    def learned(self) -> list[str]:
        """The learned tasks, in order."""
        return list(self.roles)

    def learn(self, task: Task, datasets: Datasets = no_datasets, recorder: Recorder = SILENT) -> None:
        """Learns one more task from its dataset; `datasets` loads the data of earlier tasks where that is needed."""
        self.learn_all([task], datasets, recorder)

    def learn_all(self, tasks: Sequence[Task], datasets: Datasets = no_datasets, recorder: Recorder = SILENT) -> None:
        """Learns these tasks: all at once if the learner is joint, otherwise one after another."""
        for task in tasks:
            if task.name in self.roles:
                raise Mistake(f"{task.name} is already learned: what is learned stays as it is")
        if self.joint:
            self.train_jointly(tasks, recorder)
            self.roles |= {task.name: self.role_in(task) for task in tasks}
            return
        for task in tasks:
            self.train(task, datasets, recorder)
            self.roles[task.name] = self.role_in(task)

    def check_capacity(self, interface: Interface) -> None:  # noqa: B027  most learners have room for any task
        """Raises if it can be foreseen that there is no room for the planned number of tasks with this interface."""

    @abstractmethod
    def train(self, task: Task, datasets: Datasets, recorder: Recorder) -> None:
        """Trains on a task; if it fails, the learner must be as it was before."""

    def train_jointly(self, tasks: Sequence[Task], recorder: Recorder) -> None:
        """Trains on all tasks at once; only where `joint` is true."""
        raise NotImplementedError

    @abstractmethod
    def policy(self, name: str, task: Task | None = None) -> Policy:
        """The policy of a learned task, which later learning does not change; `task` is where it acts, if elsewhere."""

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """All that was learned so far."""

    @abstractmethod
    def restore(self, snapshot: Snapshot) -> None:
        """Back to where a snapshot was taken."""

    def role_in(self, task: Task) -> Role:
        """The role that a policy has in a task."""
        return Role(task.interface, self.targets.get(task.name, task.target))

    def role(self, name: str, task: Task | None) -> Role:
        """Where the policy of a learned task acts: in that task, or in another that is given."""
        if name not in self.roles:
            known = f"it has learned {', '.join(self.roles)}" if self.roles else "nothing is learned yet"
            raise Mistake(f"there is no policy for {name}: {known}")
        return self.role_in(task) if task else self.roles[name]

    def acting(self, role: Role, shape: Interface, tensors: Tensors, normaliser: Normaliser) -> Policy:
        """A policy with these parameters, in a network of its own; `shape` is what the parameters were made for."""
        net = new_net(self.config.net, replace(role.interface, horizon=shape.horizon), self.seed)
        net.load_state_dict(tensors)
        return Policy(net.to(self.device), normaliser, role.target, self.config.fit.return_scale)

    def notes(self) -> dict[str, Any]:
        """What every snapshot says in plain data."""
        roles = {name: role.record() for name, role in self.roles.items()}
        return {"learned": self.learned, "roles": roles, "routes": self.routes()}

    def read_notes(self, notes: Mapping[str, Any]) -> None:
        """Takes over what a snapshot's notes say of the learned tasks."""
        self.roles = {name: Role.read(notes["roles"][name]) for name in notes["learned"]}

    @property
    def copies(self) -> int:
        """How many backbones of weights there are."""
        return 1

    def task_copy(self, name: str) -> int:
        """The copy that a learned task is in."""
        return 0

    def routes(self) -> list[dict[str, Any]]:
        """For each learned task, why it is in its copy; nothing where nothing is decided."""
        return []

    def accounts(self) -> list[dict[str, Any]]:
        """For each copy, what tasks own of it; nothing where nothing is owned."""
        return []


def new_net(config: NetConfig, interface: Interface, seed: int, *purpose: object) -> Backbone:
    """A freshly initialised network."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(seed, "net", *purpose))
        return config.build(interface)


def windows_of(dataset: Dataset, normaliser: Normaliser, active: Tensor, config: LearnerConfig, device: str) -> Windows:
    """The training windows of a dataset."""
    fit = config.fit
    settings = WindowSettings(config.net.context, fit.return_scale, fit.sampling, fit.whole, fit.packed)
    return Windows(dataset, normaliser, active, settings, device)
