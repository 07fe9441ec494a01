"""The only gradient loop: every learner is what it adds to it."""

from math import isfinite
from typing import Protocol

import torch
from torch import Tensor, nn

from holdfast.data.randomness import derive, numpy_stream
from holdfast.data.windows import Source
from holdfast.errors import Mistake
from holdfast.learners.captured import Captured
from holdfast.learners.descent import Addition, Descent
from holdfast.learners.fitting import FitConfig
from holdfast.learners.recorder import Recorder


def fit(
    model: nn.Module, source: Source, config: FitConfig, seed: int, recorder: Recorder, addition: Addition | None = None
) -> None:
    """Trains a model that has a `loss` in place; interrupted and resumed, it ends at the same bits."""
    model.train()
    with torch.random.fork_rng():
        descent = Descent(model, config, addition)
        stride = stride_of(descent, source, seed)
        done = 0
        if saved := recorder.resume():
            done = int(saved["done"])
            descent.put_back(saved)
        while done < config.steps:
            end = min((done // config.log_every + 1) * config.log_every, config.steps)
            loss = float(stride.advance(range(done, end)))
            done = end
            if not isfinite(loss):
                raise Mistake(f"the loss is {loss} after {done} steps: lower fit.learning_rate or look at the data")
            recorder.event("train", step=done, loss=loss)
            recorder.progress(done, config.steps, loss)
            if done < config.steps and recorder.due():
                recorder.save({**descent.moving(), "done": torch.tensor(done)})
    model.eval()


class Stride(Protocol):
    """A way to take many steps."""

    def advance(self, steps: range) -> Tensor:
        """Takes these steps and returns the mean of their losses."""
        ...


class OneByOne:
    """Each step as it is written: on a CPU, and where nothing can be captured."""

    def __init__(self, descent: Descent, source: Source, seed: int) -> None:
        self.descent, self.source, self.seed = descent, source, seed

    def advance(self, steps: range) -> Tensor:
        """Takes these steps and returns the mean of their losses."""
        return torch.stack([self._step(step) for step in steps]).mean()

    def _step(self, step: int) -> Tensor:
        torch.manual_seed(derive(self.seed, "dropout", step))
        config = self.descent.config
        batch = self.source.sample(config.batch, numpy_stream(self.seed, "windows", step))
        return self.descent.step(batch, config.rate(step))


def stride_of(descent: Descent, source: Source, seed: int) -> Stride:
    """The fastest way to take steps here."""
    captured = descent.config.captured and descent.device.type == "cuda"
    return (Captured if captured else OneByOne)(descent, source, seed)
