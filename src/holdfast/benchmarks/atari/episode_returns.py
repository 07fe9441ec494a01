"""The returns of the last games of many emulators."""

from __future__ import annotations

from collections import deque

import numpy as np

LAST = 100  # games


class EpisodeReturns:
    """Returns of whole games over all lives; the emulators report an end with every life."""

    def __init__(self, *shape: int) -> None:
        self._running = np.zeros(shape)
        self.returns: deque[float] = deque(maxlen=LAST)
        self.cuts: deque[bool] = deque(maxlen=LAST)

    def add(self, vector: int, rewards: np.ndarray, over: np.ndarray, cut: np.ndarray) -> None:
        """Adds the rewards of one step; `over` and `cut` mark the games that ended or were cut with it."""
        self._running[vector] += rewards
        closed = over | cut
        self.returns.extend(self._running[vector, closed].tolist())
        self.cuts.extend(cut[closed].tolist())
        self._running[vector, closed] = 0

    def mean(self) -> float | None:
        """The mean return of the last games, or None if no game has ended yet."""
        return float(np.mean(self.returns)) if self.returns else None

    def cut(self) -> float:
        """The share of the last games that were cut, whose returns are too low."""
        return float(np.mean(self.cuts)) if self.cuts else 0.0

    def reached(self, enough: float | None) -> bool:
        """Whether the mean return of the last 100 games is at least `enough`."""
        return enough is not None and len(self.returns) == LAST and float(np.mean(self.returns)) >= enough
