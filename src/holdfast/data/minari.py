"""Reads and writes Minari datasets on this machine."""

import errno
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from holdfast.data.demonstrations import ARRAYS, Demonstrations
from holdfast.data.hdf5 import write_episodes
from holdfast.data.locks import locked
from holdfast.errors import Mistake

PLACE = "MINARI_DATASETS_PATH"  # environment variable with the folder of Minari's datasets
HDF5 = "main_data.hdf5"
SEEN = "observations/"
FULL = os.strerror(errno.ENOSPC)
ROOM = 30_000  # free bytes required per episode, for both files
CACHE = "holdfast.npz"  # the same data in a few large arrays: reading thousands of small ones takes a minute


def library() -> Any:
    """The module minari."""
    try:
        import minari
    except ImportError:
        raise Mistake("minari is not installed: pip install 'minari[hdf5]'") from None
    return minari


def folder(name: str) -> Path:
    """The folder of a dataset."""
    library()
    from minari.storage.datasets_root_dir import get_dataset_path

    try:
        return get_dataset_path(name)  # makes the folder of all datasets
    except OSError as problem:
        raise Mistake(
            f"Minari cannot keep datasets in {problem.filename} ({problem.strerror}): set {PLACE}"
        ) from problem


def exists(name: str) -> bool:
    """Whether the dataset is on this machine."""
    return (folder(name) / "data" / "metadata.json").exists()


def write(
    name: str, demonstrations: Demonstrations, environment: Any, about: Mapping[str, Any], extra: Mapping[str, Any]
) -> None:
    """Writes a dataset that `minari.load_dataset` can open; it appears completely or not at all."""
    place = folder(name)
    with _refusal_explained(place), _building(folder("")) as aside:
        place.parent.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(aside).free < ROOM * len(demonstrations.lengths):  # when full, HDF5 may crash
            raise OSError(errno.ENOSPC, FULL)
        with _datasets_in(aside), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about missing authors and links
            made = library().create_dataset_from_buffers(name, [], env=environment, data_format="hdf5", **about)
            write_episodes(aside / name / "data" / HDF5, demonstrations)
            steps, episodes = int(demonstrations.lengths.sum()), len(demonstrations.lengths)
            size = {"total_steps": steps, "total_episodes": episodes, "dataset_size": made.storage.get_size()}
            made.storage.update_metadata({**size, **extra})
        _write_cache(aside / name, demonstrations)
        if place.exists():
            place.rename(aside / "before")
        (aside / name).rename(place)


@contextmanager
def _refusal_explained(place: Path) -> Iterator[None]:
    """Turns a full disk or a read-only folder into a message for the user."""
    try:
        yield
    except (OSError, RuntimeError, ValueError) as problem:  # HDF5 raises any of these on a full disk
        full = FULL in str(problem)
        if not full and not isinstance(problem, OSError):
            raise
        why = FULL if full else problem
        raise Mistake(
            f"{place} cannot be written ({why}): free some space, or set {PLACE} to another folder"
        ) from problem


@contextmanager
def _building(root: Path) -> Iterator[Path]:
    """A temporary folder that Minari ignores; leftovers of killed processes are removed."""
    aside = root / ".building"
    with locked(root / ".building.lock"):
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        try:
            yield aside
        finally:
            shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def _datasets_in(root: Path) -> Iterator[None]:
    """Points Minari to another folder inside the block."""
    before = os.environ.get(PLACE)
    os.environ[PLACE] = str(root)
    try:
        yield
    finally:
        os.environ.pop(PLACE)
        if before is not None:
            os.environ[PLACE] = before


def read(name: str) -> Demonstrations:
    """A dataset's episodes."""
    if not exists(name):
        raise Mistake(f"there is no Minari dataset {name} on this machine")
    with _damage_explained(name):
        cached = _read_cache(folder(name))
        if cached is None:
            cached = _read_episodes(name)
            with suppress(OSError):  # a read-only folder is read without a cache, which takes a minute each time
                _write_cache(folder(name), cached)
        return cached


def metadata(name: str) -> dict[str, Any]:
    """The metadata of a dataset."""
    with _damage_explained(name):
        return dict(library().load_dataset(name).storage.metadata)


@contextmanager
def _damage_explained(name: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, KeyError) as problem:
        raise Mistake(f"the dataset {name} is damaged ({problem}): delete {folder(name)} and build it again") from None


def local_datasets() -> list[tuple[str, int, int]]:
    """Name, episodes and transitions of every dataset on this machine; empty if Minari is not installed."""
    if find_spec("minari") is None:
        return []
    datasets = library().list_local_datasets()
    return [(name, int(about["total_episodes"]), int(about["total_steps"])) for name, about in sorted(datasets.items())]


def _read_episodes(name: str) -> Demonstrations:
    dataset = library().load_dataset(name)
    about = dataset.storage.get_episode_metadata(range(dataset.total_episodes))
    parts = []
    for episode, episode_about in zip(dataset.iterate_episodes(), about, strict=True):
        if not isinstance(episode.observations, dict):
            raise Mistake(f"the observations of {name} must be a dictionary, as in panda-gym")
        rewards = np.asarray(episode.rewards, np.float64)
        lengths, seeds = np.array([len(rewards)]), np.array([episode_about.get("seed", -1)])
        parts.append(Demonstrations(episode.observations, np.asarray(episode.actions), rewards, lengths, seeds))
    return Demonstrations.join(parts)


def _state(place: Path) -> list[int]:
    """Size and modification time of the data, by which an outdated cache is recognised."""
    file = (place / "data" / HDF5).stat()
    return [file.st_size, file.st_mtime_ns]


def _write_cache(place: Path, demonstrations: Demonstrations) -> None:
    observations: dict[str, Any] = {f"{SEEN}{key}": array for key, array in demonstrations.observations.items()}
    arrays: dict[str, Any] = {key: getattr(demonstrations, key) for key in ARRAYS}
    aside = place / "data" / f"{CACHE}.{os.getpid()}.part"  # several processes may write the cache at once
    with aside.open("wb") as file:
        np.savez(file, **arrays, **observations, state=np.array(_state(place)))
    aside.replace(place / "data" / CACHE)


def _read_cache(place: Path) -> Demonstrations | None:
    """The cached arrays, or None if the cache is missing, outdated or damaged."""
    try:
        with (place / "data" / CACHE).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            if arrays["state"].tolist() != _state(place):
                return None
            seen = {key.removeprefix(SEEN): arrays[key] for key in arrays if key.startswith(SEEN)}
            return Demonstrations(seen, *(arrays[key] for key in ARRAYS))
    except (OSError, ValueError, KeyError, BadZipFile):
        return None
