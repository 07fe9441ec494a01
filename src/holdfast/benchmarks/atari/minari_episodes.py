"""Imports Minari's Atari episodes as traces: replays them, compares them, and clips rewards."""

import hashlib
from dataclasses import dataclass, replace
from math import ceil, floor

import numpy as np

from holdfast.benchmarks.atari.traces import BLOCK, SCREEN, Emulator, Origin, Recording, Trace, checksums_of
from holdfast.data.minari import exists, folder, library
from holdfast.errors import Mistake

HDF5 = "main_data.hdf5"
LUMINANCE = np.array([0.2989, 0.5870, 0.1140])  # ALE's
TOLERANCE = 40  # Minari stores JPEG, which changes grey values by up to 16; a moved object changes them by 65 or more


def weights(size: int, wanted: int) -> tuple[np.ndarray, np.ndarray]:
    """Area interpolation as in OpenCV: for each of `wanted` pixels, source pixels and weights, (4, wanted) each."""
    covered, shares, scale = np.zeros((4, wanted), int), np.zeros((4, wanted), np.float32), size / wanted
    for pixel in range(wanted):
        first, end = pixel * scale, (pixel + 1) * scale
        inner = range(ceil(first), min(floor(end), size))
        parts = [(inner.start - 1, inner.start - first), *((at, 1.0) for at in inner), (inner.stop, end - inner.stop)]
        for k, (at, share) in enumerate(part for part in parts if part[1] > 1e-3):
            covered[k, pixel], shares[k, pixel] = at, share / scale
    return covered, shares


def resized(screens: np.ndarray) -> np.ndarray:
    """Converts RGB screens (N, H, W, 3) to grey frames (N, 84, 84), bit-identical to the emulator's."""
    grey = np.round(screens @ LUMINANCE).astype(np.float32)
    for axis in (2, 1):
        covered, shares = weights(grey.shape[axis], SCREEN[axis - 1])
        shape = (1, -1, 1) if axis == 1 else (1, 1, -1)
        grey = sum(  # in this order and in float32, to round like OpenCV
            np.take(grey, at, axis) * share.reshape(shape) for at, share in zip(covered, shares, strict=True)
        )
    return np.rint(grey).astype(np.uint8)


@dataclass(frozen=True)
class RecordedPlay:
    """The actions and rewards of a Minari dataset; its screens are not read."""

    actions: list[np.ndarray]
    rewards: list[np.ndarray]

    @classmethod
    def of(cls, name: str) -> "RecordedPlay":
        """Reads the dataset with this name."""
        import h5py

        _check(name)
        with h5py.File(folder(name) / "data" / HDF5) as file:
            return cls(*([episode[key][:] for episode in file.values()] for key in ("actions", "rewards")))

    @property
    def digest(self) -> str:
        """A hash of all actions and rewards."""
        return hashlib.sha256(b"".join(array.tobytes() for array in (*self.actions, *self.rewards))).hexdigest()

    def returns(self, steps: int) -> list[int]:
        """Each episode's return in its first `steps`, rewards clipped to their sign."""
        return [int(np.sign(rewards[:steps]).sum()) for rewards in self.rewards]


def import_episodes(name: str, origin: Origin) -> Recording:
    """Imports all episodes; each is replayed and compared step by step."""
    _check(name)
    emulator = Emulator(replace(origin, maxpool=False))
    traces = [_import(emulator, name, episode) for episode in library().load_dataset(name).iterate_episodes()]
    emulator.close()
    return Recording(replace(origin, maxpool=False, player=f"Minari's {name}"), traces)


def _check(name: str) -> None:
    if not exists(name):
        raise Mistake(f"there is no Minari dataset {name} on this machine: minari download {name}")
    if not (folder(name) / "data" / HDF5).exists():
        raise Mistake(f"the Minari dataset {name} must be in the format hdf5")


def _import(emulator: Emulator, name: str, episode: object) -> Trace:
    screens, actions, rewards = (np.asarray(getattr(episode, key)) for key in ("observations", "actions", "rewards"))
    where = f"{name}, episode {episode.id}"  # type: ignore[attr-defined]
    frames, total, progress = np.empty((len(actions), *SCREEN), np.uint8), 0, []
    emulator.reset()
    for start in range(0, len(actions), BLOCK):
        recorded = resized(screens[start : min(start + BLOCK, len(actions))])
        for step, expected in enumerate(recorded, start):
            frames[step] = emulator.frames[-1]
            if np.abs(frames[step].astype(int) - expected).max() > TOLERANCE:
                raise Mistake(f"{where}: the screen of step {step} differs from the emulator's")
            emulator.send(int(actions[step]))
            reward, ended = emulator.receive()
            if reward != np.sign(rewards[step]):
                raise Mistake(f"{where}: the reward of step {step} is {reward}, but {rewards[step]} was recorded")
            if ended != (step == len(actions) - 1):
                raise Mistake(f"{where}: the replay and the recording end at different steps, see step {step}")
            total += reward
        progress.append(total)
    return Trace(actions.astype(np.uint8), checksums_of(frames), total, 0, np.array(progress, np.int32))
