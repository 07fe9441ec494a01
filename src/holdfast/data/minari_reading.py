"""Reads Minari datasets of any spaces from their files, without running anything that they name."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.data import spaces
from holdfast.data.arrow_reading import numbers, read_ipc, read_parquet, read_tables
from holdfast.data.files import check_own_file, damaged, decoded, read_bytes
from holdfast.data.hdf5_reading import Hdf5, opened
from holdfast.data.images import decode_images
from holdfast.data.minari import HDF5, PLACE
from holdfast.data.raw_episodes import RawEpisodes, check_size, joined, mapped
from holdfast.data.spaces import Space, Tree
from holdfast.data.validation import shown
from holdfast.errors import Mistake

METADATA = 2**24  # largest metadata file, in bytes
EPISODES = 10**7
ID = re.compile(r"([-_\w]+/)*[-_\w]+")  # of a Minari dataset
ENVIRONMENT = re.compile(r"([\w-]+/)?[\w.-]+")  # of a Gymnasium environment; "module:id" would import the module
IMAGE = 32  # pixels: Minari stores larger images as JPEG


def folder_of(name: str) -> Path | None:
    """The folder of the Minari dataset with this id, or None if it is not on this machine."""
    if not ID.fullmatch(name):
        return None
    root = Path(os.environ.get(PLACE) or Path.home() / ".minari" / "datasets")
    place = root / name
    return place if (place / "data" / "metadata.json").is_file() else None


def is_minari(folder: Path) -> bool:
    """Whether a folder is a Minari dataset, or the folder `data` in one."""
    return any((place / "metadata.json").is_file() for place in (folder / "data", folder))


def read_minari(folder: Path) -> RawEpisodes:
    """All episodes of the dataset in this folder."""
    place = folder / "data" if (folder / "data" / "metadata.json").is_file() else folder
    about = _metadata(place)
    notes: list[str] = []
    observation_space, action_space = (_space(about, name) for name in ("observation_space", "action_space"))
    count = about.get("total_episodes")
    if not isinstance(count, int) or not 0 <= count <= EPISODES:
        raise damaged(place / "metadata.json", f"total_episodes is {shown(count)}")
    if count == 0:
        raise Mistake(f"the Minari dataset {folder} has no episodes: at least one is needed")
    reader = _Reader(place, observation_space, action_space, bool(about.get("jpeg_encoding", True)))
    kind = about.get("data_format", "hdf5")
    if kind == "hdf5":
        episodes = reader.hdf5(count)
    elif kind in ("arrow", "parquet"):
        episodes = reader.arrow(count, kind)
    else:
        raise Mistake(f"the Minari dataset {folder} has the format {shown(kind)}: hdf5, arrow and parquet are read")
    observations, actions, rewards, seeds = zip(*episodes, strict=True)
    return RawEpisodes(
        observations=joined(list(observations)),
        actions=joined(list(actions)),
        rewards=joined(list(rewards)),
        lengths=np.array([len(part) for part in rewards]),
        observation_space=observation_space,
        action_space=action_space,
        environment=_environment(about.get("env_spec"), notes),
        seeds=seeds,
        notes=notes,
    )


def _metadata(place: Path) -> dict[str, Any]:
    path = place / "metadata.json"
    check_own_file(path)
    about = decoded(read_bytes(path, METADATA), path)
    if not isinstance(about, dict):
        raise damaged(path, "it is not an object")
    return about


def _space(about: dict[str, Any], name: str) -> Space:
    text = about.get(name)
    if not isinstance(text, str):
        raise Mistake(f"the Minari dataset has no {name} in its metadata: write it with a newer version of Minari")
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise Mistake(f"the {name} in the metadata is damaged ({problem})") from problem
    return spaces.from_json(record)


def _environment(text: Any, notes: list[str]) -> str | None:
    """The id of the environment; its other settings are not used, since a stranger may have written them."""
    if not isinstance(text, str):
        return None
    try:
        spec = json.loads(text)
    except (ValueError, RecursionError):
        spec = None
    name = spec.get("id") if isinstance(spec, dict) else None
    if not isinstance(name, str) or not ENVIRONMENT.fullmatch(name):
        notes.append(f"The name of the environment, {shown(name)}, is not used: give it with --env if you trust it.")
        return None
    if spec.get("kwargs"):
        notes.append(f"The data was recorded in {name} with settings of its own, which are not used: see --env.")
    return name


Read = tuple[Tree, Tree, np.ndarray, int | None]  # observations, actions, rewards and seed of one episode


class _Reader:
    """The episodes in a folder of files."""

    def __init__(self, place: Path, observation_space: Space, action_space: Space, jpeg: bool) -> None:
        self.place = place
        self.observation_space = observation_space
        self.action_space = action_space
        self.jpeg = jpeg
        self.total = 0

    def hdf5(self, count: int) -> list[Read]:
        """The episodes in the file main_data.hdf5."""
        check_own_file(self.place / HDF5)
        with opened(self.place / HDF5) as file:
            return [self._hdf5_episode(file, number) for number in range(count)]

    def _hdf5_episode(self, file: Hdf5, number: int) -> Read:
        group = file.child(file.file, f"episode_{number}")
        if not file.is_group(group):
            raise damaged(file.path, f"episode_{number} is missing")
        parts = [self._part(file, group, name) for name in ("observations", "actions", "rewards")]
        observations = self._hdf5_tree(file, parts[0], self.observation_space)
        actions = self._hdf5_tree(file, parts[1], self.action_space)
        seed = group.attrs.get("seed")
        return self._episode(number, observations, actions, file.array(parts[2]), seed)

    def _part(self, file: Hdf5, group: Any, name: str) -> Any:
        node = file.child(group, name)
        if node is None:
            raise damaged(file.path, f"{group.name} has no {name}")
        return node

    def _hdf5_tree(self, file: Hdf5, node: Any, space: Space) -> Tree:
        if isinstance(space, spaces.Dict | spaces.Tuple):
            if not file.is_group(node):
                raise damaged(file.path, f"{node.name} must be a group")
            parts = {name: self._part(file, node, key) for key, name in _keys(space, "_index_{}")}
            return _shaped(space, {name: self._hdf5_tree(file, parts[name], _inner(space, name)) for name in parts})
        if self._is_encoded(space):
            return self._images(file.bytes_of_rows(node), len(node), space)
        return file.array(node)

    def arrow(self, count: int, kind: str) -> list[Read]:
        """The episodes in files of one folder each."""
        return [self._arrow_episode(number, kind) for number in range(count)]

    def _arrow_episode(self, number: int, kind: str) -> Read:
        folder = self.place / str(number)
        files = sorted(folder.glob(f"*.{kind}")) if folder.is_dir() and not folder.is_symlink() else []
        if not files:
            raise Mistake(f"{folder} has no file of the format {kind}: restore it from a backup")
        table = read_tables(files, read_ipc if kind == "arrow" else read_parquet)
        missing = [name for name in ("observations", "actions", "rewards") if name not in table.column_names]
        if missing or len(table) == 0:
            raise damaged(files[0], f"it has no {missing[0]}" if missing else "it is empty")
        self.total += table.nbytes
        check_size(self.total, self.place)
        columns = [table.column(name).combine_chunks() for name in ("observations", "actions", "rewards")]
        observations = self._arrow_tree(columns[0], self.observation_space, "observations")
        actions = self._arrow_tree(columns[1][: len(table) - 1], self.action_space, "actions")
        rewards = numbers(columns[2][: len(table) - 1], "rewards")
        about = folder / "metadata.json"
        seed = _metadata(folder).get("seed") if about.exists() else None
        return self._episode(number, observations, actions, rewards, seed)

    def _arrow_tree(self, column: Any, space: Space, place: str) -> Tree:
        if isinstance(space, spaces.Dict | spaces.Tuple):
            if not hasattr(column, "field") or column.null_count:
                raise Mistake(f"{place} in {self.place} must have the parts that the metadata say")
            parts = {
                name: self._arrow_tree(_field(column, key, place), _inner(space, name), f"{place}.{name}")
                for key, name in _keys(space, "{}")
            }
            return _shaped(space, parts)
        if self._is_encoded(space):
            rows = column.to_pylist()
            if not all(isinstance(row, bytes) for row in rows):
                raise Mistake(f"{place} in {self.place} must be encoded images")
            return self._images(rows, len(rows), space)
        values = numbers(column, place)
        shape = _shape(space)
        if prod(values.shape[1:]) != prod(shape):
            raise Mistake(f"{place} in {self.place} must have shape {shape}, got {values.shape[1:]}")
        return values.reshape(len(values), *shape)

    def _is_encoded(self, space: Space) -> bool:
        if not (self.jpeg and isinstance(space, spaces.Box) and space.dtype == "uint8"):
            return False
        large = len(space.shape) in (2, 3) and min(space.shape[:2]) >= IMAGE
        return large and not np.any(space.low) and bool(np.all(space.high == 255))

    def _images(self, rows: Iterable[bytes], count: int, space: Space) -> np.ndarray:
        assert isinstance(space, spaces.Box)
        self.total += count * prod(space.shape)
        check_size(self.total, self.place)
        return decode_images(rows, count, space.shape, self.place)

    def _episode(self, number: int, observations: Tree, actions: Tree, rewards: np.ndarray, seed: Any) -> Read:
        steps = len(rewards)

        def before_each_action(array: np.ndarray) -> np.ndarray:
            if len(array) != steps + 1:
                raise Mistake(
                    f"episode {number} of {self.place} has {len(array)} observations for {steps} rewards: one more "
                    "is expected"
                )
            return array[:steps]

        def one_each(array: np.ndarray) -> np.ndarray:
            if len(array) != steps:
                raise Mistake(f"episode {number} of {self.place} has {len(array)} actions for {steps} rewards")
            return array

        known = isinstance(seed, int | np.integer) and 0 <= int(seed) < 2**63
        return (
            mapped(before_each_action, observations),
            mapped(one_each, actions),
            rewards,
            int(seed) if known else None,
        )


def _field(column: Any, key: str, place: str) -> Any:
    try:
        return column.field(key)
    except KeyError:
        raise Mistake(f"{place} has no part {key!r}") from None


def _keys(space: spaces.Dict | spaces.Tuple, numbered: str) -> list[tuple[str, Any]]:
    """What each part is called in a file, and its key."""
    if isinstance(space, spaces.Tuple):
        return [(numbered.format(index), index) for index in range(len(space.parts))]
    return [(name, name) for name, part in space.parts.items() if not isinstance(part, spaces.Text)]


def _inner(space: spaces.Dict | spaces.Tuple, key: Any) -> Space:
    return space.parts[key]


def _shaped(space: spaces.Dict | spaces.Tuple, parts: dict[Any, Tree]) -> Tree:
    return tuple(parts.values()) if isinstance(space, spaces.Tuple) else parts


def _shape(space: Space) -> tuple[int, ...]:
    if isinstance(space, spaces.Box):
        return space.shape
    return space.counts.shape if isinstance(space, spaces.MultiDiscrete) else ()
