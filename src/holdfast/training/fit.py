"""The only training loop: `fit` trains a model in one phase of a task, and every learner calls it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from math import isfinite
from typing import Protocol, Self

import torch
from torch import Tensor, nn

from holdfast.data.randomness import default_generator, derive, numpy_stream
from holdfast.data.windows import Sampler
from holdfast.errors import Mistake
from holdfast.training.cache import CacheEntry, NoEntry
from holdfast.training.cache_key import fit_key
from holdfast.training.captured import CapturedLoop
from holdfast.training.config import FitConfig
from holdfast.training.ranks import ranks
from holdfast.training.recorder import Recorder
from holdfast.training.step import Addition, Trainer, result

LOSSES, KEY = "losses", "key"


def fit(
    model: nn.Module,
    windows: Sampler,
    config: FitConfig,
    seed: int,
    recorder: Recorder,
    phase: str,
    addition: Addition | None = None,
) -> None:
    """Trains a model, whose output is its loss, in place, or restores the bit-identical result from the cache.

    A learner may call this several times for one task, each time with another phase name. When an interrupted task is
    resumed, finished phases are restored and the unfinished one continues; the result is bit-identical.
    """
    model.train()
    key = cache(partial(fit_key, model, windows, config, seed=seed, phase=phase, addition=addition))
    ranks().check_same(key)
    saved = recorder.resume(phase)
    with recorder.cache.entry(key) as entry:
        cached = None if recorder.pauses(phase, config.steps) else entry.read()  # which has only the end
        losses = restore_result(cached, result(model, addition))
        if ranks().broadcast_number(losses is not None):
            ranks().broadcast(result(model, addition).values())
            report_cached(losses or [], config, recorder, phase, saved)
        else:
            entry = unless_mixed(entry, saved)
            trainer = Trainer(model, config, addition)
            losses = train(trainer, windows, seed, recorder, phase=phase, key=entry.key, saved=saved)
            entry.write({**result(model, addition), LOSSES: torch.tensor(losses, dtype=torch.float64)})
    model.eval()


@dataclass
class Progress:
    """How far a fit is."""

    done: int  # steps
    losses: list[float]  # the recorded ones: means over `log_every` steps
    recent: Tensor  # the losses of the steps since the last recorded one

    @classmethod
    def of(cls, saved: dict[str, Tensor] | None, device: torch.device) -> Self:
        """How far a fit was when it was saved; at its beginning if it was not."""
        none = torch.zeros(0, device=device)
        if saved is None:
            return cls(0, [], none)
        return cls(int(saved["done"]), saved[LOSSES].tolist(), saved.get("begun", none).to(device))

    def tensors(self) -> dict[str, Tensor]:
        """The progress as tensors, to be saved."""
        losses = torch.tensor(self.losses, dtype=torch.float64)
        return {"done": torch.tensor(self.done), LOSSES: losses, "begun": self.recent}


def train(
    trainer: Trainer,
    windows: Sampler,
    seed: int,
    recorder: Recorder,
    *,
    phase: str,
    key: str,  # saved with the state, so that whoever resumes it knows which code and machine took the steps
    saved: dict[str, Tensor] | None,
) -> list[float]:
    """Takes the steps that are left, and returns the recorded losses of all steps."""
    config = trainer.config
    with torch.random.fork_rng():
        loop = loop_for(trainer, windows, seed, recorder.interrupted)
        if saved:
            trainer.restore(saved)
        progress = Progress.of(saved, trainer.device)
        progress.done = trainer.ranks.broadcast_number(progress.done)
        trainer.ranks.broadcast(trainer.state().values())
        pauses = recorder.pauses(phase, config.steps)
        while progress.done < config.steps:
            logged = min((progress.done // config.log_every + 1) * config.log_every, config.steps)
            end = min([logged, *(step for step in pauses if step > progress.done)])
            taken = loop.advance(range(progress.done, end))
            progress.done += len(taken)
            progress.recent = torch.cat([progress.recent, taken])
            if progress.done == logged:
                record_loss(progress, config, recorder, phase)
            if progress.done in pauses:
                recorder.pause(progress.done)
            interrupted = recorder.interrupted()
            if interrupted or progress.done == config.steps or recorder.due():
                recorder.save(phase, {**trainer.state(), **progress.tensors(), **packed_key(key)})
            if interrupted:
                recorder.stop(progress.done, config.steps)
    return progress.losses


def record_loss(progress: Progress, config: FitConfig, recorder: Recorder, phase: str) -> None:
    """Records the mean loss of the steps since the last recorded one."""
    loss = float(progress.recent.mean())
    if not isfinite(loss):
        raise Mistake(f"the loss is {loss} after {progress.done} steps: lower fit.learning_rate or look at the data")
    progress.losses.append(loss)
    progress.recent = progress.recent[:0]
    recorder.event("train", phase=phase, step=progress.done, loss=loss)
    recorder.progress(progress.done, config.steps, loss)


def restore_result(cached: dict[str, Tensor] | None, current: dict[str, Tensor]) -> list[float] | None:
    """Copies a cached result into the tensors of a fit, and returns its losses; none, and no change, if it differs."""
    if cached is None or cached.keys() != {*current, LOSSES}:
        return None
    if any(
        (cached[name].shape, cached[name].dtype) != (tensor.shape, tensor.dtype) for name, tensor in current.items()
    ):
        return None
    for name, tensor in current.items():
        tensor.copy_(cached[name])
    return cached[LOSSES].tolist()


def report_cached(
    losses: list[float], config: FitConfig, recorder: Recorder, phase: str, saved: dict[str, Tensor] | None
) -> None:
    """Records what training would have recorded, from where the fit was last saved."""
    begun = int(saved["done"]) if saved else 0
    recorder.event("recall", phase=phase, step=begun)
    for count, loss in enumerate(losses, start=1):
        done = min(count * config.log_every, config.steps)
        if done > begun:
            recorder.event("train", phase=phase, step=done, loss=loss)
            recorder.progress(done, config.steps, loss)


def packed_key(key: str) -> dict[str, Tensor]:
    """The cache key as it is saved with the state of a fit."""
    return {KEY: torch.tensor(list(key.encode()), dtype=torch.uint8)}


def unless_mixed(entry: CacheEntry, saved: dict[str, Tensor] | None) -> CacheEntry:
    """The entry, unless the saved steps were taken by other code or another machine: then nothing is cached."""
    same = saved is None or torch.equal((packed_key("") | saved)[KEY], packed_key(entry.key)[KEY])
    return entry if same else NoEntry()


class Loop(Protocol):
    """A way to take many steps."""

    def advance(self, steps: range) -> Tensor:
        """Takes these steps, or fewer if it is interrupted, and returns the loss of each step it took."""
        ...


class EagerLoop:
    """Takes one step after the other: on a CPU, with several ranks, and wherever nothing can be captured."""

    def __init__(self, trainer: Trainer, windows: Sampler, seed: int, interrupted: Callable[[], bool]) -> None:
        self.trainer, self.windows, self.seed, self.interrupted = trainer, windows, seed, interrupted
        self.generator = default_generator(trainer.device)

    def advance(self, steps: range) -> Tensor:
        """Takes these steps, or fewer if it is interrupted, and returns the loss of each step it took."""
        losses = []
        for step in steps:
            losses.append(self._step(step))
            if self.interrupted():
                break
        return torch.stack(losses)

    def _step(self, step: int) -> Tensor:
        config, ranks = self.trainer.config, self.trainer.ranks
        self.generator.manual_seed(derive(self.seed, "dropout", step, *ranks.stream))
        batch = ranks.sample(self.windows, config.batch, numpy_stream(self.seed, "windows", step))
        return self.trainer.step(batch, config.rate(step))


def never() -> bool:
    """Not interrupted."""
    return False


def loop_for(trainer: Trainer, windows: Sampler, seed: int, interrupted: Callable[[], bool] = never) -> Loop:
    """The fastest loop for this device."""
    if trainer.config.captured and trainer.device.type == "cuda" and trainer.ranks.size == 1:
        return CapturedLoop(trainer, windows, seed)
    return EagerLoop(trainer, windows, seed, interrupted)
