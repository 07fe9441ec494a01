"""Data-parallel training: every rank takes its share of each batch, and all ranks take the same step."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as distributed
from torch import Tensor

from holdfast.data.windows import Batch, Sampler
from holdfast.errors import Mistake

TIMEOUT = timedelta(days=7)  # the other ranks wait while rank 0 evaluates


@dataclass(frozen=True)
class Ranks:
    """The processes that train together; a process that trains alone is rank 0 of 1 and sends nothing."""

    rank: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which writes the run folder."""
        return self.rank == 0

    @property
    def stream(self) -> tuple[int, ...]:
        """What distinguishes this rank's random streams from those of the others; nothing if it trains alone."""
        return (self.rank,) if self.size > 1 else ()

    def sample(self, windows: Sampler, count: int, rng: np.random.Generator) -> Batch:
        """This rank's share of a batch; all ranks draw the same batch."""
        if self.size == 1:
            return windows.sample(count, rng)
        if count < self.size:
            raise Mistake(f"fit.batch must be at least the number of processes, got {count} for {self.size}")
        first, lengths = windows.draw(count, rng)
        return windows.steps.batch(first[self.rank :: self.size], lengths[self.rank :: self.size])

    def mean(self, loss: Tensor, gradients: Sequence[Tensor], batch: Batch) -> tuple[Tensor, Sequence[Tensor]]:
        """The loss and the gradients of the whole batch; each share is weighted by its number of steps."""
        if self.size == 1:
            return loss, gradients
        parts = [*gradients, loss.reshape(1), torch.ones(1, device=loss.device)]
        flat = torch.cat([part.detach().reshape(-1) for part in parts]) * batch.valid.sum()
        distributed.all_reduce(flat)
        *gradients, loss, _ = (flat / flat[-1]).split([part.numel() for part in parts])
        return loss[0], [flat.view_as(part) for flat, part in zip(gradients, parts, strict=False)]

    def broadcast(self, tensors: Iterable[Tensor]) -> None:
        """Sets these tensors to their values in rank 0."""
        for tensor in tensors if self.size > 1 else ():
            distributed.broadcast(tensor, 0)

    def broadcast_number(self, number: int) -> int:
        """The number that rank 0 has."""
        sent = torch.tensor(number)
        self.broadcast([sent])
        return int(sent)

    def wait(self) -> None:
        """Waits for rank 0."""
        self.broadcast_number(0)

    @contextmanager
    def first_rank_first(self) -> Iterator[None]:
        """Rank 0 runs the block before the others do."""
        if not self.is_first:
            self.wait()
        yield
        if self.is_first:
            self.wait()

    def check_same(self, digest: Callable[[], str | None]) -> None:
        """Raises unless all ranks are about to train the same."""
        if self.size > 1:
            number = int((digest() or "0")[:15], 16)
            least, most = torch.tensor(number), torch.tensor(number)
            distributed.all_reduce(least, distributed.ReduceOp.MIN)
            distributed.all_reduce(most, distributed.ReduceOp.MAX)
            if least != most:
                raise Mistake("the processes of this run differ: use the same command, data and machine for all")


def ranks() -> Ranks:
    """This process's place among the processes that train together."""
    if distributed.is_available() and distributed.is_initialized():
        return Ranks(distributed.get_rank(), distributed.get_world_size())
    return Ranks()


@contextmanager
def process_group(device: str) -> Iterator[Ranks]:
    """Joins the other processes if torchrun started several; each has its own GPU if there are GPUs."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield Ranks()
        return
    gpus = torch.cuda.is_available() and device != "cpu"
    if gpus:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    distributed.init_process_group("cpu:gloo,cuda:nccl" if gpus else "gloo", timeout=TIMEOUT)
    try:
        yield ranks()
    finally:
        distributed.destroy_process_group()
