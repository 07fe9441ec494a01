"""The only gradient loop: every learner is what it adds to it."""

from collections.abc import Callable
from functools import cache, partial
from math import isfinite
from typing import Protocol

import torch
from torch import Tensor, nn

from holdfast.data.randomness import derive, numpy_stream
from holdfast.data.windows import Source
from holdfast.errors import Mistake
from holdfast.training.cache import key_of, outcome, packed_key, put_back, remembered, unmixed
from holdfast.training.captured import Captured
from holdfast.training.config import FitConfig
from holdfast.training.ranks import team
from holdfast.training.recorder import Recorder
from holdfast.training.step import Addition, Descent


def fit(
    model: nn.Module, source: Source, config: FitConfig, seed: int, recorder: Recorder, addition: Addition | None = None
) -> None:
    """Trains a model that has a `loss` in place, or recalls what training it gave before: the same bits."""
    model.train()
    decides = (model, source, config, seed, addition)
    key = cache(partial(key_of, *decides))
    team().check_alike(key)
    with recorder.memo.entry(key) as entry:
        losses = put_back(entry.read(), outcome(model, addition))
        if team().told(losses is not None):
            team().spread(outcome(model, addition).values())
            report_recall(losses or [], config, recorder)
        else:
            saved = recorder.resume()
            entry = unmixed(entry, saved)
            losses = train(*decides[:4], recorder, addition, entry.key, saved)
            entry.write(remembered(outcome(model, addition), losses))
    model.eval()


def train(
    model: nn.Module,
    source: Source,
    config: FitConfig,
    seed: int,
    recorder: Recorder,
    addition: Addition | None,
    key: str,  # kept with what is saved, so that whoever resumes it knows whose steps they are
    saved: dict[str, Tensor] | None,
) -> list[float]:
    """Takes the steps and returns the recorded losses; interrupted and resumed, it ends at the same bits."""
    with torch.random.fork_rng():
        descent = Descent(model, config, addition)
        stride = stride_of(descent, source, seed, recorder.interrupted)
        losses: list[float] = []
        begun = torch.zeros(0, device=descent.device)  # losses of steps since the last recorded one
        if saved:
            losses, begun = saved["losses"].tolist(), saved.get("begun", begun).to(descent.device)
            descent.put_back(saved)
        done = descent.team.told(int(saved["done"]) if saved else 0)
        descent.team.spread(descent.moving().values())
        while done < config.steps:
            end = min((done // config.log_every + 1) * config.log_every, config.steps)
            taken = stride.advance(range(done, end))
            done, begun = done + len(taken), torch.cat([begun, taken])
            if done == end:
                loss, begun = float(begun.mean()), begun[:0]
                if not isfinite(loss):
                    raise Mistake(f"the loss is {loss} after {done} steps: lower fit.learning_rate or look at the data")
                losses.append(loss)
                recorder.event("train", step=done, loss=loss)
                recorder.progress(done, config.steps, loss)
            interrupted = recorder.interrupted()
            if interrupted or (done < config.steps and recorder.due()):
                so_far = {"done": torch.tensor(done), "losses": torch.tensor(losses, dtype=torch.float64)}
                recorder.save({**descent.moving(), **so_far, "begun": begun, **packed_key(key)})
            if interrupted:
                recorder.stop(done, config.steps)
    return losses


def report_recall(losses: list[float], config: FitConfig, recorder: Recorder) -> None:
    """Tells of a recalled fit what training it would have told, from where it was last interrupted."""
    saved = recorder.resume()
    begun = int(saved["done"]) if saved else 0
    recorder.event("recall", step=begun)
    for count, loss in enumerate(losses, start=1):
        done = min(count * config.log_every, config.steps)
        if done > begun:
            recorder.event("train", step=done, loss=loss)
            recorder.progress(done, config.steps, loss)


class Stride(Protocol):
    """A way to take many steps."""

    def advance(self, steps: range) -> Tensor:
        """Takes these steps, or fewer where it is interrupted, and returns the loss of each that it took."""
        ...


class OneByOne:
    """Each step as it is written: on a CPU, by several processes, and where nothing can be captured."""

    def __init__(self, descent: Descent, source: Source, seed: int, interrupted: Callable[[], bool]) -> None:
        self.descent, self.source, self.seed, self.interrupted = descent, source, seed, interrupted

    def advance(self, steps: range) -> Tensor:
        """Takes these steps, or fewer where it is interrupted, and returns the loss of each that it took."""
        losses = []
        for step in steps:
            losses.append(self._step(step))
            if self.interrupted():
                break
        return torch.stack(losses)

    def _step(self, step: int) -> Tensor:
        config, team = self.descent.config, self.descent.team
        torch.manual_seed(derive(self.seed, "dropout", step, *team.place))
        batch = team.sample(self.source, config.batch, numpy_stream(self.seed, "windows", step))
        return self.descent.step(batch, config.rate(step))


def never() -> bool:
    """Not interrupted."""
    return False


def stride_of(descent: Descent, source: Source, seed: int, interrupted: Callable[[], bool] = never) -> Stride:
    """The fastest way to take steps here."""
    if descent.config.captured and descent.device.type == "cuda" and descent.team.size == 1:
        return Captured(descent, source, seed)
    return OneByOne(descent, source, seed, interrupted)
