"""The processes that train one model together: each takes its share of every batch, and all take the same step."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as distributed
from torch import Tensor

from holdfast.data.windows import Batch, Source
from holdfast.errors import Mistake

PATIENCE = timedelta(days=7)  # the others wait while the first one evaluates


@dataclass(frozen=True)
class Team:
    """This process's place among those that train together; alone, nothing is shared and nothing is sent."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process keeps the record."""
        return self.rank == 0

    @property
    def place(self) -> tuple[int, ...]:
        """What a stream of random numbers of this process is named by, beside its purpose; nothing if it is alone."""
        return (self.rank,) if self.size > 1 else ()

    def sample(self, source: Source, count: int, rng: np.random.Generator) -> Batch:
        """This process's share of a batch, which all draw alike."""
        if self.size == 1:
            return source.sample(count, rng)
        if count < self.size:
            raise Mistake(f"fit.batch must be at least the number of processes, got {count} for {self.size}")
        first, lengths = source.draw(count, rng)
        return source.steps.batch(first[self.rank :: self.size], lengths[self.rank :: self.size])

    def mean(self, loss: Tensor, gradients: Sequence[Tensor], batch: Batch) -> tuple[Tensor, Sequence[Tensor]]:
        """Loss and gradients of the whole batch: shares count by their steps, since a loss is a mean over steps."""
        if self.size == 1:
            return loss, gradients
        parts = [*gradients, loss.reshape(1), torch.ones(1, device=loss.device)]
        flat = torch.cat([part.detach().reshape(-1) for part in parts]) * batch.valid.sum()
        distributed.all_reduce(flat)
        *gradients, loss, _ = (flat / flat[-1]).split([part.numel() for part in parts])
        return loss[0], [flat.view_as(part) for flat, part in zip(gradients, parts, strict=False)]

    def spread(self, tensors: Iterable[Tensor]) -> None:
        """Makes these tensors what they are in the first process."""
        for tensor in tensors if self.size > 1 else ():
            distributed.broadcast(tensor, 0)

    def told(self, number: int) -> int:
        """The first process's number."""
        word = torch.tensor(number)
        self.spread([word])
        return int(word)

    def wait(self) -> None:
        """Until the first process is here."""
        self.told(0)

    @contextmanager
    def one_before(self) -> Iterator[None]:
        """The first process does this before the others."""
        if not self.leads:
            self.wait()
        yield
        if self.leads:
            self.wait()

    def check_alike(self, digest: Callable[[], str | None]) -> None:
        """Raises unless all processes are about to train the same."""
        if self.size > 1:
            own = int((digest() or "0")[:15], 16)
            least, most = torch.tensor(own), torch.tensor(own)
            distributed.all_reduce(least, distributed.ReduceOp.MIN)
            distributed.all_reduce(most, distributed.ReduceOp.MAX)
            if least != most:
                raise Mistake("the processes of this run do not train the same: give all one command, data and machine")


def team() -> Team:
    """The processes that train with this one."""
    together = distributed.is_available() and distributed.is_initialized()
    return Team(distributed.get_rank(), distributed.get_world_size()) if together else Team()


@contextmanager
def joined(device: str) -> Iterator[Team]:
    """With the other processes that torchrun started, if it did; each has a GPU of its own where there are some."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield Team()
        return
    gpus = torch.cuda.is_available() and device != "cpu"
    if gpus:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    distributed.init_process_group("cpu:gloo,cuda:nccl" if gpus else "gloo", timeout=PATIENCE)
    try:
        yield team()
    finally:
        distributed.destroy_process_group()
