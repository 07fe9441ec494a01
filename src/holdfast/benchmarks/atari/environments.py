"""Atari environments that are stepped together, each emulator on its own thread."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.benchmarks.atari.frame_cache import STACK
from holdfast.benchmarks.atari.traces import Emulator, Origin
from holdfast.tasks.environments import Environments, Step


@dataclass(frozen=True)
class Stochasticity:
    """The randomness of episodes, as in Machado et al. (2018)."""

    noops: int = 0  # an episode starts with 0 to this many no-ops, depending on its seed
    sticky: float = 0.0  # probability that the emulator repeats the last action


class AtariEnvironments(Environments):
    """Emulators of one game; an episode depends only on its seed and actions, not on its lane."""

    def __init__(self, origin: Origin, start: Stochasticity, lanes: int) -> None:
        self.start = start
        self.emulators = [Emulator(origin, STACK, start.sticky) for _ in range(lanes)]

    def reset(self, seeds: Sequence[int]) -> np.ndarray:
        for emulator, seed in zip(self.emulators, seeds, strict=False):
            emulator.reset(seed if self.start.sticky else None)
        noops = [seed % (self.start.noops + 1) for seed in seeds]  # consecutive seeds start differently
        self.steps = 0
        self.ended = np.zeros(len(seeds), bool)
        self.owed = np.zeros(len(seeds))  # rewards of the no-ops
        for step in range(max(noops)):
            self._send(np.zeros(len(seeds), int), np.array(noops) > step)
            self.owed += self._receive()
        return self._seen()

    def begin(self, actions: np.ndarray) -> None:
        self._send(actions, ~self.ended)

    def finish(self) -> Step:
        rewards = self._receive() + self.owed  # rewards of the no-ops are added to the first step
        self.steps, self.owed = self.steps + 1, np.zeros_like(self.owed)
        cut = np.array([emulator.cut for emulator in self.emulators[: len(self.ended)]])
        return Step(self._seen(), rewards, self.ended.copy(), np.zeros_like(self.ended), cut)

    def _send(self, actions: np.ndarray, playing: np.ndarray) -> None:
        self.playing = np.flatnonzero(playing)
        for lane in self.playing:
            self.emulators[lane].send(int(actions[lane]))

    def _receive(self) -> np.ndarray:
        rewards = np.zeros(len(self.ended))
        for lane in self.playing:
            rewards[lane], self.ended[lane] = self.emulators[lane].receive()
        return rewards

    def _seen(self) -> np.ndarray:
        """All stacks, (N, 4, 84, 84); frames before the policy's first one are black, as in the data."""
        stacks = np.stack([emulator.frames for emulator in self.emulators[: len(self.ended)]])
        stacks[:, : max(STACK - 1 - self.steps, 0)] = 0
        return stacks

    def close(self) -> None:
        for emulator in self.emulators:
            emulator.close()
