"""Minari's Atari episodes, raw screens and raw rewards, as traces of our own: played again, compared, clipped."""

import hashlib
from dataclasses import dataclass, replace
from math import ceil, floor

import numpy as np

from holdfast.benchmarks.atari.traces import BLOCK, SCREEN, Emulator, Origin, Recording, Trace, checksums_of
from holdfast.data.minari import exists, folder, library
from holdfast.errors import Mistake

HDF5 = "main_data.hdf5"
LUMINANCE = np.array([0.2989, 0.5870, 0.1140])  # ALE's
TOLERANCE = 40  # Minari keeps screens as JPEG, which moves a grey value by up to 16; whatever moves, by 65 or more


def weights(size: int, wanted: int) -> tuple[np.ndarray, np.ndarray]:
    """For each of `wanted` pixels, which of `size` it covers and by how much, (4, wanted) both, as OpenCV does."""
    covered, shares, scale = np.zeros((4, wanted), int), np.zeros((4, wanted), np.float32), size / wanted
    for pixel in range(wanted):
        first, end = pixel * scale, (pixel + 1) * scale
        inner = range(ceil(first), min(floor(end), size))
        parts = [(inner.start - 1, inner.start - first), *((at, 1.0) for at in inner), (inner.stop, end - inner.stop)]
        for k, (at, share) in enumerate(part for part in parts if part[1] > 1e-3):
            covered[k, pixel], shares[k, pixel] = at, share / scale
    return covered, shares


def resized(screens: np.ndarray) -> np.ndarray:
    """RGB screens (N, H, W, 3) as the emulator shows them to a player, (N, 84, 84) grey: equal to the bit."""
    grey = np.round(screens @ LUMINANCE).astype(np.float32)
    for axis in (2, 1):
        covered, shares = weights(grey.shape[axis], SCREEN[axis - 1])
        shape = (1, -1, 1) if axis == 1 else (1, 1, -1)
        grey = sum(  # in this order, and in float32: so rounds OpenCV
            np.take(grey, at, axis) * share.reshape(shape) for at, share in zip(covered, shares, strict=True)
        )
    return np.rint(grey).astype(np.uint8)


@dataclass(frozen=True)
class RecordedPlay:
    """What was done and paid in a Minari dataset; its screens, which are large, are not read."""

    actions: list[np.ndarray]
    rewards: list[np.ndarray]

    @classmethod
    def of(cls, name: str) -> "RecordedPlay":
        """Of the dataset of this name."""
        import h5py

        _check(name)
        with h5py.File(folder(name) / "data" / HDF5) as file:
            return cls(*([episode[key][:] for episode in file.values()] for key in ("actions", "rewards")))

    @property
    def digest(self) -> str:
        """Tells one dataset from another."""
        return hashlib.sha256(b"".join(array.tobytes() for array in (*self.actions, *self.rewards))).hexdigest()

    def returns(self, steps: int) -> list[int]:
        """Each episode's return in its first `steps`, rewards clipped to their sign."""
        return [int(np.sign(rewards[:steps]).sum()) for rewards in self.rewards]


def import_episodes(name: str, origin: Origin) -> Recording:
    """All episodes, each played again by its recorded actions and compared step by step."""
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
                raise Mistake(f"{where}: the screen of step {step} is not what the emulator shows")
            emulator.send(int(actions[step]))
            reward, ended = emulator.receive()
            if reward != np.sign(rewards[step]):
                raise Mistake(f"{where}: the emulator pays {reward} for step {step}, recorded was {rewards[step]}")
            if ended != (step == len(actions) - 1):
                raise Mistake(f"{where}: the emulator and the recording do not end alike, at step {step}")
            total += reward
        progress.append(total)
    return Trace(actions.astype(np.uint8), checksums_of(frames), total, 0, np.array(progress, np.int32))
