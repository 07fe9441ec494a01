"""The interface between a task and a network: observations, actions and horizon."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from holdfast.data.episodes import Dataset
from holdfast.data.validation import Range, validate
from holdfast.errors import Mistake

if TYPE_CHECKING:  # torch takes seconds to import, and descriptions of suites do not need it
    from torch import Tensor

    from holdfast.data.normaliser import Normaliser


@dataclass(frozen=True)
class Discrete:
    """Discrete actions: the first `count` of a vocabulary that all tasks of the suite share."""

    count: int
    vocabulary: int

    def __post_init__(self) -> None:
        validate(self)
        if not 1 <= self.count <= self.vocabulary:
            raise Mistake(f"a task's {self.count} actions must fit into the suite's vocabulary of {self.vocabulary}")

    @property
    def shared(self) -> int:
        """The size that all tasks of a suite have in common."""
        return self.vocabulary

    @property
    def active(self) -> "Tensor":
        """One, (1,): every step counts in the loss."""
        import torch

        return torch.ones(1)

    def for_environment(self, actions: np.ndarray) -> np.ndarray:
        """The actions as the task's environment expects them: unchanged."""
        return actions

    def check(self, actions: np.ndarray) -> None:
        """Raises unless these are actions of this task."""
        if actions.ndim != 1 or not np.issubdtype(actions.dtype, np.integer):
            raise Mistake(f"actions must be one integer per step, got {actions.dtype} of shape {actions.shape}")
        if actions.min() < 0 or actions.max() >= self.count:
            raise Mistake(f"actions must lie in 0..{self.count - 1}, got {actions.min()}..{actions.max()}")


@dataclass(frozen=True)
class Continuous:
    """Continuous actions in [-1, 1]: the first `dimension` entries of a vector whose width all tasks share."""

    dimension: int
    width: int

    def __post_init__(self) -> None:
        validate(self)
        if not 1 <= self.dimension <= self.width:
            raise Mistake(f"a task's {self.dimension} action dimensions must fit into the suite's {self.width}")

    @property
    def shared(self) -> int:
        """The size that all tasks of a suite have in common."""
        return self.width

    @property
    def active(self) -> "Tensor":
        """One for the dimensions of the task, zero for padding, (width,)."""
        import torch

        return (torch.arange(self.width) < self.dimension).float()

    def for_environment(self, actions: np.ndarray) -> np.ndarray:
        """The actions as the task's environment expects them: without padding."""
        return actions[..., : self.dimension]

    def check(self, actions: np.ndarray) -> None:
        """Raises unless these are actions of this task, padded to the shared width."""
        if actions.ndim != 2 or actions.shape[1] != self.width or not np.issubdtype(actions.dtype, np.floating):
            raise Mistake(f"actions must be {self.width} floats per step, got {actions.dtype} of shape {actions.shape}")
        if np.abs(actions).max() > 1 + 1e-6:
            raise Mistake(f"actions must lie in [-1, 1], got {actions.min():.3g}..{actions.max():.3g}")
        if actions[:, self.dimension :].any():
            raise Mistake(f"the actions of a task with {self.dimension} dimensions must be padded with zeros")


Actions = Discrete | Continuous
KINDS = {"discrete": Discrete, "continuous": Continuous}


@dataclass(frozen=True)
class Interface:
    """The shapes that the environment, the data and the policy of a task have in common."""

    observation: tuple[int, ...]  # the shape that all tasks of the suite share, padding included
    actions: Actions
    horizon: Annotated[int, Range(least=1)]  # the most steps of an episode
    normalised: bool = True  # whether observations are normalised per task; pixels are not

    def __post_init__(self) -> None:
        validate(self, "interface.")
        if len(self.observation) not in (1, 3) or min(self.observation) < 1:
            raise Mistake(f"observations must be a vector or a stack of frames, got shape {self.observation}")

    def compatible(self, other: "Interface") -> bool:
        """Whether one network fits both tasks."""
        same_kind = type(self.actions) is type(other.actions) and self.actions.shared == other.actions.shared
        return same_kind and self.observation == other.observation

    def fits(self, other: "Interface") -> bool:
        """Whether a network built for this interface can be used for a task with the other interface."""
        return self.compatible(other) and other.horizon <= self.horizon

    def record(self) -> dict[str, Any]:
        """The interface as plain data."""
        return {**asdict(self), "actions": {"kind": type(self.actions).__name__.lower(), **asdict(self.actions)}}

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> "Interface":
        """The interface that `record` described."""
        sizes = dict(record["actions"])
        kind: Any = KINDS[sizes.pop("kind")]
        return cls(**{**record, "observation": tuple(record["observation"]), "actions": kind(**sizes)})

    def normaliser(self, dataset: Dataset) -> "Normaliser":
        """The normaliser of this task's observations, fitted on its dataset."""
        from holdfast.data.normaliser import Normaliser

        return Normaliser.fit(dataset) if self.normalised else Normaliser.identity()

    def check_dtype(self, dtype: np.dtype) -> None:
        """Raises unless the network can read observations of this dtype: uint8 for frames, numbers for vectors."""
        if len(self.observation) == 3 and dtype != np.uint8:
            raise Mistake(f"frames must be uint8 from 0 to 255, got {dtype}")
        if dtype.kind not in "biuf":
            raise Mistake(f"observations must be numbers, got {dtype}")

    def check(self, dataset: Dataset) -> None:
        """Raises unless the dataset has this interface."""
        if dataset.observation != self.observation:
            raise Mistake(f"observations must have shape {self.observation}, got {dataset.observation}")
        self.check_dtype(dataset.observations.dtype)
        if dataset.lengths.max() > self.horizon:
            raise Mistake(f"episodes must have at most {self.horizon} steps, got {dataset.lengths.max()}")
        self.actions.check(dataset.actions)
