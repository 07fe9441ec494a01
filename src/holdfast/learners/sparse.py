"""Sparse: every task gets a subnetwork of a model copy, chosen by affinity; what a task owns never moves again."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from holdfast.data.conform import conform
from holdfast.data.frames import stacked
from holdfast.data.normaliser import Normaliser
from holdfast.data.randomness import derive, numpy_stream, torch_stream
from holdfast.data.windows import Windows
from holdfast.learners.learner import Learner, Snapshot, Tensors, named, new_net, part, windows_of
from holdfast.learners.plan import LearnerConfig, Plan
from holdfast.nets.policy import Policy
from holdfast.nets.transformer import DecisionTransformer
from holdfast.routing.affinities import (
    ActionAffinity,
    HybridAffinity,
    LatentAffinity,
    Learned,
    Probe,
    ReplayAffinity,
)
from holdfast.routing.route import Route, only_copy, route
from holdfast.subnets.capacity import capacity
from holdfast.subnets.claim import SubnetConfig, begin, check_room, claim, has_room
from holdfast.subnets.copies import Copy, Subnetwork, effective, from_bits, to_bits
from holdfast.subnets.layout import Layout
from holdfast.tasks.suite import Suite
from holdfast.tasks.task import Task
from holdfast.training.fit import fit
from holdfast.training.recorder import Recorder


@dataclass(frozen=True)
class SparseConfig(LearnerConfig):
    """Sparse subnetworks in model copies."""

    subnets: SubnetConfig
    routing: ActionAffinity | LatentAffinity | HybridAffinity | ReplayAffinity | None
    """How a task finds its copy; without routing all tasks are in one copy."""


@dataclass(frozen=True)
class Place:
    """Where a task is, as a snapshot notes it."""

    copy: int
    new: int  # entries that the task claimed

    def __post_init__(self) -> None:
        if min(self.copy, self.new) < 0:
            raise ValueError(f"a copy and a count of entries are at least 0, got {self.copy} and {self.new}")


class TaskProbe(Probe):
    """A task that is about to be learned."""

    def __init__(
        self, task: Task, net: DecisionTransformer, config: LearnerConfig, seed: int, memory: int, device: str
    ) -> None:
        self.task, self.net, self.config, self.device = task, net.eval().to(device), config, device
        self.seed = derive(seed, "probe", task.name)
        rows = numpy_stream(self.seed, "memory").permutation(task.dataset.steps)[:memory]
        self.observations = torch.as_tensor(stacked(task.dataset, rows))

    def windows(self) -> Windows:
        active = self.task.interface.actions.active
        return windows_of(self.task.dataset, Normaliser.identity(), active, self.config, self.device)


class Sparse(Learner):
    """TSN-Core, TSN-ReplayKL and TSN-Affinity: one class, told apart by their routing."""

    config: SparseConfig

    def __init__(self, suite: Suite, plan: Plan, device: str = "cpu") -> None:
        super().__init__(suite, plan, device)
        subnets = self.config.subnets
        self.subnets = replace(subnets, tasks=subnets.tasks or len(suite.tasks))
        self.retains = subnets.outside != "shared"
        self.layout = Layout.of(new_net(self.config.net, suite.interface, self.seed), subnets.exclude)
        self.model_copies: list[Copy] = []
        self.subnetworks: dict[str, Subnetwork] = {}
        self.kept: dict[str, dict[str, Tensor]] = {}  # what routing keeps of every task
        self.decisions: list[dict[str, Any]] = []

    def check_capacity(self) -> None:
        if self.config.routing is None:  # all tasks are in one copy, so what each of them finds there is known
            check_room(self.subnets, self.layout)

    def train(self, task: Task, recorder: Recorder) -> None:
        decision = self.route(task)
        recorder.event("route", **decision.record())
        normaliser = task.interface.normaliser(task.dataset)
        masked = begin(
            self.subnets,
            self._fresh_net(decision.copy),
            self.layout,
            self._copy_for(decision),
            generator=torch_stream(self.seed, "scores", task.name),
            earlier=list(self.inside(decision.copy).values()),
            source=self.subnetworks[decision.source] if decision.source else None,
        ).to(self.device)
        windows = windows_of(task.dataset, normaliser, task.interface.actions.active, self.config, self.device)
        fit(masked, windows, self.config.fit, derive(self.seed, "fit", task.name), recorder, "task")
        claimed, subnetwork = claim(self.subnets, masked, decision.copy, normaliser)
        kept = self._keep(task, self._learned(task.name, claimed, subnetwork))
        # From here on nothing can fail: what fails before leaves the learner as it was.
        self.model_copies[decision.copy :] = [claimed, *self.model_copies[decision.copy + 1 :]]
        self.subnetworks[task.name], self.kept[task.name] = subnetwork, kept
        self.decisions.append(decision.record())

    def route(self, task: Task) -> Route:
        """Where a task would go; changes nothing."""
        affinity = self.config.routing
        if affinity is None:
            return only_copy(task.name, first=not self.learned)
        sources = [self._source(name) for name in self.learned]
        candidates, threshold = affinity.candidates(self._probe(task, affinity.memory), sources)
        full = [index for index in range(self.copies) if not self._has_room(index)]
        candidates = [replace(candidate, full=candidate.copy in full) for candidate in candidates]
        return route(task.name, candidates, threshold, self.copies, affinity.max_copies)

    def _has_room(self, copy: int) -> bool:
        return has_room(self.subnets, self.layout, self.model_copies[copy], len(self.inside(copy)))

    def _copy_for(self, decision: Route) -> Copy:
        if not decision.opened:
            return self.model_copies[decision.copy]
        weights = self.layout.join(dict(self._fresh_net(decision.copy).named_parameters()))
        return Copy(weights, torch.zeros(self.layout.total, dtype=torch.bool), {})

    def _fresh_net(self, copy: int) -> DecisionTransformer:
        return new_net(self.config.net, self.suite.interface, self.seed, "copy", copy)

    def _keep(self, task: Task, learned: Learned) -> dict[str, Tensor]:
        affinity = self.config.routing
        return affinity.keep(self._probe(task, affinity.memory), learned) if affinity else {}

    def _probe(self, task: Task, memory: int) -> TaskProbe:
        net = new_net(self.config.net, self.suite.interface, self.seed)
        return TaskProbe(task, net, self.config, self.seed, memory, self.device)

    def _source(self, name: str) -> Learned:
        found = self.subnetworks[name]
        return self._learned(name, self.model_copies[found.copy], found)

    def _learned(self, name: str, copy: Copy, subnetwork: Subnetwork) -> Learned:
        tensors = effective(copy, subnetwork, self.layout)
        return Learned(name, subnetwork.copy, tensors, subnetwork.normaliser, self.kept.get(name, {}))

    def inside(self, copy: int) -> dict[str, Subnetwork]:
        """The subnetworks in a copy, in the order they were learned."""
        return {name: subnetwork for name, subnetwork in self.subnetworks.items() if subnetwork.copy == copy}

    def policy(self, name: str, known: int | None = None) -> Policy:
        return self._policy(self.own_or_last(name, known), self.suite.task(name))

    def _policy(self, own: str, task: Task) -> Policy:
        subnetwork = self.subnetworks[own]
        net = new_net(self.config.net, self.suite.interface, self.seed)
        tensors = effective(self.model_copies[subnetwork.copy], subnetwork, self.layout)
        net.load_state_dict(tensors)
        return Policy(
            net.to(self.device), subnetwork.normaliser, task.interface, self.target(task), self.config.fit.return_scale
        )

    def accounts(self) -> list[dict[str, Any]]:
        return [asdict(capacity(copy, self.inside(index))) for index, copy in enumerate(self.model_copies)]

    @property
    def copies(self) -> int:
        return len(self.model_copies)

    def task_copy(self, name: str) -> int:
        return self.subnetworks[name].copy

    def routes(self) -> list[dict[str, Any]]:
        return self.decisions

    def snapshot(self) -> Snapshot:
        weights: dict[str, Tensors] = {
            f"copy-{index}": {"weights": copy.weights, **named("outside", copy.outside)}
            for index, copy in enumerate(self.model_copies)
        }
        for name, subnetwork in self.subnetworks.items():
            normaliser = {"shift": subnetwork.normaliser.shift, "scale": subnetwork.normaliser.scale}
            weights[f"task-{name}"] = {
                "mask": to_bits(subnetwork.mask),
                **named("private", subnetwork.private),
                **named("normaliser", normaliser),
                **named("kept", self.kept[name]),
            }
        places = {name: {"copy": found.copy, "new": found.new} for name, found in self.subnetworks.items()}
        notes = {"learned": list(self.learned), "places": places, "routes": list(self.decisions)}
        return Snapshot(weights, {}, notes)

    def restore(self, snapshot: Snapshot) -> None:
        places = conform(snapshot.notes["places"], dict[str, Place], "places")
        self.learned, self.decisions = list(snapshot.notes["learned"]), list(snapshot.notes["routes"])
        self.subnetworks, self.kept = {}, {}
        for name in self.learned:
            tensors = snapshot.weights[f"task-{name}"]
            mask = from_bits(tensors["mask"], self.layout.total)
            private, normaliser = part(tensors, "private"), Normaliser(**part(tensors, "normaliser"))
            self.subnetworks[name] = Subnetwork(
                mask=mask, private=private, normaliser=normaliser, **asdict(places[name])
            )
            self.kept[name] = part(tensors, "kept")
        self.model_copies = []
        for index in range(max(place.copy for place in places.values()) + 1):
            tensors = snapshot.weights[f"copy-{index}"]
            occupied = torch.stack([subnetwork.mask for subnetwork in self.inside(index).values()]).any(dim=0)
            self.model_copies.append(Copy(tensors["weights"], occupied, part(tensors, "outside")))
