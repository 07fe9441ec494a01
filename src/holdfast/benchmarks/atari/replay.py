"""Traces played again: the emulator regenerates frames and rewards, and every block is compared with the record."""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from holdfast.benchmarks.atari.traces import BLOCK, SCREEN, Emulator, Recording, Trace
from holdfast.errors import Mistake


@dataclass(frozen=True, eq=False)
class Replayed:
    """What the emulator showed and paid when a trace was played again, from the player's first step on."""

    episode: int  # position in the recording
    frames: np.ndarray  # (T - noops, 84, 84) uint8; each is what the player's action at that step answered
    rewards: np.ndarray  # (T - noops,) int8; the first one has what the no-ops earned as well


class Lane:
    """One trace on its way through one emulator."""

    def __init__(self, game: str, episode: int, trace: Trace, frames: np.ndarray) -> None:
        self.name, self.trace, self.step, self.score, self.checksum = f"{game}, episode {episode}", trace, 0, 0, 0
        rewards = np.zeros(len(trace) - trace.noops, np.int8)
        self.replayed = Replayed(episode, frames, rewards)

    def action(self, frame: np.ndarray) -> int:
        """The recorded answer to this frame."""
        if self.step >= self.trace.noops:
            self.replayed.frames[self.step - self.trace.noops] = frame
        self.checksum = zlib.crc32(frame.data, self.checksum)
        self.step += 1
        return int(self.trace.actions[self.step - 1])

    def receive(self, reward: int, ended: bool) -> bool:
        """Takes what the emulator said to the last action, and says whether the episode is complete."""
        self.score += reward
        self.replayed.rewards[max(self.step - 1 - self.trace.noops, 0)] += reward
        last = self.step == len(self.trace)
        if last or self.step % BLOCK == 0:
            self._compare((self.step - 1) // BLOCK, last)
        if ended != last:
            found = f"ended with step {self.step - 1}" if ended else f"went on after step {self.step - 1}"
            raise Mistake(f"{self.name}: the replay {found}, the recorded last step is {len(self.trace) - 1}")
        return ended

    def _compare(self, block: int, last: bool) -> None:
        if self.checksum != self.trace.checksums[block]:
            steps = f"steps {block * BLOCK} to {self.step - 1}"
            raise Mistake(f"{self.name}: the frames of {steps} are not the recorded ones (another ale-py?)")
        self.checksum = 0
        recorded = self.score if self.trace.progress is None else int(self.trace.progress[block])
        expected = self.trace.score if last else recorded
        if self.score != expected:
            raise Mistake(
                f"{self.name}: the return after step {self.step - 1} is {self.score}, recorded was {expected}"
            )


def new_frames(episode: int, steps: int) -> np.ndarray:
    """Room in memory for an episode's frames."""
    return np.empty((steps, *SCREEN), np.uint8)


def replay(
    recording: Recording,
    lanes: int = 8,
    room: Callable[[int, int], np.ndarray] = new_frames,
    told: Callable[[int], None] = lambda steps: None,
) -> Iterator[Replayed]:
    """Plays every trace again, `lanes` at a time, and yields each as soon as it is complete.

    `room` gives the array that an episode's frames are written to, and `told` hears how many steps are done. Raises a
    Mistake that names game, episode and step where frames, length or return are not the recorded ones.
    """
    traces = recording.traces
    order = sorted(range(len(traces)), key=lambda episode: -len(traces[episode]))  # so that no long one is left alone
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
            told(done)
