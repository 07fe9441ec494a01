"""Training steps on a GPU: captured once as a CUDA graph, then replayed without the host."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from holdfast.data.randomness import default_generator, derive, numpy_stream
from holdfast.data.windows import Places, Sampler
from holdfast.errors import Mistake
from holdfast.gpu.capture import WARM_UPS, captured
from holdfast.training.step import Trainer

Replay = Callable[[], None]
COARSE = 8  # rows of a batch come in multiples of this, so that few sizes are captured


@dataclass(frozen=True)
class StepInputs:
    """What the next steps read, on the GPU: one row for each step."""

    index: Tensor  # (S, R, K)
    segments: Tensor  # (S, R, K)
    rates: Tensor  # (S,)
    losses: Tensor  # (S,) written by the steps
    row: Tensor  # (1,) of the next step
    shared: bool  # whether windows share rows

    @classmethod
    def of(cls, steps: int, rows: int, context: int, shared: bool, device: torch.device) -> "StepInputs":
        """Empty buffers for this many steps."""
        index = torch.zeros(steps, rows, context, dtype=torch.int64, device=device)
        rates, losses = torch.zeros(steps, device=device), torch.zeros(steps, device=device)
        row = torch.zeros(1, dtype=torch.int64, device=device)
        return cls(index, torch.zeros_like(index), rates, losses, row, shared)


class CapturedLoop:
    """Replays a captured step; there is one graph for each number of rows that packed batches have."""

    def __init__(self, trainer: Trainer, windows: Sampler, seed: int) -> None:
        self.trainer, self.windows, self.seed = trainer, windows, seed
        self.generator = default_generator(trainer.device)
        self.graphs: dict[tuple[int, bool], tuple[Replay, StepInputs]] = {}
        self.pool = torch.cuda.graph_pool_handle()  # shared by all graphs, which never run at the same time
        self.ahead = self._draw(self._stretch(0))
        self._graph(self.ahead[1])

    def _stretch(self, step: int) -> range:
        """The steps that are drawn together with this one: those whose mean loss is recorded."""
        config = self.trainer.config
        first = step // config.log_every * config.log_every
        return range(first, min(first + config.log_every, config.steps))

    def advance(self, steps: range) -> Tensor:
        """Takes these steps of one stretch, and returns the loss of each; the GPU may still be working on them.

        The number of rows is that of the whole stretch, so that bits do not depend on where steps are interrupted.
        """
        stretch = self._stretch(steps.start)
        if self.ahead[0] != stretch:
            self.ahead = self._draw(stretch)
        places = self.ahead[1]
        replay, table = self._graph(places)
        rates = torch.tensor([self.trainer.config.rate(step) for step in steps])
        rows = slice(steps.start - stretch.start, steps.stop - stretch.start)
        table.index[: len(steps)].copy_(torch.as_tensor(places.index[rows]))
        table.segments[: len(steps)].copy_(torch.as_tensor(places.segments[rows]))
        table.rates[: len(steps)].copy_(rates)
        table.row.zero_()
        for step in steps:
            self.generator.manual_seed(derive(self.seed, "dropout", step))
            replay()
        if steps.stop == stretch.stop < self.trainer.config.steps:
            self.ahead = self._draw(self._stretch(steps.stop))  # while the GPU works
        return table.losses[: len(steps)].clone()  # the next steps overwrite the table

    def _draw(self, steps: range) -> tuple[range, Places]:
        count, windows = self.trainer.config.batch, self.windows
        drawn = [windows.draw(count, numpy_stream(self.seed, "windows", step)) for step in steps]
        return steps, Places.stack([windows.steps.places(*places) for places in drawn], COARSE)

    def _graph(self, places: Places) -> tuple[Replay, StepInputs]:
        _, rows, context = places.index.shape
        kind = rows, places.shared
        if kind not in self.graphs:
            steps = max(self.trainer.config.log_every, WARM_UPS + 1)  # room for the steps that capturing takes
            table = StepInputs.of(steps, rows, context, places.shared, self.trainer.device)
            self.graphs[kind] = self._capture(table), table
        return self.graphs[kind]

    def _step(self, table: StepInputs) -> None:
        batch = self.windows.steps.at(table.index[table.row][0], table.segments[table.row][0], table.shared)
        table.losses[table.row] = self.trainer.step(batch, table.rates[table.row][0])
        table.row.add_(1)

    def _capture(self, table: StepInputs) -> Replay:
        """Capturing takes steps, so everything is restored afterwards."""
        before = {name: tensor.clone() for name, tensor in self.trainer.state().items()}
        try:
            replay = captured(partial(self._step, table), self.pool)
        except RuntimeError as problem:
            raise Mistake(
                f"steps cannot be captured here ({problem}): --fit.no-captured takes them without CUDA graphs"
            ) from problem
        self.trainer.restore(before)
        return replay
