"""PackNet: a task trains all free weights, keeps the largest of them, and retrains those alone."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import torch
from torch import Tensor

from holdfast.data.randomness import derive
from holdfast.data.validation import Range, check_unread, validate
from holdfast.errors import Mistake
from holdfast.learners.learner import Datasets, LearnerSpec, windows_of
from holdfast.learners.subnetworks import Room, SubnetworkConfig, SubnetworkLearner
from holdfast.nets.backbone import NetConfig
from holdfast.subnets.claim import claim, trains_unmasked, unmasked_start
from holdfast.subnets.config import SubnetConfig
from holdfast.subnets.copies import Copy
from holdfast.subnets.masked import FixedMask, Masked, Unmasked
from holdfast.subnets.quotas import free_entries, next_task_counts
from holdfast.subnets.selection import largest
from holdfast.tasks.task import Task
from holdfast.training.config import FitConfig
from holdfast.training.fit import fit
from holdfast.training.recorder import Recorder

# Neither is subnets.warm_start read, but the toy suites set it for every learner.
UNREAD = ("new", "place", "private", "sources", "far_source", "new_copy", "noise")


@dataclass(frozen=True)
class PackNetSubnets(SubnetConfig):
    """How subnetworks are formed, without what concerns learned masks and reuse by routing."""

    def __post_init__(self) -> None:
        validate(self, "subnets.")
        check_unread(self, UNREAD, "subnets.", "packnet")  # before advice about settings that are not read
        super().__post_init__()


@dataclass(frozen=True)
class PackNetConfig(SubnetworkConfig):
    """Iterative pruning (Mallya and Lazebnik, 2018)."""

    subnets: PackNetSubnets
    retrain: Annotated[float, Range(over=0, under=1)] = 0.33
    """Share of the training steps that retrain the kept weights after pruning."""


class PackNet(SubnetworkLearner):
    """Every task uses all weights that earlier tasks kept, and keeps some of the free ones."""

    config: PackNetConfig

    def train(self, task: Task, datasets: Datasets, recorder: Recorder) -> None:
        fitting = self.fitting(task.interface)
        room = self.room(fitting[0] if fitting else self.copies, task.interface)
        counts = next_task_counts(self.subnets, room.layout, free_entries(room.layout, room.copy), len(room.earlier))
        if not any(counts):  # if only some tensors are full, the task still uses what earlier tasks own of them
            raise Mistake(
                f"no weights are left for {task.name}: subnets.tasks must be at least the number of tasks to learn"
            )
        net = self.fresh_net(room.index, room.shape)
        normaliser = task.interface.normaliser(task.dataset)
        windows = windows_of(task.dataset, normaliser, task.interface.actions.active, self.config, self.device)
        seed, config = derive(self.seed, "fit", task.name), self.config.fit
        retraining = max(round(self.config.retrain * config.steps), 1)

        before = room.earlier[-1] if room.earlier else None
        trained = trains_unmasked(self.subnets, room.earlier)
        outside = Unmasked(unmasked_start(net, room.layout, room.copy, before), trained)
        everything = FixedMask(torch.ones_like(room.copy.occupied))
        whole = Masked(net, room.layout, room.copy, everything, outside).to(self.device)
        fit(whole, windows, replace(config, steps=max(config.steps - retraining, 1)), seed, recorder, "train")

        mask, pruned = prune(whole, room, counts)
        outside = Unmasked(whole.unmasked(), trained)
        kept = Masked(net, room.layout, pruned, FixedMask(mask), outside).to(self.device)
        fit(kept, windows, replace(config, steps=retraining), seed, recorder, "retrain")

        claimed, subnetwork = claim(self.subnets, kept, room.index, normaliser)
        self.own(task.name, room, claimed, subnetwork, {})


def prune(trained: Masked, room: Room, counts: Sequence[int]) -> tuple[Tensor, Copy]:
    """Keeps the largest free weights of each tensor: returns the mask, and the copy with other free weights at zero."""
    values, occupied = trained.values().detach().cpu(), room.copy.occupied
    magnitudes = values.abs().masked_fill(occupied, -1.0)
    pieces = zip(room.layout.pieces(magnitudes), counts, strict=True)
    mask = occupied | torch.cat([largest(piece, count) for (piece,), count in pieces])
    return mask, Copy(torch.where(mask, values, torch.zeros(())), occupied, room.copy.outside)


def config(net: NetConfig) -> PackNetConfig:
    """The default settings: the remaining tasks get equal shares of the free weights."""
    subnets = PackNetSubnets(schedule="equal_remaining", reuse=False, exclude=net.unmasked)
    return PackNetConfig(net, FitConfig(), subnets)


PACKNET = LearnerSpec(PackNet, config, "free weights trained, pruned and retrained, task after task")
