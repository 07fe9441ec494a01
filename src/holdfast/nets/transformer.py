"""The Decision Transformer: returns, states and actions as one sequence of tokens."""

from dataclasses import asdict, dataclass
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from holdfast.data.validation import Range, validate
from holdfast.data.windows import Batch
from holdfast.errors import Mistake
from holdfast.nets.encoders import encoder
from holdfast.nets.heads import head
from holdfast.nets.timesteps import Timesteps, timestep_code
from holdfast.nets.trunk import Trunk, allowed_within
from holdfast.tasks.interface import Interface


@dataclass(frozen=True)
class NetConfig:
    """The shape of the Decision Transformer."""

    width: Annotated[int, Range(least=1, most=65_536)] = 128
    """Width of a token (the embedding size)."""
    layers: Annotated[int, Range(least=1, most=1_024)] = 3
    """Number of transformer blocks."""
    heads: Annotated[int, Range(least=1, most=65_536)] = 4
    """Number of attention heads per block."""
    context: Annotated[int, Range(least=1, most=65_536)] = 20
    """Number of steps that the network sees at once (K)."""
    dropout: Annotated[float, Range(least=0, under=1)] = 0.1
    """Share of activations that are dropped in training."""
    timesteps: Timesteps = "table"
    """Encoding of a step's place in its episode: a learned table (the publication) or compact waves."""

    def __post_init__(self) -> None:
        validate(self, "net.")
        if self.width % self.heads:
            raise Mistake(f"net.width ({self.width}) must be a multiple of net.heads ({self.heads})")


def parameter_count(config: NetConfig, interface: Interface) -> int:
    """How many parameters the network has; nothing of it is allocated."""
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        net = DecisionTransformer(config, interface)
    return sum(parameter.numel() for parameter in net.parameters())


class DecisionTransformer(nn.Module):
    """Predicts each action from the returns to go, states and actions up to it."""

    def __init__(self, config: NetConfig, interface: Interface) -> None:
        super().__init__()
        self.config, self.interface = config, interface
        self.embed_return = nn.Linear(1, config.width, bias=False)
        self.encoder = encoder(interface.observation, config.width)
        self.timestep = timestep_code(config.timesteps, interface.horizon, config.width)
        self.trunk = Trunk(config.width, config.layers, config.heads, config.dropout)
        self.head = head(interface.actions, config.width)

    def forward(self, batch: Batch) -> Tensor:
        """Predictions for every step, (R, K, A)."""
        when = self.timestep(batch.timesteps)
        returns = self.embed_return(batch.returns[..., None]) + when
        states = self.encoder(batch.observations) + when
        actions = self.head.embed(batch.actions) + when
        tokens = torch.stack([returns, states, actions], dim=2).flatten(1, 2)  # (R, 3K, D): r0 s0 a0 r1 s1 a1 ...
        allowed = allowed_within(batch.segments.repeat_interleave(3, dim=1)) if batch.shared else None
        return self.head(self.trunk(tokens, allowed)[:, 1::3])  # a_t is read at the token of s_t

    def describe(self) -> dict[str, Any]:
        """The settings of the network as plain data, a part of cache keys."""
        return {"config": asdict(self.config), "interface": asdict(self.interface)}

    def loss(self, batch: Batch) -> Tensor:
        """What training makes small."""
        return self.head.loss(self(batch), batch)
