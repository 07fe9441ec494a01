"""Minari datasets on this machine, in and out."""

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

PLACE = "MINARI_DATASETS_PATH"  # where Minari keeps its datasets, if this variable is set
HDF5 = "main_data.hdf5"
SEEN = "observations/"
FULL = os.strerror(errno.ENOSPC)
ROOM = 30_000  # bytes that an episode may take, in both files
CACHE = "holdfast.npz"  # the same data in a few large arrays, since reading thousands of small ones takes a minute


def library() -> Any:
    """The module minari."""
    try:
        import minari
    except ImportError:
        raise Mistake("minari is not installed: pip install 'holdfast[panda]'") from None
    return minari


def folder(name: str) -> Path:
    """Where Minari keeps a dataset."""
    library()
    from minari.storage.datasets_root_dir import get_dataset_path

    try:
        return get_dataset_path(name)  # which makes the folder of all
    except OSError as problem:
        raise Mistake(
            f"Minari cannot keep datasets in {problem.filename} ({problem.strerror}): set {PLACE}"
        ) from problem


def exists(name: str) -> bool:
    """Whether there is such a dataset on this machine."""
    return (folder(name) / "data" / "metadata.json").exists()


def write(
    name: str, demonstrations: Demonstrations, environment: Any, about: Mapping[str, Any], extra: Mapping[str, Any]
) -> None:
    """Makes a dataset that plain `minari.load_dataset` opens; it is there as a whole or not at all."""
    place = folder(name)
    with _refusal_explained(place), _building(folder("")) as aside:
        place.parent.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(aside).free < ROOM * len(demonstrations.lengths):  # full, HDF5 may kill the process
            raise OSError(errno.ENOSPC, FULL)
        with _datasets_in(aside), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of authors and links, which a local dataset needs not
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
    """A folder that takes no more is a mistake of the user's."""
    try:
        yield
    except (OSError, RuntimeError, ValueError) as problem:  # HDF5 has all of them for a full disk
        full = FULL in str(problem)
        if not full and not isinstance(problem, OSError):
            raise
        why = FULL if full else problem
        raise Mistake(f"{place} cannot be written ({why}): make room, or set {PLACE} to another folder") from problem


@contextmanager
def _building(root: Path) -> Iterator[Path]:
    """A folder that Minari does not look into; what a killed process left there is gone."""
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
    """Lets Minari keep its datasets elsewhere, for a while."""
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
            with suppress(OSError):  # a folder that others only read has none, and costs a minute each time
                _write_cache(folder(name), cached)
        return cached


def metadata(name: str) -> dict[str, Any]:
    """What a dataset says of itself."""
    with _damage_explained(name):
        return dict(library().load_dataset(name).storage.metadata)


@contextmanager
def _damage_explained(name: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, KeyError) as problem:
        raise Mistake(f"the dataset {name} is damaged ({problem}): delete {folder(name)} and make it again") from None


def local_datasets() -> list[tuple[str, int, int]]:
    """Name, episodes and transitions of every dataset on this machine; without Minari there is none."""
    if find_spec("minari") is None:
        return []
    found = library().list_local_datasets()
    return [(name, int(about["total_episodes"]), int(about["total_steps"])) for name, about in sorted(found.items())]


def _read_episodes(name: str) -> Demonstrations:
    dataset = library().load_dataset(name)
    about = dataset.storage.get_episode_metadata(range(dataset.total_episodes))
    parts = []
    for episode, found in zip(dataset.iterate_episodes(), about, strict=True):
        if not isinstance(episode.observations, dict):
            raise Mistake(f"the observations of {name} must be named parts, as panda-gym gives them")
        rewards, seed = np.asarray(episode.rewards, np.float64), found.get("seed", -1)
        one = np.array([len(rewards)]), np.array([seed])
        parts.append(Demonstrations(episode.observations, np.asarray(episode.actions), rewards, *one))
    return Demonstrations.join(parts)


def _state(place: Path) -> list[int]:
    """Tells a cache of other data from the cache of these."""
    found = (place / "data" / HDF5).stat()
    return [found.st_size, found.st_mtime_ns]


def _write_cache(place: Path, demonstrations: Demonstrations) -> None:
    observations: dict[str, Any] = {f"{SEEN}{key}": array for key, array in demonstrations.observations.items()}
    arrays: dict[str, Any] = {key: getattr(demonstrations, key) for key in ARRAYS}
    aside = place / "data" / f"{CACHE}.{os.getpid()}.part"  # several may read for the first time at once
    with aside.open("wb") as file:
        np.savez(file, **arrays, **observations, state=np.array(_state(place)))
    aside.replace(place / "data" / CACHE)


def _read_cache(place: Path) -> Demonstrations | None:
    """The cached arrays, if they are those of the data; a damaged cache is none."""
    try:
        with (place / "data" / CACHE).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            if arrays["state"].tolist() != _state(place):
                return None
            seen = {key.removeprefix(SEEN): arrays[key] for key in arrays if key.startswith(SEEN)}
            return Demonstrations(seen, *(arrays[key] for key in ARRAYS))
    except (OSError, ValueError, KeyError, BadZipFile):
        return None
