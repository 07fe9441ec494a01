"""The parameters of a network that masks cover, as one flat vector."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from holdfast.errors import Mistake
from holdfast.nets.backbone import Backbone


@dataclass(frozen=True)
class Layout:
    """The names and shapes of the parameters in the flat vector; no mask covers the others."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, net: Backbone, exclude: Sequence[str] = (), biases: bool = True) -> "Layout":
        """The layout of the parameters that masks may cover, without excluded modules, with or without biases."""
        covered = net.maskable(tuple(exclude)).items()
        inside = {name: tuple(parameter.shape) for name, parameter in covered if biases or parameter.ndim > 1}
        if not inside:
            raise Mistake("subnets.exclude excludes all parameters: masks must cover some")
        return cls(tuple(inside), tuple(inside.values()))

    @property
    def sizes(self) -> list[int]:
        """The number of entries of each tensor."""
        return [prod(shape) for shape in self.shapes]

    @property
    def total(self) -> int:
        """The total number of entries (P)."""
        return sum(self.sizes)

    def split(self, flat: Tensor) -> dict[str, Tensor]:
        """The named tensors of a flat vector, as views."""
        parts = flat.split(self.sizes)
        return {name: part.view(shape) for name, part, shape in zip(self.names, parts, self.shapes, strict=True)}

    def pieces(self, *flat: Tensor) -> Iterator[tuple[Tensor, ...]]:
        """For each tensor, its slice of every given vector."""
        return zip(*(vector.split(self.sizes) for vector in flat), strict=True)

    def join(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Joins the tensors of the layout into a flat vector; ignores others."""
        return torch.cat([tensors[name].detach().reshape(-1) for name in self.names])

    def outside(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Copies of the tensors that no mask covers."""
        return {name: tensor.detach().clone() for name, tensor in tensors.items() if name not in self.names}
