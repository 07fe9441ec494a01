"""The cache of replayed frames on this machine; a recording is stored completely or not at all."""

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

PLACE = "HOLDFAST_CACHE"  # environment variable with the folder
STACK = 4  # frames that a network sees at once


@dataclass(frozen=True)
class FrameCache:
    """The frames of a recording; the name of the folder contains the recording's digest."""

    name: str
    recording: Recording

    @property
    def folder(self) -> Path:
        """The folder of the frames."""
        return root() / f"{self.name}-{self.recording.digest[:12]}"

    def exists(self) -> bool:
        """Whether the frames are on this machine."""
        return self.folder.exists()

    def read(self) -> Dataset:
        """The recording as a dataset; frames are memory-mapped."""
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
            raise Mistake(f"{self.folder} is damaged ({problem}): delete it, and it is built again") from None

    def build(self, progress: Callable[[int], None] = lambda steps: None, again: bool = True) -> None:
        """Replays the recording, which also checks it, and stores its frames, unless they exist and not `again`."""
        try:
            with locked(self.folder.with_name(f".{self.folder.name}.lock")):
                if again or not self.exists():
                    with building(self.folder) as aside:
                        self._write(aside, progress)
        except OSError as problem:
            raise Mistake(
                f"{self.folder} cannot be written ({problem.strerror}): free some space, or set {PLACE}"
            ) from problem

    def _write(self, aside: Path, progress: Callable[[int], None]) -> None:
        traces = self.recording.traces
        lengths = np.array([len(trace) - trace.noops for trace in traces])
        ends = np.cumsum(lengths)
        rewards = np.zeros(lengths.sum(), np.float32)
        place = aside / "frames.npy"
        frames = np.lib.format.open_memmap(place, mode="w+", dtype=np.uint8, shape=(len(rewards), *SCREEN))
        reserve(place)

        def room(episode: int, steps: int) -> np.ndarray:
            return frames[ends[episode] - steps : ends[episode]]

        for replayed in replay(self.recording, lanes(), room=room, progress=progress):
            end = ends[replayed.episode]
            rewards[end - len(replayed.rewards) : end] = replayed.rewards
        frames.flush()
        actions = np.concatenate([trace.actions[trace.noops :] for trace in traces]).astype(np.int64)
        np.savez(aside / "steps.npz", actions=actions, rewards=rewards, lengths=lengths)
        about = {"episodes": len(lengths), "transitions": len(rewards)}
        (aside / "about.json").write_text(json.dumps(about))


def compare(recording: Recording, frames: np.ndarray) -> None:
    """Raises unless the frames have the recorded checksums; blocks that contain no-ops are not stored completely."""
    start = 0
    for episode, trace in enumerate(recording.traces):
        shown = frames[start : start + len(trace) - trace.noops]
        start += len(shown)
        for block in range(-(-trace.noops // BLOCK), len(trace.checksums)):
            first = block * BLOCK - trace.noops
            if zlib.crc32(shown[first : first + BLOCK].data) != trace.checksums[block]:
                raise Mistake(f"episode {episode} differs from the recording from step {block * BLOCK} on")


def reserve(place: Path) -> None:
    """Allocates the size of a file: on a full disk, writing to its memory map would kill the process."""
    if hasattr(os, "posix_fallocate"):  # not on macOS
        with place.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, place.stat().st_size)


def root() -> Path:
    """The folder of all cached recordings."""
    return Path(os.environ.get(PLACE) or Path.home() / ".cache" / "holdfast")


def lanes() -> int:
    """The number of emulators that keep all cores busy."""
    return 2 * (os.cpu_count() or 1)


def local_replays() -> list[tuple[str, int, int]]:
    """Folder, episodes and transitions of every recording in the cache."""
    records = [(path.parent.name, read_about(path)) for path in sorted(root().glob("[!.]*/about.json"))]
    return [(name, about["episodes"], about["transitions"]) for name, about in records if about]


def read_about(path: Path) -> dict[str, Any] | None:
    """The numbers of episodes and transitions of a cached recording, or None if the file is damaged."""
    try:
        return json.loads(path.read_bytes())
    except ValueError:
        return None


@contextmanager
def building(place: Path) -> Iterator[Path]:
    """A temporary folder that is renamed to `place` on success; leftovers of killed processes are removed."""
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
