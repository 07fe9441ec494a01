"""A network that is told which task it acts in."""

from dataclasses import replace

from torch import Tensor

from holdfast.data.windows import Batch, with_code
from holdfast.nets.backbone import Backbone, State
from holdfast.tasks.interface import Interface


class Conditioned(Backbone):
    """A network whose observations end with a task's code, for tasks with this interface.

    The code is appended to the observations, which are normalised, so that whoever acts need not know of it.
    """

    code: Tensor  # (T,)

    def __init__(self, net: Backbone, code: Tensor, interface: Interface) -> None:
        super().__init__(net.config, interface)
        self.net = net
        self.register_buffer("code", code)

    def forward(self, batch: Batch) -> Tensor:
        return self.net(replace(batch, observations=with_code(batch.observations, self.code)))

    def latents(self, observations: Tensor) -> Tensor:
        return self.net.latents(with_code(observations, self.code))

    def start(self, rows: int) -> State:
        return self.net.start(rows)

    def act(
        self, state: State, observations: Tensor, returns: Tensor, filled: int | None = None
    ) -> tuple[Tensor, State]:
        return self.net.act(state, with_code(observations, self.code), returns, filled)
