"""Quantisation of newly claimed weights to a codebook, before they are frozen."""

import torch
from torch import Tensor

from holdfast.subnets.layout import Layout

MOST_POINTS = 2**24  # that torch takes quantiles of


def quantise(values: Tensor, new: Tensor, layout: Layout, bits: int, rounds: int = 25) -> Tensor:
    """Moves each tensor's new values to the nearest of 2**bits centres (k-means, initialised with quantiles)."""
    return torch.cat([_to_centres(piece, chosen, 2**bits, rounds) for piece, chosen in layout.pieces(values, new)])


def _to_centres(values: Tensor, chosen: Tensor, count: int, rounds: int) -> Tensor:
    points = values[chosen]
    if len(torch.unique(points)) <= count:
        return values
    some = points[:: -(-len(points) // MOST_POINTS)]
    centres = torch.quantile(some.double(), torch.linspace(0, 1, count, dtype=torch.float64)).float()
    for _ in range(rounds):
        nearest = torch.bucketize(points, (centres[1:] + centres[:-1]) / 2)
        sums = torch.zeros(count, dtype=torch.float64).index_add_(0, nearest, points.double())
        sizes = torch.bincount(nearest, minlength=count)
        centres = torch.where(sizes > 0, (sums / sizes.clamp(min=1)).float(), centres).sort().values
    nearest = torch.bucketize(points, (centres[1:] + centres[:-1]) / 2)
    return values.masked_scatter(chosen, centres[nearest])
