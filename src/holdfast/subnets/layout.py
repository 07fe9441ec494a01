"""The parameters of a network that masks cover, as one flat vector."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn

from holdfast.errors import Mistake

MASKABLE = (nn.Linear, nn.Conv2d, nn.Embedding)


@dataclass(frozen=True)
class Layout:
    """Which parameters lie where in the vector; all others are outside the masks."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, net: nn.Module, exclude: Sequence[str] = ()) -> "Layout":
        """Weights and biases of linear, convolution and embedding layers, but for modules under an excluded name."""
        paths = [path for path, _ in net.named_modules()]
        for name in exclude:
            if name not in paths:
                raise Mistake(f"subnets.exclude names {name!r}, which is no module of the network")
        inside = {
            f"{path}.{name}": tuple(parameter.shape)
            for path, module in net.named_modules()
            if isinstance(module, MASKABLE) and not _under(path, exclude)
            for name, parameter in module.named_parameters(recurse=False)
        }
        if not inside:
            raise Mistake("subnets.exclude leaves nothing to mask")
        return cls(tuple(inside), tuple(inside.values()))

    @property
    def sizes(self) -> list[int]:
        """Entries of each tensor."""
        return [prod(shape) for shape in self.shapes]

    @property
    def total(self) -> int:
        """Entries in all (P)."""
        return sum(self.sizes)

    def split(self, flat: Tensor) -> dict[str, Tensor]:
        """The named tensors of a flat vector, as views."""
        parts = flat.split(self.sizes)
        return {name: part.view(shape) for name, part, shape in zip(self.names, parts, self.shapes, strict=True)}

    def pieces(self, *flat: Tensor) -> Iterator[tuple[Tensor, ...]]:
        """The flat stretch of each tensor, of several vectors side by side."""
        return zip(*(vector.split(self.sizes) for vector in flat), strict=True)

    def join(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """The flat vector of these tensors; others are left out."""
        return torch.cat([tensors[name].detach().reshape(-1) for name in self.names])

    def outside(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Those tensors that no mask covers."""
        return {name: tensor.detach().clone() for name, tensor in tensors.items() if name not in self.names}


def _under(path: str, names: Sequence[str]) -> bool:
    return any(path == name or path.startswith(f"{name}.") for name in names)
