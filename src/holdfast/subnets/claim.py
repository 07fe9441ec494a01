"""How a task gets its subnetwork: which entries it may select in training, and which it owns afterwards."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from typing import Annotated, Literal

import torch
from torch import Tensor

from holdfast.data.normaliser import Normaliser
from holdfast.data.validation import Range, validate
from holdfast.errors import Mistake
from holdfast.nets.backbone import Backbone
from holdfast.subnets.capacity import FurtherTasks
from holdfast.subnets.copies import Copy, Outside, Subnetwork
from holdfast.subnets.layout import Layout
from holdfast.subnets.masked import LearnedChange, LearnedMask, Masked, Unmasked
from holdfast.subnets.placement import in_order
from holdfast.subnets.quantise import quantise
from holdfast.subnets.selection import entries

FEW = 3  # tensors named in a message
MOST = 1_000  # tasks that are counted ahead
LEAST_NEW, MOST_NEW = Fraction(1, 20), Fraction(1, 2)  # shares of new entries, if the data decide
NEW_A_TRANSITION = 8  # new entries for each transition, within these; see the documentation for where this is from
HORIZON = 20  # tasks that a copy is planned for if nothing says how many there will be


@dataclass(frozen=True)
class SubnetConfig:
    """How sparse subnetworks are formed."""

    keep: Annotated[float, Range(over=0, most=1)] = 0.33
    """Share of the feasible entries that a task selects in every tensor (rho)."""
    schedule: Literal["constant", "equal_remaining"] = "constant"
    """constant: `keep` for every task. equal_remaining: free entries in equal shares for the copy's remaining tasks."""
    tasks: Annotated[int | None, Range(least=1, most=10**6)] = None
    """Number of tasks that one copy is planned for; by default the number of tasks in the suite."""
    reuse: bool = True
    """Let a task also select entries that earlier tasks own; they stay frozen."""
    exclude: tuple[str, ...] = ("timestep",)
    """Names of modules without masks."""
    new: Annotated[float | Literal["planned", "auto"] | None, Range(least=0, most=1)] = None
    """Share of a task's entries that must be new; planned: half, or fewer to have room for all; auto: by its data."""
    place: Literal["scores", "gradient", "deep", "shallow"] = "scores"
    """Where new entries go: by drawn scores, by the loss gradient at the start, or in the last or first layers."""
    private: Annotated[float, Range(least=0, most=1)] = 0.0
    """Size of the change that a later task of a copy adds for itself alone, as a share of its number of entries."""
    biases: Literal["masked", "outside"] = "masked"
    """Biases: under masks, or outside, like other parameters without masks (see subnets.outside)."""
    outside: Outside = "private"
    """Parameters without masks: private to each task, frozen after the copy's first task, or shared (forgets)."""
    # without reuse no entry of the source's mask is feasible, so only the noise matters
    warm_start: Annotated[float, Range(least=0, most=10**6)] = 2.0
    """Initial scores are this factor times the source's mask (lambda); 0 draws new scores even if there is a source."""
    sources: Annotated[int, Range(least=1, most=10**6)] = 1
    """Number of tasks whose masks a warm start unites: the nearest ones in the copy."""
    far_source: Literal["nearest", "last"] = "nearest"
    """What a task starts from in its copy if no learned task is near: the nearest one, or the one learned last."""
    new_copy: Literal["fresh", "last"] = "fresh"
    """What a new copy begins with: new weights alone, or in them the network of the task that was learned last."""
    noise: Annotated[float, Range(least=0, most=10**6)] = 0.02
    """Standard deviation of the noise that is added to warm-started scores."""
    quantise_bits: Annotated[int, Range(least=0, most=8)] = 0
    """Bits that newly claimed weights are quantised to, per tensor; 0 means no quantisation."""

    def __post_init__(self) -> None:
        validate(self, "subnets.")
        if self.new is not None and not self.reuse:
            raise Mistake(
                "subnets.new is for tasks that reuse entries, but subnets.reuse is off: leave one of them out"
            )
        if self.place != "scores" and not self.new:
            raise Mistake("subnets.place is about new entries: say with subnets.new how many there are, more than 0")
        if self.sources > 1 and self.new == 0:
            raise Mistake(
                "subnets.sources unites masks, but with subnets.new 0 all tasks of a copy have one mask: "
                "leave one of them out"
            )


def free_entries(layout: Layout, copy: Copy) -> list[int]:
    """The number of entries of each tensor that no task owns."""
    return [int((~occupied).sum()) for (occupied,) in layout.pieces(copy.occupied)]


def next_task_counts(config: SubnetConfig, layout: Layout, free: Sequence[int], held: int) -> list[int]:
    """The number of entries of each tensor for the next task of a copy with `held` tasks."""
    if config.schedule == "equal_remaining":
        left = max((config.tasks or 1) - held, 1)  # tasks still to come, the next one included
        return [entries(Fraction(1, left), count) for count in free]
    return [entries(config.keep, count) for count in (layout.sizes if config.reuse else free)]


@dataclass(frozen=True)
class Counts:
    """How many entries of each tensor a task selects."""

    selected: list[int]
    new: list[int] | None  # how many of them must be free ones; None if the scores decide
    changed: list[int] | None = None  # how many entries its change adds to; None if it has no change

    @property
    def quotas(self) -> list[list[int]]:
        """The numbers of each quota: of all entries, or of free and of owned ones."""
        if self.new is None:
            return [self.selected]
        return [self.new, [both - new for both, new in zip(self.selected, self.new, strict=True)]]


def task_counts(
    config: SubnetConfig, layout: Layout, free: Sequence[int], held: int, transitions: int | None = None
) -> Counts:
    """The numbers of entries for the next task of a copy with `held` tasks; it may have too few of them.

    If it is not known how many transitions the task has, they are enough for the largest share of new entries.
    """
    selected = next_task_counts(config, layout, free, held)
    new, changed = None, None
    if config.new is not None:
        share = new_share(config, sum(selected), transitions)
        new = new_counts(config, layout, free, held, [entries(share, k) for k in selected])
    if config.private and held:  # the first task of a copy owns all its entries
        changed = [entries(config.private, k) for k in selected]
    return Counts(selected, new, changed)


def new_counts(
    config: SubnetConfig, layout: Layout, free: Sequence[int], held: int, wanted: Sequence[int]
) -> list[int]:
    """How many entries of each tensor must be free ones: as many as wanted, within the plan, or more if too few are
    owned."""
    selected = next_task_counts(config, layout, free, held)
    owned = [size - count for size, count in zip(layout.sizes, free, strict=True)]
    least = [max(k - old, 0) for k, old in zip(selected, owned, strict=True)]
    left = max(planned_tasks(config) - held, 1)  # tasks still to come, the next one included
    if config.place in ("deep", "shallow"):
        most, total = list(map(min, selected, free)), sum(map(max, wanted, least))
        if is_planned(config):
            total = max(min(total, sum(free) // left, sum(most)), sum(least))
        if total <= sum(most):
            return in_order(total, least, most, deepest_first=config.place == "deep")
    elif is_planned(config):
        wanted = [min(new, count // left) for new, count in zip(wanted, free, strict=True)]
    return list(map(max, wanted, least))


def new_share(config: SubnetConfig, k: int, transitions: int | None) -> float | Fraction:
    """The share of a task's k entries that must be free ones, before the plan of its copy limits it."""
    if config.new is None or isinstance(config.new, float):
        return config.new or 0.0
    if config.new == "planned" or transitions is None:
        return MOST_NEW
    return min(max(Fraction(NEW_A_TRANSITION * transitions, max(k, 1)), LEAST_NEW), MOST_NEW)  # k is 0 in a full copy


def is_planned(config: SubnetConfig) -> bool:
    """Whether the free entries of a copy are shared out to the tasks that it is planned for."""
    return config.new in ("planned", "auto")


def beyond_plan(config: SubnetConfig, held: int) -> bool:
    """Whether a copy with `held` tasks holds all that its free entries were shared out to."""
    return is_planned(config) and held >= planned_tasks(config)


def planned_tasks(config: SubnetConfig) -> int:
    """How many tasks one copy is planned for."""
    return config.tasks or HORIZON


def lacking(layout: Layout, free: Sequence[int], counts: Counts) -> list[str]:
    """The tensors in which the next task would select nothing, or would need more free entries than there are."""
    needed = counts.new or [0] * len(free)
    rows = zip(layout.names, counts.selected, needed, free, strict=True)
    return [name for name, selected, new, left in rows if selected == 0 or new > left]


def has_room(config: SubnetConfig, layout: Layout, copy: Copy, held: int) -> bool:
    """Whether the next task of a copy with `held` tasks finds the entries it needs in every tensor."""
    if beyond_plan(config, held):
        return False
    free = free_entries(layout, copy)
    return not lacking(layout, free, task_counts(config, layout, free, held))


def selected_counts(
    config: SubnetConfig, layout: Layout, free: Sequence[int], held: int, transitions: int | None = None
) -> Counts:
    """As `task_counts`, but raises if the task would lack entries in some tensor."""
    if beyond_plan(config, held):
        raise Mistake(
            f"a copy is planned for {planned_tasks(config)} tasks: raise subnets.tasks before the first one, "
            "or allow more copies"
        )
    counts = task_counts(config, layout, free, held, transitions)
    missing = lacking(layout, free, counts)
    if not missing:
        return counts
    more = f" and {len(missing) - FEW} more" if len(missing) > FEW else ""
    where = f"in {len(missing)} of {len(free)} tensors ({', '.join(missing[:FEW])}{more})"
    if config.new is not None:
        raise Mistake(
            f"a copy with {held} tasks has too few free entries for another one {where}: "
            "lower subnets.new or subnets.keep, or allow more copies"
        )
    raise Mistake(
        f"task {held + 1} in one copy would select nothing {where}: lower subnets.keep, allow reuse with the schedule "
        "constant, or leave these modules without masks (subnets.exclude)"
    )


def check_room(config: SubnetConfig, layout: Layout, copies: int = 1, tasks: int = 1) -> None:
    """Raises if it is already known that so many tasks, or the planned ones, would lack entries in so many copies."""
    free = layout.sizes
    known = not config.reuse or config.new is not None  # whether it is known how many entries a task claims
    most = max(tasks, min(config.tasks or 1, MOST))
    for held in range(-(-most // copies) if known else 1):
        free = free_after(free, selected_counts(config, layout, free, held))


def free_after(free: Sequence[int], counts: Counts) -> list[int]:
    """The number of free entries of each tensor after a task; all that it selects count as new, unless a quota says
    how many are."""
    claimed = counts.selected if counts.new is None else counts.new
    return [before - count for before, count in zip(free, claimed, strict=True)]


def further_tasks(config: SubnetConfig, layout: Layout, free: Sequence[int], held: int) -> FurtherTasks:
    """How many more tasks surely find the entries they need in a copy with `held` tasks; at most `MOST`."""
    if config.reuse and not config.new and config.schedule == "constant":
        return "any number"  # a task may select only entries that others own
    for more in range(MOST):
        counts = task_counts(config, layout, free, held + more)
        if beyond_plan(config, held + more) or lacking(layout, free, counts):
            return more
        free = free_after(free, counts)
    return MOST


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
