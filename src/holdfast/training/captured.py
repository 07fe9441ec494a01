"""Steps on a GPU without the host: captured once as a CUDA graph, then replayed."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from holdfast.data.randomness import derive, numpy_stream
from holdfast.data.windows import Places, Source
from holdfast.errors import Mistake
from holdfast.gpu.capture import WARM_UPS, captured
from holdfast.training.step import Descent

Replay = Callable[[], None]
COARSE = 8  # rows of a batch come in multiples of this, so that few sizes are captured


@dataclass(frozen=True)
class Table:
    """What the next steps take, on the GPU: a row for each step."""

    index: Tensor  # (S, R, K)
    segments: Tensor  # (S, R, K)
    rates: Tensor  # (S,)
    losses: Tensor  # (S,) what the steps leave
    row: Tensor  # (1,) the next step's
    shared: bool  # whether windows share rows

    @classmethod
    def of(cls, steps: int, rows: int, context: int, shared: bool, device: torch.device) -> "Table":
        """An empty one."""
        index = torch.zeros(steps, rows, context, dtype=torch.int64, device=device)
        rates, losses = torch.zeros(steps, device=device), torch.zeros(steps, device=device)
        row = torch.zeros(1, dtype=torch.int64, device=device)
        return cls(index, torch.zeros_like(index), rates, losses, row, shared)


class Captured:
    """Replays a step; a batch of short windows has fewer rows, and each number of rows has its own graph."""

    def __init__(self, descent: Descent, source: Source, seed: int) -> None:
        self.descent, self.source, self.seed = descent, source, seed
        self.generator = torch.cuda.default_generators[descent.device.index or 0]
        self.graphs: dict[tuple[int, bool], tuple[Replay, Table]] = {}
        self.pool = torch.cuda.graph_pool_handle()  # one for all: they never run at the same time
        self.ahead = self._draw(range(min(descent.config.log_every, descent.config.steps)))
        self._graph(self.ahead[1])

    def advance(self, steps: range) -> Tensor:
        """Takes these steps; returns the loss of each, which may still be on its way."""
        places = self.ahead[1] if self.ahead[0] == steps else self._draw(steps)[1]
        replay, table = self._graph(places)
        rates = torch.tensor([self.descent.config.rate(step) for step in steps])
        for there, new in ((table.index, places.index), (table.segments, places.segments), (table.rates, rates)):
            there[: len(steps)].copy_(torch.as_tensor(new))
        table.row.zero_()
        for step in steps:
            self.generator.manual_seed(derive(self.seed, "dropout", step))
            replay()
        end = min(steps.stop + len(steps), self.descent.config.steps)
        if steps.stop < end:
            self.ahead = self._draw(range(steps.stop, end))  # while the GPU works
        return table.losses[: len(steps)].clone()  # the table is written over by the next steps

    def _draw(self, steps: range) -> tuple[range, Places]:
        count, source = self.descent.config.batch, self.source
        drawn = [source.draw(count, numpy_stream(self.seed, "windows", step)) for step in steps]
        return steps, Places.stack([source.steps.places(*windows) for windows in drawn], COARSE)

    def _graph(self, places: Places) -> tuple[Replay, Table]:
        _, rows, context = places.index.shape
        kind = rows, places.shared
        if kind not in self.graphs:
            steps = max(self.descent.config.log_every, WARM_UPS + 1)  # room for the steps that capturing takes
            table = Table.of(steps, rows, context, places.shared, self.descent.device)
            self.graphs[kind] = self._capture(table), table
        return self.graphs[kind]

    def _step(self, table: Table) -> None:
        batch = self.source.steps.at(table.index[table.row][0], table.segments[table.row][0], table.shared)
        table.losses[table.row] = self.descent.step(batch, table.rates[table.row][0])
        table.row.add_(1)

    def _capture(self, table: Table) -> Replay:
        """Capturing takes steps, so everything is put back afterwards."""
        before = {name: tensor.clone() for name, tensor in self.descent.moving().items()}
        try:
            replay = captured(partial(self._step, table), self.pool)
        except RuntimeError as problem:
            raise Mistake(
                f"steps cannot be captured here ({problem}): --fit.no-captured takes them one by one"
            ) from problem
        self.descent.put_back(before)
        return replay
