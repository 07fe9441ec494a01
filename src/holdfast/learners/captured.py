"""Steps on a GPU without the host: captured once as a CUDA graph, then replayed."""

import numpy as np
import torch
from torch import Tensor

from holdfast.data.randomness import derive, numpy_stream
from holdfast.data.windows import Source
from holdfast.learners.descent import Descent

WARM_UP = 3


class Captured:
    """Replays a step; which windows it takes and its learning rate are read from a table on the GPU, row by row."""

    def __init__(self, descent: Descent, source: Source, seed: int) -> None:
        self.descent, self.source, self.seed = descent, source, seed
        rows, count, device = descent.config.log_every, descent.config.batch, descent.device
        self.first = torch.zeros(rows, count, dtype=torch.int64, device=device)
        self.lengths = torch.ones(rows, count, dtype=torch.int64, device=device)
        self.rates = torch.zeros(rows, device=device)
        self.losses = torch.zeros(rows, device=device)
        self.row = torch.zeros(1, dtype=torch.int64, device=device)
        self.generator = torch.cuda.default_generators[self.row.get_device()]
        self.drawn: tuple[range, list[np.ndarray]] | None = None
        self._capture()

    def advance(self, steps: range) -> Tensor:
        """Takes these steps; returns the mean of their losses, which may still be on its way."""
        self._upload(steps)
        for step in steps:
            self.generator.manual_seed(derive(self.seed, "dropout", step))
            self.graph.replay()
        end = min(steps.stop + len(steps), self.descent.config.steps)
        self.drawn = self._draw(range(steps.stop, end))  # while the GPU works
        return self.losses[: len(steps)].mean()

    def _draw(self, steps: range) -> tuple[range, list[np.ndarray]]:
        count = self.descent.config.batch
        drawn = [self.source.draw(count, numpy_stream(self.seed, "windows", step)) for step in steps]
        return steps, [np.stack(column) for column in zip(*drawn, strict=True)]

    def _upload(self, steps: range) -> None:
        known, columns = self.drawn if self.drawn and self.drawn[0] == steps else self._draw(steps)
        for table, column in zip((self.first, self.lengths), columns, strict=True):
            table[: len(known)].copy_(torch.as_tensor(column))
        self.rates[: len(known)].copy_(torch.tensor([self.descent.config.rate(step) for step in known]))
        self.row.zero_()

    def _step(self) -> None:
        first, lengths = self.first[self.row][0], self.lengths[self.row][0]
        self.descent.rate.copy_(self.rates[self.row][0])  # type: ignore[union-attr]
        self.losses[self.row] = self.descent.step(self.source.steps.gather(first, lengths))
        self.row += 1

    def _capture(self) -> None:
        """Capturing takes steps, so everything is put back afterwards."""
        self.descent.begin()
        before = {name: tensor.clone() for name, tensor in self.descent.tensors(0).items()}
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(side):
                for _ in range(WARM_UP):
                    self.row.zero_()
                    self._step()
            torch.cuda.current_stream().wait_stream(side)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self._step()
        finally:
            self.descent.load(before)
