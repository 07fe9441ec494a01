"""How near a new task is to a learned one: by actions, by latents, by both, or by observations."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby, islice
from math import inf, isfinite
from typing import Annotated

import torch
from torch import Tensor
from torch.func import vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from holdfast.data.normaliser import Normaliser
from holdfast.data.randomness import numpy_stream
from holdfast.data.validation import Range, validate
from holdfast.data.windows import Windows
from holdfast.nets.backbone import Backbone, call
from holdfast.routing.route import Candidate

SMALLEST_VARIANCE = 1e-6
AT_ONCE = 8  # learned tasks in one pass

Seen = Callable[[Backbone, Mapping[str, Tensor], Normaliser], Tensor]  # of one learned task


@dataclass(frozen=True)
class Learned:
    """A learned task: its copy under its mask, its normaliser, and what was kept of it."""

    task: str
    copy: int
    net: Backbone  # that the parameters are for; its own values do not matter
    parameters: Mapping[str, Tensor]
    normaliser: Normaliser
    kept: Mapping[str, Tensor]


class Probe(ABC):
    """What can be asked about the new task."""

    seed: int
    observations: Tensor  # (M, *obs) the routing memory, as recorded

    @abstractmethod
    def windows(self) -> Windows:
        """The new task's windows, their observations as recorded."""


@dataclass(frozen=True)
class Affinity(ABC):
    """A measure of distance, with the threshold up to which a task is near."""

    threshold: float = 0.0
    """Distance up to which a task is near; a task farther from all learned ones gets a new copy (tau)."""
    memory: Annotated[int, Range(least=2, most=10**9)] = 256
    """Number of observations that are kept of every task for routing."""
    max_copies: Annotated[int | None, Range(least=1, most=10**9)] = None
    """Largest number of copies; then a task goes to the nearest task's copy that is not full, near or not."""

    def __post_init__(self) -> None:
        validate(self, "routing.")

    @abstractmethod
    def keep(self, probe: Probe, learned: Learned) -> dict[str, Tensor]:
        """What of a task just learned is needed to compare later tasks with it."""

    @abstractmethod
    def parts(self, probe: Probe, learned: Sequence[Learned]) -> dict[str, list[float]]:
        """The scores of all candidates, by name."""

    def distances(self, parts: Sequence[Mapping[str, float]]) -> tuple[list[float], float]:
        """One distance per candidate, and the threshold for them."""
        return [next(iter(scores.values())) for scores in parts], self.threshold

    def candidates(self, probe: Probe, learned: Sequence[Learned]) -> tuple[list[Candidate], float]:
        """All learned tasks with their distances to the new one, and the threshold."""
        if not learned:
            return [], self.threshold
        scores = {name: finite_or_far(values) for name, values in self.parts(probe, learned).items()}
        parts = [dict(zip(scores, row, strict=True)) for row in zip(*scores.values(), strict=True)]
        distances, threshold = self.distances(parts)
        rows = zip(learned, finite_or_far(distances), parts, strict=True)
        return [Candidate(source.task, source.copy, far, part) for source, far, part in rows], threshold


@dataclass(frozen=True)
class ActionAffinity(Affinity):
    """How badly the learned policy predicts the new task's actions (section 3.4.1)."""

    batches: Annotated[int, Range(least=1, most=65_536)] = 4
    """Number of batches that the prediction error is averaged over."""
    windows: Annotated[int, Range(least=1, most=65_536)] = 64
    """Windows per batch of the prediction error."""

    def keep(self, probe: Probe, learned: Learned) -> dict[str, Tensor]:
        return {}

    def parts(self, probe: Probe, learned: Sequence[Learned]) -> dict[str, list[float]]:
        return {"action": action_distances(probe, learned, self.batches, self.windows)}


@dataclass(frozen=True)
class LatentAffinity(Affinity):
    """How differently the learned task's encoder sees the two tasks' observations (section 3.4.2)."""

    def keep(self, probe: Probe, learned: Learned) -> dict[str, Tensor]:
        return latent_statistics(probe, [learned])[0]

    def parts(self, probe: Probe, learned: Sequence[Learned]) -> dict[str, list[float]]:
        return {"latent": latent_distances(probe, learned)}


@dataclass(frozen=True)
class HybridAffinity(Affinity):
    """Action and latent affinity, mixed (section 3.4.3).

    Between several candidates each score is scaled to 0..1, so that the best of one score is at most 1 - alpha or
    alpha away: with a threshold of at least min(alpha, 1 - alpha) no copy is opened after the second task, unless
    near copies are full.
    """

    alpha: Annotated[float, Range(least=0, most=1)] = 0.7
    """Weight of the action score; the latent score has the rest of 1."""
    action_threshold: Annotated[float, Range(over=0)] = 1.0
    """Scale of the action score if there is a single candidate, and so nothing to compare it with."""
    latent_threshold: Annotated[float, Range(over=0)] = 1.0
    """Scale of the latent score if there is a single candidate."""
    batches: Annotated[int, Range(least=1, most=65_536)] = 4
    """Number of batches that the prediction error is averaged over."""
    windows: Annotated[int, Range(least=1, most=65_536)] = 64
    """Windows per batch of the prediction error."""

    def keep(self, probe: Probe, learned: Learned) -> dict[str, Tensor]:
        return latent_statistics(probe, [learned])[0]

    def parts(self, probe: Probe, learned: Sequence[Learned]) -> dict[str, list[float]]:
        actions = action_distances(probe, learned, self.batches, self.windows)
        return {"action": actions, "latent": latent_distances(probe, learned)}

    def distances(self, parts: Sequence[Mapping[str, float]]) -> tuple[list[float], float]:
        actions, latents = ([scores[name] for scores in parts] for name in ("action", "latent"))
        rest = float(1 - Fraction(str(self.alpha)))  # of alpha as written: 1 - 0.7 is 0.3, in floats a little over it
        if len(parts) == 1:
            direct = self.alpha * actions[0] / self.action_threshold
            return [direct + rest * latents[0] / self.latent_threshold], 1.0
        pairs = zip(spread(actions), spread(latents), strict=True)
        return [self.alpha * action + rest * latent for action, latent in pairs], self.threshold


@dataclass(frozen=True)
class ReplayAffinity(Affinity):
    """How differently the observations themselves are distributed, whatever the policy does with them (section 3.5)."""

    def keep(self, probe: Probe, learned: Learned) -> dict[str, Tensor]:
        return {"observations": probe.observations}

    def parts(self, probe: Probe, learned: Sequence[Learned]) -> dict[str, list[float]]:
        return {"replay": [replay_distance(source.kept["observations"], probe.observations) for source in learned]}


@torch.no_grad()
def of_each(learned: Sequence[Learned], seen: Seen) -> list[Tensor]:
    """What a function of network, parameters and normaliser gives for every learned task, some of them in one pass."""
    with sdpa_kernel(SDPBackend.MATH):  # the others know nothing of several networks at once
        return [result for some in _together(learned) for result in _of_some(some, seen)]


def _together(learned: Sequence[Learned]) -> Iterator[list[Learned]]:
    """The learned tasks in lots that one pass can take: some that follow each other and share a network."""
    for _, alike in groupby(learned, key=lambda source: id(source.net)):
        while some := list(islice(alike, AT_ONCE)):
            yield some


def _of_some(learned: Sequence[Learned], seen: Seen) -> Tensor:
    net = learned[0].net
    parameters = {
        name: torch.stack([source.parameters[name] for source in learned]).to(net.device)
        for name in learned[0].parameters
    }
    shifts = torch.stack([source.normaliser.shift for source in learned]).to(net.device)
    scales = torch.stack([source.normaliser.scale for source in learned]).to(net.device)

    def one(values: dict[str, Tensor], shift: Tensor, scale: Tensor) -> Tensor:
        return seen(net, values, Normaliser(shift, scale))

    return vmap(one)(parameters, shifts, scales)


def action_distances(probe: Probe, learned: Sequence[Learned], batches: int, count: int) -> list[float]:
    """Each learned policy's loss on the new task's windows, under the learned task's normaliser: the mean over all
    steps that are data, whatever batch they are in."""
    windows, rng = probe.windows(), numpy_stream(probe.seed, "action affinity")
    drawn = [windows.sample(count, rng) for _ in range(batches)]
    steps = torch.stack([batch.valid.sum() for batch in drawn])  # (batches,)

    def loss(net: Backbone, parameters: Mapping[str, Tensor], normaliser: Normaliser) -> Tensor:
        scaled = [replace(batch, observations=normaliser(batch.observations)) for batch in drawn]
        losses = [call(net, parameters, "forward", batch) for batch in scaled]
        return (torch.stack(losses) * steps).sum() / steps.sum()

    return [float(distance) for distance in of_each(learned, loss)]


def latent_statistics(probe: Probe, learned: Sequence[Learned]) -> list[dict[str, Tensor]]:
    """Mean and variance of every latent dimension over the new task's observations, as each learned task sees them."""

    def latents(net: Backbone, parameters: Mapping[str, Tensor], normaliser: Normaliser) -> Tensor:
        return call(net, parameters, "latents", normaliser(probe.observations.to(net.device))).double()

    seen = torch.stack(of_each(learned, latents))  # (C, M, D)
    variances = seen.var(dim=1, unbiased=False).clamp(min=SMALLEST_VARIANCE).cpu()
    return [
        {"mean": mean, "variance": variance} for mean, variance in zip(seen.mean(dim=1).cpu(), variances, strict=True)
    ]


def latent_distances(probe: Probe, learned: Sequence[Learned]) -> list[float]:
    """The new task's latents under each learned task's encoder, against those kept of the learned task."""
    pairs = zip(latent_statistics(probe, learned), learned, strict=True)
    return [symmetric_kl(new["mean"], new["variance"], old.kept["mean"], old.kept["variance"]) for new, old in pairs]


def symmetric_kl(mean: Tensor, variance: Tensor, other_mean: Tensor, other_variance: Tensor) -> float:
    """The mean of both KL divergences between two diagonal Gaussians, summed over dimensions."""
    gap = (mean - other_mean) ** 2
    terms = (variance + gap) / other_variance + (other_variance + gap) / variance - 2  # the logarithms cancel
    return float(terms.sum() / 4)


def replay_distance(learned: Tensor, new: Tensor) -> float:
    """The mean KL divergence between observations paired by index, each made a distribution by softmax."""
    pairs = min(len(learned), len(new))
    source, incoming = (torch.log_softmax(_flattened(memory[:pairs]), dim=1) for memory in (learned, new))
    return float((source.exp() * (source - incoming)).sum(dim=1).mean())


def _flattened(observations: Tensor) -> Tensor:
    scale = 255.0 if observations.dtype == torch.uint8 else 1.0
    return observations.flatten(1).double() / scale


def finite_or_far(scores: Sequence[float]) -> list[float]:
    """The scores, with those that are no finite number as infinitely far: they must neither win nor hide another."""
    return [score if isfinite(score) else inf for score in scores]


def spread(scores: Sequence[float]) -> list[float]:
    """The scores from 0 for the least to 1 for the greatest finite one; all 0 where they are equal."""
    finite = [score for score in scores if isfinite(score)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    return [(score - low) / ((high - low) or 1.0) for score in scores]
