"""Cumulative: part of every batch comes from stored trajectories of earlier tasks."""

from dataclasses import dataclass
from typing import Annotated

import torch

from holdfast.data.randomness import numpy_stream
from holdfast.data.validation import Range
from holdfast.data.windows import Mixture, Windows
from holdfast.learners.dense import DenseConfig, DenseLearner, Lesson
from holdfast.learners.learner import Datasets, LearnerSpec
from holdfast.training.config import FitConfig
from holdfast.training.fit import fit

NOTHING = torch.zeros(0, 2, dtype=torch.int64)  # a row per stored trajectory: task, episode


@dataclass(frozen=True)
class CumulativeConfig(DenseConfig):
    """Replay of stored trajectories."""

    mix: Annotated[float, Range(over=0, under=1)] = 0.5
    """Share of every batch that is replayed, from the second task on."""
    capacity: Annotated[int | None, Range(least=1, most=10**9)] = None
    """Number of trajectories to store, sampled uniformly from all seen (reservoir); by default all are stored."""


class Cumulative(DenseLearner):
    """Stores which trajectories to replay, by task and number; the datasets themselves do not change."""

    config: CumulativeConfig

    def fit_task(self, lesson: Lesson) -> None:
        stored = self.stored(lesson.datasets)
        source = Mixture(lesson.windows, list(stored.values()), self.config.mix) if stored else lesson.windows
        fit(self.net, source, self.config.fit, lesson.seed, lesson.recorder, "task")
        self._store(lesson)

    def stored(self, datasets: Datasets) -> dict[str, Windows]:
        """The stored trajectories of every earlier task that still has some."""
        kept = self.memory.get("stored", NOTHING)
        windows = {}
        for index, name in enumerate(self.learned):
            episodes = kept[kept[:, 0] == index, 1].sort().values.tolist()
            if episodes:
                windows[name] = self.replayed(name, datasets(name).take(episodes))
        return windows

    def _store(self, lesson: Lesson) -> None:
        rng = numpy_stream(lesson.seed, "reservoir")
        kept, seen = self.memory.get("stored", NOTHING).tolist(), int(self.memory.get("seen", 0))
        for episode in range(len(lesson.task.dataset)):
            seen += 1
            row = [len(self.learned), episode]
            if self.config.capacity is None or len(kept) < self.config.capacity:
                kept.append(row)
            elif (index := int(rng.integers(seen))) < self.config.capacity:
                kept[index] = row
        datasets = [*map(lesson.datasets, self.learned), lesson.task.dataset]
        stored = sum(datasets[index].episode(number).nbytes for index, number in kept)
        self.memory = {"stored": torch.tensor(kept), "seen": torch.tensor(seen), "bytes": torch.tensor(stored)}


CUMULATIVE = LearnerSpec(
    Cumulative, lambda net: CumulativeConfig(net, FitConfig()), "one dense network, half of every batch replayed"
)
