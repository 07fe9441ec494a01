"""A frozen network with a low-rank change of each of its matrices."""

from copy import deepcopy
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.data.windows import Batch
from holdfast.nets.backbone import Backbone, State, call


class Adapted(Backbone):
    """Computes with W + scale * B A instead of W, for every maskable matrix W of a network, which is not trained.

    The kernel of a convolution counts as a matrix with a row for each output channel. The sum is computed on use: the
    stored tensors do not depend on how a machine rounds a matrix product.
    """

    def __init__(self, net: Backbone, rank: int, scale: float, vectors: bool, generator: torch.Generator) -> None:
        super().__init__(net.config, net.interface)
        self.net, self.scale = net.requires_grad_(False), scale
        matrices = {name: each for name, each in net.maskable(net.config.unmasked).items() if each.ndim > 1}
        self.matrix_names = list(matrices)
        self.down, self.up = nn.ParameterList(), nn.ParameterList()  # A and B
        for matrix in matrices.values():
            rows, columns = len(matrix), prod(matrix.shape[1:])
            inner = min(rank, rows, columns)
            bound = columns**-0.5
            self.down.append(nn.Parameter(torch.empty(inner, columns).uniform_(-bound, bound, generator=generator)))
            self.up.append(nn.Parameter(torch.zeros(rows, inner)))  # so that the network is unchanged before training
        own = {name: each for name, each in net.named_parameters() if vectors and each.ndim == 1}
        self.vector_names = list(own)
        self.vectors = nn.ParameterList(nn.Parameter(vector.detach().clone()) for vector in own.values())

    def parameters_in_use(self) -> dict[str, Tensor]:
        """The parameters that differ from those of the frozen network, by their names in it."""
        frozen = dict(self.net.named_parameters())
        changed = dict(zip(self.vector_names, self.vectors, strict=True))
        for name, down, up in zip(self.matrix_names, self.down, self.up, strict=True):
            changed[name] = frozen[name] + self.scale * (up @ down).view(frozen[name].shape)
        return changed

    def forward(self, batch: Batch) -> Tensor:
        return call(self.net, self.parameters_in_use(), "forward", batch)

    def latents(self, observations: Tensor) -> Tensor:
        return call(self.net, self.parameters_in_use(), "latents", observations)

    def start(self, rows: int) -> State:
        return self.net.start(rows)

    def act(
        self, state: State, observations: Tensor, returns: Tensor, filled: int | None = None
    ) -> tuple[Tensor, State]:
        return call(self.net, self.parameters_in_use(), "act", state, observations, returns, filled)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "scale": self.scale}


@torch.no_grad()
def merged(net: Backbone) -> Backbone:
    """A copy of a network for acting; that of an adapted one has the sums as its weights."""
    if not isinstance(net, Adapted):
        return deepcopy(net)
    copy = deepcopy(net.net)
    copy.load_state_dict({**copy.state_dict(), **net.parameters_in_use()})
    return copy
