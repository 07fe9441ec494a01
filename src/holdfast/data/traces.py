"""Episodes of a deterministic simulator as their starts and actions."""

from __future__ import annotations

import json
import lzma
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

BLOCK = 100  # steps whose frames share one checksum
SCREEN = (84, 84)


@dataclass(frozen=True)
class Origin:
    """What a replay must know about the emulator, and a reader about the player."""

    game: str
    """ROM name in snake case, such as `breakout`."""
    player: str
    """Who chose the actions, in words."""
    trained: int = 0
    """Agent steps that the player had learned from."""
    temperature: float = 1.0
    """The player's logits were divided by this before an action was drawn."""
    emulator: str = ""
    """Version of ale-py that recorded the episodes."""
    skip: int = 4
    """Frames for which an action is held."""
    horizon: int = 27_000
    """Steps after which an episode is cut."""
    maxpool: bool = True
    """A frame is the pixel-wise maximum of the last two that the emulator drew."""


@dataclass(frozen=True, eq=False)
class Trace:
    """One episode over all lives. Its no-op start is part of the actions."""

    actions: np.ndarray  # (T,) uint8, indices into the game's minimal action set
    checksums: np.ndarray  # (ceil(T / BLOCK),) uint32, see `checksums_of`
    score: int  # sum of the rewards, each clipped to its sign
    noops: int = 0  # how many of the first actions were the start's and not the player's

    def __post_init__(self) -> None:
        if self.actions.ndim != 1 or self.actions.dtype != np.uint8 or not len(self.actions):
            raise ValueError(f"a trace needs at least one uint8 action, got {self.actions.dtype} {self.actions.shape}")
        blocks = -(-len(self.actions) // BLOCK)
        if self.checksums.shape != (blocks,) or self.checksums.dtype != np.uint32:
            raise ValueError(
                f"{len(self.actions)} steps need {blocks} uint32 checksums, "
                f"got {self.checksums.dtype} {self.checksums.shape}"
            )
        if not 0 <= self.noops <= len(self.actions) or self.actions[: self.noops].any():
            raise ValueError(f"the first {self.noops} actions of a trace with {self.noops} no-ops must be 0")

    def __len__(self) -> int:
        return len(self.actions)


@dataclass(frozen=True, eq=False)
class Recording:
    """Traces of one game and where they come from."""

    origin: Origin
    traces: Sequence[Trace]

    def __post_init__(self) -> None:
        longest = max(map(len, self.traces), default=0)
        if longest > self.origin.horizon:
            raise ValueError(f"a trace of {longest} steps is longer than the horizon of {self.origin.horizon}")


@dataclass(frozen=True, eq=False)
class Replayed:
    """What the emulator showed and paid when a trace was played again."""

    episode: int  # position in the recording
    frames: np.ndarray  # (T, 84, 84) uint8; frames[t] is what actions[t] answered
    rewards: np.ndarray  # (T,) int8


def checksums_of(frames: np.ndarray) -> np.ndarray:
    """One CRC-32 for each block of `BLOCK` frames, the last one possibly shorter."""
    starts = range(0, len(frames), BLOCK)
    return np.array([zlib.crc32(frames[start : start + BLOCK].data) for start in starts], np.uint32)


def save(recording: Recording, path: Path) -> None:
    """Writes the recording as an xz-compressed npz; a half-written file is never seen under `path`."""
    traces = recording.traces
    plain = BytesIO()
    np.savez(
        plain,
        origin=np.frombuffer(json.dumps(asdict(recording.origin)).encode(), np.uint8),
        lengths=np.array([len(trace) for trace in traces], np.int32),
        scores=np.array([trace.score for trace in traces], np.int32),
        noops=np.array([trace.noops for trace in traces], np.int32),
        actions=np.concatenate([np.zeros(0, np.uint8), *(trace.actions for trace in traces)]),
        checksums=np.concatenate([np.zeros(0, np.uint32), *(trace.checksums for trace in traces)]),
    )
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(lzma.compress(plain.getvalue(), preset=9))
    os.replace(partial, path)


def load(path: Path) -> Recording:
    """Reads what `save` wrote."""
    with np.load(BytesIO(lzma.decompress(path.read_bytes())), allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    lengths = arrays["lengths"]
    actions = np.split(arrays["actions"], np.cumsum(lengths)[:-1])
    checksums = np.split(arrays["checksums"], np.cumsum(-(-lengths // BLOCK))[:-1])
    traces = [
        Trace(actions[i], checksums[i], int(arrays["scores"][i]), int(arrays["noops"][i])) for i in range(len(lengths))
    ]
    return Recording(Origin(**json.loads(arrays["origin"].tobytes())), traces)


def emulators(origin: Origin, count: int, stack: int = 1) -> Any:
    """Emulators in lock-step that start at the very first frame and then only do as told.

    An emulator whose episode ends restarts in the same step, so the frames it returns are already the next episode's.
    """
    from ale_py.vector_env import AtariVectorEnv
    from gymnasium.vector import AutoresetMode

    return AtariVectorEnv(
        origin.game,
        count,
        stack_num=stack,
        img_height=SCREEN[0],
        img_width=SCREEN[1],
        frameskip=origin.skip,
        maxpool=origin.maxpool,
        max_num_frames_per_episode=origin.horizon * origin.skip,
        noop_max=0,
        use_fire_reset=False,
        repeat_action_probability=0.0,
        reward_clipping=True,
        autoreset_mode=AutoresetMode.SAME_STEP,
    )


class _Lane:
    """One trace on its way through one emulator, compared with the record block by block."""

    def __init__(self, game: str, episode: int, trace: Trace) -> None:
        self.name, self.trace, self.step = f"{game}, episode {episode}", trace, 0
        self.replayed = Replayed(episode, np.empty((len(trace), *SCREEN), np.uint8), np.empty(len(trace), np.int8))

    def action(self, frame: np.ndarray) -> int:
        self.replayed.frames[self.step] = frame
        self.step += 1
        if self.step % BLOCK == 0 or self.step == len(self.trace):
            self._compare_block((self.step - 1) // BLOCK)
        return int(self.trace.actions[self.step - 1])

    def _compare_block(self, block: int) -> None:
        start = block * BLOCK
        if zlib.crc32(self.replayed.frames[start : self.step].data) != self.trace.checksums[block]:
            raise ValueError(f"{self.name}: the frames of steps {start} to {self.step - 1} are not the recorded ones")

    def receive(self, reward: int, ended: bool) -> bool:
        """Takes the answer to the last action and says whether the episode is complete."""
        self.replayed.rewards[self.step - 1] = reward
        if ended != (self.step == len(self.trace)):
            found = f"ended with step {self.step - 1}" if ended else f"went on after step {self.step - 1}"
            raise ValueError(f"{self.name}: the replay {found}, the recorded last step is {len(self.trace) - 1}")
        score = int(self.replayed.rewards.sum()) if ended else self.trace.score
        if score != self.trace.score:
            raise ValueError(
                f"{self.name}: the return after step {self.step - 1} is {score}, recorded was {self.trace.score}"
            )
        return ended


def replay(recording: Recording, lanes: int = 8, seed: int = 0) -> Iterator[Replayed]:
    """Plays every trace again, `lanes` at a time, and yields each as soon as it is complete.

    Raises ValueError with game, episode and step where frames, length or return are not the recorded ones.
    """
    game = recording.origin.game
    waiting = (_Lane(game, episode, trace) for episode, trace in enumerate(recording.traces))
    count = min(lanes, len(recording.traces))
    if not count:
        return
    env = emulators(recording.origin, count)
    try:
        frames, _ = env.reset(seed=seed)
        running = [next(waiting, None) for _ in range(count)]
        while any(running):
            actions = [lane.action(frame[-1]) if lane else 0 for lane, frame in zip(running, frames, strict=True)]
            frames, rewards, terminated, truncated, _ = env.step(np.array(actions, np.int64))
            for i, lane in enumerate(running):
                if lane and lane.receive(int(rewards[i]), bool(terminated[i] or truncated[i])):
                    yield lane.replayed
                    running[i] = next(waiting, None)
    finally:
        env.close()
