"""Minari datasets on this machine, in and out."""

import os
import shutil
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.errors import Mistake

ARRAYS = ("actions", "rewards", "lengths", "seeds")
CACHE = "holdfast.npz"  # the same data in a few large arrays, since reading thousands of small ones takes a minute


@dataclass(frozen=True)
class Demonstrations:
    """Recorded episodes as their environment gave them, laid end to end."""

    observations: Mapping[str, np.ndarray]  # by name, (sum of T + 1, n): the one after the last action included
    actions: np.ndarray  # (sum of T, A)
    rewards: np.ndarray  # (sum of T,)
    lengths: np.ndarray  # (E,) T of each episode
    seeds: np.ndarray  # (E,) what each episode was started with

    def __post_init__(self) -> None:
        steps, episodes = int(self.lengths.sum()), len(self.lengths)
        rows = {len(self.actions), len(self.rewards)}
        if rows != {steps} or {len(array) for array in self.observations.values()} != {steps + episodes}:
            raise Mistake("the arrays of a recording do not have as many rows as its episodes have steps")

    def first(self, transitions: int) -> "Demonstrations":
        """The first episodes, until there are that many transitions."""
        count = int(np.searchsorted(np.cumsum(self.lengths), transitions)) + 1
        if count > len(self.lengths):
            raise Mistake(f"the recording has {self.lengths.sum()} transitions, not {transitions}")
        steps = int(self.lengths[:count].sum())
        observations = {name: array[: steps + count] for name, array in self.observations.items()}
        return Demonstrations(
            observations, self.actions[:steps], self.rewards[:steps], self.lengths[:count], self.seeds[:count]
        )

    @classmethod
    def join(cls, parts: list["Demonstrations"]) -> "Demonstrations":
        """All episodes of these, in order."""
        names = parts[0].observations
        return cls(
            {name: np.concatenate([part.observations[name] for part in parts]) for name in names},
            *(
                np.concatenate([getattr(part, name) for part in parts])
                for name in ("actions", "rewards", "lengths", "seeds")
            ),
        )


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

    return get_dataset_path(name)


def exists(name: str) -> bool:
    """Whether there is such a dataset on this machine."""
    return (folder(name) / "data" / "metadata.json").exists()


def write(
    name: str, demonstrations: Demonstrations, environment: Any, about: Mapping[str, Any], extra: Mapping[str, Any]
) -> None:
    """Makes a dataset that plain `minari.load_dataset` opens; it is there as a whole or not at all."""
    minari, place = library(), folder(name)
    from minari.data_collector import EpisodeBuffer

    ends = np.cumsum(demonstrations.lengths)
    buffers = []
    for number, (length, end) in enumerate(zip(demonstrations.lengths, ends, strict=True)):
        rows, seen = slice(end - length, end), slice(end - length + number, end + number + 1)
        last = np.arange(length) == length - 1
        buffers.append(
            EpisodeBuffer(
                id=number,
                seed=int(demonstrations.seeds[number]),
                observations={key: array[seen] for key, array in demonstrations.observations.items()},
                actions=demonstrations.actions[rows],
                rewards=list(demonstrations.rewards[rows]),
                terminations=list(last),  # only episodes that ended by themselves are recorded
                truncations=[False] * int(length),
                infos=None,
            )
        )
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent.parent, prefix=".building-") as aside, warnings.catch_warnings():
        before = os.environ.get("MINARI_DATASETS_PATH")
        os.environ["MINARI_DATASETS_PATH"] = aside
        try:
            warnings.simplefilter("ignore", UserWarning)  # of authors and links, which a local dataset needs not
            made = minari.create_dataset_from_buffers(name, buffers, env=environment, data_format="hdf5", **about)
            made.storage.update_metadata(dict(extra))
            _write_cache(Path(aside) / name, demonstrations)
        finally:
            os.environ.pop("MINARI_DATASETS_PATH")
            if before is not None:
                os.environ["MINARI_DATASETS_PATH"] = before
        shutil.rmtree(place, ignore_errors=True)
        (Path(aside) / name).rename(place)


def read(name: str) -> Demonstrations:
    """A dataset's episodes."""
    if not exists(name):
        raise Mistake(f"there is no Minari dataset {name} on this machine")
    cache = folder(name) / "data" / CACHE
    if cache.exists():
        with np.load(cache, allow_pickle=False) as arrays:
            if int(arrays["size"]) == _size(folder(name)):
                return _from_arrays(arrays)
    demonstrations = _read_episodes(name)
    _write_cache(folder(name), demonstrations)
    return demonstrations


def metadata(name: str) -> dict[str, Any]:
    """What a dataset says of itself."""
    return dict(library().load_dataset(name).storage.metadata)


def local_datasets() -> list[tuple[str, int, int]]:
    """Name, episodes and transitions of every dataset on this machine."""
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


def _size(place: Path) -> int:
    """Tells a cache of other data from the cache of these."""
    return (place / "data" / "main_data.hdf5").stat().st_size


def _write_cache(place: Path, demonstrations: Demonstrations) -> None:
    observations: dict[str, Any] = {f"observations/{key}": array for key, array in demonstrations.observations.items()}
    arrays: dict[str, Any] = {key: getattr(demonstrations, key) for key in ARRAYS}
    aside = place / "data" / f"{CACHE}.part"
    with aside.open("wb") as file:
        np.savez(file, **arrays, **observations, size=np.array(_size(place)))
    aside.replace(place / "data" / CACHE)


def _from_arrays(arrays: Any) -> Demonstrations:
    observations = {key.removeprefix("observations/"): arrays[key] for key in arrays if key.startswith("observations/")}
    return Demonstrations(observations, *(arrays[key] for key in ARRAYS))
