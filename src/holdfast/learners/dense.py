"""The base of learners with one dense network for all tasks."""

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from torch import Tensor, ones_like

from holdfast.data.episodes import Dataset
from holdfast.data.normaliser import Normaliser
from holdfast.data.randomness import derive
from holdfast.data.validation import Range
from holdfast.data.windows import Windows
from holdfast.errors import Mistake
from holdfast.learners.codes import TaskCodes
from holdfast.learners.learner import Datasets, Learner, LearnerConfig, Snapshot, new_net, windows_of
from holdfast.learners.tensors import Tensors, normaliser_tensors, normalisers_from, parameters_of, part, under
from holdfast.nets.backbone import Backbone
from holdfast.nets.conditioned import Conditioned
from holdfast.nets.policy import Policy
from holdfast.tasks.interface import Interface
from holdfast.tasks.task import Task
from holdfast.training.recorder import Recorder

Treatment = Literal["equal", "paper"]


@dataclass(frozen=True)
class TreatmentConfig(LearnerConfig):
    """The settings of learners with dense networks."""

    treatment: Treatment = "equal"
    """equal: normalise and mask actions per task, as sparse learners do. paper: neither, as published for Panda."""


@dataclass(frozen=True)
class DenseConfig(TreatmentConfig):
    """The settings of learners with one dense network for all tasks."""

    task_id: bool = False
    """Give the network the task as an input: a code that is appended to vector observations."""
    tasks: Annotated[int | None, Range(least=1, most=10**6)] = None
    """Number of tasks that task_id tells apart; by default the number of tasks in the suite."""


@dataclass(frozen=True)
class Lesson:
    """A task that is about to be learned, with everything that a method needs."""

    task: Task
    windows: Windows  # of the task
    seed: int
    recorder: Recorder
    datasets: Datasets  # of earlier tasks


def codes_of(config: DenseConfig) -> TaskCodes:
    """The codes of the tasks that a network is told apart; none without task_id."""
    if not config.task_id:
        return TaskCodes(0)
    if config.tasks is None:
        raise Mistake("with task_id, tasks must be set to the number of tasks to learn")
    return TaskCodes(config.tasks)


def treat(config: TreatmentConfig, interface: Interface, dataset: Dataset) -> tuple[Normaliser, Tensor]:
    """A task's normaliser, and one for each action dimension that counts in the loss."""
    if config.treatment == "paper":
        return Normaliser.identity(), ones_like(interface.actions.active)
    return interface.normaliser(dataset), interface.actions.active


def check_fits(first: str, shape: Interface, task: Task) -> None:
    """Raises unless the network of the first task, whose interface is `shape`, can be used for this task."""
    if not shape.fits(task.interface):
        raise Mistake(
            f"{task.name} differs from {first} in observations or actions, or has a longer horizon, but "
            "this learner has one network for all tasks: use a learner that can open a copy, such as affinity-l"
        )


class OneNetworkLearner(Learner):
    """One dense network for all tasks, which may be told which task it is."""

    retains = False
    config: DenseConfig
    net: Backbone  # from the first task on

    def __init__(self, config: DenseConfig, seed: int = 0, device: str = "cpu") -> None:
        super().__init__(config, seed, device)
        self.normalisers: dict[str, Normaliser] = {}
        self.memory: Tensors = {}  # what the method needs for later tasks, besides the network
        self.codes = codes_of(config)

    @property
    def shape(self) -> Interface:
        """The interface that the network was built for: that of the first task."""
        return next(iter(self.roles.values())).interface

    def begin(self, task: Task, place: int) -> Windows:
        """The windows of the task that is learned at this place in the order; the first task gets a new network."""
        self.codes.check(task, place)
        if place == 0:
            self.net = self._new_net(task.interface).to(self.device)
        self.normalisers[task.name], active = treat(self.config, task.interface, task.dataset)
        return self._windows(task.dataset, self.normalisers[task.name], active, place)

    def replayed(self, name: str, dataset: Dataset) -> Windows:
        """The windows of episodes of a learned task, with its own normaliser and code."""
        _, active = treat(self.config, self.roles[name].interface, dataset)
        return self._windows(dataset, self.normalisers[name], active, self.learned.index(name))

    def _windows(self, dataset: Dataset, normaliser: Normaliser, active: Tensor, place: int) -> Windows:
        return windows_of(dataset, normaliser, active, self.config, self.device, code=self.codes(place))

    def _new_net(self, interface: Interface) -> Backbone:
        return new_net(self.config.net, self.codes.widened(interface), self.seed)

    @contextmanager
    def unchanged_by_failure(self) -> Iterator[None]:
        """Restores the learner if learning fails or is interrupted: a task is learned completely or not at all."""
        before = self.snapshot()
        try:
            yield
        except BaseException:
            self.restore(before)
            raise

    def policy(self, name: str, task: Task | None = None) -> Policy:
        role = self.role(name, task)
        known = task.name if task and task.name in self.roles else name  # an unknown task gets the code of `name`
        if task is None or task.name == known:
            normaliser = self.normalisers[known]
        else:
            normaliser, _ = treat(self.config, task.interface, task.dataset)
        interface = replace(role.interface, horizon=self.shape.horizon)
        net = self._new_net(interface)
        net.load_state_dict(parameters_of(self.net))
        code = self.codes(self.learned.index(known))
        return self.acting(role, net if code is None else Conditioned(net, code, interface), normaliser)

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
            self.net = self._new_net(self.shape).to(self.device)
            self.net.load_state_dict(part(tensors, "net"))


class DenseLearner(OneNetworkLearner):
    """The network is trained on one task after another; it forgets unless a method prevents it."""

    @abstractmethod
    def fit_task(self, lesson: Lesson) -> None:
        """Trains the network on a task's windows; this is the method."""

    def train(self, task: Task, datasets: Datasets, recorder: Recorder) -> None:
        if self.roles:
            check_fits(self.learned[0], self.shape, task)
        with self.unchanged_by_failure():
            windows = self.begin(task, len(self.roles))
            recorder.playable(lambda: self._unfinished_policy(task))
            self.fit_task(Lesson(task, windows, derive(self.seed, "fit", task.name), recorder, datasets))

    def _unfinished_policy(self, task: Task) -> Policy:
        """The policy of the task that is being trained, as it would be if training ended now."""
        self.roles[task.name] = self.role_in(task)
        try:
            return self.policy(task.name)
        finally:
            del self.roles[task.name]
