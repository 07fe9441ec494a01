"""Measures what fits would gain if several of them were one program: steps per second of stacked Panda fits.

Training does not do this: it is a measurement to decide by. All networks have the same shape, their weights are
laid side by side, and a step computes all of their losses and gradients at once.

python -m bench.stacked
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from math import sqrt
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.func import vmap

from bench.shapes import PANDA, Shape
from holdfast.data.windows import PADDING, Batch
from holdfast.gpu.capture import captured
from holdfast.nets import norm, trunk
from holdfast.subnets.copies import Copy
from holdfast.subnets.layout import Layout
from holdfast.subnets.masked import LearnedMask, Masked, Unmasked
from holdfast.training.config import FitConfig
from holdfast.training.step import Trainer

TENSORS = ("observations", "actions", "returns", "timesteps", "segments", "active")  # of a batch
SIZES = {"cuda": (1, 2, 4, 8, 16), "cpu": (1, 2)}
STEPS = {"cuda": 300, "cpu": 3}


@dataclass(frozen=True)
class Row:
    """Fits in one program."""

    fits: int
    step_ms: float  # for one step of all of them
    steps_per_s: float  # of all fits together


class Stack(nn.Module):
    """Several masked networks of one shape: their flat weights are one long vector, selected from at once."""

    def __init__(self, fits: Sequence[Masked]) -> None:
        super().__init__()
        first, count = fits[0], len(fits)
        assert first.selector is not None
        layout = Layout(first.layout.names * count, first.layout.shapes * count)
        weights, occupied, scores, quotas = (
            torch.cat([getattr(fit, name).detach() for fit in fits])
            for name in ("free", "occupied", "scores", "quotas")
        )
        counts = [quota * count for quota in first.selector.counts]
        self.one, self.count = [first], count  # in a list: its own parameters are not trained
        self.all = Masked(
            first.net, layout, Copy(weights, occupied, {}), LearnedMask(quotas, counts, scores), Unmasked({}, True)
        )
        outside = zip(*(fit.outside for fit in fits), strict=True)
        self.outside = nn.ParameterList(nn.Parameter(torch.stack([*tensors]).detach()) for tensors in outside)

    def losses(self, batch: Batch) -> Tensor:
        """The loss of each network, (S,); all tensors of the batch begin with a dimension for the networks."""
        weights = self.all.weights().view(self.count, -1)
        tensors = [getattr(batch, name) for name in TENSORS]

        def loss(weights: Tensor, outside: Sequence[Tensor], *tensors: Tensor) -> Tensor:
            (one,) = self.one
            named = one.layout.split(weights) | dict(zip(one.outside_names, outside, strict=True))
            parts: dict[str, Any] = dict(zip(TENSORS, tensors, strict=True))
            own = replace(batch, **parts)
            return torch.func.functional_call(one.net, named, (own,))

        return vmap(loss, randomness="different")(weights, list(self.outside), *tensors)

    def forward(self, batch: Batch) -> Tensor:
        return self.losses(batch).sum()


def stacked_batch(shape: Shape, fits: int, device: str) -> Batch:
    """A batch for each network, padded to the same number of rows."""
    windows, rng = shape.windows(device), np.random.default_rng(0)
    batches = [windows.sample(shape.batch, rng) for _ in range(fits)]
    rows = max(len(batch.segments) for batch in batches)

    def padded(batch: Batch, name: str) -> Tensor:
        tensor = getattr(batch, name)
        missing = tensor.new_full((rows - len(tensor), *tensor.shape[1:]), PADDING if name == "segments" else 0)
        return torch.cat([tensor, missing])

    parts: dict[str, Any] = {name: torch.stack([padded(batch, name) for batch in batches]) for name in TENSORS}
    return Batch(**parts, shared=True)


@contextmanager
def plain_layers() -> Iterator[None]:
    """LayerNorm without our kernels, which know of one network only, and attention that can be stacked."""
    with mock.patch.object(norm, "own_kernels", return_value=False), mock.patch.object(trunk, "attend", attend):
        yield


def attend(queries: Tensor, keys: Tensor, values: Tensor, allowed: Tensor | None, _: float) -> Tensor:
    """Scaled dot-product attention in plain operations, without dropout."""
    allowed = trunk.causal(queries) if allowed is None else allowed
    scores = (queries / sqrt(queries.shape[-1])) @ keys.transpose(-2, -1)
    return scores.masked_fill(~allowed, -torch.inf).softmax(-1).to(values.dtype) @ values


def stack_of(shape: Shape, fits: int, device: str) -> Stack:
    """Networks without dropout, which differ in their scores."""
    plain = replace(shape, net=replace(shape.net, dropout=0.0))
    return Stack([member(plain, number) for number in range(fits)]).to(device).train()


def member(shape: Shape, number: int) -> Masked:
    """The network of this number."""
    masked = shape.masked()
    masked.scores.data = masked.scores.data.roll(number)
    return masked


def measure(shape: Shape, fits: int, device: str, steps: int) -> Row:
    """Times steps of so many networks together; on a GPU as a CUDA graph."""
    with plain_layers():
        trainer = Trainer(stack_of(shape, fits, device), FitConfig(1, shape.batch, clip=0.25), None)
        batch = stacked_batch(shape, fits, device)

        def step() -> Tensor:
            return trainer.step(batch, 1e-4)

        take: Callable[[], Tensor] = captured(step) if device == "cuda" else step
        float(take())
        began = time.perf_counter()
        for _ in range(steps):
            loss = take()
        float(loss)  # waits for the GPU
    seconds = (time.perf_counter() - began) / steps
    return Row(fits, 1e3 * seconds, fits / seconds)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows = [measure(PANDA, fits, device, STEPS[device]) for fits in SIZES[device]]
    table = Table("stacked Panda fits", "ms a step", "steps/s in all", title=device)
    for row in rows:
        table.add_row(f"{row.fits}", f"{row.step_ms:.2f}", f"{row.steps_per_s:,.1f}")
    Console().print(table)
    if arguments.json:
        record = {"command": "python -m bench.stacked", "torch": torch.__version__, "device": device}
        arguments.json.write_text(json.dumps({**record, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
