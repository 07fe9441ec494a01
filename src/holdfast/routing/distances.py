"""Distances between a new task and learned ones: how well actions are predicted, latents, observations."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice

import torch
from torch import Tensor
from torch.func import vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from holdfast.data.normaliser import Normaliser
from holdfast.data.randomness import numpy_stream
from holdfast.data.windows import Batch, Windows
from holdfast.nets.backbone import Backbone, call

SMALLEST_VARIANCE = 1e-6
AT_ONCE = 8  # learned tasks per vmapped pass
SPLITS = 99  # random halves of a memory: what exceeds all of them has a probability of 1 %

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
