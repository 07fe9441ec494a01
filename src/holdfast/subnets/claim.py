"""How a task gets its subnetwork: what its training begins with, and what it owns afterwards."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import torch
from torch import Tensor

from holdfast.data.normaliser import Normaliser
from holdfast.nets.backbone import Backbone
from holdfast.subnets.config import SubnetConfig
from holdfast.subnets.copies import Copy, Subnetwork
from holdfast.subnets.layout import Layout
from holdfast.subnets.masked import LearnedChange, LearnedMask, Masked, Unmasked
from holdfast.subnets.quantise import quantise
from holdfast.subnets.quotas import free_entries, selected_counts


def draw_scores(layout: Layout, generator: torch.Generator) -> Tensor:
    """New scores, drawn as Kaiming initialisation (a = sqrt 5) draws the corresponding weights."""
    scores = []
    for shape in layout.shapes:
        bound = (prod(shape[1:]) if len(shape) > 1 else shape[0]) ** -0.5  # 1 / sqrt(fan-in)
        scores.append(torch.empty(prod(shape)).uniform_(-bound, bound, generator=generator))
    return torch.cat(scores)


@dataclass(frozen=True)
class Start:
    """The starting point of a new task."""

    copy: Copy
    earlier: Sequence[Subnetwork]  # subnetworks in the copy, in the order they were learned
    sources: Sequence[Subnetwork]  # nearest first: all masks initialise the scores, the first's private parameters
    generator: torch.Generator  # for the scores
    transitions: int | None = None  # of the task's data


def begin(config: SubnetConfig, net: Backbone, layout: Layout, start: Start) -> Masked:
    """The masked network that a new task trains."""
    copy = start.copy
    counts = selected_counts(config, layout, free_entries(layout, copy), len(start.earlier), start.transitions)
    quotas = quotas_of(config, copy)
    if start.sources and config.warm_start > 0:
        noise = torch.empty(layout.total).normal_(0, config.noise, generator=start.generator)
        united = torch.stack([source.mask for source in start.sources]).any(dim=0)
        scores = config.warm_start * united + noise
    else:
        scores = draw_scores(layout, start.generator)
    before = [*start.sources[:1], *start.earlier[-1:], None][0]
    outside = Unmasked(unmasked_start(net, layout, copy, before), trains_unmasked(config, start.earlier))
    change = None if counts.changed is None else change_start(layout, start, counts.changed)
    return Masked(net, layout, copy, LearnedMask(quotas, counts.quotas, scores), outside, change=change)


def change_start(layout: Layout, start: Start, changed: Sequence[int]) -> LearnedChange:
    """The change of a task before it is trained: that of its source, so that it starts from the source's weights."""
    values = torch.zeros(layout.total)
    for source in start.sources[:1]:
        values = source.change.added_to(values) if source.change else values
    return LearnedChange(changed, values)


def quotas_of(config: SubnetConfig, copy: Copy) -> Tensor:
    """The quota that each entry of a copy belongs to for the next task, (P,) uint8; 0 if it may not be selected."""
    if config.new is not None:
        return 1 + copy.occupied.to(torch.uint8)
    return torch.ones_like(copy.occupied, dtype=torch.uint8) if config.reuse else (~copy.occupied).to(torch.uint8)


def unmasked_start(net: Backbone, layout: Layout, copy: Copy, before: Subnetwork | None) -> dict[str, Tensor]:
    """The initial parameters that no mask covers: those of the task before, of the copy, or of the new network."""
    if before and before.private:
        return before.private
    return copy.outside or layout.outside(dict(net.named_parameters()))


def trains_unmasked(config: SubnetConfig, earlier: Sequence[Subnetwork]) -> bool:
    """Whether a task trains the parameters that no mask covers, in a copy with these earlier tasks."""
    return config.outside != "frozen" or not earlier


def claim(config: SubnetConfig, masked: Masked, index: int, normaliser: Normaliser) -> tuple[Copy, Subnetwork]:
    """The copy after the task has claimed its weights, and the task's subnetwork."""
    layout = masked.layout
    mask, values = masked.mask().detach().cpu(), masked.values().detach().cpu()
    occupied = masked.occupied.detach().cpu()
    new = mask & ~occupied
    if config.quantise_bits:
        values = quantise(values, new, layout, config.quantise_bits)
    change = masked.sparse_change()
    if change and config.quantise_bits:
        moved = quantise(change.added_to(torch.zeros(layout.total)), change.mask, layout, config.quantise_bits)
        change = replace(change, values=moved[change.mask])
    is_private = config.outside == "private"
    private = masked.unmasked() if is_private else {}
    outside = {} if is_private else masked.unmasked()
    subnetwork = Subnetwork(index, mask, int(new.sum()), private, normaliser, change)
    return Copy(values, occupied | mask, outside), subnetwork
