"""Policies: trained networks that act greedily, in one episode or in many at once."""

from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from holdfast.data.normaliser import Normaliser
from holdfast.data.validation import Range, shown, validated
from holdfast.errors import Mistake
from holdfast.gpu.capture import captured
from holdfast.nets.backbone import Backbone, State
from holdfast.tasks.interface import Interface

LARGEST = 1e12  # largest scaled input: its squares, and their sums, stay finite in float32


class Policy:
    """Acts in one task: call `reset`, then `act` at every step with the reward of the last action."""

    def __init__(self, net: Backbone, normaliser: Normaliser, target: float, return_scale: float) -> None:
        self.net, self.normaliser = net.eval(), normaliser
        self.target, self.return_scale = target, return_scale
        self.shift, self.scale = normaliser.shift.cpu().numpy(), normaliser.scale.cpu().numpy()
        self.single = True
        self.episodes: Episodes | CapturedEpisodes | None = None  # None before the first reset

    @property
    def interface(self) -> Interface:
        """The interface of the policy's task."""
        return self.net.interface

    @property
    def device(self) -> torch.device:
        """The device of the network."""
        return self.net.device

    def for_other_episodes(self) -> "Policy":
        """A policy with the same network, whose episodes are independent of this one's."""
        return Policy(self.net, self.normaliser, self.target, self.return_scale)

    def reset(self, count: int | None = None) -> None:
        """Starts one episode, or `count` episodes that are stepped together."""
        count = validated("the number of episodes", count, Annotated[int | None, Range(least=1)])
        self.single = count is None
        if isinstance(self.episodes, CapturedEpisodes) and self.episodes.serves(count or 1):
            self.episodes.begin()
        else:
            self.episodes = episodes_of(self, count or 1)

    @torch.no_grad()
    def act(self, observation: Any, reward: Any = 0.0) -> Any:
        """The action for this observation; with several episodes, (N, *obs) and (N,) in, (N, ...) out.

        Invalid input raises before it changes the context, so that the episode can go on.
        """
        if self.episodes is None:
            raise Mistake("a policy must be reset before it acts")
        observations = torch.as_tensor(self._observations(observation, self.episodes.rows))
        rewards = torch.as_tensor(self._rewards(reward, self.episodes.rows))
        actions = self.interface.actions.for_environment(self.episodes.act(observations, rewards).cpu().numpy())
        return actions[0] if self.single else actions

    def _observations(self, given: Any, rows: int) -> np.ndarray:
        """The observations as an array, (N, *obs); raises unless the network can read them."""
        observations = _as_array("observation", given)
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
        return observations.astype(np.float32)  # on the CPU, so that every device gets the same numbers

    def _rewards(self, given: Any, rows: int) -> np.ndarray:
        """The rewards as an array, (N,) or one for all; raises unless they are finite numbers."""
        rewards = _as_array("reward", given)
        if rewards.shape not in ((), (rows,)) or rewards.dtype.kind not in "biuf":
            raise Mistake(f"the policy expects one reward for each of {rows} episodes, got {shown(given)}")
        rewards = rewards.astype(np.float64)
        _check_size("reward", rewards, rewards / self.return_scale)
        return rewards


def _as_array(name: str, given: Any) -> np.ndarray:
    try:
        return np.asarray(given)
    except (TypeError, ValueError, RuntimeError):  # ragged lists, or a tensor on a GPU
        raise Mistake(f"the policy expects the {name} as numbers or a numpy array, got {shown(given)}") from None


def _check_size(name: str, given: np.ndarray, scaled: np.ndarray) -> None:
    """Raises if a number is not finite, or so large that the network would overflow."""
    fits = np.abs(scaled) <= LARGEST
    if not fits.all():
        raise Mistake(
            f"the policy cannot act on the {name} {given[~fits].flat[0]}: it must be finite and not too large"
        )


class Episodes:
    """Episodes that are stepped together: the state of the network and the returns to go."""

    def __init__(self, policy: Policy, rows: int) -> None:
        self.policy, self.rows = policy, rows
        self.normaliser = policy.normaliser.to(policy.device)
        self.remaining = torch.full((rows,), policy.target, dtype=torch.float64, device=policy.device)
        self.state = policy.net.start(rows)
        self.steps = 0

    def act(self, observations: Tensor, rewards: Tensor) -> Tensor:
        """The next action of every episode."""
        self.remaining -= rewards.to(self.policy.device)
        seen = self.normaliser(observations.to(self.policy.device))
        actions, self.state = self.policy.net.act(self.state, seen, self.returns(), self.steps)
        self.steps += 1
        return actions

    def returns(self) -> Tensor:
        """The scaled returns to go, (N,)."""
        return (self.remaining / self.policy.return_scale).float()


class CapturedEpisodes:
    """The same in fixed buffers, so that a step can be one CUDA graph."""

    def __init__(self, policy: Policy, rows: int) -> None:
        self.policy, self.rows, self.episodes = policy, rows, Episodes(policy, rows)
        device, shape = policy.device, policy.interface.observation
        dtype = torch.uint8 if len(shape) == 3 else torch.float32
        self.observations = torch.zeros(rows, *shape, dtype=dtype, device=device)
        self.rewards = torch.zeros(rows, dtype=torch.float64, device=device)
        self.places = [value.data_ptr() for value in policy.net.parameters()]
        with torch.no_grad():
            self.replay = captured(self.advance) if device.type == "cuda" else self.advance
        self.begin()

    def serves(self, rows: int) -> bool:
        """Whether it has this many episodes, and the parameters still have the captured addresses."""
        return self.rows == rows and self.places == [value.data_ptr() for value in self.policy.net.parameters()]

    def begin(self) -> None:
        """Starts new episodes."""
        self.episodes.remaining.fill_(self.policy.target)
        self._keep(self.policy.net.start(self.rows))

    def act(self, observations: Tensor, rewards: Tensor) -> Tensor:
        """The next action of every episode."""
        self.observations.copy_(observations)
        self.rewards.copy_(rewards)
        return self.replay()

    def advance(self) -> Tensor:
        """One step of all episodes, the function that is captured."""
        episodes = self.episodes
        episodes.remaining.sub_(self.rewards)
        seen = episodes.normaliser(self.observations)
        actions, state = self.policy.net.act(episodes.state, seen, episodes.returns())
        self._keep(state)
        return actions

    def _keep(self, state: State) -> None:
        for name, tensor in state.items():
            self.episodes.state[name].copy_(tensor)


def episodes_of(policy: Policy, rows: int) -> Episodes | CapturedEpisodes:
    """The fastest implementation for the device of the network."""
    if policy.device.type == "cuda":
        return CapturedEpisodes(policy, rows)
    return Episodes(policy, rows)
