"""Traces: episodes of a deterministic emulator, stored as their actions and checksums of their frames."""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from holdfast.errors import Mistake

BLOCK = 100  # steps whose frames share one checksum
SCREEN = (84, 84)
FIRST = 0  # seed of a reset that equals a new emulator's first one; without it, Boxing sometimes starts differently


@dataclass(frozen=True)
class Origin:
    """The settings of the emulator, and information about the player."""

    game: str
    """ROM name in snake case, such as `breakout`."""
    player: str
    """Description of what chose the actions."""
    trained: int = 0
    """Number of agent steps that the player was trained for."""
    temperature: float = 1.0
    """The player's logits were divided by this before an action was drawn."""
    emulator: str = ""
    """Version of ale-py that recorded the episodes."""
    skip: int = 4
    """Number of frames for which an action is repeated."""
    horizon: int = 27_000
    """Steps after which an episode is cut."""
    maxpool: bool = True
    """Whether a frame is the pixel-wise maximum of the emulator's last two."""


@dataclass(frozen=True, eq=False)
class Trace:
    """One episode over all lives; its actions include the no-ops at the start."""

    actions: np.ndarray  # (T,) uint8, indices into the game's minimal action set
    checksums: np.ndarray  # (ceil(T / BLOCK),) uint32, see `checksums_of`
    score: int  # sum of the rewards, each clipped to its sign
    noops: int = 0  # number of no-ops at the start
    progress: np.ndarray | None = None  # (ceil(T / BLOCK),) int32, the return after each block

    def __post_init__(self) -> None:
        if self.actions.ndim != 1 or self.actions.dtype != np.uint8 or not len(self.actions):
            raise Mistake(f"a trace needs at least one uint8 action, got {self.actions.dtype} {self.actions.shape}")
        blocks = -(-len(self.actions) // BLOCK)
        if self.checksums.shape != (blocks,) or self.checksums.dtype != np.uint32:
            raise Mistake(
                f"{len(self.actions)} steps need {blocks} uint32 checksums, "
                f"got {self.checksums.dtype} {self.checksums.shape}"
            )
        if not 0 <= self.noops < len(self.actions) or self.actions[: self.noops].any():
            raise Mistake(f"a trace with {self.noops} no-ops must begin with that many zeros and have more actions")
        if self.progress is not None and (len(self.progress) != blocks or self.progress[-1] != self.score):
            raise Mistake(f"the return after each of {blocks} blocks must end at {self.score}, got {self.progress}")

    def __len__(self) -> int:
        return len(self.actions)


@dataclass(frozen=True, eq=False)
class Recording:
    """Traces of one game, and their origin."""

    origin: Origin
    traces: Sequence[Trace]

    def __post_init__(self) -> None:
        longest = max(map(len, self.traces), default=0)
        if longest > self.origin.horizon:
            raise Mistake(f"a trace of {longest} steps is longer than the horizon of {self.origin.horizon}")

    @cached_property
    def digest(self) -> str:
        """A hash of everything that determines a replay, and of its checksums."""
        digest = hashlib.sha256(json.dumps(asdict(self.origin)).encode())
        for trace in self.traces:
            digest.update(f"{len(trace)} {trace.score} {trace.noops}".encode())
            digest.update(trace.actions.data)
            digest.update(trace.checksums.data)
        return digest.hexdigest()


def cut(recording: Recording, steps: int) -> Recording:
    """The recording cut after this many steps, a multiple of `BLOCK`, as an emulator with this horizon plays it."""
    if steps % BLOCK:
        raise Mistake(f"episodes can be cut after a multiple of {BLOCK} steps, got {steps}")
    origin = replace(recording.origin, horizon=min(steps, recording.origin.horizon))
    return Recording(origin, [_cut(trace, steps) for trace in recording.traces])


def _cut(trace: Trace, steps: int) -> Trace:
    if len(trace) <= steps:
        return trace
    if trace.progress is None:
        raise Mistake("this recording cannot be cut, because it has no returns after each block")
    progress = trace.progress[: steps // BLOCK]
    return Trace(
        trace.actions[:steps], trace.checksums[: steps // BLOCK], int(progress[-1]), min(trace.noops, steps), progress
    )


def checksums_of(frames: np.ndarray) -> np.ndarray:
    """One CRC-32 for each block of `BLOCK` frames; the last block may be shorter."""
    starts = range(0, len(frames), BLOCK)
    return np.array([zlib.crc32(frames[start : start + BLOCK].data) for start in starts], np.uint32)


def save_traces(recording: Recording, path: Path) -> None:
    """Writes the recording as an xz-compressed npz file, atomically."""
    traces = recording.traces
    known = [trace.progress for trace in traces if trace.progress is not None]
    along = {"progress": np.concatenate(known).astype(np.int32)} if known and len(known) == len(traces) else {}
    plain = BytesIO()
    np.savez(
        plain,
        **along,  # type: ignore[arg-type]
        origin=np.frombuffer(json.dumps(asdict(recording.origin)).encode(), np.uint8),
        lengths=np.array([len(trace) for trace in traces], np.int32),
        scores=np.array([trace.score for trace in traces], np.int32),
        noops=np.array([trace.noops for trace in traces], np.int32),
        actions=np.concatenate([np.zeros(0, np.uint8), *(trace.actions for trace in traces)]),
        checksums=np.concatenate([np.zeros(0, np.uint32), *(trace.checksums for trace in traces)]),
    )
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")  # several processes may import at once
    partial.write_bytes(lzma.compress(plain.getvalue(), preset=9))
    os.replace(partial, path)


def load_traces(path: Path) -> Recording:
    """Reads a file of `save_traces`."""
    try:
        with np.load(BytesIO(lzma.decompress(path.read_bytes())), allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (OSError, EOFError, ValueError, lzma.LZMAError, BadZipFile) as problem:
        raise Mistake(f"{path} is damaged ({problem}): restore it, or delete it if it was imported") from None
    lengths = arrays["lengths"]
    blocks = np.cumsum(-(-lengths // BLOCK))[:-1]
    actions, checksums = np.split(arrays["actions"], np.cumsum(lengths)[:-1]), np.split(arrays["checksums"], blocks)
    progress = np.split(arrays["progress"], blocks) if "progress" in arrays else [None] * len(lengths)
    traces = [
        Trace(actions[i], checksums[i], int(arrays["scores"][i]), int(arrays["noops"][i]), progress[i])
        for i in range(len(lengths))
    ]
    return Recording(Origin(**json.loads(arrays["origin"].tobytes())), traces)


def emulators(origin: Origin, count: int, stack: int = 1, sticky: float = 0.0) -> Any:
    """A vector of emulators that start at the first frame, without automatic no-ops or fire.

    After an episode, reset with the seed `FIRST` to get the same start again.
    """
    try:
        from ale_py.vector_env import AtariVectorEnv
    except ImportError:
        raise Mistake("ale-py is not installed: pip install 'holdfast[atari]'") from None
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
        repeat_action_probability=sticky,
        reward_clipping=True,
    )


class Emulator:
    """One emulator on its own thread, which runs between `send` and `receive`."""

    def __init__(self, origin: Origin, stack: int = 1, sticky: float = 0.0) -> None:
        self.env = emulators(origin, 1, stack, sticky)
        self.frames = np.zeros((stack, *SCREEN), np.uint8)  # the current stack
        self.used = False
        self.cut = False  # whether the last step ended by the horizon and not by the game

    def reset(self, seed: int | None = None) -> None:
        """Resets to the first frame. A seed determines which actions stick, and makes the reset slow.

        Without a seed, every reset equals the first reset of a new emulator.
        """
        if seed is None and self.used:
            seed = FIRST
        self.used, self.cut = True, False
        frames, _ = self.env.reset(seed=None if seed is None else np.array([seed]))
        self.frames = frames[0]

    def send(self, action: int) -> None:
        """Begins a step."""
        self.env.send(np.array([action]))

    def receive(self) -> tuple[int, bool]:
        """Waits for the end of the step: its clipped reward, and whether the episode ended."""
        frames, rewards, terminated, truncated, _ = self.env.recv()
        self.frames, self.cut = frames[0], bool(truncated[0] and not terminated[0])
        return int(rewards[0]), bool(terminated[0] or truncated[0])

    def close(self) -> None:
        """Closes the emulator and its thread."""
        self.env.close()
        del self.env
