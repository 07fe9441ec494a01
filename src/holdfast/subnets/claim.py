"""How a task gets its subnetwork: what it may select while it learns, and what it owns once it has learned."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Annotated, Literal

import torch
from torch import Tensor

from holdfast.data.normaliser import Normaliser
from holdfast.data.validation import Range, validate
from holdfast.errors import Mistake
from holdfast.nets.backbone import Backbone
from holdfast.subnets.copies import Copy, Outside, Subnetwork
from holdfast.subnets.layout import Layout
from holdfast.subnets.masked import LearnedMask, Masked, Unmasked
from holdfast.subnets.quantise import quantise
from holdfast.subnets.selection import entries

FEW = 3  # tensors that a sentence names


@dataclass(frozen=True)
class SubnetConfig:
    """How sparse subnetworks are formed."""

    keep: Annotated[float, Range(over=0, most=1)] = 0.33
    """Share of the feasible entries that a task selects in every tensor (rho)."""
    schedule: Literal["constant", "equal_remaining"] = "constant"
    """constant: `keep` for every task. equal_remaining: free entries in equal shares for the copy's tasks to come."""
    tasks: Annotated[int | None, Range(least=1, most=10**6)] = None
    """Number of tasks that one copy is meant for; by default as many as the suite has."""
    reuse: bool = True
    """Let a task select entries that earlier tasks own; they stay frozen."""
    exclude: tuple[str, ...] = ("timestep",)
    """Names of modules that get no masks."""
    outside: Outside = "private"
    """Parameters without masks are private to each task, frozen after a copy's first, or shared (which forgets)."""
    # without reuse a task may select nothing of the source's mask, so that its scores start as noise alone
    warm_start: Annotated[float, Range(least=0)] = 2.0
    """Factor on the source's mask that scores start from (lambda); 0 draws scores anew even if there is a source."""
    noise: Annotated[float, Range(least=0)] = 0.02
    """Standard deviation of the noise that is added to warm-started scores."""
    quantise_bits: Annotated[int, Range(least=0, most=8)] = 0
    """Bits that newly claimed weights are quantised to, per tensor; 0 leaves them as they are."""

    def __post_init__(self) -> None:
        validate(self, "subnets.")


def free_entries(layout: Layout, copy: Copy) -> list[int]:
    """How many entries of each tensor nobody owns."""
    return [int((~occupied).sum()) for (occupied,) in layout.pieces(copy.occupied)]


def next_task_counts(config: SubnetConfig, layout: Layout, free: Sequence[int], held: int) -> list[int]:
    """How many entries of each tensor there are for the next task of a copy that holds `held` tasks."""
    if config.schedule == "equal_remaining":
        left = max((config.tasks or 1) - held, 1)  # tasks still to come, the next one included
        return [entries(Fraction(1, left), count) for count in free]
    return [entries(config.keep, count) for count in (layout.sizes if config.reuse else free)]


def has_room(config: SubnetConfig, layout: Layout, copy: Copy, held: int) -> bool:
    """Whether the next task of a copy that holds `held` tasks can select something in every tensor."""
    return 0 not in next_task_counts(config, layout, free_entries(layout, copy), held)


def selected_counts(config: SubnetConfig, layout: Layout, free: Sequence[int], held: int) -> list[int]:
    """The shares of the next task, which selects all of them; raises if it would select nothing in some tensor."""
    counts = next_task_counts(config, layout, free, held)
    if 0 not in counts:
        return counts
    starved = [name for name, count in zip(layout.names, counts, strict=True) if count == 0]
    more = f" and {len(starved) - FEW} more" if len(starved) > FEW else ""
    raise Mistake(
        f"task {held + 1} in one copy would select nothing in {len(starved)} of {len(counts)} tensors "
        f"({', '.join(starved[:FEW])}{more}): lower subnets.keep, allow reuse with the schedule constant, "
        "or leave these modules without masks (subnets.exclude)"
    )


def check_room(config: SubnetConfig, layout: Layout) -> None:
    """Raises unless all tasks that a new copy is meant for, as far as can be foreseen, select from every tensor."""
    free = layout.sizes
    # Without reuse a task claims all that it selects, so what is left for the tasks after it is known.
    for held in range(1 if config.reuse else config.tasks or 1):
        counts = selected_counts(config, layout, free, held)
        free = [before - count for before, count in zip(free, counts, strict=True)]


def draw_scores(layout: Layout, generator: torch.Generator) -> Tensor:
    """Fresh scores, uniform as kaiming (a = sqrt 5) would draw the weights they stand for."""
    scores = []
    for shape in layout.shapes:
        bound = (prod(shape[1:]) if len(shape) > 1 else shape[0]) ** -0.5  # one over the root of the fan-in
        scores.append(torch.empty(prod(shape)).uniform_(-bound, bound, generator=generator))
    return torch.cat(scores)


@dataclass(frozen=True)
class Start:
    """What a new task starts from."""

    copy: Copy
    earlier: Sequence[Subnetwork]  # in the copy, in the order they were learned
    source: Subnetwork | None  # whose mask and private parameters the new ones start from
    generator: torch.Generator  # of the scores


def begin(config: SubnetConfig, net: Backbone, layout: Layout, start: Start) -> Masked:
    """The network that a new task trains."""
    copy, source = start.copy, start.source
    counts = selected_counts(config, layout, free_entries(layout, copy), len(start.earlier))
    feasible = torch.ones_like(copy.occupied) if config.reuse else ~copy.occupied
    if source is not None and config.warm_start > 0:
        noise = torch.empty(layout.total).normal_(0, config.noise, generator=start.generator)
        scores = config.warm_start * source.mask + noise
    else:
        scores = draw_scores(layout, start.generator)
    trained = not (config.outside == "frozen" and start.earlier)
    before = source or (start.earlier[-1] if start.earlier else None)
    outside = Unmasked(unmasked_start(net, layout, copy, before), trained)
    return Masked(net, layout, copy, LearnedMask(feasible, counts, scores), outside)


def unmasked_start(net: Backbone, layout: Layout, copy: Copy, before: Subnetwork | None) -> dict[str, Tensor]:
    """Where the parameters that no mask covers start: at those of the task before, at the copy's own, or as drawn."""
    return (before.private if before else {}) or copy.outside or layout.outside(dict(net.named_parameters()))


def claim(config: SubnetConfig, masked: Masked, index: int, normaliser: Normaliser) -> tuple[Copy, Subnetwork]:
    """The copy with the task's weights frozen into it, and the task's subnetwork in that copy."""
    layout = masked.layout
    mask, values, occupied = (tensor.detach().cpu() for tensor in (masked.mask(), masked.values(), masked.occupied))
    new = mask & ~occupied
    if config.quantise_bits:
        values = quantise(values, new, layout, config.quantise_bits)
    private, outside = (masked.unmasked(), {}) if config.outside == "private" else ({}, masked.unmasked())
    subnetwork = Subnetwork(index, mask, int(new.sum()), private, normaliser)
    return Copy(values, occupied | mask, outside), subnetwork
