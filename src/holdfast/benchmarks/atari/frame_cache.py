"""Replayed frames on this machine: each recording once, as a whole or not at all."""

import json
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from holdfast.benchmarks.atari.replay import replay
from holdfast.benchmarks.atari.traces import BLOCK, SCREEN, Recording
from holdfast.data.episodes import Dataset
from holdfast.data.locks import locked
from holdfast.errors import MissingData, Mistake

PLACE = "HOLDFAST_CACHE"  # the folder, if this variable is set
STACK = 4  # frames that a network sees at once


@dataclass(frozen=True)
class FrameCache:
    """A recording's frames, under a name; the digest in the folder's name says that they are this recording's."""

    name: str
    recording: Recording

    @property
    def folder(self) -> Path:
        """Where they are kept."""
        return root() / f"{self.name}-{self.recording.digest[:12]}"

    def exists(self) -> bool:
        """Whether they are on this machine."""
        return self.folder.exists()

    def read(self) -> Dataset:
        """The recording as data; frames stay on disk until they are used."""
        if not self.exists():
            raise MissingData(f"the frames of {self.name} are not on this machine yet")
        try:
            frames = np.load(self.folder / "frames.npy", mmap_mode="r")
            compare(self.recording, frames)
            with np.load(self.folder / "steps.npz", allow_pickle=False) as steps:
                return Dataset(
                    frames, steps["actions"], steps["rewards"], steps["lengths"], STACK, self.recording.digest
                )
        except (OSError, EOFError, ValueError, KeyError, BadZipFile, Mistake) as problem:
            raise Mistake(f"{self.folder} is damaged ({problem}): remove it, and it is made again") from None

    def build(self, told: Callable[[int], None] = lambda steps: None, again: bool = True) -> None:
        """Replays the recording, which checks it, and keeps what it shows; not again if another process just has."""
        try:
            with locked(self.folder.with_name(f".{self.folder.name}.lock")):
                if again or not self.exists():
                    with building(self.folder) as aside:
                        self._write(aside, told)
        except OSError as problem:
            raise Mistake(
                f"{self.folder} cannot be written ({problem.strerror}): make room, or set {PLACE} to another folder"
            ) from problem

    def _write(self, aside: Path, told: Callable[[int], None]) -> None:
        traces = self.recording.traces
        lengths = np.array([len(trace) - trace.noops for trace in traces])
        ends = np.cumsum(lengths)
        rewards = np.zeros(lengths.sum(), np.float32)
        place = aside / "frames.npy"
        frames = np.lib.format.open_memmap(place, mode="w+", dtype=np.uint8, shape=(len(rewards), *SCREEN))
        reserve(place)

        def room(episode: int, steps: int) -> np.ndarray:
            return frames[ends[episode] - steps : ends[episode]]

        for replayed in replay(self.recording, lanes(), room=room, told=told):
            end = ends[replayed.episode]
            rewards[end - len(replayed.rewards) : end] = replayed.rewards
        frames.flush()
        actions = np.concatenate([trace.actions[trace.noops :] for trace in traces]).astype(np.int64)
        np.savez(aside / "steps.npz", actions=actions, rewards=rewards, lengths=lengths)
        about = {"episodes": len(lengths), "transitions": len(rewards)}
        (aside / "about.json").write_text(json.dumps(about))


def compare(recording: Recording, frames: np.ndarray) -> None:
    """Raises unless these are the recorded frames, as far as the checksums tell: those of no-ops are not kept."""
    start = 0
    for episode, trace in enumerate(recording.traces):
        shown = frames[start : start + len(trace) - trace.noops]
        start += len(shown)
        for block in range(-(-trace.noops // BLOCK), len(trace.checksums)):
            first = block * BLOCK - trace.noops
            if zlib.crc32(shown[first : first + BLOCK].data) != trace.checksums[block]:
                raise Mistake(f"episode {episode} does not show what was recorded from step {block * BLOCK} on")


def reserve(place: Path) -> None:
    """Takes the room that a file says it has: on a full disk, writing to a map of it would kill the process."""
    if hasattr(os, "posix_fallocate"):  # not on macOS
        with place.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, place.stat().st_size)


def root() -> Path:
    """The folder of all that can be made again."""
    return Path(os.environ.get(PLACE) or Path.home() / ".cache" / "holdfast")


def lanes() -> int:
    """Emulators that keep the processor busy."""
    return 2 * (os.cpu_count() or 1)


def local_replays() -> list[tuple[str, int, int]]:
    """Folder, episodes and transitions of every recording whose frames are on this machine."""
    found = [(path.parent.name, read_about(path)) for path in sorted(root().glob("[!.]*/about.json"))]
    return [(name, about["episodes"], about["transitions"]) for name, about in found if about]


def read_about(path: Path) -> dict[str, Any] | None:
    """What is said of a recording's frames; none where that is damaged."""
    try:
        return json.loads(path.read_bytes())
    except ValueError:
        return None


@contextmanager
def building(place: Path) -> Iterator[Path]:
    """A folder that becomes `place` when all went well; what a killed process left of it is gone."""
    aside, before = place.with_name(f".{place.name}"), place.with_name(f".{place.name}.before")
    for rest in (aside, before):
        shutil.rmtree(rest, ignore_errors=True)
    aside.mkdir()
    try:
        yield aside
        if place.exists():
            place.rename(before)
        aside.rename(place)
    finally:
        for rest in (aside, before):
            shutil.rmtree(rest, ignore_errors=True)
