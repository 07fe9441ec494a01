"""Reads LeRobot datasets (versions 2 and 3): the columns of numbers in their Parquet files, no videos."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from holdfast.data.arrow_reading import numbers, read_parquet
from holdfast.data.files import check_own_file, damaged, decoded, read_bytes
from holdfast.data.raw_episodes import RawEpisodes, check_size, joined
from holdfast.data.validation import shown
from holdfast.errors import Mistake

ABOUT = 2**24  # largest metadata file, in bytes
FILES = 10**6
SEEN = "observation."
NUMBERED = ("episode_index", "frame_index")
REWARD = "next.reward"


def is_lerobot(folder: Path) -> bool:
    """Whether a folder is a LeRobot dataset."""
    return (folder / "meta" / "info.json").is_file()


def read_lerobot(folder: Path) -> RawEpisodes:
    """All episodes; observations are `observation.state`, or all vectors `observation.*` by name."""
    features = _features(folder)
    notes: list[str] = []
    seen = _observations(features, notes)
    if "action" not in features:
        raise Mistake(f"the LeRobot dataset {folder} has no feature 'action'")
    wanted = [*seen, "action", *NUMBERED, *([REWARD] if REWARD in features else [])]
    columns = _columns(folder, wanted)
    order = np.lexsort((columns["frame_index"], columns["episode_index"]))
    columns = {name: array[order] for name, array in columns.items()}
    lengths = _lengths(columns["episode_index"], columns["frame_index"], folder)
    observations: Any = {name: columns[name] for name in seen}
    rewards = columns.get(REWARD)
    if rewards is not None and rewards.ndim == 2 and rewards.shape[1] == 1:
        rewards = rewards[:, 0]
    return RawEpisodes(
        observations=observations[seen[0]] if len(seen) == 1 else observations,
        actions=columns["action"],
        rewards=rewards,
        lengths=lengths,
        notes=notes,
    )


def _features(folder: Path) -> dict[str, Any]:
    path = folder / "meta" / "info.json"
    check_own_file(path)
    about = decoded(read_bytes(path, ABOUT), path)
    features = about.get("features") if isinstance(about, dict) else None
    if not isinstance(features, dict) or not all(isinstance(feature, dict) for feature in features.values()):
        raise damaged(path, "it has no features")
    return features


def _observations(features: dict[str, Any], notes: list[str]) -> list[str]:
    """The names of the features that are observations and numbers."""
    seen = []
    for name in sorted(name for name in features if name.startswith(SEEN)):
        dtype = features[name].get("dtype")
        if dtype in ("image", "video", "string"):
            notes.append(f"The feature {name} was left out: {shown(dtype)} features are not read.")
        else:
            seen.append(name)
    if not seen:
        raise Mistake("the LeRobot dataset has no observations of numbers, such as observation.state")
    return seen


def _columns(folder: Path, wanted: list[str]) -> dict[str, np.ndarray]:
    files = _files(folder)
    tables, size = [], 0
    for file in files:
        table = read_parquet(file, wanted)
        missing = [name for name in wanted if name not in table.column_names]
        if missing:
            raise Mistake(f"{file} has no column {missing[0]!r}, which meta/info.json names")
        size += table.nbytes
        check_size(size, folder)
        tables.append({name: numbers(table.column(name), name) for name in wanted})
    columns = joined(tables)
    for name in NUMBERED:
        if columns[name].ndim == 2 and columns[name].shape[1] == 1:
            columns[name] = columns[name][:, 0]
        if columns[name].ndim != 1 or columns[name].dtype.kind not in "iu":
            raise Mistake(f"the column {name} of {folder} must be one integer per step")
    return columns


def _files(folder: Path) -> list[Path]:
    """The Parquet files of the data, none of them a link."""
    files = sorted((folder / "data").glob("**/*.parquet"))
    if not files:
        raise Mistake(f"the LeRobot dataset {folder} has no Parquet files in its folder data: download them too")
    if len(files) > FILES:
        raise Mistake(f"the LeRobot dataset {folder} has {len(files):,} files: at most {FILES:,} are read")
    root = folder.resolve()
    for file in files:
        check_own_file(file)
        if not file.resolve().is_relative_to(root):  # a folder above it is a link
            raise Mistake(f"{file} is not in the dataset's folder: put the file itself there")
    return files


def _lengths(episodes: np.ndarray, frames: np.ndarray, folder: Path) -> np.ndarray:
    """The steps of each episode; its frames must be counted from 0 without gaps."""
    if len(episodes) == 0:
        raise Mistake(f"the LeRobot dataset {folder} has no steps: at least one episode is needed")
    _, starts, lengths = np.unique(episodes, return_index=True, return_counts=True)
    expected = np.arange(len(frames)) - np.repeat(starts, lengths)
    if not np.array_equal(frames, expected):
        wrong = int(np.flatnonzero(frames != expected)[0])
        raise Mistake(f"episode {episodes[wrong]} of {folder} has frames that are missing or there twice")
    return lengths
