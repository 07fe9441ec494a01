"""Training batches: windows drawn from a dataset, packed into rows so that no padding is computed."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from holdfast.data.episodes import Dataset
from holdfast.data.normaliser import Normaliser

Sampling = Literal["episodes", "windows"]
PADDING = -1


@dataclass(frozen=True)
class Batch:
    """R rows of K steps; a row holds one long window or several short ones, each its own segment."""

    observations: Tensor  # (R, K, *obs), normalised
    actions: Tensor  # (R, K) or (R, K, A)
    returns: Tensor  # (R, K) scaled return-to-go
    timesteps: Tensor  # (R, K) step within the episode
    segments: Tensor  # (R, K) which window of the row a step belongs to, PADDING where it belongs to none
    active: Tensor  # (R, A) the action dimensions that the row's task has; A = 1 for discrete actions
    shared: bool  # whether any row holds more than one window, so that attention must be kept apart

    @property
    def valid(self) -> Tensor:
        """The steps that are data, (R, K) bool."""
        return self.segments != PADDING

    @classmethod
    def join(cls, batches: Sequence["Batch"]) -> "Batch":
        """All rows of these batches."""
        names = [field.name for field in fields(cls) if field.name != "shared"]
        joined: dict[str, Any] = {name: torch.cat([getattr(batch, name) for batch in batches]) for name in names}
        return cls(**joined, shared=any(batch.shared for batch in batches))


class Source(Protocol):
    """Whatever training batches can be drawn from."""

    def sample(self, count: int, rng: np.random.Generator) -> Batch:
        """A batch of `count` windows."""
        ...


def pack(lengths: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row, first column and segment of each window when windows share rows of `width` (first fit, longest first)."""
    row, column, segment = (np.zeros(len(lengths), np.int64) for _ in range(3))
    used: list[int] = []  # columns taken in each row
    held: list[int] = []  # windows in each row
    first_open = 0  # rows before this one are full
    for window in np.argsort(-lengths, kind="stable"):
        length = int(lengths[window])
        place = next((r for r in range(first_open, len(used)) if used[r] + length <= width), len(used))
        if place == len(used):
            used.append(0)
            held.append(0)
        row[window], column[window], segment[window] = place, used[place], held[place]
        used[place] += length
        held[place] += 1
        while first_open < len(used) and used[first_open] == width:
            first_open += 1
    return row, column, segment


class Windows:
    """Windows of at most `context` steps of one dataset, resident on the device they are trained on."""

    def __init__(
        self,
        dataset: Dataset,
        normaliser: Normaliser,
        active: Tensor,
        *,
        context: int,
        return_scale: float,
        sampling: Sampling,
        packed: bool = True,
        device: str | torch.device = "cpu",
    ) -> None:
        self.context, self.packed, self.device = context, packed, device
        self.starts, self.lengths = dataset.starts, dataset.lengths
        self.choices = np.maximum(self.lengths - context + 1, 1)  # windows in each episode
        mass = np.ones(len(self.lengths)) if sampling == "episodes" else self.choices
        self.mass = float(mass.sum())  # how much of a mixture this source makes up
        self.cumulative = np.cumsum(mass) / mass.sum()
        self.active = active.to(device)
        self.observations = normaliser(torch.as_tensor(dataset.observations, device=device))
        actions = torch.as_tensor(dataset.actions, device=device)
        self.actions = actions.float() if actions.is_floating_point() else actions.long()
        self.returns = torch.as_tensor(dataset.returns_to_go / return_scale, dtype=torch.float32, device=device)
        self.timesteps = torch.as_tensor(dataset.timesteps, device=device)

    def sample(self, count: int, rng: np.random.Generator) -> Batch:
        """`count` windows: an episode by its mass, then a start, all starts alike."""
        episodes = np.searchsorted(self.cumulative, rng.random(count), side="right").clip(max=len(self.lengths) - 1)
        offsets = (rng.random(count) * self.choices[episodes]).astype(np.int64)
        return self.batch(self.starts[episodes] + offsets, np.minimum(self.lengths[episodes], self.context))

    def batch(self, first: np.ndarray, lengths: np.ndarray) -> Batch:
        """The windows that begin at these rows of the dataset and have these lengths."""
        if self.packed and (lengths < self.context).any():
            row, column, segment = pack(lengths, self.context)
        else:
            row, column, segment = np.arange(len(lengths)), np.zeros_like(lengths), np.zeros_like(lengths)
        rows = int(row.max()) + 1
        index = np.zeros((rows, self.context), np.int64)
        segments = np.full((rows, self.context), PADDING, np.int64)
        step = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)  # 0 1 2 0 1 0 1 2 3 ...
        place = (np.repeat(row, lengths), np.repeat(column, lengths) + step)
        index[place] = np.repeat(first, lengths) + step
        segments[place] = np.repeat(segment, lengths)
        at = torch.as_tensor(index, device=self.device)
        return Batch(
            observations=self.observations[at],
            actions=self.actions[at],
            returns=self.returns[at],
            timesteps=self.timesteps[at],
            segments=torch.as_tensor(segments, device=self.device),
            active=self.active.expand(rows, -1),
            shared=rows < len(lengths),
        )


class Mixture:
    """The current task's windows, with a share of every batch drawn from what was stored of earlier tasks."""

    def __init__(self, current: Windows, stored: Sequence[Windows], share: float) -> None:
        self.current, self.stored, self.share = current, stored, share
        mass = np.array([windows.mass for windows in stored])
        self.odds = mass / mass.sum()

    def sample(self, count: int, rng: np.random.Generator) -> Batch:
        """`share * count` stored windows, each earlier task by its mass, and the rest current ones."""
        replayed = round(self.share * count)
        counts = rng.multinomial(replayed, self.odds)
        parts = [(self.current, count - replayed), *zip(self.stored, counts, strict=True)]
        return Batch.join([windows.sample(int(n), rng) for windows, n in parts if n > 0])
