"""Single: an independent dense network per task, the reference for what a task is worth on its own."""

from holdfast.data.normaliser import Normaliser
from holdfast.data.randomness import derive
from holdfast.learners.dense import DenseConfig, treat
from holdfast.learners.learner import (
    Learner,
    Snapshot,
    named,
    new_net,
    normaliser_tensors,
    normalisers_from,
    parameters_of,
    part,
    windows_of,
)
from holdfast.learners.plan import Plan
from holdfast.nets.policy import Policy
from holdfast.nets.transformer import DecisionTransformer
from holdfast.tasks.suite import Suite
from holdfast.tasks.task import Task
from holdfast.training.fit import fit
from holdfast.training.recorder import Recorder


class Single(Learner):
    """As many networks as tasks: nothing is shared, nothing is forgotten, nothing is gained."""

    retains = True
    config: DenseConfig

    def __init__(self, suite: Suite, plan: Plan, device: str = "cpu") -> None:
        super().__init__(suite, plan, device)
        self.nets: dict[str, DecisionTransformer] = {}
        self.normalisers: dict[str, Normaliser] = {}

    def train(self, task: Task, recorder: Recorder) -> None:
        # Not seeded by the task's place in the order: alone is alone.
        net = new_net(self.config.net, self.suite.interface, self.seed, task.name).to(self.device)
        normaliser, active = treat(self.config, task.interface, task.dataset)
        windows = windows_of(task.dataset, normaliser, active, self.config, self.device)
        fit(net, windows, self.config.fit, derive(self.seed, "fit", task.name), recorder, "task")
        self.nets[task.name], self.normalisers[task.name] = net, normaliser

    def policy(self, name: str, known: int | None = None) -> Policy:
        task, own = self.suite.task(name), self.own_or_last(name, known)
        return Policy(
            self.nets[own], self.normalisers[own], task.interface, self.target(task), self.config.fit.return_scale
        )

    def snapshot(self) -> Snapshot:
        weights = {}
        for name, net in self.nets.items():
            normaliser = normaliser_tensors({name: self.normalisers[name]})
            weights[f"task-{name}"] = named("net", parameters_of(net)) | normaliser
        return Snapshot(weights, {}, {"learned": list(self.learned)})

    def restore(self, snapshot: Snapshot) -> None:
        self.learned = list(snapshot.notes["learned"])
        for name in self.learned:
            tensors = snapshot.weights[f"task-{name}"]
            net = new_net(self.config.net, self.suite.interface, self.seed, name).to(self.device)
            net.load_state_dict(part(tensors, "net"))
            self.nets[name] = net
            self.normalisers |= normalisers_from(tensors)

    @property
    def copies(self) -> int:
        return len(self.nets)

    def task_copy(self, name: str) -> int:
        return self.learned.index(name)
