"""ER: part of every batch is replayed from stored episodes, which never take more than a given number of bytes."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch

from holdfast.data.episodes import Dataset
from holdfast.data.randomness import numpy_stream
from holdfast.data.validation import Range
from holdfast.data.windows import Mixture
from holdfast.errors import Mistake
from holdfast.learners.dense import DenseConfig, DenseLearner, Lesson
from holdfast.learners.learner import LearnerSpec
from holdfast.learners.tensors import Tensors
from holdfast.training.config import FitConfig
from holdfast.training.fit import fit

STORED = ("observations", "actions", "rewards", "lengths")  # the arrays of a dataset
LENGTH = 8  # bytes of an episode's length


@dataclass(frozen=True)
class ErConfig(DenseConfig):
    """Experience replay."""

    memory_bytes: Annotated[int, Range(least=1, most=10**15)] = 3_000_000
    """The most bytes that the stored episodes of all tasks take together."""
    mix: Annotated[float, Range(over=0, under=1)] = 0.5
    """Share of every batch that is replayed, from the second task on."""


class Er(DenseLearner):
    """Stores episodes itself, so that it needs no data of earlier tasks; all tasks have equal shares of the memory."""

    config: ErConfig

    def fit_task(self, lesson: Lesson) -> None:
        memory = self.memory_with(lesson)  # before training, because it raises if the memory is too small
        stored = [self.replayed(name, self.episodes(name)) for name in self.learned]
        source = Mixture(lesson.windows, stored, self.config.mix) if stored else lesson.windows
        fit(self.net, source, self.config.fit, lesson.seed, lesson.recorder, "task")
        self.memory = memory

    def episodes(self, name: str) -> Dataset:
        """The stored episodes of a learned task."""
        observations, actions, rewards, lengths = (self.memory[f"{kind}/{name}"].cpu().numpy() for kind in STORED)
        seen = self.roles[name].interface.observation
        single_frames = observations.shape[1:] != seen
        return Dataset(observations, actions, rewards, lengths, stack=seen[0] if single_frames else 1)

    def memory_with(self, lesson: Lesson) -> Tensors:
        """The memory when the new task has its share: earlier tasks keep the first of their episodes that still fit."""
        share = self.config.memory_bytes // (len(self.roles) + 1)
        memory: Tensors = {}
        for name in self.learned:
            earlier = self.episodes(name)
            memory |= stored_tensors(name, earlier, first_fitting(earlier, range(len(earlier)), share))
        task, dataset = lesson.task.name, lesson.task.dataset
        order = numpy_stream(lesson.seed, "memory").permutation(len(dataset))
        memory |= stored_tensors(task, dataset, first_fitting(dataset, order.tolist(), share))
        empty = [name for name in (*self.learned, task) if not len(memory[f"lengths/{name}"])]
        if empty:
            raise Mistake(
                f"memory_bytes ({self.config.memory_bytes:,}) is too small: task number {len(self.roles) + 1} leaves "
                f"{share:,} bytes to each task, and every episode of {empty[0]} needs more, so raise it"
            )
        return memory


def first_fitting(dataset: Dataset, order: Iterable[int], most: int) -> list[int]:
    """The episodes that fit into so many bytes together; in this order, each is taken if there is room for it."""
    per_step = sum(array[:1].nbytes for array in (dataset.observations, dataset.actions, dataset.rewards))
    taken, free = [], most
    for index in order:
        size = int(dataset.lengths[index]) * per_step + LENGTH
        if size <= free:
            taken.append(index)
            free -= size
    return taken


def stored_tensors(name: str, dataset: Dataset, episodes: list[int]) -> Tensors:
    """These episodes of a task, in this order, as named tensors."""
    rows = np.concatenate([np.arange(0), *(dataset.starts[i] + np.arange(dataset.lengths[i]) for i in episodes)])
    arrays = [dataset.observations[rows], dataset.actions[rows], dataset.rewards[rows]]
    lengths = dataset.lengths[episodes].astype(np.int64)
    return {f"{kind}/{name}": torch.tensor(array) for kind, array in zip(STORED, [*arrays, lengths], strict=True)}


ER = LearnerSpec(Er, lambda net: ErConfig(net, FitConfig()), "one dense network, replay from a bounded memory")
