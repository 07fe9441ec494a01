"""The normalisation of a task's observations."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from holdfast.data.episodes import Dataset

SMALLEST_DEVIATION = 1e-4  # constant features (padding, a fixed joint) are not scaled


@dataclass(frozen=True)
class Normaliser:
    """Subtracts `shift` and divides by `scale`; both have the shape of an observation, or () for no normalisation."""

    shift: Tensor
    scale: Tensor

    @classmethod
    def fit(cls, dataset: Dataset) -> "Normaliser":
        """Zero mean and unit standard deviation on the data of one task."""
        observations = dataset.observations.astype(np.float64)
        deviation = observations.std(axis=0)
        scale = np.where(deviation > SMALLEST_DEVIATION, deviation, 1.0)
        return cls(torch.tensor(observations.mean(axis=0)).float(), torch.tensor(scale).float())

    @classmethod
    def identity(cls) -> "Normaliser":
        """No normalisation: for pixels, and for the publication's dense baselines."""
        return cls(torch.zeros(()), torch.ones(()))

    def to(self, device: str | torch.device) -> "Normaliser":
        """The same normaliser on a device."""
        return Normaliser(self.shift.to(device), self.scale.to(device))

    def __call__(self, observations: Tensor) -> Tensor:
        if self.scale.ndim == 0:  # pixels stay bytes until the encoder
            return observations.float() if observations.is_floating_point() else observations
        return (observations.float() - self.shift.to(observations.device)) / self.scale.to(observations.device)
