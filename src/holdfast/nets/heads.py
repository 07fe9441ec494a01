"""Action heads: embedding, prediction and loss of discrete and continuous actions."""

from abc import ABC, abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.data.windows import Batch
from holdfast.nets.timesteps import looked_up
from holdfast.tasks.interface import Actions, Continuous, Discrete


class Head(nn.Module, ABC):
    """Embeds actions as tokens, and predicts actions from the vectors at state tokens."""

    embed: nn.Module  # actions -> (..., D); only if the network reads actions
    output: nn.Linear  # (..., D) -> predictions

    def forward(self, hidden: Tensor) -> Tensor:
        """Predictions from hidden vectors, (..., D) -> (..., A)."""
        return self.output(hidden)

    @abstractmethod
    def loss(self, predictions: Tensor, batch: Batch) -> Tensor:
        """The mean loss over all valid steps; padded steps and dimensions do not count."""

    @abstractmethod
    def act(self, predictions: Tensor, actions: Actions) -> Tensor:
        """The greedy action among the actions of the task."""


class ActionTable(nn.Embedding):
    """One learned vector per action."""

    def forward(self, actions: Tensor) -> Tensor:
        return looked_up(self.weight, actions)


class DiscreteHead(Head):
    """Discrete actions: cross-entropy over the shared vocabulary."""

    def __init__(self, vocabulary: int, width: int, reads_actions: bool) -> None:
        super().__init__()
        if reads_actions:
            self.embed = ActionTable(vocabulary, width)
        self.output = nn.Linear(width, vocabulary)

    def loss(self, predictions: Tensor, batch: Batch) -> Tensor:
        losses = F.cross_entropy(predictions.flatten(0, 1), batch.actions.flatten(), reduction="none")
        return (losses * batch.valid.flatten()).sum() / batch.valid.sum()

    def act(self, predictions: Tensor, actions: Actions) -> Tensor:
        assert isinstance(actions, Discrete)
        return predictions[..., : actions.count].argmax(-1)


class ContinuousHead(Head):
    """Continuous actions: mean squared error over the dimensions of the task."""

    def __init__(self, dimensions: int, width: int, reads_actions: bool) -> None:
        super().__init__()
        if reads_actions:
            self.embed = nn.Linear(dimensions, width, bias=False)
        self.output = nn.Linear(width, dimensions)

    def forward(self, hidden: Tensor) -> Tensor:
        return torch.tanh(self.output(hidden))

    def loss(self, predictions: Tensor, batch: Batch) -> Tensor:
        errors = ((predictions - batch.actions) ** 2 * batch.active).sum(-1) / batch.active.sum(-1)  # (R, K)
        return (errors * batch.valid).sum() / batch.valid.sum()

    def act(self, predictions: Tensor, actions: Actions) -> Tensor:
        assert isinstance(actions, Continuous)
        active = torch.arange(actions.width, device=predictions.device) < actions.dimension
        return predictions * active  # padding is zero, as in the data


def head(actions: Actions, width: int, reads_actions: bool = True) -> Head:
    """The head for these actions; `reads_actions` is whether the network also takes actions as input."""
    kind = DiscreteHead if isinstance(actions, Discrete) else ContinuousHead
    return kind(actions.shared, width, reads_actions)
