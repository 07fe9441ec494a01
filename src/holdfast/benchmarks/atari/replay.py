"""Replays traces: the emulator regenerates frames and rewards, which are compared with the recorded checksums."""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from holdfast.benchmarks.atari.traces import BLOCK, SCREEN, Emulator, Recording, Trace
from holdfast.errors import Mistake


@dataclass(frozen=True, eq=False)
class Replayed:
    """The frames and rewards of a replayed trace, from the first step after the no-ops."""

    episode: int  # position in the recording
    frames: np.ndarray  # (T - noops, 84, 84) uint8; the frame before the action of the same step
    rewards: np.ndarray  # (T - noops,) int8; the first includes the rewards of the no-ops


class Lane:
    """One trace that is being replayed in one emulator."""

    def __init__(self, game: str, episode: int, trace: Trace, frames: np.ndarray) -> None:
        self.name, self.trace = f"{game}, episode {episode}", trace
        self.step = self.score = self.checksum = 0
        rewards = np.zeros(len(trace) - trace.noops, np.int8)
        self.replayed = Replayed(episode, frames, rewards)

    def action(self, frame: np.ndarray) -> int:
        """The recorded action for this frame."""
        if self.step >= self.trace.noops:
            self.replayed.frames[self.step - self.trace.noops] = frame
        self.checksum = zlib.crc32(frame.data, self.checksum)
        self.step += 1
        return int(self.trace.actions[self.step - 1])

    def receive(self, reward: int, ended: bool) -> bool:
        """Adds the result of the last action; returns whether the episode is complete."""
        self.score += reward
        self.replayed.rewards[max(self.step - 1 - self.trace.noops, 0)] += reward
        last = self.step == len(self.trace)
        if last or self.step % BLOCK == 0:
            self._compare((self.step - 1) // BLOCK, last)
        if ended != last:
            replay = f"ended with step {self.step - 1}" if ended else f"went on after step {self.step - 1}"
            raise Mistake(f"{self.name}: the replay {replay}, but the last recorded step is {len(self.trace) - 1}")
        return ended

    def _compare(self, block: int, last: bool) -> None:
        if self.checksum != self.trace.checksums[block]:
            steps = f"steps {block * BLOCK} to {self.step - 1}"
            raise Mistake(f"{self.name}: the frames of {steps} differ from the recording (another ale-py?)")
        self.checksum = 0
        recorded = self.score if self.trace.progress is None else int(self.trace.progress[block])
        expected = self.trace.score if last else recorded
        if self.score != expected:
            raise Mistake(
                f"{self.name}: the return after step {self.step - 1} is {self.score}, but {expected} was recorded"
            )


def new_frames(episode: int, steps: int) -> np.ndarray:
    """An array in memory for an episode's frames."""
    return np.empty((steps, *SCREEN), np.uint8)


def replay(
    recording: Recording,
    lanes: int = 8,
    room: Callable[[int, int], np.ndarray] = new_frames,
    progress: Callable[[int], None] = lambda steps: None,
) -> Iterator[Replayed]:
    """Replays all traces, `lanes` at a time, and yields each as soon as it is complete.

    `room` returns the array for an episode's frames, and `progress` is called with the number of steps done. Raises a
    Mistake with game, episode and step if frames, length or return differ from the recording.
    """
    traces = recording.traces
    order = sorted(range(len(traces)), key=lambda episode: -len(traces[episode]))  # longest first
    waiting = (Lane(recording.origin.game, i, traces[i], room(i, len(traces[i]) - traces[i].noops)) for i in order)
    running = [(lane, Emulator(recording.origin)) for lane in islice(waiting, lanes)]
    for _, emulator in running:
        emulator.reset()
    done = 0
    while running:
        for lane, emulator in running:
            emulator.send(lane.action(emulator.frames[-1]))
        done += len(running)
        still = []
        for lane, emulator in running:
            if not lane.receive(*emulator.receive()):
                still.append((lane, emulator))
                continue
            yield lane.replayed
            if following := next(waiting, None):
                emulator.reset()
                still.append((following, emulator))
            else:
                emulator.close()
        running = still
        if done % BLOCK < len(running):
            progress(done)
