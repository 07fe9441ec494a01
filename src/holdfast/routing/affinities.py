"""Affinities: distances between a new task and learned ones, by actions, latents, both, or observations."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, isfinite, isinf
from typing import Annotated, Literal

import torch
from torch import Tensor

from holdfast.data.randomness import numpy_stream
from holdfast.data.validation import Range, validate
from holdfast.routing.distances import (
    Learned,
    Probe,
    action_distances,
    constant_loss,
    halves_divergence,
    latent_distances,
    latent_statistics,
    latents_under,
    replay_distance,
)
from holdfast.routing.route import Candidate

SCALES = {"action": ("constant", 0.5), "latent": ("halves", 1.0)}  # automatic: near up to so much of this part


@dataclass(frozen=True)
class Affinity(ABC):
    """A distance between tasks, and the threshold up to which a task is near."""

    threshold: float | Literal["auto"] = 0.0
    """Distance up to which a task is near (tau); farther from all, it gets a new copy. auto: needs no tuning."""
    memory: Annotated[int, Range(least=2, most=10**9)] = 256
    """Number of observations that are kept of each task for routing."""
    max_copies: Annotated[int | None, Range(least=1, most=10**9)] = None
    """Largest number of copies; after that a task joins the nearest copy that is not full, however far."""

    def __post_init__(self) -> None:
        validate(self, "routing.")

    @property
    def automatic(self) -> bool:
        """Whether scores are relative to a scale of their own."""
        return self.threshold == "auto"

    @property
    def limit(self) -> float:
        """The distance up to which a task is near."""
        return 1.0 if self.threshold == "auto" else self.threshold

    @abstractmethod
    def keep(self, probe: Probe, learned: Learned) -> dict[str, Tensor]:
        """The tensors of a learned task that later comparisons need."""

    @abstractmethod
    def parts(self, probe: Probe, learned: Sequence[Learned]) -> dict[str, list[float]]:
        """For each score by name, its value for every learned task."""

    def distances(self, parts: Sequence[Mapping[str, float]]) -> tuple[list[float], float]:
        """One distance per candidate, and their threshold."""
        name = next(iter(parts[0]))
        return [relative(scores, name) if self.automatic else scores[name] for scores in parts], self.limit

    def candidates(self, probe: Probe, learned: Sequence[Learned]) -> tuple[list[Candidate], float]:
        """All learned tasks with their distances to the new one, and the threshold."""
        if not learned:
            return [], self.limit
        scores = {name: finite_or_far(values) for name, values in self.parts(probe, learned).items()}
        parts = [dict(zip(scores, row, strict=True)) for row in zip(*scores.values(), strict=True)]
        distances, threshold = self.distances(parts)
        rows = zip(learned, finite_or_far(distances), parts, strict=True)
        return [Candidate(source.task, source.copy, far, part) for source, far, part in rows], threshold


@dataclass(frozen=True)
class ActionAffinity(Affinity):
    """The loss of the learned policy on the new task's actions (section 3.4.1)."""

    batches: Annotated[int, Range(least=1, most=65_536)] = 4
    """Number of batches that the prediction error is averaged over."""
    windows: Annotated[int, Range(least=1, most=65_536)] = 64
    """Windows per batch of the prediction error."""

    def keep(self, probe: Probe, learned: Learned) -> dict[str, Tensor]:
        return {}

    def parts(self, probe: Probe, learned: Sequence[Learned]) -> dict[str, list[float]]:
        return action_scores(probe, learned, self)


@dataclass(frozen=True)
class LatentAffinity(Affinity):
    """The divergence between both tasks' latents under the learned task's encoder (section 3.4.2)."""

    def keep(self, probe: Probe, learned: Learned) -> dict[str, Tensor]:
        return kept_latents(probe, learned, self.automatic)

    def parts(self, probe: Probe, learned: Sequence[Learned]) -> dict[str, list[float]]:
        return latent_scores(probe, learned, self.automatic)


@dataclass(frozen=True)
class HybridAffinity(Affinity):
    """A weighted mean of the action and latent scores (section 3.4.3).

    With several candidates each score is scaled to 0..1. The best candidate of one score is then at most 1 - alpha or
    alpha away, so with a threshold of at least min(alpha, 1 - alpha) no copy is opened after the second task, unless
    near copies are full. An automatic threshold does not scale: each score is relative to a scale of its own.
    """

    alpha: Annotated[float, Range(least=0, most=1)] = 0.7
    """Weight of the action score; the latent score has the weight 1 - alpha."""
    action_threshold: Annotated[float, Range(over=0)] = 1.0
    """Divisor of the action score if there is a single candidate."""
    latent_threshold: Annotated[float, Range(over=0)] = 1.0
    """Divisor of the latent score if there is a single candidate."""
    batches: Annotated[int, Range(least=1, most=65_536)] = 4
    """Number of batches that the prediction error is averaged over."""
    windows: Annotated[int, Range(least=1, most=65_536)] = 64
    """Windows per batch of the prediction error."""

    def keep(self, probe: Probe, learned: Learned) -> dict[str, Tensor]:
        return kept_latents(probe, learned, self.automatic)

    def parts(self, probe: Probe, learned: Sequence[Learned]) -> dict[str, list[float]]:
        return {**action_scores(probe, learned, self), **latent_scores(probe, learned, self.automatic)}

    def distances(self, parts: Sequence[Mapping[str, float]]) -> tuple[list[float], float]:
        rest = float(1 - Fraction(str(self.alpha)))  # decimal: in floats, 1 - 0.7 is a little over 0.3
        if self.automatic:
            weights = {"action": self.alpha, "latent": rest}
            return [relative_sum(scores, weights) for scores in parts], self.limit
        actions, latents = ([scores[name] for scores in parts] for name in ("action", "latent"))
        if len(parts) == 1:
            direct = self.alpha * actions[0] / self.action_threshold
            return [direct + rest * latents[0] / self.latent_threshold], 1.0
        scaled = zip(spread(actions), spread(latents), strict=True)
        return [self.alpha * action + rest * latent for action, latent in scaled], self.limit


@dataclass(frozen=True)
class ReplayAffinity(Affinity):
    """The divergence between both tasks' observations, without a network (section 3.5)."""

    threshold: float = 0.0
    """Distance up to which a task is near; a task farther from all learned ones gets a new copy (tau)."""

    def keep(self, probe: Probe, learned: Learned) -> dict[str, Tensor]:
        return {"observations": probe.observations}

    def parts(self, probe: Probe, learned: Sequence[Learned]) -> dict[str, list[float]]:
        return {"replay": [replay_distance(source.kept["observations"], probe.observations) for source in learned]}


@dataclass(frozen=True)
class RandomAffinity(Affinity):
    """A control: distances are random numbers between 0 and 1, so the nearest task is any task."""

    threshold: float = 1.0
    """Probability with which a learned task counts as near."""

    def keep(self, probe: Probe, learned: Learned) -> dict[str, Tensor]:
        return {}

    def parts(self, probe: Probe, learned: Sequence[Learned]) -> dict[str, list[float]]:
        return {"random": numpy_stream(probe.seed, "random affinity").random(len(learned)).tolist()}


@dataclass(frozen=True)
class NoAffinity(Affinity):
    """A control: no learned task is ever near, so every task gets a copy of its own."""

    threshold: float = 0.0
    """Without effect: every distance is infinite."""

    def keep(self, probe: Probe, learned: Learned) -> dict[str, Tensor]:
        return {}

    def parts(self, probe: Probe, learned: Sequence[Learned]) -> dict[str, list[float]]:
        return {"none": [inf] * len(learned)}


def action_scores(
    probe: Probe, learned: Sequence[Learned], affinity: ActionAffinity | HybridAffinity
) -> dict[str, list[float]]:
    """Each learned policy's loss, and for an automatic threshold that of the best constant policy."""
    windows, rng = probe.windows(), numpy_stream(probe.seed, "action affinity")
    drawn = [windows.sample(affinity.windows, rng) for _ in range(affinity.batches)]
    scores = {"action": action_distances(drawn, learned)}
    if affinity.automatic:
        scores["constant"] = [constant_loss(drawn)] * len(learned)
    return scores


def relative_sum(scores: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """The weighted sum of relative scores; infinite if a score could not be computed, also one of weight 0.

    A score that is infinite only relative to its scale of 0 does not count if its weight is 0.
    """
    if any(isinf(scores[name]) for name in weights):
        return inf
    return sum(weight * relative(scores, name) for name, weight in weights.items() if weight)


def relative(scores: Mapping[str, float], name: str) -> float:
    """A score divided by the largest one that is near; infinite if that is 0 and the score is not."""
    scale, share = SCALES[name]
    score, largest = scores[name], share * scores[scale]
    if largest == 0:
        return inf if score > 0 else 0.0
    return score / largest


def kept_latents(probe: Probe, learned: Learned, automatic: bool) -> dict[str, Tensor]:
    """A learned task's statistics, and for an automatic threshold the divergence within its own memory."""
    kept = latent_statistics(probe, [learned])[0]
    if automatic:
        kept["halves"] = torch.tensor(halves_divergence(latents_under(probe, [learned])[0], probe.seed))
    return kept


def latent_scores(probe: Probe, learned: Sequence[Learned], automatic: bool) -> dict[str, list[float]]:
    """The divergence from each learned task, and for an automatic threshold the one within its own memory."""
    scores = {"latent": latent_distances(probe, learned)}
    if automatic:
        scores["halves"] = [float(source.kept["halves"]) for source in learned]
    return scores


def finite_or_far(scores: Sequence[float]) -> list[float]:
    """The scores, with infinity for those that are not finite, so that NaN cannot win or hide another."""
    return [score if isfinite(score) else inf for score in scores]


def spread(scores: Sequence[float]) -> list[float]:
    """The scores scaled to 0..1 by the least and greatest finite one; all 0 if they are equal."""
    finite = [score for score in scores if isfinite(score)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    return [(score - low) / ((high - low) or 1.0) for score in scores]
