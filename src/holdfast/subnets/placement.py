"""Where the new entries of a task go: in which tensors, and with which scores they start."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from holdfast.data.windows import Batch
from holdfast.subnets.masked import Masked


def in_order(total: int, least: Sequence[int], most: Sequence[int], *, deepest_first: bool) -> list[int]:
    """The number of new entries of each tensor: every one has its least, then the last or the first ones are filled."""
    placed, rest = list(least), total - sum(least)
    tensors = range(len(placed))
    for tensor in reversed(tensors) if deepest_first else tensors:
        more = min(rest, most[tensor] - least[tensor])
        placed[tensor] += more
        rest -= more
    return placed


def place_by_gradient(masked: Masked, batches: Iterable[Batch]) -> None:
    """Gives the largest initial scores of free entries to those whose weights have the largest loss gradients.

    In every tensor the free entries have the same score magnitudes as before, in another order.
    """
    gradient, scores = mean_gradient(masked, batches), masked.scores.detach()
    for score, slope, occupied in masked.layout.pieces(scores, gradient, masked.occupied):
        free = torch.nonzero(~occupied).flatten()
        order = slope[free].abs().argsort(stable=True, descending=True)  # ties by index
        score[free[order]] = score[free].abs().sort(descending=True).values


def mean_gradient(masked: Masked, batches: Iterable[Batch]) -> Tensor:
    """The mean gradient of the loss over batches, of every weight that the network uses or could use, (P,)."""
    masked.eval()
    weights = masked.weights().detach().requires_grad_()
    gradients = [torch.autograd.grad(masked.loss(weights, batch), weights)[0] for batch in batches]
    return torch.stack(gradients).mean(dim=0)
