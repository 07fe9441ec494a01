"""The Decision Transformer: returns, states and actions as one sequence of tokens."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor, nn

from holdfast.data.validation import Range, validate
from holdfast.data.windows import Batch
from holdfast.errors import Mistake
from holdfast.nets.backbone import Backbone, NetConfig, State
from holdfast.nets.encoders import encoder
from holdfast.nets.heads import head
from holdfast.nets.timesteps import Timesteps, timestep_code
from holdfast.nets.trunk import Trunk, allowed_within
from holdfast.tasks.interface import Interface

PER_BLOCK = 12  # activations kept for the backward pass, per entry of a token: both norms, attention, the wide layer


@dataclass(frozen=True)
class DtConfig(NetConfig):
    """A Decision Transformer: actions from the returns to go, states and actions so far."""

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
    """Timestep encoding: a learned table (the publication), or sines and cosines (waves)."""

    unmasked: ClassVar[tuple[str, ...]] = ("timestep",)

    def __post_init__(self) -> None:
        validate(self, "net.")
        if self.width % self.heads:
            raise Mistake(f"net.width ({self.width}) must be a multiple of net.heads ({self.heads})")

    @property
    def activations(self) -> int:
        return 3 * self.width * self.layers * PER_BLOCK  # three tokens a step

    def build(self, interface: Interface) -> "DecisionTransformer":
        return DecisionTransformer(self, interface)


class DecisionTransformer(Backbone):
    """Predicts each action from the returns to go, states and actions up to it."""

    config: DtConfig

    def __init__(self, config: DtConfig, interface: Interface) -> None:
        super().__init__(config, interface)
        self.embed_return = nn.Linear(1, config.width, bias=False)
        self.encoder = encoder(interface.observation, config.width)
        self.timestep = timestep_code(config.timesteps, interface.horizon, config.width)
        self.trunk = Trunk(config.width, config.layers, config.heads, config.dropout)
        self.head = head(interface.actions, config.width)

    def forward(self, batch: Batch) -> Tensor:
        return self.head.loss(self.predictions(batch), batch)

    def predictions(self, batch: Batch) -> Tensor:
        """The predictions at every step, (R, K, A)."""
        when = self.timestep(batch.timesteps)
        returns = self.embed_return(batch.returns[..., None]) + when
        states = self.encoder(batch.observations) + when
        actions = self.head.embed(batch.actions) + when
        tokens = torch.stack([returns, states, actions], dim=2).flatten(1, 2)  # (R, 3K, D): r0 s0 a0 r1 s1 a1 ...
        allowed = allowed_within(batch.segments.repeat_interleave(3, dim=1)) if batch.shared else None
        return self.head(self.trunk(tokens, allowed, read=slice(1, None, 3)))  # a_t is read at the token of s_t

    def latents(self, observations: Tensor) -> Tensor:
        return self.encoder(observations)

    def start(self, rows: int) -> State:
        # The context is kept as tokens, so that each observation is encoded only once.
        tokens = torch.zeros(rows, 3 * self.config.context, self.config.width, device=self.device)
        return {"tokens": tokens, "step": torch.zeros(1, dtype=torch.int64, device=self.device)}

    def act(
        self, state: State, observations: Tensor, returns: Tensor, filled: int | None = None
    ) -> tuple[Tensor, State]:
        length, step = self.config.context, state["step"]
        when = self.timestep(step)  # (1, D)
        seen = torch.stack([self.embed_return(returns[:, None]), self.encoder(observations)], dim=1) + when  # (N, 2, D)
        tokens = rolled(state["tokens"], step, length, filled)
        at = 3 * step.clamp(max=length - 1)  # (1,) position of this step's first token
        tokens = tokens.index_copy(1, torch.cat([at, at + 1]), seen)
        if filled is None:
            hidden = self.trunk(tokens, read=at + 1)[:, 0]
        else:  # compute only the tokens so far
            hidden = self.trunk(tokens[:, : 3 * min(filled, length - 1) + 2], read=slice(-1, None))[:, 0]
        actions = self.head.act(self.head(hidden), self.interface.actions)
        tokens = tokens.index_copy(1, at + 2, (self.head.embed(actions) + when)[:, None])
        return actions, {"tokens": tokens, "step": step + 1}


def rolled(tokens: Tensor, step: Tensor, length: int, filled: int | None) -> Tensor:
    """Makes room for one more step: a full context drops its oldest step."""
    if filled is None:
        return torch.where(step >= length, tokens.roll(-3, dims=1), tokens)
    return tokens.roll(-3, dims=1) if filled >= length else tokens
