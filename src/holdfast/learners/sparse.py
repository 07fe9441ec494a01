"""Sparse: every task gets a subnetwork of a model copy, chosen by affinity; its weights never change afterwards."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from math import isfinite
from typing import Any

import torch

from holdfast.data.frames import stacked
from holdfast.data.normaliser import Normaliser
from holdfast.data.randomness import derive, numpy_stream, torch_stream
from holdfast.data.validation import check_unread
from holdfast.data.windows import Batch, Windows
from holdfast.errors import Mistake
from holdfast.learners.learner import Datasets, LearnerSpec, Role, Snapshot, new_net, windows_of
from holdfast.learners.subnetworks import Room, SubnetworkConfig, SubnetworkLearner
from holdfast.learners.tensors import Tensors
from holdfast.nets.backbone import Backbone, NetConfig
from holdfast.routing.affinities import (
    ActionAffinity,
    Affinity,
    HybridAffinity,
    LatentAffinity,
    NoAffinity,
    RandomAffinity,
    ReplayAffinity,
)
from holdfast.routing.distances import Learned, Probe
from holdfast.routing.route import Candidate, Route, installed, only_copy, route, route_by_room, with_sources, without
from holdfast.subnets.capacity import FurtherTasks
from holdfast.subnets.claim import Start, begin, claim
from holdfast.subnets.config import SubnetConfig
from holdfast.subnets.copies import Copy, Subnetwork, effective
from holdfast.subnets.delta import Delta
from holdfast.subnets.expected import subnetwork_bytes
from holdfast.subnets.placement import place_by_gradient
from holdfast.subnets.quotas import check_room, free_entries, further_tasks, has_room, selected_counts
from holdfast.tasks.interface import Interface
from holdfast.tasks.task import Task
from holdfast.training.config import FitConfig
from holdfast.training.fit import fit
from holdfast.training.recorder import Recorder

PLACEMENT_BATCHES = 8  # batches of the gradient that places new entries
NOT_TAKEN = "the other decision, for comparison"
# Neither is subnets.warm_start read without routing, but the toy suites set it for every learner.
UNREAD_WITHOUT_ROUTING = ("sources", "far_source", "new_copy", "noise")
WITH_AUTO = (ActionAffinity, LatentAffinity, HybridAffinity)  # whose threshold can be automatic

Routing = ActionAffinity | LatentAffinity | HybridAffinity | ReplayAffinity | RandomAffinity | NoAffinity | None


@dataclass(frozen=True)
class SparseConfig(SubnetworkConfig):
    """Sparse subnetworks in model copies."""

    routing: Routing
    """How the copy of a task is chosen; without routing all tasks share one copy."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.routing is None:
            check_unread(self.subnets, UNREAD_WITHOUT_ROUTING, "subnets.", "a learner without routing")
        elif not isinstance(self.routing, WITH_AUTO):
            check_unread(self.subnets, ("far_source",), "subnets.", "routing without an automatic threshold")
        elif self.routing.automatic and self.subnets.never_full and self.subnets.new_copy != "fresh":
            raise Mistake(
                "subnets.new_copy is about further copies, but no copy is ever full without subnets.new, or with 0, "
                "so routing.threshold auto opens none: set subnets.new, or leave subnets.new_copy out"
            )


class TaskProbe(Probe):
    """The probe of a task that is about to be learned."""

    def __init__(self, task: Task, learner: "Sparse", memory: int) -> None:
        self.task, self.config, self.device = task, learner.config, learner.device
        self.seed = derive(learner.seed, "probe", task.name)
        rows = numpy_stream(self.seed, "memory").permutation(task.dataset.steps)[:memory]
        self.observations = torch.as_tensor(stacked(task.dataset, rows))

    def windows(self) -> Windows:
        active = self.task.interface.actions.active
        return windows_of(self.task.dataset, Normaliser.identity(), active, self.config, self.device)


class Sparse(SubnetworkLearner):
    """TSN-Core, TSN-ReplayKL and TSN-Affinity, which differ only in their routing."""

    config: SparseConfig

    def __init__(self, config: SparseConfig, seed: int = 0, device: str = "cpu") -> None:
        super().__init__(config, seed, device)
        self.decisions: list[dict[str, Any]] = []
        self.comparing = cache(self._comparing)  # one network per interface

    def check_capacity(self, interface: Interface, tasks: int) -> None:
        super().check_capacity(interface, tasks)
        copies = self.config.routing.max_copies if self.config.routing else 1
        if copies is not None:  # otherwise a copy can be opened for every task
            check_room(self.subnets, self.layout(interface), copies, tasks)

    def train(self, task: Task, datasets: Datasets, recorder: Recorder) -> None:
        decision = self.route(task)
        recorder.event("route", **decision.record())
        room = self.room(decision.copy, task.interface, decision.source)
        sources = [self.subnetworks[name] for name in decision.sources]
        generator = torch_stream(self.seed, "scores", task.name)
        start = Start(room.copy, room.earlier, sources, generator, task.dataset.steps)
        net = self.fresh_net(decision.copy, room.shape)
        masked = begin(self.subnets, net, room.layout, start).to(self.device)
        normaliser = task.interface.normaliser(task.dataset)
        windows = windows_of(task.dataset, normaliser, task.interface.actions.active, self.config, self.device)
        if self.subnets.place == "gradient" and room.earlier:
            place_by_gradient(masked, self._first_batches(task, windows))
        role, claim_now = self.role_in(task), partial(claim, self.subnets, masked, decision.copy, normaliser)
        recorder.playable(lambda: self.acting_in(role, room.shape, *claim_now()))
        fit(masked, windows, self.config.fit, derive(self.seed, "fit", task.name), recorder, "task")
        claimed, subnetwork = claim_now()
        kept = self._keep(task, room, claimed, subnetwork)
        # Nothing below can fail, so a failure leaves the learner unchanged.
        self.own(task.name, room, claimed, subnetwork, kept)
        self.decisions.append(decision.record())

    def _first_batches(self, task: Task, windows: Windows) -> Iterator[Batch]:
        rng = numpy_stream(self.seed, "placement", task.name)
        return (windows.sample(self.config.fit.batch, rng) for _ in range(PLACEMENT_BATCHES))

    def route(self, task: Task) -> Route:
        """The route that a task would take; only copies that fit its interface are compared."""
        affinity, fitting = self.config.routing, self.fitting(task.interface)
        if affinity is None:
            return only_copy(task.name, fitting[0] if fitting else self.copies, opened=not fitting)
        candidates, threshold = self.compared(task, affinity)
        full = [index for index in fitting if not self._has_room(index)]
        candidates = [replace(candidate, full=candidate.copy in full) for candidate in candidates]
        most = None if affinity.max_copies is None else affinity.max_copies - len(fitting) + self.copies
        if affinity.automatic:
            # otherwise a warm start confines the task to its source
            confined = not (self.subnets.new or self.subnets.private)
            far_source = None if confined else self.subnets.far_source
            found = route_by_room(task.name, candidates, threshold, self.copies, most, far_source=far_source)
        else:
            found = route(task.name, candidates, threshold, self.copies, most)
        if found.opened:
            return self._begun(found, fitting)
        return with_sources(found, self.subnets.sources)

    def _begun(self, opened: Route, fitting: Sequence[int]) -> Route:
        """The route to a new copy, with the task whose network that copy begins with, if it begins with one."""
        if self.subnets.new_copy == "fresh" or not fitting:
            return opened
        return replace(opened, source=[name for name in self.learned if self.task_copy(name) in fitting][-1])

    def other_route(self, task: Task, taken: Route) -> Route | None:
        """The decision that was not taken: a new copy, or else the nearest one with room; None if there is no other."""
        if not taken.opened:
            fitting, affinity = self.fitting(task.interface), self.config.routing
            if affinity is None or (affinity.max_copies is not None and len(fitting) >= affinity.max_copies):
                return None
            opened = replace(taken, source=None, more_sources=(), copy=self.copies, opened=True, reason=NOT_TAKEN)
            return self._begun(opened, fitting)
        allowed = [candidate for candidate in taken.candidates if not candidate.full and isfinite(candidate.distance)]
        if not allowed:
            return None
        nearest = min(allowed, key=lambda candidate: candidate.distance)
        return replace(taken, source=nearest.task, copy=nearest.copy, opened=False, reason=NOT_TAKEN)

    def compared(self, task: Task, affinity: Affinity) -> tuple[list[Candidate], float]:
        """The learned tasks with their distances to a new one, and the threshold."""
        fitting = self.fitting(task.interface)
        sources = [self._source(name) for name in self.learned if self.task_copy(name) in fitting]
        return affinity.candidates(TaskProbe(task, self, affinity.memory), sources)

    def adopt(self, name: str, role: Role, room: Room, delta: Delta, kept: Tensors) -> None:
        opened = room.index == self.copies
        super().adopt(name, role, room, delta, kept)
        self.decisions.append(installed(name, room.index, opened).record())

    def free(self, name: str, draw: int) -> None:
        index, copies = self.task_copy(name), self.copies
        super().free(name, draw)
        closed = index if self.copies < copies else None
        self.decisions = [without(name, one, closed) for one in self.decisions if one["task"] != name]

    def rename(self, name: str, new: str) -> None:
        super().rename(name, new)
        self.decisions = [{**one, "task": new} if one["task"] == name else one for one in self.decisions]

    def expected_bytes(self, task: Task, route: Route) -> int:
        """About how many bytes a task would add to what acts, if it took this route; raises if there is no room."""
        room = self.room(route.copy, task.interface, route.source)
        free = free_entries(room.layout, room.copy)
        counts = selected_counts(self.subnets, room.layout, free, len(room.earlier), task.dataset.steps)
        warm = route.source is not None and self.subnets.warm_start > 0
        found = subnetwork_bytes(self.subnets, room.layout, free, counts, warm=warm)
        unmasked = room.layout.outside(dict(self.fresh_net(route.copy, room.shape).named_parameters()))
        whole, normaliser = torch.ones_like(room.copy.occupied), task.interface.normaliser(task.dataset)
        kept = self._keep(task, room, room.copy, Subnetwork(route.copy, whole, 0, unmasked, normaliser))
        adds_unmasked = self.subnets.outside == "private" or not room.earlier
        tensors = [*kept.values(), *(unmasked.values() if adds_unmasked else ()), normaliser.shift, normaliser.scale]
        return found + sum(tensor.nbytes for tensor in tensors)

    def _has_room(self, copy: int) -> bool:
        layout = self.layout(self.shapes[copy])
        return has_room(self.subnets, layout, self.model_copies[copy], len(self.inside(copy)))

    def accounts(self) -> list[dict[str, Any]]:
        return [{**account, "more": self._further_tasks(copy)} for copy, account in enumerate(super().accounts())]

    def _further_tasks(self, copy: int) -> FurtherTasks:
        layout = self.layout(self.shapes[copy])
        free = free_entries(layout, self.model_copies[copy])
        return further_tasks(self.subnets, layout, free, len(self.inside(copy)))

    def _keep(self, task: Task, room: Room, copy: Copy, subnetwork: Subnetwork) -> Tensors:
        affinity = self.config.routing
        if affinity is None:
            return {}
        learned = self._learned(task.name, room.shape, copy, subnetwork)
        return affinity.keep(TaskProbe(task, self, affinity.memory), learned)

    def _source(self, name: str) -> Learned:
        subnetwork = self.subnetworks[name]
        copy = self.model_copies[subnetwork.copy]
        return self._learned(name, self.shapes[subnetwork.copy], copy, subnetwork)

    def _learned(self, name: str, shape: Interface, copy: Copy, subnetwork: Subnetwork) -> Learned:
        tensors = effective(copy, subnetwork, self.layout(shape))
        kept = self.kept.get(name, {})
        return Learned(name, subnetwork.copy, self.comparing(shape), tensors, subnetwork.normaliser, kept)

    def _comparing(self, shape: Interface) -> Backbone:
        """A network for this interface, to be called with the parameters of learned tasks."""
        return new_net(self.config.net, shape, self.seed).eval().to(self.device)

    def routes(self) -> list[dict[str, Any]]:
        return list(self.decisions)

    def restore(self, snapshot: Snapshot) -> None:
        super().restore(snapshot)
        self.decisions = list(snapshot.notes["routes"])


def routed(routing: Routing) -> Callable[[NetConfig], SparseConfig]:
    """The default settings of a sparse learner with this routing, as a function of the backbone."""

    def config(net: NetConfig) -> SparseConfig:
        return SparseConfig(net, FitConfig(), SubnetConfig(exclude=net.unmasked), routing)

    return config


TSN_CORE = LearnerSpec(Sparse, routed(None), "sparse subnetworks in one copy")
TSN_REPLAYKL = LearnerSpec(Sparse, routed(ReplayAffinity(0.25)), "copies chosen by the similarity of observations")
AFFINITY_A = LearnerSpec(Sparse, routed(ActionAffinity(1.0)), "copies chosen by how well actions are predicted")
AFFINITY_L = LearnerSpec(Sparse, routed(LatentAffinity(25.0)), "copies chosen by the similarity of latents")
AFFINITY_H = LearnerSpec(Sparse, routed(HybridAffinity(0.5)), "copies chosen by actions and latents, mixed")
RANDOM_ROUTING = LearnerSpec(Sparse, routed(RandomAffinity()), "a control: the copy of a random earlier task")
INDEPENDENT = LearnerSpec(Sparse, routed(NoAffinity()), "a control: a sparse subnetwork in a copy of its own")
