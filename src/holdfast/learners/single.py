"""Single: an independent dense network per task, the reference for forward transfer."""

from typing import Any

from holdfast.data.normaliser import Normaliser
from holdfast.data.randomness import derive
from holdfast.learners.dense import TreatmentConfig, treat
from holdfast.learners.learner import Datasets, LearnerSpec, Snapshot, new_net, windows_of
from holdfast.learners.removing import RemovingLearner
from holdfast.learners.tensors import Tensors, normaliser_tensors, normalisers_from, parameters_of, part, under
from holdfast.nets.policy import Policy
from holdfast.tasks.task import Task
from holdfast.training.config import FitConfig
from holdfast.training.fit import fit
from holdfast.training.recorder import Recorder


class Single(RemovingLearner):
    """One network per task: no sharing, no forgetting and no transfer."""

    retains = True
    config: TreatmentConfig

    def __init__(self, config: TreatmentConfig, seed: int = 0, device: str = "cpu") -> None:
        super().__init__(config, seed, device)
        self.parameters: dict[str, Tensors] = {}  # of each task's network
        self.normalisers: dict[str, Normaliser] = {}

    def train(self, task: Task, datasets: Datasets, recorder: Recorder) -> None:
        # The seed does not depend on the task's position in the order.
        net = new_net(self.config.net, task.interface, self.seed, task.name).to(self.device)
        normaliser, active = treat(self.config, task.interface, task.dataset)
        windows = windows_of(task.dataset, normaliser, active, self.config, self.device)
        role = self.role_in(task)
        recorder.playable(lambda: self.acting(role, self.own_net(role, task.interface, parameters_of(net)), normaliser))
        fit(net, windows, self.config.fit, derive(self.seed, "fit", task.name), recorder, "task")
        self.parameters[task.name], self.normalisers[task.name] = parameters_of(net), normaliser

    def policy(self, name: str, task: Task | None = None) -> Policy:
        role = self.role(name, task)
        net = self.own_net(role, self.roles[name].interface, self.parameters[name])
        return self.acting(role, net, self.normalisers[name])

    def snapshot(self) -> Snapshot:
        weights = {}
        for name, parameters in self.parameters.items():
            weights[f"task-{name}"] = under("net", parameters) | normaliser_tensors({name: self.normalisers[name]})
        return Snapshot(weights, {}, self.notes())

    def restore(self, snapshot: Snapshot) -> None:
        self.read_notes(snapshot.notes)
        self.parameters, self.normalisers = {}, {}
        for name in self.roles:
            tensors = snapshot.weights[f"task-{name}"]
            self.parameters[name] = part(tensors, "net")
            self.normalisers |= normalisers_from(tensors)

    def parts(self) -> list[dict[str, Any]]:
        return [self.parameters, self.normalisers]

    def free(self, name: str, draw: int) -> None:
        """Nothing is to be done: a task's network is its own."""

    @property
    def copies(self) -> int:
        return len(self.parameters)

    def task_copy(self, name: str) -> int:
        return self.learned.index(name)


SINGLE = LearnerSpec(
    Single, lambda net: TreatmentConfig(net, FitConfig()), "an independent dense network per task: the reference"
)
