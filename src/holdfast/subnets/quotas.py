"""How many entries of each tensor the next task of a copy selects, and so how many more tasks fit."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from holdfast.errors import Mistake
from holdfast.subnets.capacity import FurtherTasks
from holdfast.subnets.config import SubnetConfig
from holdfast.subnets.copies import Copy
from holdfast.subnets.layout import Layout
from holdfast.subnets.placement import in_order
from holdfast.subnets.selection import entries

FEW = 3  # tensors named in a message
MOST = 1_000  # tasks that are counted ahead
LEAST_NEW, MOST_NEW = Fraction(1, 20), Fraction(1, 2)  # shares of new entries, if the data decide
NEW_A_TRANSITION = 8  # new entries for each transition, within these; see the documentation for where this is from
HORIZON = 20  # tasks that a copy is planned for if nothing says how many there will be


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
    if config.never_full:
        return "any number"
    for more in range(MOST):
        counts = task_counts(config, layout, free, held + more)
        if beyond_plan(config, held + more) or lacking(layout, free, counts):
            return more
        free = free_after(free, counts)
    return MOST
