"""Affinities: distances between a new task and learned ones, by actions, latents, both, or observations."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby, islice
from math import inf, isfinite
from typing import Annotated, Literal

import torch
from torch import Tensor
from torch.func import vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from holdfast.data.normaliser import Normaliser
from holdfast.data.randomness import numpy_stream
from holdfast.data.validation import Range, validate
from holdfast.data.windows import Batch, Windows
from holdfast.nets.backbone import Backbone, call
from holdfast.routing.route import Candidate

SMALLEST_VARIANCE = 1e-6
AT_ONCE = 8  # learned tasks per vmapped pass
SPLITS = 99  # random halves of a memory: what exceeds all of them has a probability of 1 %
SCALES = {"action": ("constant", 0.5), "latent": ("halves", 1.0)}  # automatic: near up to so much of this part

Measure = Callable[[Backbone, Mapping[str, Tensor], Normaliser], Tensor]  # evaluated with one learned task


@dataclass(frozen=True)
class Learned:
    """A learned task as a candidate: its effective parameters, its normaliser, and what the affinity kept of it."""

    task: str
    copy: int
    net: Backbone  # the network for the parameters; its own values are not used
    parameters: Mapping[str, Tensor]
    normaliser: Normaliser
    kept: Mapping[str, Tensor]


class Probe(ABC):
    """The data of the new task, as an affinity uses it."""

    seed: int
    observations: Tensor  # (M, *obs) the routing memory, not normalised

    @abstractmethod
    def windows(self) -> Windows:
        """The new task's windows, not normalised."""


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
            pairs = [(relative(scores, "action"), relative(scores, "latent")) for scores in parts]
            return [self.alpha * action + rest * latent for action, latent in pairs], self.limit
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


@torch.no_grad()
def measure_each(learned: Sequence[Learned], measure: Measure) -> list[Tensor]:
    """Evaluates a function of network, parameters and normaliser for every learned task, several at once."""
    with sdpa_kernel(SDPBackend.MATH):  # the other attention backends do not support vmap
        return [result for batch in _batches(learned) for result in _measure_batch(batch, measure)]


def _batches(learned: Sequence[Learned]) -> Iterator[list[Learned]]:
    """Batches of consecutive learned tasks that have the same network."""
    for _, same_net in groupby(learned, key=lambda source: id(source.net)):
        while batch := list(islice(same_net, AT_ONCE)):
            yield batch


def _measure_batch(learned: Sequence[Learned], measure: Measure) -> Tensor:
    net = learned[0].net
    parameters = {
        name: torch.stack([source.parameters[name] for source in learned]).to(net.device)
        for name in learned[0].parameters
    }
    shifts = torch.stack([source.normaliser.shift for source in learned]).to(net.device)
    scales = torch.stack([source.normaliser.scale for source in learned]).to(net.device)

    def one(values: dict[str, Tensor], shift: Tensor, scale: Tensor) -> Tensor:
        return measure(net, values, Normaliser(shift, scale))

    return vmap(one)(parameters, shifts, scales)


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


def action_distances(drawn: Sequence[Batch], learned: Sequence[Learned]) -> list[float]:
    """Each learned policy's loss on batches of the new task, normalised as the learned task: the mean over all valid
    steps of all batches."""
    steps = torch.stack([batch.valid.sum() for batch in drawn])  # (batches,)

    def loss(net: Backbone, parameters: Mapping[str, Tensor], normaliser: Normaliser) -> Tensor:
        scaled = [replace(batch, observations=normaliser(batch.observations)) for batch in drawn]
        losses = [call(net, parameters, "forward", batch) for batch in scaled]
        return (torch.stack(losses) * steps).sum() / steps.sum()

    return [float(distance) for distance in measure_each(learned, loss)]


def constant_loss(drawn: Sequence[Batch]) -> float:
    """The least loss of a policy that ignores what it observes: the entropy of discrete actions, or the mean variance
    of a task's continuous ones."""
    valid = torch.cat([batch.valid.flatten() for batch in drawn]).bool()
    actions = torch.cat([batch.actions.flatten(0, 1) for batch in drawn])[valid]
    if not actions.is_floating_point():
        shares = actions.bincount().double() / len(actions)
        return float(torch.special.entr(shares).sum())
    active = drawn[0].active[0, 0].double()  # the same in all steps of a task
    return float((actions.double().var(dim=0, unbiased=False) * active).sum() / active.sum())


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


def halves_divergence(latents: Tensor, seed: int) -> float:
    """The largest divergence between two random halves of latents, (M, D), over many splits.

    It is a null distribution: a task with the same observations would exceed it with a probability of 1 % at most.
    """
    rng, half = numpy_stream(seed, "halves"), max(len(latents) // 2, 1)
    orders = [torch.as_tensor(rng.permutation(len(latents))) for _ in range(SPLITS)]
    return max(symmetric_kl(*gaussian(latents[order[:half]]), *gaussian(latents[order[-half:]])) for order in orders)


def gaussian(latents: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance over samples, (M, D) -> (D,) each."""
    return latents.mean(dim=0), latents.var(dim=0, unbiased=False).clamp(min=SMALLEST_VARIANCE)


def latents_under(probe: Probe, learned: Sequence[Learned]) -> Tensor:
    """The new task's latents under each learned task's encoder, (C, M, D)."""

    def latents(net: Backbone, parameters: Mapping[str, Tensor], normaliser: Normaliser) -> Tensor:
        return call(net, parameters, "latents", normaliser(probe.observations.to(net.device))).double()

    return torch.stack(measure_each(learned, latents))


def latent_statistics(probe: Probe, learned: Sequence[Learned]) -> list[dict[str, Tensor]]:
    """Mean and variance of the new task's latents under each learned task's encoder, (D,) each."""
    seen = latents_under(probe, learned)
    variances = seen.var(dim=1, unbiased=False).clamp(min=SMALLEST_VARIANCE).cpu()
    return [
        {"mean": mean, "variance": variance} for mean, variance in zip(seen.mean(dim=1).cpu(), variances, strict=True)
    ]


def latent_distances(probe: Probe, learned: Sequence[Learned]) -> list[float]:
    """The divergence of the new task's latents from the learned task's, for each learned task's encoder."""
    pairs = zip(latent_statistics(probe, learned), learned, strict=True)
    return [symmetric_kl(new["mean"], new["variance"], old.kept["mean"], old.kept["variance"]) for new, old in pairs]


def symmetric_kl(mean: Tensor, variance: Tensor, other_mean: Tensor, other_variance: Tensor) -> float:
    """The mean of the two KL divergences between two diagonal Gaussians."""
    gap = (mean - other_mean) ** 2
    terms = (variance + gap) / other_variance + (other_variance + gap) / variance - 2  # the logarithms cancel
    return float(terms.sum() / 4)


def replay_distance(learned: Tensor, new: Tensor) -> float:
    """The mean KL divergence between observations paired by index, each a distribution by softmax."""
    pairs = min(len(learned), len(new))
    source, incoming = (torch.log_softmax(_flattened(memory[:pairs]), dim=1) for memory in (learned, new))
    return float((source.exp() * (source - incoming)).sum(dim=1).mean())


def _flattened(observations: Tensor) -> Tensor:
    scale = 255.0 if observations.dtype == torch.uint8 else 1.0
    return observations.flatten(1).double() / scale


def finite_or_far(scores: Sequence[float]) -> list[float]:
    """The scores, with infinity for those that are not finite, so that NaN cannot win or hide another."""
    return [score if isfinite(score) else inf for score in scores]


def spread(scores: Sequence[float]) -> list[float]:
    """The scores scaled to 0..1 by the least and greatest finite one; all 0 if they are equal."""
    finite = [score for score in scores if isfinite(score)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    return [(score - low) / ((high - low) or 1.0) for score in scores]
