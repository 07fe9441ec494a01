"""Plays Atari episodes and keeps them as traces."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from holdfast.benchmarks.atari.traces import BLOCK, FIRST, Trace

Act = Callable[[np.ndarray], np.ndarray]
"""From stacked frames (lanes, 4, 84, 84) uint8 to actions (lanes,) int64."""

Collected = TypeVar("Collected", "OngoingEpisode", Trace)


class OngoingEpisode:
    """An episode that is being played: some no-ops, then the actions of the network."""

    def __init__(self, noops: int) -> None:
        self.noops, self.score, self.complete = noops, 0, False
        self._actions = bytearray()
        self._checksums: list[int] = []
        self._progress: list[int] = []  # the return after each block

    def __len__(self) -> int:
        return len(self._actions)

    def add(self, frame: np.ndarray, action: int) -> int:
        """Adds a step, and returns the action for the emulator: a no-op at the start, then the given action."""
        if len(self) % BLOCK == 0:
            self._checksums.append(0)
            self._progress.append(0)
        self._checksums[-1] = zlib.crc32(frame.data, self._checksums[-1])
        self._actions.append(action if len(self) >= self.noops else 0)
        return self._actions[-1]

    def receive(self, reward: int, ended: bool) -> None:
        self.score += reward
        self._progress[-1] = self.score
        self.complete = ended

    def trace(self) -> Trace:
        actions = np.frombuffer(bytes(self._actions), np.uint8)
        checksums, progress = np.array(self._checksums, np.uint32), np.array(self._progress, np.int32)
        return Trace(actions, checksums, self.score, min(self.noops, len(actions)), progress)


def all_complete(takes: Sequence[OngoingEpisode]) -> bool:
    return all(take.complete for take in takes)


def collect_episodes(
    act: Act,
    env: Any,
    noops: Sequence[int],
    *,
    seed: int,
    deadline: float,
    over: Callable[[Sequence[OngoingEpisode]], bool] = all_complete,
) -> list[OngoingEpisode]:
    """Plays one episode for each entry of `noops`, the number of no-ops that it starts with.

    Stops when `over` returns True, or `time.monotonic()` reaches `deadline`. Returns the episodes in the order of
    `noops`. No further episodes are started, so that short episodes are not preferred.
    """
    takes = [OngoingEpisode(count) for count in noops]
    waiting = iter(takes)
    frames, _ = env.reset(seed=seed)
    lanes = [next(waiting, None) for _ in frames]
    while not over(takes) and time.monotonic() < deadline:
        chosen = act(frames)
        actions = [
            take.add(frame[-1], int(action)) if take is not None else 0
            for take, frame, action in zip(lanes, frames, chosen, strict=True)
        ]
        frames, rewards, terminated, truncated, _ = env.step(np.array(actions, np.int64))
        begins = np.zeros(len(lanes), bool)
        for i, take in enumerate(lanes):
            if take is not None:
                take.receive(int(rewards[i]), bool(terminated[i] or truncated[i]))
                if take.complete:
                    lanes[i] = next(waiting, None)
                    begins[i] = lanes[i] is not None
        if begins.any():
            frames, _ = env.reset(seed=np.full(begins.sum(), FIRST), options={"reset_mask": begins})
    return takes


def first_steps(episodes: Sequence[Collected], limit: int) -> list[Collected]:
    """The first episodes, with at most `limit` steps in total."""
    ends = np.cumsum([len(episode) for episode in episodes])
    return list(episodes[: int(np.searchsorted(ends, limit, side="right"))])
