"""A multilayer perceptron: behaviour cloning on the current observation and the return to go."""

from dataclasses import dataclass
from typing import Annotated

import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.data.validation import Range, validate
from holdfast.data.windows import Batch
from holdfast.nets.backbone import Backbone, NetConfig, State
from holdfast.nets.dropout import dropout
from holdfast.nets.encoders import encoder
from holdfast.nets.heads import head
from holdfast.nets.norm import Norm
from holdfast.tasks.interface import Interface

PER_LAYER = 4  # activations kept for the backward pass, per entry of a hidden layer


@dataclass(frozen=True)
class MlpConfig(NetConfig):
    """A multilayer perceptron: behaviour cloning on the observation and the return to go, small and fast."""

    width: Annotated[int, Range(least=1, most=65_536)] = 128
    """Width of the hidden layers."""
    layers: Annotated[int, Range(least=1, most=1_024)] = 2
    """Number of hidden layers after the encoder."""
    context: Annotated[int, Range(least=1, most=65_536)] = 20
    """Number of steps per training window; the network sees each step separately."""
    dropout: Annotated[float, Range(least=0, under=1)] = 0.1
    """Share of activations that are dropped in training."""

    def __post_init__(self) -> None:
        validate(self, "net.")

    @property
    def activations(self) -> int:
        return self.width * self.layers * PER_LAYER

    def build(self, interface: Interface) -> "Mlp":
        return Mlp(self, interface)


class Layer(nn.Module):
    """A residual hidden layer."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.norm, self.linear, self.dropout = Norm(width), nn.Linear(width, width), dropout

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden + dropout(F.gelu(self.linear(self.norm(hidden))), self.dropout, self.training)


class Mlp(Backbone):
    """Predicts each action from the current observation and return to go; it has no memory."""

    config: MlpConfig

    def __init__(self, config: MlpConfig, interface: Interface) -> None:
        super().__init__(config, interface)
        self.embed_return = nn.Linear(1, config.width, bias=False)
        self.encoder = encoder(interface.observation, config.width)
        self.layers = nn.Sequential(*(Layer(config.width, config.dropout) for _ in range(config.layers)))
        self.norm = Norm(config.width)
        self.head = head(interface.actions, config.width, reads_actions=False)

    def forward(self, batch: Batch) -> Tensor:
        return self.head.loss(self.predictions(batch.observations, batch.returns), batch)

    def predictions(self, observations: Tensor, returns: Tensor) -> Tensor:
        """The prediction for each observation and its scaled return to go, (..., A)."""
        hidden = self.encoder(observations) + self.embed_return(returns[..., None])
        return self.head(self.norm(self.layers(hidden)))

    def latents(self, observations: Tensor) -> Tensor:
        return self.encoder(observations)

    def start(self, rows: int) -> State:
        return {}

    def act(
        self, state: State, observations: Tensor, returns: Tensor, filled: int | None = None
    ) -> tuple[Tensor, State]:
        return self.head.act(self.predictions(observations, returns), self.interface.actions), state
