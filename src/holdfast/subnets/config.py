"""The settings of sparse subnetworks."""

from dataclasses import dataclass
from typing import Annotated, Literal

from holdfast.data.validation import Range, validate
from holdfast.errors import Mistake
from holdfast.subnets.copies import Outside


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
    """Bits that a task's new weights and its private change are quantised to, per tensor; 0: not quantised."""

    def __post_init__(self) -> None:
        validate(self, "subnets.")
        if self.new is not None and not self.reuse:
            raise Mistake(
                "subnets.new is for tasks that reuse entries, but subnets.reuse is off: leave one of them out "
                "(the preset holdfast has subnets.new 0, the preset paper has none)"
            )
        if self.place != "scores" and not self.new:
            raise Mistake("subnets.place is about new entries: say with subnets.new how many there are, more than 0")
        if self.sources > 1 and self.new == 0:
            raise Mistake(
                "subnets.sources unites masks, but with subnets.new 0 all tasks of a copy have one mask: "
                "leave one of them out (the preset holdfast has subnets.new 0, the preset paper has none)"
            )

    @property
    def never_full(self) -> bool:
        """Whether a copy has room for any number of tasks: they may select only entries that others own."""
        return self.reuse and not self.new and self.schedule == "constant"
