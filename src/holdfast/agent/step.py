"""One step of a policy as a pure function of tensors: from raw observations to the environment's actions."""

import torch
from torch import Tensor, nn

from holdfast.agent.layout_modules import LayoutEncoder, action_decoder
from holdfast.data.layout import Layout
from holdfast.errors import Mistake
from holdfast.nets.adapted import merged
from holdfast.nets.backbone import State
from holdfast.nets.policy import Policy
from holdfast.nets.trunk import remove_idle_units
from holdfast.tasks.interface import Continuous, Interface

OBSERVATION, REWARD = "observation", "reward"  # inputs
RETURN_TO_GO = "return_to_go"  # a part of the state: float64, one number per episode


class Step(nn.Module):
    """`Policy.act` as a function: observations, rewards and a state in, actions and the next state out."""

    def __init__(self, policy: Policy, layout: Layout | None = None) -> None:
        super().__init__()
        self.net = merged(policy.net).cpu().eval().requires_grad_(False)
        remove_idle_units(self.net)
        self.normaliser = policy.normaliser.to("cpu")
        self.target, self.return_scale = policy.target, policy.return_scale
        self.encode = LayoutEncoder(layout, OBSERVATION) if layout else OwnObservations(policy.interface)
        self.decode = action_decoder(layout.actions) if layout else WithoutPadding(policy.interface)

    def inputs(self, rows: int) -> dict[str, Tensor]:
        """Inputs of zeros, by name: the observation, or each of its parts, and the reward of the last action."""
        return {**self.encode.inputs(rows), REWARD: torch.zeros(rows, dtype=torch.float64)}

    def start(self, rows: int) -> State:
        """The state at the beginning of episodes."""
        context, target = self.net.start(rows), torch.full((rows,), self.target, dtype=torch.float64)
        if taken := context.keys() & {*self.inputs(rows), RETURN_TO_GO, "action"}:
            raise Mistake(f"the state {min(taken)!r} of this backbone cannot be exported: give it another name")
        return in_order({**context, RETURN_TO_GO: target})

    def forward(self, inputs: dict[str, Tensor], state: State) -> tuple[Tensor, State]:
        """The environment's actions, (N, *act), and the next state."""
        remaining = state[RETURN_TO_GO] - inputs[REWARD]
        context = {name: tensor for name, tensor in state.items() if name != RETURN_TO_GO}
        seen = self.normaliser(self.encode(inputs))
        actions, context = self.net.act(context, seen, (remaining / self.return_scale).float())
        return self.decode(actions), in_order({**context, RETURN_TO_GO: remaining})


def in_order(state: State) -> State:
    """The state with its tensors in the order of their names."""
    return {name: state[name] for name in sorted(state)}


class OwnObservations(nn.Module):
    """Observations as the network expects them."""

    def __init__(self, interface: Interface) -> None:
        super().__init__()
        self.shape = interface.observation

    def inputs(self, rows: int) -> dict[str, Tensor]:
        """The only input, by its name."""
        dtype = torch.uint8 if len(self.shape) == 3 else torch.float32
        return {OBSERVATION: torch.zeros(rows, *self.shape, dtype=dtype)}

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        return inputs[OBSERVATION]


class WithoutPadding(nn.Module):
    """`Interface.actions.for_environment` on tensors."""

    def __init__(self, interface: Interface) -> None:
        super().__init__()
        actions = interface.actions
        self.dimension = actions.dimension if isinstance(actions, Continuous) else None

    def forward(self, actions: Tensor) -> Tensor:
        return actions if self.dimension is None else actions[..., : self.dimension]
