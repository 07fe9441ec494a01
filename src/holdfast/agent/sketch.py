"""A sketch of a task: some of its observations, and how far those of its own episodes are from the nearest of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, inf, isfinite, sqrt

import numpy as np
import torch

from holdfast.data.episodes import Dataset
from holdfast.data.frames import stacked
from holdfast.data.randomness import numpy_stream
from holdfast.errors import Mistake
from holdfast.learners.tensors import Tensors

PREFIXES = (1, 4, 16, 64)  # numbers of first observations that are compared together
RATE = 0.01  # of a task's own episodes are farther than its limit, if it has at least 99
EPISODES = 400  # most episodes that limits are computed from
POINTS, FEWEST_POINTS, NUMBERS = 256, 64, 16_384  # of wide observations, fewer are kept
FEATURES = 256  # most numbers of an observation; neighbours in wider ones are averaged
ALIKE = 0.1  # of the median distance of observations: episodes whose first ones are nearer begin alike
BLOCKS = 16  # along each side of an image
FARTHEST = 10.0  # deviations that two features can differ by at most, so that a single one does not decide all
SMALLEST_DEVIATION, SMALLEST_SHARE = 1e-4, 1e-3  # least deviation of a feature: absolute, and of its mean
SMALLEST_LIMIT = 1e-6  # of distances and losses


@dataclass(frozen=True)
class Sketch:
    """Some observations of a task, and the largest distances and losses of its own episodes."""

    shift: np.ndarray  # (F,) float32, mean of each feature
    scale: np.ndarray  # (F,) float32, deviation of each feature
    points: np.ndarray  # (P, F) float16, features of some observations, in deviations from the mean
    limits: np.ndarray  # (4,) float32, of the mean distance of the first 1, 4, 16 and 64 observations; inf if not known
    loss: np.ndarray  # () float32, of the policy on the actions of an episode; inf if not known

    def __post_init__(self) -> None:
        width = self.points.shape[1] if self.points.ndim == 2 else 0
        shapes = {"shift": (width,), "scale": (width,), "limits": (len(PREFIXES),), "loss": ()}
        right = all(getattr(self, name).shape == shape for name, shape in shapes.items())
        right = right and all(array.dtype.kind == "f" for array in vars(self).values())
        if not right or not 1 <= width <= FEATURES or not 1 <= len(self.points) <= POINTS:
            raise damaged()
        known = (self.shift, self.scale, self.points, self.limits[:1])
        if not all(np.isfinite(array).all() for array in known) or (self.scale <= 0).any():
            raise damaged()

    def tensors(self) -> Tensors:
        """The sketch as named tensors."""
        return {name: torch.from_numpy(array) for name, array in vars(self).items()}

    @property
    def bytes(self) -> int:
        """The size of its tensors."""
        return sum(array.nbytes for array in vars(self).values())

    @classmethod
    def read(cls, tensors: Tensors) -> Sketch:
        """The sketch that `tensors` gave."""
        try:
            return cls(**{name: tensor.numpy() for name, tensor in tensors.items()})
        except TypeError as problem:  # tensors are missing, unknown or of a type that numpy lacks
            raise damaged() from problem

    def likeness(self, observations: np.ndarray) -> float:
        """How far the first observations of an episode are from the task's, where 1 is the limit of its own."""
        if not len(observations):
            raise Mistake("at least one observation is needed")
        limits = dict(zip(PREFIXES, self.limits.tolist(), strict=True))
        count = max(count for count in PREFIXES if count <= len(observations) and isfinite(limits[count]))
        return relative(float(self.distances(observations[:count]).mean()), limits[count])

    def distances(self, observations: np.ndarray, points: np.ndarray | None = None) -> np.ndarray:
        """The distance of each observation to the nearest point, (N,): a mean over features, in deviations."""
        points = self.points if points is None else points
        seen = features(observations)
        if seen.shape[1] != len(self.shift):
            raise damaged()
        seen = standardised(seen, self.shift, self.scale)
        gaps = np.abs(seen[:, None].astype(np.float32) - points[None].astype(np.float32))  # (N, P, F)
        return np.sqrt((np.minimum(gaps, FARTHEST) ** 2).mean(axis=2)).min(axis=1)


def damaged() -> Mistake:
    """The user's message about a sketch that is not one of its task."""
    return Mistake("the sketch of a task's observations is damaged: restore the folder from a backup")


def relative(value: float, limit: float) -> float:
    """The value in parts of its limit."""
    return value / max(limit, SMALLEST_LIMIT) if isfinite(value) else inf


def sketch_of(dataset: Dataset, seed: int) -> Sketch | None:
    """The sketch of a task's data; None for a single episode, since others could not be compared with it."""
    if len(dataset) < 2:
        return None
    rows = chosen_rows(dataset, numpy_stream(seed, "sketch"))
    seen = features(stacked(dataset, rows))
    mean = seen.mean(axis=0)
    scale = np.maximum(seen.std(axis=0), np.maximum(SMALLEST_SHARE * np.abs(mean), SMALLEST_DEVIATION))
    shift, scale = mean.astype(np.float32), scale.astype(np.float32)
    points = standardised(seen, shift, scale)
    sketch = Sketch(shift, scale, points, np.zeros(len(PREFIXES), np.float32), np.array(inf, np.float32))
    return replace(sketch, limits=observation_limits(sketch, dataset, rows))


def chosen_rows(dataset: Dataset, rng: np.random.Generator) -> np.ndarray:
    """The rows whose observations are kept: a quarter first ones, a quarter early ones, the others from anywhere."""
    count = min(max(NUMBERS // features(stacked(dataset, np.arange(1))).shape[1], FEWEST_POINTS), POINTS)
    early = np.flatnonzero(dataset.timesteps < PREFIXES[-1])
    quarters = [rng.permutation(rows)[: count // 4] for rows in (dataset.starts, early)]
    order = np.concatenate([*quarters, rng.permutation(dataset.steps)])
    places = np.sort(np.unique(order, return_index=True)[1])  # of each row, where it comes first
    return np.sort(order[places[:count]])


def observation_limits(sketch: Sketch, dataset: Dataset, rows: np.ndarray) -> np.ndarray:
    """The limit of the mean distance of each number of first observations, (4,).

    Every episode is compared with the points of the other episodes, as a new one would be. A limit is at least the
    median distance of single observations. If all episodes begin alike, as in a deterministic simulator, they do not
    say how else one may begin: then it is at least the limit of single observations. It is not known (inf) if most
    episodes are shorter.
    """
    owners = np.searchsorted(dataset.starts, rows, "right") - 1
    compared = []
    for episode in spread(len(dataset), EPISODES):
        first, length = int(dataset.starts[episode]), min(int(dataset.lengths[episode]), PREFIXES[-1])
        seen = stacked(dataset, np.arange(first, first + length))
        compared.append(sketch.distances(seen, sketch.points[owners != episode]))
    singles = np.concatenate(compared)
    least = float(np.median(singles))
    if largest([float(distances[0]) for distances in compared]) < ALIKE * least:
        least = largest(singles.tolist())
    limits = []
    for count in PREFIXES:
        means = [float(distances[:count].mean()) for distances in compared if len(distances) >= count]
        known = len(means) >= len(compared) / 2
        limits.append(max(largest(means), least) if known else inf)
    return np.array(limits, np.float32)


def spread(count: int, most: int) -> list[int]:
    """At most so many of the numbers below `count`, evenly spread."""
    return np.unique(np.linspace(0, count - 1, most).astype(int)).tolist()


def largest(values: Sequence[float]) -> float:
    """A limit that a further value of the same kind exceeds with a probability of about `RATE`; inf without values.

    With at least 99 values it is their order statistic. With fewer it is the greatest one, and the fewer there are the
    more is added: its probability is not known.
    """
    count = len(values)
    if count == 0:
        return inf
    place = ceil((count + 1) * (1 - RATE))
    if place <= count:
        return sorted(values)[place - 1]
    return max(values) * (1 + 2 / sqrt(count))


def features(observations: np.ndarray) -> np.ndarray:
    """Encoded observations as a few numbers each, (N, *obs) -> (N, F) float64.

    Of images, these are the means of blocks in the last channel: the newest frame of a stack, in which earlier frames
    are black when an episode begins.
    """
    found = observations.astype(np.float64) if observations.ndim == 2 else observations[:, -1] / 255
    if found.ndim == 3:
        found = averaged(averaged(found, BLOCKS, axis=1), BLOCKS, axis=2)
    return averaged(found.reshape(len(found), -1), FEATURES, axis=1)


def averaged(values: np.ndarray, count: int, axis: int) -> np.ndarray:
    """The means of `count` groups of neighbours along an axis; the values themselves if there are no more."""
    length = values.shape[axis]
    if length <= count:
        return values
    edges = np.linspace(0, length, count + 1).astype(int)
    shape = [-1 if place == axis else 1 for place in range(values.ndim)]
    return np.add.reduceat(values, edges[:-1], axis=axis) / np.diff(edges).reshape(shape)


def standardised(found: np.ndarray, shift: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Features in deviations from the mean, float16 as they are kept, so that an equal observation has no distance."""
    return np.clip((found - shift) / scale, -1e4, 1e4).astype(np.float16)
