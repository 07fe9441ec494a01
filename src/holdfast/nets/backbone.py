"""The backbone interface: a network that learners can train, mask, compare and act with."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.overrides import TorchFunctionMode

from holdfast.data.validation import shown
from holdfast.data.windows import Batch
from holdfast.errors import Mistake
from holdfast.registry import NETS
from holdfast.tasks.interface import Interface

MASKABLE = (nn.Linear, nn.Conv2d, nn.Embedding)
State = dict[str, Tensor]  # the state of a network while it acts; shapes never change


@dataclass(frozen=True)
class NetConfig(ABC):
    """The settings of a backbone, which also build it; each backbone subclasses this as a frozen dataclass."""

    unmasked: ClassVar[tuple[str, ...]] = ()  # modules without masks by default

    @property
    @abstractmethod
    def context(self) -> int:
        """Steps per training window (K)."""

    @property
    @abstractmethod
    def activations(self) -> int:
        """Approximate number of activations kept for the backward pass, per step of a window."""

    @abstractmethod
    def build(self, interface: Interface) -> "Backbone":
        """A freshly initialised network for tasks with this interface."""


class Backbone(nn.Module, ABC):
    """A network that is trained on batches of windows and acts step by step.

    Every method must work with substituted parameters (`call`) and under `torch.func.vmap`, and must not branch on the
    value of a tensor, so that steps can be captured as CUDA graphs and exported.
    """

    def __init__(self, config: NetConfig, interface: Interface) -> None:
        super().__init__()
        self.config, self.interface = config, interface

    @abstractmethod
    def forward(self, batch: Batch) -> Tensor:
        """The training loss: the mean over all valid steps of the batch."""

    @abstractmethod
    def latents(self, observations: Tensor) -> Tensor:
        """The encoding of normalised observations, (N, *obs) -> (N, D)."""

    @abstractmethod
    def start(self, rows: int) -> State:
        """The state at the beginning of `rows` episodes, on the device of the parameters."""

    @abstractmethod
    def act(
        self, state: State, observations: Tensor, returns: Tensor, filled: int | None = None
    ) -> tuple[Tensor, State]:
        """The greedy action in every episode, and the state after it.

        `observations` (N, *obs) are normalised, `returns` (N,) are scaled returns to go. `filled` is the number of
        earlier steps if the caller knows it: the network may then compute less, with the same result.
        """

    def describe(self) -> dict[str, Any]:
        """Settings and interface as plain data for JSON; a part of cache keys and certificates."""
        return {"config": asdict(self.config), "interface": self.interface.record()}

    def maskable(self, exclude: tuple[str, ...] = ()) -> dict[str, nn.Parameter]:
        """The parameters that masks may cover: those of linear, convolution and embedding layers not in `exclude`."""
        modules = dict(self.named_modules())
        for name in exclude:
            if name not in modules:
                raise Mistake(f"subnets.exclude names {name!r}, but the network has no such module")
        return {
            f"{path}.{name}": parameter
            for path, module in modules.items()
            if isinstance(module, MASKABLE) and not _under(path, exclude)
            for name, parameter in module.named_parameters(recurse=False)
        }

    @property
    def device(self) -> torch.device:
        """The device of the parameters."""
        return next(self.parameters()).device


def _under(path: str, names: tuple[str, ...]) -> bool:
    return any(path == name or path.startswith(f"{name}.") for name in names)


class _Method(nn.Module):
    """A method of a network as a module, because `functional_call` needs a module."""

    def __init__(self, net: Backbone, method: str) -> None:
        super().__init__()
        self.net, self.method = net, method

    def forward(self, *inputs: Any) -> Any:
        return getattr(self.net, self.method)(*inputs)


def call(net: Backbone, parameters: Mapping[str, Tensor], method: str, *inputs: Any) -> Any:
    """Calls a method of a network with these parameters instead of its own."""
    substituted = {f"net.{name}": tensor for name, tensor in parameters.items()}
    return functional_call(_Method(net, method), substituted, inputs)


def net_config(name: str) -> NetConfig:
    """The default settings of the backbone of this name."""
    kind = NETS[name]
    if not isinstance(kind, type) or not issubclass(kind, NetConfig):
        raise Mistake(f"the backbone {name} must be a subclass of NetConfig, got {shown(kind)}")
    try:
        return kind()
    except TypeError as problem:
        raise Mistake(
            f"the settings of the backbone {name} cannot be made ({problem}): "
            "every field needs a default value, and all abstract methods of NetConfig must be defined"
        ) from problem


class _Uninitialised(TorchFunctionMode):
    """Leaves new parameters as they are: initialising them on the device `meta` would import torch's compiler."""

    def __torch_function__(self, function: Any, types: Any, inputs: Any = (), named: Any = None) -> Any:
        if getattr(function, "__module__", "") == "torch.nn.init":
            return inputs[0] if inputs else named["tensor"]
        return function(*inputs, **(named or {}))


def unallocated(config: NetConfig, interface: Interface) -> Backbone:
    """The network on the device `meta`, where tensors have shapes and take no memory."""
    with torch.random.fork_rng(devices=[]), torch.device("meta"), _Uninitialised():
        try:
            return config.build(interface)
        except TypeError as problem:
            raise Mistake(f"the backbone of {type(config).__name__} cannot be built: {problem}") from problem


def parameter_count(config: NetConfig, interface: Interface) -> int:
    """The number of parameters of the network, which is not allocated."""
    return sum(parameter.numel() for parameter in unallocated(config, interface).parameters())
