"""The base of learners in which every task has a subnetwork of a model copy."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from holdfast.data.conform import conform
from holdfast.data.normaliser import Normaliser
from holdfast.errors import Mistake
from holdfast.learners.learner import LearnerConfig, Role, Snapshot, new_net
from holdfast.learners.removing import RemovingLearner
from holdfast.learners.tensors import Tensors, part, under
from holdfast.nets.backbone import Backbone
from holdfast.nets.policy import Policy
from holdfast.subnets.capacity import capacity
from holdfast.subnets.config import SubnetConfig
from holdfast.subnets.copies import Copy, Subnetwork, effective
from holdfast.subnets.delta import Delta
from holdfast.subnets.layout import Layout
from holdfast.subnets.stored_changes import read_change, stored_change
from holdfast.subnets.stored_masks import read_masks, stored_masks
from holdfast.subnets.stored_weights import read_weights, stored_weights
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


class SubnetworkLearner(RemovingLearner):
    """Has model copies and the subnetworks of tasks in them; the methods differ in how a task gets its subnetwork."""

    config: SubnetworkConfig

    def __init__(self, config: SubnetworkConfig, seed: int = 0, device: str = "cpu") -> None:
        super().__init__(config, seed, device)
        self.subnets, self.retains = config.subnets, config.subnets.outside != "shared"
        self.model_copies: list[Copy] = []
        self.shapes: list[Interface] = []  # of each copy: the interface of the task that opened it
        self.subnetworks: dict[str, Subnetwork] = {}
        self.kept: dict[str, Tensors] = {}  # what the method keeps of each task, besides its subnetwork
        self.layouts: dict[Interface, Layout] = {}
        self.can_learn = True  # not after a snapshot without its memory, which holds the values of free entries

    def layout(self, shape: Interface) -> Layout:
        """The parameters that masks cover in a network for this interface."""
        if shape not in self.layouts:
            net, masked = new_net(self.config.net, shape, self.seed), self.subnets.biases == "masked"
            self.layouts[shape] = Layout.of(net, self.subnets.exclude, biases=masked)
        return self.layouts[shape]

    def check_capacity(self, interface: Interface, tasks: int) -> None:
        self.layout(interface)  # raises if masks could cover nothing

    def fitting(self, interface: Interface) -> list[int]:
        """The copies whose network can be used for a task with this interface."""
        return [index for index, shape in enumerate(self.shapes) if shape.fits(interface)]

    def fresh_net(self, copy: int, shape: Interface) -> Backbone:
        """A copy's network, freshly initialised."""
        return new_net(self.config.net, shape, self.seed, "copy", copy)

    def room(self, index: int, interface: Interface, source: str | None = None) -> Room:
        """The copy with this number, or a new copy if it does not exist yet: for this interface, or like that of the
        task `source` and with its network inside."""
        if not self.can_learn:
            raise Mistake("what this learner needs to learn another task was not kept: it can only act")
        if index < self.copies:
            shape, copy = self.shapes[index], self.model_copies[index]
            return Room(index, shape, self.layout(shape), copy, list(self.inside(index).values()))
        shape = self.shapes[self.task_copy(source)] if source else interface
        layout = self.layout(shape)
        weights = layout.join(dict(self.fresh_net(index, shape).named_parameters()))
        copy = Copy(weights, torch.zeros(layout.total, dtype=torch.bool), {})
        if source:
            begun = self.subnetworks[source]
            held = self.model_copies[begun.copy]
            copy = replace(copy, weights=begun.laid_over(weights, held), outside=held.outside)
        return Room(index, shape, layout, copy, [])

    def inside(self, copy: int) -> dict[str, Subnetwork]:
        """The subnetworks in a copy, in the order they were learned."""
        return {name: subnetwork for name, subnetwork in self.subnetworks.items() if subnetwork.copy == copy}

    def own(self, name: str, room: Room, claimed: Copy, subnetwork: Subnetwork, kept: Tensors) -> None:
        """Stores a copy after a task was learned in it, and the task's subnetwork; cannot fail half-way."""
        self.model_copies[room.index : room.index + 1] = [claimed]
        self.shapes[room.index : room.index + 1] = [room.shape]
        self.subnetworks[name], self.kept[name] = subnetwork, kept

    def adopt(self, name: str, role: Role, room: Room, delta: Delta, kept: Tensors) -> None:
        """Takes over a task that another learner learned, without training."""
        self.own(name, room, *delta.added_to(room.copy, room.index), kept)
        self.roles[name] = role

    def parts(self) -> list[dict[str, Any]]:
        return [self.subnetworks, self.kept]

    def free(self, name: str, draw: int) -> None:
        """Entries that the task claimed and others use become those of the next task that uses them."""
        index = self.subnetworks[name].copy
        others = {other: subnetwork for other, subnetwork in self.inside(index).items() if other != name}
        if not others:
            self._close(index)
            return
        copy, shape = self.model_copies[index], self.shapes[index]
        occupied = torch.zeros_like(copy.occupied)
        for other, subnetwork in others.items():
            new = int((subnetwork.mask & ~occupied).sum())
            self.subnetworks[other] = replace(subnetwork, new=new)
            occupied = occupied | subnetwork.mask
        fresh = new_net(self.config.net, shape, self.seed, "copy", index, "removed", draw)
        drawn = self.layout(shape).join(dict(fresh.named_parameters()))
        weights = torch.where(copy.occupied & ~occupied, drawn, copy.weights)
        self.model_copies[index] = Copy(weights, occupied, copy.outside)

    def _close(self, index: int) -> None:
        """Drops a copy; those after it move up."""
        del self.model_copies[index], self.shapes[index]
        for name, subnetwork in self.subnetworks.items():
            if subnetwork.copy > index:
                self.subnetworks[name] = replace(subnetwork, copy=subnetwork.copy - 1)

    def policy(self, name: str, task: Task | None = None) -> Policy:
        role, subnetwork = self.role(name, task), self.subnetworks[name]
        return self.acting_in(role, self.shapes[subnetwork.copy], self.model_copies[subnetwork.copy], subnetwork)

    def acting_in(self, role: Role, shape: Interface, copy: Copy, subnetwork: Subnetwork) -> Policy:
        """The policy of a subnetwork in a copy, whose network was built for the interface `shape`."""
        tensors = effective(copy, subnetwork, self.layout(shape))
        return self.acting(role, self.own_net(role, shape, tensors), subnetwork.normaliser)

    def accounts(self) -> list[dict[str, Any]]:
        return [
            asdict(capacity(copy, self.inside(index), self.stored_tasks(index)))
            for index, copy in enumerate(self.model_copies)
        ]

    @property
    def copies(self) -> int:
        return len(self.model_copies)

    def task_copy(self, name: str) -> int:
        return self.subnetworks[name].copy

    def stored_tasks(self, copy: int) -> dict[str, Tensors]:
        """What is stored of each task in a copy; it stays the same when later tasks are learned."""
        inside, weights = self.inside(copy), self.model_copies[copy].weights
        layout = self.layout(self.shapes[copy])
        masks = stored_masks([subnetwork.mask for subnetwork in inside.values()])
        occupied = torch.zeros_like(self.model_copies[copy].occupied)
        stored = {}
        for (name, subnetwork), mask in zip(inside.items(), masks, strict=True):
            new = subnetwork.mask & ~occupied
            occupied = occupied | subnetwork.mask
            normaliser = {"shift": subnetwork.normaliser.shift, "scale": subnetwork.normaliser.scale}
            stored[name] = {
                **mask,
                **under("new", stored_weights([values[chosen] for values, chosen in layout.pieces(weights, new)])),
                **under("change", stored_change(subnetwork.change, layout)),
                **under("private", subnetwork.private),
                **under("normaliser", normaliser),
                **under("kept", self.kept[name]),
            }
        return stored

    def snapshot(self) -> Snapshot:
        weights: dict[str, Tensors] = {}
        memory: Tensors = {}
        for index, copy in enumerate(self.model_copies):
            weights |= {f"task-{name}": tensors for name, tensors in self.stored_tasks(index).items()}
            if copy.outside:
                weights[f"copy-{index}"] = under("outside", copy.outside)
            if self.can_learn:
                memory |= under(f"copy-{index}", stored_weights([copy.weights[~copy.occupied]]))
        places = {name: {"copy": one.copy, "new": one.new} for name, one in self.subnetworks.items()}
        notes = {**self.notes(), "places": places}
        first = self._first_shapes({name: one.copy for name, one in self.subnetworks.items()})
        if self.shapes != first:  # the task that opened a copy was removed
            notes["shapes"] = [shape.record() for shape in self.shapes]
        return Snapshot(weights, memory, notes)

    def _first_shapes(self, copies: Mapping[str, int]) -> list[Interface]:
        """The interface of the first task in each copy; `copies` are those of all tasks."""
        shapes: dict[int, Interface] = {}
        for name, copy in copies.items():
            shapes.setdefault(copy, self.roles[name].interface)
        return [shapes[index] for index in range(len(shapes))]

    def restore(self, snapshot: Snapshot) -> None:
        self.read_notes(snapshot.notes)
        places = conform(snapshot.notes["places"], dict[str, Place], "places")
        self.shapes = self._first_shapes({name: places[name].copy for name in self.roles})
        if "shapes" in snapshot.notes:
            self.shapes = [Interface.read(snapshot.notes["shapes"][index]) for index in range(len(self.shapes))]
        subnetworks: dict[str, Subnetwork] = {}
        self.model_copies, self.can_learn = [], True
        for index in range(len(self.shapes)):
            inside = {name: places[name] for name in self.roles if places[name].copy == index}
            copy, found = self._restored_copy(index, inside, snapshot)
            self.model_copies.append(copy)
            subnetworks |= found
        self.subnetworks = {name: subnetworks[name] for name in self.roles}  # in the order they were learned
        self.kept = {name: part(snapshot.weights[f"task-{name}"], "kept") for name in self.roles}

    def _restored_copy(
        self, index: int, inside: Mapping[str, Place], snapshot: Snapshot
    ) -> tuple[Copy, dict[str, Subnetwork]]:
        """A copy and the subnetworks in it; its free entries are zero if the snapshot has no memory."""
        layout, tensors = self.layout(self.shapes[index]), snapshot.weights.get(f"copy-{index}", {})
        stored = [snapshot.weights[f"task-{name}"] for name in inside]
        weights, occupied = torch.zeros(layout.total), torch.zeros(layout.total, dtype=torch.bool)
        subnetworks = {}
        for (name, place), task, mask in zip(inside.items(), stored, read_masks(stored, layout.total), strict=True):
            new = mask & ~occupied
            if int(new.sum()) != place.new:
                raise ValueError(f"{name} has claimed {place.new} entries, but {int(new.sum())} are new in its mask")
            if "weights" not in tensors:
                counts = [int(chosen.sum()) for (chosen,) in layout.pieces(new)]
                weights[new] = read_weights(part(task, "new"), counts)
            occupied = occupied | mask
            normaliser = Normaliser(**part(task, "normaliser"))
            change = read_change(part(task, "change"), layout)
            subnetworks[name] = Subnetwork(index, mask, place.new, part(task, "private"), normaliser, change)
        if "weights" in tensors:  # version 0.1 stored all weights of a copy in one tensor
            weights = read_weights({"values": tensors["weights"]}, [layout.total])
        elif free := part(snapshot.memory, f"copy-{index}"):
            weights[~occupied] = read_weights(free, [int((~occupied).sum())])
        else:
            self.can_learn = False
        return Copy(weights, occupied, part(tensors, "outside")), subnetworks
