"""Atari games in lock-step, each emulator on a thread of its own; one whose episode has ended rests."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.benchmarks.atari.frame_cache import STACK
from holdfast.benchmarks.atari.traces import Emulator, Origin
from holdfast.tasks.environments import Environments, Step


@dataclass(frozen=True)
class Stochasticity:
    """What differs between two episodes of a game."""

    noops: int = 0  # up to so many no-ops at the start, as the seed says
    sticky: float = 0.0  # the chance that the emulator repeats the last action instead, as the seed says


class AtariEnvironments(Environments):
    """Emulators of one game; an episode is a function of its seed and actions, whatever lane it is in."""

    def __init__(self, origin: Origin, start: Stochasticity, lanes: int) -> None:
        self.start = start
        self.emulators = [Emulator(origin, STACK, start.sticky) for _ in range(lanes)]

    def reset(self, seeds: Sequence[int]) -> np.ndarray:
        for emulator, seed in zip(self.emulators, seeds, strict=False):
            emulator.reset(seed if self.start.sticky else None)
        noops = [seed % (self.start.noops + 1) for seed in seeds]  # seeds that count up all start differently
        self.steps, self.ended, self.owed = 0, np.zeros(len(seeds), bool), np.zeros(len(seeds))
        for step in range(max(noops)):
            self._send(np.zeros(len(seeds), int), np.array(noops) > step)
            self.owed += self._receive()
        return self._seen()

    def begin(self, actions: np.ndarray) -> None:
        self._send(actions, ~self.ended)

    def finish(self) -> Step:
        rewards = self._receive() + self.owed  # what the no-ops earned is paid with the first step
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
        """All stacks, (N, 4, 84, 84), black where they are older than the player's first frame, as in the data."""
        stacks = np.stack([emulator.frames for emulator in self.emulators[: len(self.ended)]])
        stacks[:, : max(STACK - 1 - self.steps, 0)] = 0
        return stacks

    def close(self) -> None:
        for emulator in self.emulators:
            emulator.close()
