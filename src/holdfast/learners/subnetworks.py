"""The base of learners in which every task has a subnetwork of a model copy."""

from dataclasses import asdict, dataclass
from typing import Any

import torch

from holdfast.data.conform import conform
from holdfast.data.normaliser import Normaliser
from holdfast.learners.learner import Learner, LearnerConfig, Role, Snapshot, new_net
from holdfast.learners.tensors import Tensors, part, under
from holdfast.nets.backbone import Backbone
from holdfast.nets.policy import Policy
from holdfast.subnets.capacity import capacity
from holdfast.subnets.claim import SubnetConfig
from holdfast.subnets.copies import Copy, Subnetwork, effective, from_bits, to_bits
from holdfast.subnets.layout import Layout
from holdfast.tasks.interface import Interface
from holdfast.tasks.task import Task


@dataclass(frozen=True)
class SubnetworkConfig(LearnerConfig):
    """The settings of learners with subnetworks."""

    subnets: SubnetConfig


@dataclass(frozen=True)
class Place:
    """The copy of a task, in the notes of a snapshot."""

    copy: int
    new: int  # entries that the task claimed

    def __post_init__(self) -> None:
        if min(self.copy, self.new) < 0:
            raise ValueError(f"a copy and a count of entries are at least 0, got {self.copy} and {self.new}")


@dataclass(frozen=True)
class Room:
    """A copy that a new task can be learned in, before it is learned."""

    index: int
    shape: Interface  # the interface that the copy's network was built for
    layout: Layout
    copy: Copy
    earlier: list[Subnetwork]  # in the order they were learned


class SubnetworkLearner(Learner):
    """Has model copies and the subnetworks of tasks in them; the methods differ in how a task gets its subnetwork."""

    config: SubnetworkConfig

    def __init__(self, config: SubnetworkConfig, seed: int = 0, device: str = "cpu") -> None:
        super().__init__(config, seed, device)
        self.subnets, self.retains = config.subnets, config.subnets.outside != "shared"
        self.model_copies: list[Copy] = []
        self.shapes: list[Interface] = []  # of each copy: the interface of its first task
        self.subnetworks: dict[str, Subnetwork] = {}
        self.kept: dict[str, Tensors] = {}  # what the method keeps of each task, besides its subnetwork
        self.layouts: dict[Interface, Layout] = {}

    def layout(self, shape: Interface) -> Layout:
        """The parameters that masks cover in a network for this interface."""
        if shape not in self.layouts:
            net, masked = new_net(self.config.net, shape, self.seed), self.subnets.biases == "masked"
            self.layouts[shape] = Layout.of(net, self.subnets.exclude, biases=masked)
        return self.layouts[shape]

    def check_capacity(self, interface: Interface) -> None:
        self.layout(interface)  # raises if masks could cover nothing

    def fitting(self, interface: Interface) -> list[int]:
        """The copies whose network can be used for a task with this interface."""
        return [index for index, shape in enumerate(self.shapes) if shape.fits(interface)]

    def fresh_net(self, copy: int, shape: Interface) -> Backbone:
        """A copy's network, freshly initialised."""
        return new_net(self.config.net, shape, self.seed, "copy", copy)

    def room(self, index: int, interface: Interface) -> Room:
        """The copy with this number, or a new copy for this interface if it does not exist yet."""
        if index < self.copies:
            shape, copy = self.shapes[index], self.model_copies[index]
            return Room(index, shape, self.layout(shape), copy, list(self.inside(index).values()))
        layout = self.layout(interface)
        weights = layout.join(dict(self.fresh_net(index, interface).named_parameters()))
        return Room(index, interface, layout, Copy(weights, torch.zeros(layout.total, dtype=torch.bool), {}), [])

    def inside(self, copy: int) -> dict[str, Subnetwork]:
        """The subnetworks in a copy, in the order they were learned."""
        return {name: subnetwork for name, subnetwork in self.subnetworks.items() if subnetwork.copy == copy}

    def own(self, name: str, room: Room, claimed: Copy, subnetwork: Subnetwork, kept: Tensors) -> None:
        """Stores a copy after a task was learned in it, and the task's subnetwork; cannot fail half-way."""
        self.model_copies[room.index : room.index + 1] = [claimed]
        self.shapes[room.index : room.index + 1] = [room.shape]
        self.subnetworks[name], self.kept[name] = subnetwork, kept

    def policy(self, name: str, task: Task | None = None) -> Policy:
        role, subnetwork = self.role(name, task), self.subnetworks[name]
        return self.acting_in(role, self.shapes[subnetwork.copy], self.model_copies[subnetwork.copy], subnetwork)

    def acting_in(self, role: Role, shape: Interface, copy: Copy, subnetwork: Subnetwork) -> Policy:
        """The policy of a subnetwork in a copy, whose network was built for the interface `shape`."""
        tensors = effective(copy, subnetwork, self.layout(shape))
        return self.acting(role, self.own_net(role, shape, tensors), subnetwork.normaliser)

    def accounts(self) -> list[dict[str, Any]]:
        return [asdict(capacity(copy, self.inside(index))) for index, copy in enumerate(self.model_copies)]

    @property
    def copies(self) -> int:
        return len(self.model_copies)

    def task_copy(self, name: str) -> int:
        return self.subnetworks[name].copy

    def snapshot(self) -> Snapshot:
        weights: dict[str, Tensors] = {
            f"copy-{index}": {"weights": copy.weights, **under("outside", copy.outside)}
            for index, copy in enumerate(self.model_copies)
        }
        for name, subnetwork in self.subnetworks.items():
            normaliser = {"shift": subnetwork.normaliser.shift, "scale": subnetwork.normaliser.scale}
            weights[f"task-{name}"] = {
                "mask": to_bits(subnetwork.mask),
                **under("private", subnetwork.private),
                **under("normaliser", normaliser),
                **under("kept", self.kept[name]),
            }
        places = {name: {"copy": one.copy, "new": one.new} for name, one in self.subnetworks.items()}
        return Snapshot(weights, {}, {**self.notes(), "places": places})

    def restore(self, snapshot: Snapshot) -> None:
        self.read_notes(snapshot.notes)
        places = conform(snapshot.notes["places"], dict[str, Place], "places")
        copies = 1 + max((places[name].copy for name in self.roles), default=-1)
        shapes: dict[int, Interface] = {}  # of each copy: the interface of its first task
        for name, role in self.roles.items():
            shapes.setdefault(places[name].copy, role.interface)
        self.shapes = [shapes[index] for index in range(copies)]
        self.subnetworks, self.kept = {}, {}
        for name in self.roles:
            place, tensors = places[name], snapshot.weights[f"task-{name}"]
            mask = from_bits(tensors["mask"], self.layout(self.shapes[place.copy]).total)
            private, normaliser = part(tensors, "private"), Normaliser(**part(tensors, "normaliser"))
            self.subnetworks[name] = Subnetwork(place.copy, mask, place.new, private, normaliser)
            self.kept[name] = part(tensors, "kept")
        self.model_copies = []
        for index in range(copies):
            tensors = snapshot.weights[f"copy-{index}"]
            occupied = torch.stack([subnetwork.mask for subnetwork in self.inside(index).values()]).any(dim=0)
            self.model_copies.append(Copy(tensors["weights"], occupied, part(tensors, "outside")))
