"""A trained network as something that acts: greedy, with a rolling context, many episodes at once."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from holdfast.data.normaliser import Normaliser
from holdfast.errors import Mistake
from holdfast.nets.transformer import DecisionTransformer
from holdfast.suites.interface import Interface


class Policy:
    """Acts in one task; `reset`, then `act` once a step with the reward that the last action earned."""

    def __init__(
        self, net: DecisionTransformer, normaliser: Normaliser, interface: Interface, target: float, return_scale: float
    ) -> None:
        self.net, self.normaliser, self.interface = net.eval(), normaliser, interface
        self.target, self.return_scale = target, return_scale
        self.single, self.steps = True, -1  # -1: not reset yet

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return self.net.embed_return.weight.device

    def reset(self, count: int | None = None) -> None:
        """Starts one episode, or `count` episodes that are stepped together."""
        if count is not None and count < 1:
            raise Mistake(f"a policy acts in at least one episode, got {count}")
        self.single, self.steps = count is None, 0
        rows, config = count or 1, self.net.config
        # The context is kept as tokens, not as observations: an observation is encoded once.
        self.tokens = torch.zeros(rows, 3 * config.context, config.width, device=self.device)
        self.remaining = torch.full((rows,), self.target, dtype=torch.float64, device=self.device)

    @torch.no_grad()
    def act(self, observation: Any, reward: Any = 0.0) -> Any:
        """The action for this observation; for several episodes, (N, *obs) and (N,) in, (N, ...) out."""
        if self.steps < 0:
            raise Mistake("a policy must be reset before it acts")
        observations = torch.as_tensor(np.asarray(observation), device=self.device)
        observations = observations[None] if self.single else observations
        expected = (len(self.tokens), *self.interface.observation)
        if tuple(observations.shape) != expected:
            raise Mistake(f"the policy expects observations of shape {expected}, got {tuple(observations.shape)}")
        self.remaining -= torch.as_tensor(np.asarray(reward, dtype=np.float64), device=self.device)
        actions = self.interface.actions.own(self._next(observations).cpu().numpy())
        return actions[0] if self.single else actions

    def _next(self, observations: Tensor) -> Tensor:
        net, context = self.net, self.net.config.context
        if self.steps >= context:
            self.tokens = self.tokens.roll(-3, dims=1)
        at = 3 * min(self.steps, context - 1)
        when = net.timestep(torch.tensor(self.steps, device=self.device))
        returns = (self.remaining / self.return_scale).float()[:, None]
        self.tokens[:, at] = net.embed_return(returns) + when
        self.tokens[:, at + 1] = net.encoder(self.normaliser(observations)) + when
        predictions = net.head(net.trunk(self.tokens[:, : at + 2])[:, -1])
        actions = net.head.act(predictions, self.interface.actions)
        self.tokens[:, at + 2] = net.head.embed(actions) + when
        self.steps += 1
        return actions
