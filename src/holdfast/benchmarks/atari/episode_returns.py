"""How the last games of many emulators went."""

from __future__ import annotations

from collections import deque

import numpy as np

LAST = 100  # games


class EpisodeReturns:
    """Returns of whole games over all lives, although the emulators report an end with every life."""

    def __init__(self, *shape: int) -> None:
        self._running = np.zeros(shape)
        self.returns: deque[float] = deque(maxlen=LAST)
        self.cuts: deque[bool] = deque(maxlen=LAST)

    def add(self, vector: int, rewards: np.ndarray, over: np.ndarray, cut: np.ndarray) -> None:
        """Takes one step's rewards, and which games are over with it, by themselves or because they are cut."""
        self._running[vector] += rewards
        closed = over | cut
        self.returns.extend(self._running[vector, closed].tolist())
        self.cuts.extend(cut[closed].tolist())
        self._running[vector, closed] = 0

    def mean(self) -> float | None:
        """The mean return of the last games, as soon as there is one."""
        return float(np.mean(self.returns)) if self.returns else None

    def cut(self) -> float:
        """The share of the last games that were cut, so that their returns say too little."""
        return float(np.mean(self.cuts)) if self.cuts else 0.0

    def reached(self, enough: float | None) -> bool:
        """Whether the last games are as good as that, and enough of them to tell."""
        return enough is not None and len(self.returns) == LAST and float(np.mean(self.returns)) >= enough
