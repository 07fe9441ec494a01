"""Training batches: windows drawn from recorded steps, packed into rows so that no padding is computed."""

import hashlib
import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from holdfast.data.episodes import Dataset
from holdfast.data.normaliser import Normaliser
from holdfast.gpu.capture import own_kernels

Sampling = Literal["episodes", "windows"]
Drawn = tuple[np.ndarray, np.ndarray]  # first step and length of each window
PADDING = -1


@dataclass(frozen=True)
class Batch:
    """R rows of K steps; a row holds one long window or several short ones, each its own segment."""

    observations: Tensor  # (R, K, *obs), normalised
    actions: Tensor  # (R, K) or (R, K, A)
    returns: Tensor  # (R, K) scaled return-to-go
    timesteps: Tensor  # (R, K) step within the episode
    segments: Tensor  # (R, K) which window of the row a step belongs to, PADDING where it belongs to none
    active: Tensor  # (R, K, A) the action dimensions that the step's task has; A = 1 for discrete actions
    shared: bool  # whether any row holds more than one window, so that attention must be kept apart

    @property
    def valid(self) -> Tensor:
        """The steps that are data, (R, K) bool."""
        return self.segments != PADDING


class Sampler(Protocol):
    """Draws training batches from recorded steps."""

    steps: "Steps"

    @property
    def fingerprint(self) -> str:
        """A hash of the data and of every setting that decides what is drawn."""
        ...

    def draw(self, count: int, rng: np.random.Generator) -> Drawn:
        """Which windows a batch of `count` has."""
        ...

    def sample(self, count: int, rng: np.random.Generator) -> Batch:
        """A batch of `count` windows."""
        ...


def pack(lengths: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row, first column and segment of each window when windows share rows of `width` (best fit, longest first)."""
    rows: list[list[tuple[int, int]]] = [[] for _ in range(width + 1)]  # by free columns: row and its next segment
    free = 0  # bit f is set where some row has f free columns
    placed = np.zeros((3, len(lengths)), np.int64)
    order = np.argsort(-lengths, kind="stable")
    found, opened = [], 0
    for length in lengths[order].tolist():
        fitting = free >> length
        if fitting:
            room = length + (fitting & -fitting).bit_length() - 1
            row, segment = rows[room].pop()
            if not rows[room]:
                free ^= 1 << room
        else:
            room, row, segment, opened = width, opened, 0, opened + 1
        found.append((row, width - room, segment))
        left = room - length
        if left:
            rows[left].append((row, segment + 1))
            free |= 1 << left
    placed[:, order] = np.array(found).T
    return placed[0], placed[1], placed[2]


@dataclass(frozen=True)
class Places:
    """Which step stands where in a batch, or in several."""

    index: np.ndarray  # (..., R, K)
    segments: np.ndarray  # (..., R, K), PADDING where nothing stands

    @property
    def shared(self) -> bool:
        """Whether any row holds more than one window."""
        return bool((self.segments > 0).any())

    @classmethod
    def stack(cls, batches: Sequence["Places"], coarse: int) -> "Places":
        """Several batches, padded to one number of rows; a multiple of `coarse` where windows share rows."""
        rows = max(len(batch.index) for batch in batches)
        if any(batch.shared for batch in batches):
            rows = -(-rows // coarse) * coarse
        return cls(
            np.stack([_filled(batch.index, rows, 0) for batch in batches]),
            np.stack([_filled(batch.segments, rows, PADDING) for batch in batches]),
        )


def _filled(array: np.ndarray, rows: int, value: int) -> np.ndarray:
    return np.pad(array, ((0, rows - len(array)), (0, 0)), constant_values=value)


@dataclass(frozen=True)
class Steps:
    """Recorded steps laid end to end, resident on the device they are trained on."""

    observations: Tensor  # (N, *obs), normalised; single frames where observations are stacks of them
    actions: Tensor  # (N,) or (N, A)
    returns: Tensor  # (N,) scaled return-to-go
    timesteps: Tensor  # (N,)
    active: Tensor  # (N, A)
    context: int
    stack: int = 1
    packed: bool = True

    @classmethod
    def join(cls, parts: Sequence["Steps"]) -> "Steps":
        """The steps of these, in order."""
        names = ("observations", "actions", "returns", "timesteps", "active")
        joined: dict[str, Any] = {name: torch.cat([getattr(part, name) for part in parts]) for name in names}
        return replace(parts[0], **joined)

    def places(self, first: np.ndarray, lengths: np.ndarray) -> "Places":
        """Where in a batch the windows stand that begin at these steps and have these lengths."""
        if self.packed and (lengths < self.context).any():
            row, column, segment = pack(lengths, self.context)
        else:
            row, column, segment = np.arange(len(lengths)), np.zeros_like(lengths), np.zeros_like(lengths)
        index = np.zeros((int(row.max()) + 1, self.context), np.int64)
        segments = np.full_like(index, PADDING)
        step = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)  # 0 1 2 0 1 0 1 2 3 ...
        place = (np.repeat(row, lengths), np.repeat(column, lengths) + step)
        index[place] = np.repeat(first, lengths) + step
        segments[place] = np.repeat(segment, lengths)
        return Places(index, segments)

    def batch(self, first: np.ndarray, lengths: np.ndarray) -> Batch:
        """These windows."""
        places, device = self.places(first, lengths), self.returns.device
        index, segments = (torch.as_tensor(array, device=device) for array in (places.index, places.segments))
        return self.at(index, segments, places.shared)

    def at(self, index: Tensor, segments: Tensor, shared: bool) -> Batch:
        """The batch of the steps at these places."""
        return Batch(
            observations=self._observed(index),
            actions=self.actions[index],
            returns=self.returns[index],
            timesteps=self.timesteps[index],
            segments=segments,
            active=self.active[index],
            shared=shared,
        )

    def _observed(self, index: Tensor) -> Tensor:
        if self.stack == 1:
            return self.observations[index]
        if own_kernels(index):
            from holdfast.gpu.frames import stacks

            return stacks(self.observations, index, self.timesteps[index], self.stack)
        back = torch.arange(self.stack - 1, -1, -1, device=index.device)
        there = back <= self.timesteps[index][..., None]  # (R, K, stack): an episode's first stacks are part empty
        frames = self.observations[index[..., None] - back * there]
        return frames * there[..., None, None]


class Windows:
    """Windows of at most `context` steps of one dataset."""

    def __init__(
        self,
        dataset: Dataset,
        normaliser: Normaliser,
        active: Tensor,
        *,
        context: int,
        return_scale: float,
        sampling: Sampling,
        whole: bool = True,
        packed: bool = True,
        device: str | torch.device = "cpu",
    ) -> None:
        self.dataset, self.normaliser, self.active = dataset, normaliser, active
        self.settings = {
            "context": context,
            "return_scale": return_scale,
            "sampling": sampling,
            "whole": whole,
            "packed": packed,
        }
        self.starts, self.lengths = dataset.starts, dataset.lengths
        self.beyond = 0 if whole else context - 1  # steps by which a window may reach over an end
        self.choices = np.maximum(self.lengths - context + 1 + 2 * self.beyond, 1)  # windows in each episode
        mass = np.ones(len(self.lengths)) if sampling == "episodes" else self.choices
        self.mass = float(mass.sum())  # how much of a mixture this source makes up
        self.cumulative = np.cumsum(mass) / mass.sum()
        actions = torch.as_tensor(dataset.actions, device=device)
        self.steps = Steps(
            observations=normaliser(on(device, dataset.observations)),
            actions=actions.float() if actions.is_floating_point() else actions.long(),
            returns=torch.as_tensor(dataset.returns_to_go / return_scale, dtype=torch.float32, device=device),
            timesteps=torch.as_tensor(dataset.timesteps, device=device),
            active=active.to(device).expand(dataset.steps, -1),
            context=context,
            stack=dataset.stack,
            packed=packed,
        )

    @property
    def fingerprint(self) -> str:
        """A hash of the dataset, its scaling and the settings."""
        scaling = (self.normaliser.shift, self.normaliser.scale, self.active)
        arrays = [[str(tensor.dtype), list(tensor.shape), tensor.cpu().numpy().tobytes().hex()] for tensor in scaling]
        return _hash([self.dataset.fingerprint, arrays, self.settings])

    def draw(self, count: int, rng: np.random.Generator) -> Drawn:
        """`count` windows: an episode by its mass, then a start, all starts alike."""
        episodes = np.searchsorted(self.cumulative, rng.random(count), side="right").clip(max=len(self.lengths) - 1)
        begins = (rng.random(count) * self.choices[episodes]).astype(np.int64) - self.beyond
        first, end = np.maximum(begins, 0), np.minimum(begins + self.steps.context, self.lengths[episodes])
        return self.starts[episodes] + first, end - first

    def sample(self, count: int, rng: np.random.Generator) -> Batch:
        """A batch of `count` windows."""
        return self.steps.batch(*self.draw(count, rng))


class Mixture:
    """The current task's windows, with a share of every batch drawn from what was stored of earlier tasks."""

    def __init__(self, current: Windows, stored: Sequence[Windows], share: float) -> None:
        self.parts, self.share = [current, *stored], share
        self.steps = Steps.join([part.steps for part in self.parts])
        self.before = np.cumsum([0, *(len(part.steps.returns) for part in self.parts)])  # steps before each part
        mass = np.array([windows.mass for windows in stored])
        self.odds = mass / mass.sum()

    @property
    def fingerprint(self) -> str:
        """A hash of all that is mixed."""
        return _hash([[part.fingerprint for part in self.parts], self.share])

    def draw(self, count: int, rng: np.random.Generator) -> Drawn:
        """`share * count` stored windows, each earlier task by its mass, and the rest current ones."""
        replayed = round(self.share * count)
        counts = [count - replayed, *rng.multinomial(replayed, self.odds)]
        drawn = [part.draw(int(n), rng) for part, n in zip(self.parts, counts, strict=True)]
        first = [found + before for (found, _), before in zip(drawn, self.before, strict=False)]
        return np.concatenate(first), np.concatenate([lengths for _, lengths in drawn])

    def sample(self, count: int, rng: np.random.Generator) -> Batch:
        """A batch of `count` windows."""
        return self.steps.batch(*self.draw(count, rng))


def _hash(plain: Any) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def on(device: str | torch.device, array: np.ndarray) -> Tensor:
    """An array as a tensor on a device; one that may not be written to, such as a file in memory, is fine."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return torch.as_tensor(array, device=device)
