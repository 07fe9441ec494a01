"""A trained network as something that acts: greedy, with a rolling context, many episodes at once."""

from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from holdfast.data.normaliser import Normaliser
from holdfast.data.validation import Range, shown, validated
from holdfast.errors import Mistake
from holdfast.gpu.capture import captured
from holdfast.nets.transformer import DecisionTransformer
from holdfast.tasks.interface import Interface

LARGEST = 1e12  # of what the network is given, scaled: its squares, and their sums, stay finite in float32


class Policy:
    """Acts in one task; `reset`, then `act` once a step with the reward that the last action earned."""

    def __init__(
        self, net: DecisionTransformer, normaliser: Normaliser, interface: Interface, target: float, return_scale: float
    ) -> None:
        self.net, self.normaliser, self.interface = net.eval(), normaliser, interface
        self.target, self.return_scale = target, return_scale
        self.shift, self.scale = normaliser.shift.cpu().numpy(), normaliser.scale.cpu().numpy()
        self.single = True
        self.context: Context | Fixed | None = None  # none: not reset yet

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return self.net.embed_return.weight.device

    def apart(self) -> "Policy":
        """The same policy, for other episodes that are stepped beside this one's."""
        return Policy(self.net, self.normaliser, self.interface, self.target, self.return_scale)

    def reset(self, count: int | None = None) -> None:
        """Starts one episode, or `count` episodes that are stepped together."""
        count = validated("the number of episodes", count, Annotated[int | None, Range(least=1)])
        self.single = count is None
        if isinstance(self.context, Fixed) and self.context.serves(count or 1):
            self.context.begin()
        else:
            self.context = context_of(self, count or 1)

    @torch.no_grad()
    def act(self, observation: Any, reward: Any = 0.0) -> Any:
        """The action for this observation; for several episodes, (N, *obs) and (N,) in, (N, ...) out.

        What the network cannot read is refused before it gets into the context: the episode can go on without it.
        """
        if self.context is None:
            raise Mistake("a policy must be reset before it acts")
        observations = torch.as_tensor(self._observations(observation, self.context.rows))
        rewards = torch.as_tensor(self._rewards(reward, self.context.rows))
        actions = self.interface.actions.own(self.context.act(observations, rewards).cpu().numpy())
        return actions[0] if self.single else actions

    def _observations(self, given: Any, rows: int) -> np.ndarray:
        """The observations, (N, *obs); raises unless the network can read them."""
        observations = _array("observation", given)
        observations = observations[None] if self.single else observations
        expected = (rows, *self.interface.observation)
        if observations.shape != expected:
            raise Mistake(f"the policy expects observations of shape {expected}, got {observations.shape}")
        self.interface.check_dtype(observations.dtype)
        if len(self.interface.observation) == 3:
            return observations
        with np.errstate(all="ignore"):
            scaled = (observations - self.shift) / self.scale
        _check_size("observation", observations, scaled)
        return observations.astype(np.float32)  # here, so that every device gets the same numbers

    def _rewards(self, given: Any, rows: int) -> np.ndarray:
        """The rewards, (N,) or one for all; raises unless they are numbers that returns-to-go can be made of."""
        rewards = _array("reward", given)
        if rewards.shape not in ((), (rows,)) or rewards.dtype.kind not in "biuf":
            raise Mistake(f"the policy expects a reward for each of {rows} episodes, got {shown(given)}")
        rewards = rewards.astype(np.float64)
        _check_size("reward", rewards, rewards / self.return_scale)
        return rewards


def _array(name: str, given: Any) -> np.ndarray:
    try:
        return np.asarray(given)
    except (TypeError, ValueError, RuntimeError):  # lists of different lengths, or a tensor on a GPU
        raise Mistake(f"the policy expects the {name} as a numpy array or numbers, got {shown(given)}") from None


def _check_size(name: str, given: np.ndarray, scaled: np.ndarray) -> None:
    """Raises if a number is not finite, or so large that the network's are not."""
    fits = np.abs(scaled) <= LARGEST
    if not fits.all():
        raise Mistake(
            f"the policy cannot act on the {name} {given[~fits].flat[0]}: give it finite numbers of usual size"
        )


class Context:
    """What the network still sees of some episodes, kept as tokens: an observation is encoded once."""

    def __init__(self, policy: Policy, rows: int) -> None:
        self.policy, self.rows = policy, rows
        config, device = policy.net.config, policy.device
        self.normaliser = policy.normaliser.to(device)
        self.tokens = torch.zeros(rows, 3 * config.context, config.width, device=device)
        self.remaining = torch.full((rows,), policy.target, dtype=torch.float64, device=device)
        self.step = torch.zeros(1, dtype=torch.int64, device=device)
        self.steps = 0

    def act(self, observations: Tensor, rewards: Tensor) -> Tensor:
        """The next action of every episode; only as many tokens are computed as there are."""
        net = self.policy.net
        length, device = net.config.context, self.policy.device
        self.remaining -= rewards.to(device)
        if self.steps >= length:
            self.tokens = self.tokens.roll(-3, dims=1)
        at = 3 * min(self.steps, length - 1)
        returns, states, when = self.embedded(observations.to(device))
        self.tokens[:, at], self.tokens[:, at + 1] = returns, states
        actions = self.chosen(net.trunk(self.tokens[:, : at + 2])[:, -1])
        self.tokens[:, at + 2] = net.head.embed(actions) + when
        self.step += 1
        self.steps += 1
        return actions

    def embedded(self, observations: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The tokens of return and state, (N, D) each, and the code of the present step."""
        net, when = self.policy.net, self.policy.net.timestep(self.step)  # (1, D)
        returns = (self.remaining / self.policy.return_scale).float()[:, None]
        return net.embed_return(returns) + when, net.encoder(self.normaliser(observations)) + when, when

    def chosen(self, hidden: Tensor) -> Tensor:
        """The greedy actions at these state tokens."""
        head = self.policy.net.head
        return head.act(head(hidden), self.policy.interface.actions)


class Fixed:
    """The same with shapes that are fixed, for a GPU's graph: all tokens are computed, and the present ones read."""

    def __init__(self, policy: Policy, rows: int) -> None:
        self.policy, self.rows, self.context = policy, rows, Context(policy, rows)
        device, shape = policy.device, policy.interface.observation
        dtype = torch.uint8 if len(shape) == 3 else torch.float32
        self.observations = torch.zeros(rows, *shape, dtype=dtype, device=device)
        self.rewards = torch.zeros(rows, dtype=torch.float64, device=device)
        self.places = [value.data_ptr() for value in policy.net.parameters()]
        with torch.no_grad():
            self.replay = captured(self.advance) if device.type == "cuda" else self.advance
        self.begin()

    def serves(self, rows: int) -> bool:
        """Whether it is for so many episodes, and the network is still where it was captured."""
        return self.rows == rows and self.places == [value.data_ptr() for value in self.policy.net.parameters()]

    def begin(self) -> None:
        """Other episodes, from their first step."""
        self.context.tokens.zero_()
        self.context.remaining.fill_(self.policy.target)
        self.context.step.zero_()

    def act(self, observations: Tensor, rewards: Tensor) -> Tensor:
        """The next action of every episode."""
        self.observations.copy_(observations)
        self.rewards.copy_(rewards)
        return self.replay()

    def advance(self) -> Tensor:
        """One step, whichever it is."""
        context, net = self.context, self.policy.net
        length, tokens = net.config.context, context.tokens
        tokens.copy_(torch.where(context.step >= length, tokens.roll(-3, dims=1), tokens))
        context.remaining.sub_(self.rewards)
        at = 3 * context.step.clamp(max=length - 1)  # (1,)
        returns, states, when = context.embedded(self.observations)
        tokens.index_copy_(1, torch.cat([at, at + 1]), torch.stack([returns, states], dim=1))
        actions = context.chosen(net.trunk(tokens).index_select(1, at + 1)[:, 0])
        tokens.index_copy_(1, at + 2, (net.head.embed(actions) + when)[:, None])
        context.step.add_(1)
        return actions


def context_of(policy: Policy, rows: int) -> Context | Fixed:
    """The fastest there is for where the network is."""
    return (Fixed if policy.device.type == "cuda" else Context)(policy, rows)
