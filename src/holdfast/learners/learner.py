"""What every learner is: it learns tasks one after another, and acts in those it has learned."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.data.episodes import Dataset
from holdfast.data.normaliser import Normaliser
from holdfast.data.randomness import derive
from holdfast.data.windows import Windows
from holdfast.errors import Mistake
from holdfast.learners.plan import LearnerConfig, Plan
from holdfast.nets.policy import Policy
from holdfast.nets.transformer import DecisionTransformer, NetConfig
from holdfast.tasks.interface import Interface
from holdfast.tasks.suite import Suite
from holdfast.tasks.task import Task
from holdfast.training.recorder import Recorder, Silent

SILENT = Silent()
Tensors = dict[str, Tensor]


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


class Learner(ABC):
    """One agent, learning the tasks of a suite in order."""

    retains: bool  # whether a learned task stays equal to the bit, so that the newest snapshot serves every stage

    def __init__(self, suite: Suite, plan: Plan, device: str = "cpu") -> None:
        self.suite, self.plan, self.device = suite, plan, device
        self.config, self.seed = plan.config, plan.seed
        self.learned: list[str] = []

    def learn(self, task: Task, recorder: Recorder = SILENT) -> None:
        """Learns one more task from its dataset."""
        if task.name in self.learned:
            raise Mistake(f"{task.name} is already learned: what is learned stays as it is")
        self.train(task, recorder)
        self.learned.append(task.name)

    def check_capacity(self) -> None:  # noqa: B027  most learners have room for any task
        """Raises if it can be foreseen that there is no room for all tasks of the suite."""

    @abstractmethod
    def train(self, task: Task, recorder: Recorder) -> None:
        """Trains on a task; what fails here must leave the learner as it was."""

    @abstractmethod
    def policy(self, name: str, known: int | None = None) -> Policy:
        """The policy for a task; for one not among the first `known` learned, the last of those stands in."""

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """All that was learned so far."""

    @abstractmethod
    def restore(self, snapshot: Snapshot) -> None:
        """Back to where a snapshot was taken."""

    def target(self, task: Task) -> float:
        """The return that the task's policy is asked for: the plan's, or else the suite's."""
        return self.plan.targets.get(task.name, task.target)

    def own_or_last(self, name: str, known: int | None) -> str:
        """The task itself if it is among the first `known` learned, otherwise the last of those."""
        learned = self.learned[:known]
        if not learned:
            raise Mistake(f"nothing is learned yet, so there is no policy for {name}")
        return name if name in learned else learned[-1]

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


def new_net(config: NetConfig, interface: Interface, seed: int, *purpose: object) -> DecisionTransformer:
    """A freshly initialised network."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(seed, "net", *purpose))
        return DecisionTransformer(config, interface)


def windows_of(dataset: Dataset, normaliser: Normaliser, active: Tensor, config: LearnerConfig, device: str) -> Windows:
    """A dataset as training reads it."""
    fit = config.fit
    return Windows(
        dataset,
        normaliser,
        active,
        context=config.net.context,
        return_scale=fit.return_scale,
        sampling=fit.sampling,
        whole=fit.whole,
        packed=fit.packed,
        device=device,
    )


def parameters_of(net: nn.Module) -> Tensors:
    """A network's parameters, on the CPU."""
    return {name: parameter.detach().cpu().clone() for name, parameter in net.named_parameters()}


def part(tensors: dict[str, Tensor], kind: str) -> dict[str, Tensor]:
    """The tensors under one kind, by parameter name."""
    return {name.removeprefix(f"{kind}/"): tensor for name, tensor in tensors.items() if name.startswith(f"{kind}/")}


def named(kind: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors put under a kind."""
    return {f"{kind}/{name}": tensor for name, tensor in tensors.items()}


def normaliser_tensors(normalisers: dict[str, Normaliser]) -> Tensors:
    """Normalisers by task, as named tensors."""
    shifts = {f"shift/{task}": normaliser.shift for task, normaliser in normalisers.items()}
    return shifts | {f"scale/{task}": normaliser.scale for task, normaliser in normalisers.items()}


def normalisers_from(tensors: Tensors) -> dict[str, Normaliser]:
    """The normalisers that were named so."""
    tasks = [name.removeprefix("shift/") for name in tensors if name.startswith("shift/")]
    return {task: Normaliser(tensors[f"shift/{task}"], tensors[f"scale/{task}"]) for task in tasks}


def check_device(device: str) -> str:
    """The device to run on: `auto` takes an accelerator where there is one."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    kind, _, number = str(device).partition(":")
    if kind not in ("cpu", "cuda") or not (number or "0").isdigit():
        raise Mistake(f"there is no device {device!r}; there are auto, cpu, cuda")
    if kind == "cuda" and int(number or 0) >= torch.cuda.device_count():
        raise Mistake(f"there is no {device} on this machine: use --device cpu")
    return device
