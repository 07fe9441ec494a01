"""Records an Atari expert at the best of several sampling temperatures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch

from holdfast.benchmarks.atari.actor import ActionSampler
from holdfast.benchmarks.atari.collect import OngoingEpisode, all_complete, collect_episodes, first_steps
from holdfast.data.validation import validate
from holdfast.errors import Mistake


@dataclass(frozen=True)
class RecordingConfig:
    """How an expert is recorded."""

    lanes: int = 48
    """Number of emulators that are stepped together (Atlantis: 20, since no more of its episodes are kept)."""
    temperatures: tuple[float, ...] = (1.0, 0.5, 0.25)
    """Sampling temperatures to try; the expert is recorded with the best of them."""
    trial: int = 4_000
    """Steps after which an episode is cut when temperatures are compared."""

    def __post_init__(self) -> None:
        validate(self)
        if not self.temperatures or min(self.temperatures) <= 0 or self.lanes < len(self.temperatures):
            raise Mistake(f"give 1 to {self.lanes} temperatures (at most one per lane), each greater than 0")


@dataclass(frozen=True)
class Series:
    """A set of episodes to record."""

    name: str
    episodes: int
    noops: int  # an episode starts with 0 to this many no-ops
    steps: int  # the most steps of all episodes together


SERIES = (
    Series("expert-10", episodes=10, noops=0, steps=270_000),
    Series("expert-100", episodes=100, noops=30, steps=250_000),
)


def compare_experts(
    sampler: ActionSampler, env: Any, config: RecordingConfig, rng: np.random.Generator, deadline: float
) -> dict[float, dict[str, float]]:
    """Plays with all temperatures at the same time, and returns a summary for each."""
    lanes, choices = config.lanes, config.temperatures
    sampler.temperatures.copy_(torch.tensor([choices[i % len(choices)] for i in range(lanes)]))
    noops = rng.integers(0, 30, size=lanes, endpoint=True).tolist()

    def over(takes: Sequence[OngoingEpisode]) -> bool:
        return all(take.complete or len(take) >= config.trial for take in takes)

    takes = collect_episodes(sampler.act, env, noops, seed=int(rng.integers(2**31)), deadline=deadline, over=over)
    return {choice: score_summary(takes[i :: len(choices)]) for i, choice in enumerate(choices)}


def record_expert(
    sampler: ActionSampler, env: Any, rng: np.random.Generator, deadline: float
) -> dict[str, list[OngoingEpisode]]:
    """Plays all series at the same time and returns their episodes; some are unfinished if time ran out."""
    noops = [int(rng.integers(0, series.noops, endpoint=True)) for series in SERIES for _ in range(series.episodes)]

    def wanted(takes: Sequence[OngoingEpisode]) -> dict[str, list[OngoingEpisode]]:
        rest = iter(takes)
        return {series.name: first_steps(list(islice(rest, series.episodes)), series.steps) for series in SERIES}

    def over(takes: Sequence[OngoingEpisode]) -> bool:
        return all(all_complete(part) for part in wanted(takes).values())

    seed = int(rng.integers(2**31))
    return wanted(collect_episodes(sampler.act, env, noops, seed=seed, deadline=deadline, over=over))


def score_summary(takes: Sequence[OngoingEpisode]) -> dict[str, float]:
    """A summary of returns and lengths."""
    scores = [take.score for take in takes] or [0]
    return {
        "episodes": len(takes),
        "mean": float(np.mean(scores)),
        "std": float(np.std(scores)),
        "min": min(scores),
        "max": max(scores),
        "steps": sum(map(len, takes)),
    }
