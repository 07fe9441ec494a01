"""Training batches: windows of recorded steps, packed into rows so that little is padding."""

import hashlib
import json
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
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
    """R rows of K steps; a row has one long window or several short ones, each a segment of its own."""

    observations: Tensor  # (R, K, *obs), normalised
    actions: Tensor  # (R, K) or (R, K, A)
    returns: Tensor  # (R, K) scaled return-to-go
    timesteps: Tensor  # (R, K) step within the episode
    segments: Tensor  # (R, K) index of the step's window within its row; PADDING for padding
    active: Tensor  # (R, K, A) one for the action dimensions of the step's task; A = 1 for discrete actions
    shared: bool  # whether a row has more than one window, so that attention must be masked

    @property
    def valid(self) -> Tensor:
        """False for padding, (R, K) bool."""
        return self.segments != PADDING


class Sampler(Protocol):
    """Draws training batches from recorded steps."""

    steps: "Steps"

    @property
    def fingerprint(self) -> str:
        """A hash of the data and of all settings that affect sampling."""
        ...

    def draw(self, count: int, rng: np.random.Generator) -> Drawn:
        """Draws `count` windows: their first steps and lengths."""
        ...

    def sample(self, count: int, rng: np.random.Generator) -> Batch:
        """A batch of `count` windows."""
        ...


def pack(lengths: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Packs windows into rows of `width` (best fit, longest first): the row, column and segment of each window."""
    rows: list[list[tuple[int, int]]] = [[] for _ in range(width + 1)]  # by free columns: row and its next segment
    free = 0  # bit f is set if some row has f free columns
    placed = np.zeros((3, len(lengths)), np.int64)
    order = np.argsort(-lengths, kind="stable")
    placements, opened = [], 0
    for length in lengths[order].tolist():
        fitting = free >> length
        if fitting:
            room = length + (fitting & -fitting).bit_length() - 1
            row, segment = rows[room].pop()
            if not rows[room]:
                free ^= 1 << room
        else:
            room, row, segment = width, opened, 0
            opened += 1
        placements.append((row, width - room, segment))
        left = room - length
        if left:
            rows[left].append((row, segment + 1))
            free |= 1 << left
    placed[:, order] = np.array(placements).T
    return placed[0], placed[1], placed[2]


@dataclass(frozen=True)
class Places:
    """The layout of one or more batches: which recorded step is at each place."""

    index: np.ndarray  # (..., R, K) row in `Steps`
    segments: np.ndarray  # (..., R, K), PADDING for padding

    @property
    def shared(self) -> bool:
        """Whether a row has more than one window."""
        return bool((self.segments > 0).any())

    @classmethod
    def stack(cls, batches: Sequence["Places"], coarse: int) -> "Places":
        """Stacks batches, padded to the same number of rows: a multiple of `coarse` if windows share rows."""
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
    """Recorded steps laid end to end, on the device that they are trained on."""

    observations: Tensor  # (N, *obs), normalised; single frames if `stack` is over 1
    actions: Tensor  # (N,) or (N, A)
    returns: Tensor  # (N,) scaled return-to-go
    timesteps: Tensor  # (N,)
    active: Tensor  # (N, A)
    context: int
    stack: int = 1
    packed: bool = True

    @classmethod
    def join(cls, parts: Sequence["Steps"]) -> "Steps":
        """The steps of all parts, in order."""
        names = ("observations", "actions", "returns", "timesteps", "active")
        joined: dict[str, Any] = {name: torch.cat([getattr(part, name) for part in parts]) for name in names}
        return replace(parts[0], **joined)

    def places(self, first: np.ndarray, lengths: np.ndarray) -> "Places":
        """The layout of a batch of windows with these first steps and lengths."""
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
        """The batch of windows with these first steps and lengths."""
        places, device = self.places(first, lengths), self.returns.device
        index = torch.as_tensor(places.index, device=device)
        segments = torch.as_tensor(places.segments, device=device)
        return self.at(index, segments, places.shared)

    def at(self, index: Tensor, segments: Tensor, shared: bool) -> Batch:
        """The batch of the steps with these indices, (R, K)."""
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
        exists = back <= self.timesteps[index][..., None]  # (R, K, stack): False before an episode's first frame
        frames = self.observations[index[..., None] - back * exists]
        return frames * exists[..., None, None]


@dataclass(frozen=True)
class WindowSettings:
    """How windows are drawn and scaled."""

    context: int  # the most steps of a window
    return_scale: float  # returns to go are divided by this
    sampling: Sampling
    whole: bool = True  # whether windows stay inside their episode
    packed: bool = True  # whether short windows share rows


class Windows:
    """Windows of at most `context` steps of one dataset."""

    def __init__(
        self,
        dataset: Dataset,
        normaliser: Normaliser,
        active: Tensor,
        settings: WindowSettings,
        device: str | torch.device = "cpu",
        *,
        code: Tensor | None = None,  # (T,) appended to every observation: tells a network which task it is
    ) -> None:
        self.dataset, self.normaliser, self.active, self.settings = dataset, normaliser, active, settings
        self.code = code
        self.starts, self.lengths = dataset.starts, dataset.lengths
        self.beyond = 0 if settings.whole else settings.context - 1  # steps by which a window may cross an end
        self.choices = np.maximum(self.lengths - settings.context + 1 + 2 * self.beyond, 1)  # windows per episode
        mass = np.ones(len(self.lengths)) if settings.sampling == "episodes" else self.choices
        self.mass = float(mass.sum())  # weight of this dataset in a mixture
        self.cumulative = np.cumsum(mass) / mass.sum()
        observations = normaliser(on(device, dataset.observations))
        actions = torch.as_tensor(dataset.actions, device=device)
        self.steps = Steps(
            observations=observations if code is None else with_code(observations, code.to(device)),
            actions=actions.float() if actions.is_floating_point() else actions.long(),
            returns=torch.as_tensor(dataset.returns_to_go / settings.return_scale, dtype=torch.float32, device=device),
            timesteps=torch.as_tensor(dataset.timesteps, device=device),
            active=active.to(device).expand(dataset.steps, -1),
            context=settings.context,
            stack=dataset.stack,
            packed=settings.packed,
        )

    @property
    def fingerprint(self) -> str:
        """A hash of the dataset, its normalisation and the settings."""
        scaling = [self.normaliser.shift, self.normaliser.scale, self.active]
        if self.code is not None:
            scaling.append(self.code)
        arrays = [[str(tensor.dtype), list(tensor.shape), tensor.cpu().numpy().tobytes().hex()] for tensor in scaling]
        return _hash([self.dataset.fingerprint, arrays, asdict(self.settings)])

    def draw(self, count: int, rng: np.random.Generator) -> Drawn:
        """Draws `count` windows: an episode according to the sampling, then a uniform start in it."""
        episodes = np.searchsorted(self.cumulative, rng.random(count), side="right").clip(max=len(self.lengths) - 1)
        begins = (rng.random(count) * self.choices[episodes]).astype(np.int64) - self.beyond
        first, end = np.maximum(begins, 0), np.minimum(begins + self.steps.context, self.lengths[episodes])
        return self.starts[episodes] + first, end - first

    def sample(self, count: int, rng: np.random.Generator) -> Batch:
        """A batch of `count` windows."""
        return self.steps.batch(*self.draw(count, rng))


class JoinedWindows(ABC):
    """Windows of several tasks, from which every batch is drawn."""

    def __init__(self, parts: Sequence[Windows]) -> None:
        self.parts = list(parts)
        self.steps = Steps.join([part.steps for part in self.parts])
        self.before = np.cumsum([0, *(len(part.steps.returns) for part in self.parts)])  # steps before each part

    @abstractmethod
    def counts(self, count: int, rng: np.random.Generator) -> Sequence[int]:
        """The number of windows of each part in a batch of `count` windows."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A hash of all parts, and of how batches are drawn from them."""

    def draw(self, count: int, rng: np.random.Generator) -> Drawn:
        """Draws `count` windows, part by part."""
        drawn = [part.draw(int(n), rng) for part, n in zip(self.parts, self.counts(count, rng), strict=True)]
        first = [start + before for (start, _), before in zip(drawn, self.before, strict=False)]
        return np.concatenate(first), np.concatenate([lengths for _, lengths in drawn])

    def sample(self, count: int, rng: np.random.Generator) -> Batch:
        """A batch of `count` windows."""
        return self.steps.batch(*self.draw(count, rng))


class Mixture(JoinedWindows):
    """Windows of the current task, with a share of every batch drawn from stored windows of earlier tasks."""

    def __init__(self, current: Windows, stored: Sequence[Windows], share: float) -> None:
        super().__init__([current, *stored])
        self.share = share
        mass = np.array([windows.mass for windows in stored])
        self.odds = mass / mass.sum()

    @property
    def fingerprint(self) -> str:
        return _hash([[part.fingerprint for part in self.parts], self.share])

    def counts(self, count: int, rng: np.random.Generator) -> Sequence[int]:
        """`share * count` stored windows, earlier tasks weighted by mass, and the rest from the current task."""
        replayed = round(self.share * count)
        return [count - replayed, *rng.multinomial(replayed, self.odds)]


class EqualShares(JoinedWindows):
    """Windows of several tasks, with the same number of each in every batch."""

    @property
    def fingerprint(self) -> str:
        return _hash(["equal shares", [part.fingerprint for part in self.parts]])

    def counts(self, count: int, rng: np.random.Generator) -> Sequence[int]:
        """Equal counts; what does not divide evenly goes to randomly chosen tasks, one window each."""
        each, left = divmod(count, len(self.parts))
        counts = np.full(len(self.parts), each)
        counts[rng.permutation(len(self.parts))[:left]] += 1
        return counts.tolist()


def with_code(observations: Tensor, code: Tensor) -> Tensor:
    """Vector observations with a task's code appended, (..., D) and (T,) -> (..., D + T)."""
    return torch.cat([observations, code.expand(*observations.shape[:-1], -1)], dim=-1)


def _hash(plain: Any) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def on(device: str | torch.device, array: np.ndarray) -> Tensor:
    """An array as a tensor on a device, without torch's warning about read-only arrays such as memory-mapped files."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return torch.as_tensor(array, device=device)
