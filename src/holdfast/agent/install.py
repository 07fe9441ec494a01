"""Installing a pack: it is checked against an agent, and its task is put where it fits."""

from dataclasses import dataclass, replace

import numpy as np

from holdfast.agent.agent_folder import AgentFolder
from holdfast.agent.changes import Update
from holdfast.agent.exported_folder import GROWTH, ROOM, checked_size, fitting, read_normaliser
from holdfast.agent.identify import kept_sketch
from holdfast.agent.pack import Pack, settings_of, with_subnetworks
from holdfast.agent.plan import AgentPlan
from holdfast.agent.raw_policy import RawPolicy
from holdfast.agent.session import Session
from holdfast.agent.settings import first_difference
from holdfast.agent.store import UNFIT
from holdfast.agent.task_record import TaskRecord
from holdfast.data.episodes import Dataset, Episode
from holdfast.data.validation import shown
from holdfast.errors import Mistake
from holdfast.evaluation.certificates import fingerprint
from holdfast.learners.learner import Learner, Role
from holdfast.learners.sparse import Sparse
from holdfast.learners.subnetworks import Room, SubnetworkLearner
from holdfast.learners.tensors import Tensors, part
from holdfast.nets.backbone import unallocated
from holdfast.routing.affinities import Affinity
from holdfast.subnets.delta import Delta
from holdfast.subnets.stored_changes import read_change
from holdfast.subnets.stored_masks import read_masks
from holdfast.subnets.stored_weights import read_weights
from holdfast.tasks.interface import Continuous, Interface
from holdfast.tasks.task import Task

PARTS = ("mask", "new", "values", "change", "private", "outside", "normaliser", "kept")  # of the tensors' names


@dataclass(frozen=True)
class Installed:
    """A task that was installed from a pack."""

    name: str
    copy: int
    record: TaskRecord


def install(session: Session[AgentFolder], pack: Pack, name: str) -> Installed:
    """Puts the task of a pack into an agent under this name, as one change."""
    folder, record = session.folder, pack.record
    room, before = adopt(session.learner, folder.plan, pack, name), folder.store.index.number
    session.commit(Update("install", name, {name: record.dataset}, {name: record.note.record()}))
    folder.event("install", stage=before, task=name, copy=room.index, sha256=pack.sha256)
    return Installed(name, room.index, record.note)


def adopt(learner: Learner, plan: AgentPlan, pack: Pack, name: str) -> Room:
    """Makes the learner know the task of a pack under this name; returns the copy that it went to, as it was before.

    If it raises, the learner must not be used any more.
    """
    learner = with_subnetworks(learner, plan)
    if difference := first_difference(settings_of(plan), pack.record.settings):
        setting, ours, theirs = difference
        raise Mistake(
            f"{pack.path} was packed by an agent with {setting} = {shown(theirs)}, and this one has {shown(ours)}: "
            "it can only be installed where the network has the same settings"
        )
    if name in learner.learned:
        raise Mistake(f"the agent already has a task {name}: give this one another name with --as")
    interface, kept = pack.record.interface, part(pack.tensors, "kept")
    try:
        delta = read_delta(pack, learner, interface)
    except (Mistake, OverflowError, *UNFIT) as problem:
        raise damaged(pack, problem) from problem
    room = room_for(delta, learner, pack, interface)
    learner.adopt(name, Role(interface, pack.record.target), room, delta, kept)
    try:
        policy = learner.policy(name)
        RawPolicy(policy, pack.record.note.read_layout())
        check_sketch(learner, name, interface)
    except (Mistake, *UNFIT) as problem:
        raise damaged(pack, problem) from problem
    if fingerprint(policy) != pack.record.fingerprint:
        raise damaged(pack, "its policy is not the one that its certificate was given for")
    check_router(learner, pack, interface)
    return room


def damaged(pack: Pack, problem: object) -> Mistake:
    """The user's message about a pack whose tensors do not fit."""
    return Mistake(f"{pack.path} cannot be installed ({problem}): pack the task again")


def read_delta(pack: Pack, learner: SubnetworkLearner, interface: Interface) -> Delta:
    """The delta in a pack; names, shapes and sizes are checked before a network is allocated."""
    if unknown := {name for name in pack.tensors if name.split("/")[0] not in PARTS}:
        raise Mistake(f"{min(unknown)!r} is not a tensor of a pack")
    outline = unallocated(learner.config.net, interface)
    size = checked_size(outline)
    if size > max(ROOM, GROWTH * pack.bytes):
        raise Mistake(f"a network of {size} bytes does not fit into {pack.bytes}")
    layout = learner.layout(interface)
    if layout != pack.record.layout:
        raise Mistake("its masks cover other parameters")
    mask, new = read_masks([part(pack.tensors, "mask"), part(pack.tensors, "new")], layout.total)
    counts = [int(chosen.sum()) for (chosen,) in layout.pieces(new)]
    unmasked = layout.outside(dict(outline.named_parameters()))
    is_private = learner.subnets.outside == "private"
    alone = not (mask & ~new).any()
    delta = Delta(
        mask=mask,
        new=new,
        values=read_weights(part(pack.tensors, "values"), counts),
        private=parameters(part(pack.tensors, "private"), unmasked if is_private else {}),
        outside=parameters(part(pack.tensors, "outside"), {} if is_private or not alone else unmasked),
        normaliser=read_normaliser(part(pack.tensors, "normaliser"), interface),
        change=read_change(part(pack.tensors, "change"), layout),
        base=pack.record.base,
    )
    weights = [delta.values, *delta.private.values(), *delta.outside.values()]
    if delta.change:
        weights.append(delta.change.values)
    if not all(found.isfinite().all() for found in weights):
        raise Mistake("its weights must be finite")
    if pack.record.whole and not alone:
        raise Mistake("it lacks weights that its policy reads")
    return delta


def parameters(found: Tensors, expected: Tensors) -> Tensors:
    """The parameters; raises unless they have the names, shapes and types of the expected ones."""
    if found.keys() != expected.keys():
        raise ValueError(f"its parameters are not those of the network: {sorted(found.keys() ^ expected.keys())[:3]}")
    return {name: fitting(name, found[name], expected[name]) for name in found}


def room_for(delta: Delta, learner: SubnetworkLearner, pack: Pack, interface: Interface) -> Room:
    """The copy that a delta fits into, or a new one if it reuses nothing."""
    new_copy = learner.copies
    if pack.record.whole:
        return learner.room(new_copy, interface)
    same = [index for index in learner.fitting(interface) if learner.shapes[index].horizon == interface.horizon]
    rooms = [learner.room(index, interface) for index in same]
    rooms = [room for room in rooms if delta.has_base(room.copy)]
    for room in rooms:
        if not delta.taken(room.copy).any():
            return room
    if not delta.reused.any():
        return learner.room(new_copy, interface)
    if not rooms:
        raise Mistake(
            f"{pack.path} reuses weights that are not in this agent: install the tasks first that {pack.record.task} "
            "was learned after, or pack it with --whole"
        )
    taken, inside = delta.taken(rooms[0].copy), learner.inside(rooms[0].index).items()
    owner = next(task for task, subnetwork in inside if (subnetwork.mask & taken).any())
    raise Mistake(f"{pack.path} needs weights that are taken by {owner} in this agent: pack it with --whole")


def check_router(learner: SubnetworkLearner, pack: Pack, interface: Interface) -> None:
    """Raises if routing cannot compare another task with the new one."""
    if not isinstance(learner, Sparse) or learner.config.routing is None:
        return
    trial, affinity = Task("trial", interface, 0.0, lambda: made_up(interface)), learner.config.routing
    if can_compare(learner, trial, affinity):
        return
    suitable = f"the learner {shown(pack.record.learner)}"
    if can_compare(learner, trial, replace(affinity, threshold=0.0)):
        suitable = "a number as routing.threshold (this one has 'auto')"
    raise Mistake(f"{pack.path} lacks what this agent's router keeps of a task: install it on an agent with {suitable}")


def can_compare(learner: Sparse, task: Task, affinity: Affinity) -> bool:
    """Whether a task can be compared with all learned ones."""
    try:
        learner.compared(task, affinity)
    except UNFIT:
        return False
    return True


def check_sketch(learner: SubnetworkLearner, name: str, interface: Interface) -> None:
    """Raises if the task has a sketch that observations of its interface cannot be compared with."""
    if sketch := kept_sketch(learner, name):
        sketch.likeness(made_up(interface).observations)


def made_up(interface: Interface) -> Dataset:
    """An episode of two steps, all zero."""
    pixels = len(interface.observation) == 3
    observations = np.zeros((2, *interface.observation), np.uint8 if pixels else np.float32)
    is_continuous = isinstance(interface.actions, Continuous)
    actions = np.zeros((2, interface.actions.shared), np.float32) if is_continuous else np.zeros(2, np.int64)
    return Dataset.of([Episode(observations, actions, np.zeros(2, np.float32))])
