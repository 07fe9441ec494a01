"""The base of all learners: they learn tasks one after another and give policies for them."""

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
from holdfast.data.validation import shown, validate
from holdfast.data.windows import Windows, WindowSettings
from holdfast.errors import Mistake
from holdfast.learners.tensors import Tensors
from holdfast.nets.backbone import Backbone, NetConfig
from holdfast.nets.policy import Policy
from holdfast.registry import LEARNERS
from holdfast.tasks.interface import Interface
from holdfast.tasks.task import Task
from holdfast.training.config import FitConfig
from holdfast.training.recorder import Recorder, Silent

SILENT = Silent()
Datasets = Callable[[str], Dataset]  # loads the data of an earlier task, by its name


@dataclass(frozen=True)
class LearnerConfig:
    """The settings that all learners have in common."""

    net: NetConfig
    fit: FitConfig

    def __post_init__(self) -> None:
        validate(self)


@dataclass(frozen=True)
class LearnerSpec:
    """A registered learner: its class, its default settings for a backbone, and a one-line description."""

    learner: "Callable[..., Learner]"
    config: Callable[[NetConfig], LearnerConfig]
    about: str


@dataclass(frozen=True)
class Role:
    """What a policy needs of a task besides weights: its interface and its target return."""

    interface: Interface
    target: float

    def record(self) -> dict[str, Any]:
        """The role as plain data."""
        return {"interface": self.interface.record(), "target": self.target}

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> "Role":
        """The role that `record` described."""
        return cls(Interface.read(record["interface"]), float(record["target"]))


@dataclass(frozen=True)
class Snapshot:
    """The complete state of a learner, as it is saved."""

    weights: dict[str, Tensors]  # tensors that policies need, by file name
    memory: Tensors  # tensors that only later learning needs
    notes: dict[str, Any]  # plain data
    rehearsed: int = 0  # bytes of stored trajectories, which the memory refers to

    def bytes(self) -> dict[str, int]:
        """The size in bytes: of the weights, of the memory, and in total."""
        weights = sum(tensor.nbytes for tensors in self.weights.values() for tensor in tensors.values())
        memory = sum(tensor.nbytes for tensor in self.memory.values()) + self.rehearsed
        return {"weights": weights, "memory": memory, "total": weights + memory}


def no_datasets(name: str) -> Dataset:
    """Raises: the data of earlier tasks is not available."""
    raise Mistake(
        f"this learner needs the data of {name} to learn another task, but it is not available: "
        "use a learner that does not replay data"
    )


class Learner(ABC):
    """An agent that learns one task after another; it does not know which tasks will follow."""

    retains: bool  # whether learned tasks stay bit-identical, so that the last snapshot is valid for every stage
    joint = False  # whether all tasks are learned in one call
    targets: Mapping[str, float] = MappingProxyType({})  # target returns by task, instead of the tasks' own
    plan: Any = None  # the plan that the learner was made from, if it was made by name (runs/configure.py)

    def __init__(self, config: LearnerConfig, seed: int = 0, device: str = "cpu") -> None:
        self.config, self.seed, self.device = config, seed, device
        self.roles: dict[str, Role] = {}  # of the learned tasks, in order

    @property
    def learned(self) -> list[str]:
        """The learned tasks, in order."""
        return list(self.roles)

    def learn(self, task: Task, datasets: Datasets = no_datasets, recorder: Recorder = SILENT) -> None:
        """Learns one more task from its dataset; `datasets` loads the data of earlier tasks if it is needed."""
        self.learn_all([task], datasets, recorder)

    def learn_all(self, tasks: Sequence[Task], datasets: Datasets = no_datasets, recorder: Recorder = SILENT) -> None:
        """Learns these tasks: all at once if the learner is joint, otherwise one after another."""
        for task in tasks:
            if task.name in self.roles:
                raise Mistake(f"{task.name} is already learned, and a task can be learned only once")
        if isinstance(self, JointLearner):
            if self.roles:
                raise Mistake("this learner learns all tasks in one call: make a new learner for all of them")
            self.train_jointly(tasks, recorder)
            self.roles |= {task.name: self.role_in(task) for task in tasks}
            return
        for task in tasks:
            self.train(task, datasets, recorder)
            self.roles[task.name] = self.role_in(task)

    def check_capacity(self, interface: Interface, tasks: int) -> None:  # noqa: B027  most have room for any task
        """Raises if the network is too small for so many tasks with this interface, or for as many as are planned."""

    @abstractmethod
    def train(self, task: Task, datasets: Datasets, recorder: Recorder) -> None:
        """Trains on a task; if it raises, the learner must be unchanged."""

    @abstractmethod
    def policy(self, name: str, task: Task | None = None) -> Policy:
        """A learned task's policy, which later learning does not change; `task` is another task to act in."""

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """The current state."""

    @abstractmethod
    def restore(self, snapshot: Snapshot) -> None:
        """Restores the state of a snapshot."""

    def role_in(self, task: Task) -> Role:
        """The role of a policy in this task."""
        return Role(task.interface, self.targets.get(task.name, task.target))

    def role(self, name: str, task: Task | None) -> Role:
        """The role of a learned task's policy: in that task, or in another one if given."""
        if name not in self.roles:
            known = f"it has learned {', '.join(self.roles)}" if self.roles else "nothing is learned yet"
            raise Mistake(f"there is no policy for {name}: {known}")
        return self.role_in(task) if task else self.roles[name]

    def own_net(self, role: Role, shape: Interface, tensors: Tensors) -> Backbone:
        """A policy's own network with these parameters, which were made for the interface `shape`."""
        net = new_net(self.config.net, replace(role.interface, horizon=shape.horizon), self.seed)
        net.load_state_dict(tensors)
        return net

    def acting(self, role: Role, net: Backbone, normaliser: Normaliser) -> Policy:
        """A policy with a network of its own."""
        return Policy(net.to(self.device), normaliser, role.target, self.config.fit.return_scale)

    def notes(self) -> dict[str, Any]:
        """The plain data of every snapshot."""
        roles = {name: role.record() for name, role in self.roles.items()}
        return {"learned": self.learned, "roles": roles, "routes": self.routes()}

    def read_notes(self, notes: Mapping[str, Any]) -> None:
        """Restores the learned tasks from the notes of a snapshot."""
        self.roles = {name: Role.read(notes["roles"][name]) for name in notes["learned"]}

    @property
    def copies(self) -> int:
        """The number of model copies."""
        return 1

    def task_copy(self, name: str) -> int:
        """The copy of a learned task."""
        return 0

    def routes(self) -> list[dict[str, Any]]:
        """The routing decision of each learned task; empty without routing."""
        return []

    def accounts(self) -> list[dict[str, Any]]:
        """The capacity of each copy; empty if tasks do not own weights."""
        return []


class JointLearner(Learner):
    """A learner that learns all tasks in one call."""

    joint = True

    @abstractmethod
    def train_jointly(self, tasks: Sequence[Task], recorder: Recorder) -> None:
        """Trains on all tasks at once, fit.steps for each of them; if it raises, the learner must be unchanged."""

    def train(self, task: Task, datasets: Datasets, recorder: Recorder) -> None:
        self.train_jointly([task], recorder)


def learner_spec(name: str) -> LearnerSpec:
    """The learner of this name as it is registered."""
    spec = LEARNERS[name]
    if not isinstance(spec, LearnerSpec):
        raise Mistake(f"the learner {name} must be a LearnerSpec, got {shown(spec)}")
    return spec


def new_net(config: NetConfig, interface: Interface, seed: int, *purpose: object) -> Backbone:
    """A freshly initialised network."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(seed, "net", *purpose))
        return config.build(interface)


def windows_of(
    dataset: Dataset,
    normaliser: Normaliser,
    active: Tensor,
    config: LearnerConfig,
    device: str,
    *,
    code: Tensor | None = None,
) -> Windows:
    """The training windows of a dataset; `code` is appended to its normalised observations."""
    fit = config.fit
    settings = WindowSettings(config.net.context, fit.return_scale, fit.sampling, fit.whole, fit.packed)
    return Windows(dataset, normaliser, active, settings, device, code=code)
