"""Trains an Atari expert with PPO until a deadline."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.benchmarks.atari.ppo import PpoUpdater
from holdfast.benchmarks.atari.rollout_collector import RolloutCollector

WARMUP = 1000  # gradient steps until Adam's second moments are reliable; also needed when training continues


@dataclass(frozen=True)
class TrainingProgress:
    """The progress of training."""

    seconds: float  # of training
    steps: int  # of training in this run, over all emulators
    mean: float | None  # clipped return of the last 100 games, as soon as there is one
    cut: float  # share of those games that were cut
    entropy: float

    def __str__(self) -> str:
        mean = "none yet" if self.mean is None else f"{self.mean:.1f}"
        return (
            f"{self.seconds:.0f} s, {self.steps / 1e6:.2f} M steps, {self.steps / self.seconds:,.0f}/s, "
            f"return {mean}, cut {self.cut:.0%}, entropy {self.entropy:.2f}"
        )


def train_expert(
    updater: PpoUpdater, collector: RolloutCollector, deadline: float, enough: float | None = None
) -> Iterator[TrainingProgress]:
    """Trains the updater's network in place until `time.monotonic()` reaches `deadline`, or the mean return `enough`.

    Yields the progress every 20 seconds and at the end.
    """
    begin = reported = time.monotonic()
    rounds, going = 0, True
    while going:
        elapsed = (time.monotonic() - begin) / max(deadline - begin, 1e-9)
        collector.fill()
        entropy = updater.update(updater.config.rate * schedule(elapsed, rounds * updater.gradients))
        rounds += 1
        now = time.monotonic()
        going = now < deadline and not collector.episode_returns.reached(enough)
        if now - reported > 20 or not going:
            reported = now
            episode_returns = collector.episode_returns
            yield TrainingProgress(
                now - begin, rounds * updater.size, episode_returns.mean(), episode_returns.cut(), float(entropy)
            )


def schedule(elapsed: float, gradients: int) -> float:
    """Factor on the learning rate: rises over the first gradients, then falls with the elapsed share of the time."""
    return min(1.0, (1 + gradients) / WARMUP) * max(1 - elapsed, 0.05)
