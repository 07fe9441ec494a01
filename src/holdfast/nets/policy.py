"""A trained network as something that acts: greedy, with a rolling context, many episodes at once."""

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

LARGEST = 1e12  # of what the network is given, scaled: its squares, and their sums, stay finite in float32


class Policy:
    """Acts in one task; `reset`, then `act` once a step with the reward that the last action earned."""

    def __init__(self, net: Backbone, normaliser: Normaliser, target: float, return_scale: float) -> None:
        self.net, self.normaliser = net.eval(), normaliser
        self.target, self.return_scale = target, return_scale
        self.shift, self.scale = normaliser.shift.cpu().numpy(), normaliser.scale.cpu().numpy()
        self.single = True
        self.episodes: Episodes | CapturedEpisodes | None = None  # none: not reset yet

    @property
    def interface(self) -> Interface:
        """What the policy observes and does."""
        return self.net.interface

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return self.net.device

    def apart(self) -> "Policy":
        """The same policy, for other episodes that are stepped beside this one's."""
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
        """The action for this observation; for several episodes, (N, *obs) and (N,) in, (N, ...) out.

        What the network cannot read is refused before it gets into the context: the episode can go on without it.
        """
        if self.episodes is None:
            raise Mistake("a policy must be reset before it acts")
        observations = torch.as_tensor(self._observations(observation, self.episodes.rows))
        rewards = torch.as_tensor(self._rewards(reward, self.episodes.rows))
        actions = self.interface.actions.own(self.episodes.act(observations, rewards).cpu().numpy())
        return actions[0] if self.single else actions

    def _observations(self, given: Any, rows: int) -> np.ndarray:
        """The observations, (N, *obs); raises unless the network can read them."""
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
        return observations.astype(np.float32)  # here, so that every device gets the same numbers

    def _rewards(self, given: Any, rows: int) -> np.ndarray:
        """The rewards, (N,) or one for all; raises unless they are numbers that returns-to-go can be made of."""
        rewards = _as_array("reward", given)
        if rewards.shape not in ((), (rows,)) or rewards.dtype.kind not in "biuf":
            raise Mistake(f"the policy expects a reward for each of {rows} episodes, got {shown(given)}")
        rewards = rewards.astype(np.float64)
        _check_size("reward", rewards, rewards / self.return_scale)
        return rewards


def _as_array(name: str, given: Any) -> np.ndarray:
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


class Episodes:
    """Some episodes that are stepped together: the network's state, and the return that is still to come."""

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
    """The same in memory that stays where it is, so that a step is one CUDA graph."""

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
        """Whether it is for so many episodes, and the network is still where it was captured."""
        return self.rows == rows and self.places == [value.data_ptr() for value in self.policy.net.parameters()]

    def begin(self) -> None:
        """Other episodes, from their first step."""
        self.episodes.remaining.fill_(self.policy.target)
        self._keep(self.policy.net.start(self.rows))

    def act(self, observations: Tensor, rewards: Tensor) -> Tensor:
        """The next action of every episode."""
        self.observations.copy_(observations)
        self.rewards.copy_(rewards)
        return self.replay()

    def advance(self) -> Tensor:
        """One step, whichever it is."""
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
    """The fastest kind for where the network is."""
    if policy.device.type == "cuda":
        return CapturedEpisodes(policy, rows)
    return Episodes(policy, rows)
