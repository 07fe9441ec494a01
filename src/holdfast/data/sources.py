"""Recognises what a dataset is (Minari, D4RL's HDF5, NumPy, LeRobot, episodes from Python) and reads its episodes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from holdfast.data.episode_list import read_episodes
from holdfast.data.files import check_regular, unreadable
from holdfast.data.hdf5_reading import read_d4rl
from holdfast.data.lerobot import is_lerobot, read_lerobot
from holdfast.data.memory import bounded_memory
from holdfast.data.minari_reading import ID, folder_of, is_minari, read_minari
from holdfast.data.npz import read_npz
from holdfast.data.raw_episodes import RawEpisodes
from holdfast.data.validation import shown
from holdfast.errors import Mistake

Where = str | Path | Iterable[Any]
HDF5, ZIP = b"\x89HDF\r\n\x1a\n", b"PK"  # the first bytes of such files
READ = "a Minari dataset, an HDF5 file in D4RL's layout, a NumPy .npz file or a LeRobot folder"


def read_source(where: Where) -> RawEpisodes:
    """The episodes as they were recorded; numbers are not checked, so that `doctor` can report what is wrong."""
    if not isinstance(where, str | Path):
        if not isinstance(where, Iterable) or isinstance(where, bytes | dict):
            raise Mistake(f"data must be {READ}, or episodes from Python, got {shown(where)}")
        return read_episodes(where)
    try:
        with bounded_memory():
            return _read_path(where)
    except MemoryError as problem:
        raise Mistake(f"{where} needs more memory than this machine can give it: split it") from problem


def _read_path(where: str | Path) -> RawEpisodes:
    path = Path(where)
    try:
        if path.is_dir():
            return _read_folder(path)
        if path.exists():
            return _read_file(path)
        if os.path.lexists(path):
            raise Mistake(f"{path} is a link that leads nowhere: give the data itself")
    except OSError as problem:
        raise unreadable(problem, path) from problem
    folder = folder_of(str(where))
    if folder is not None:
        return read_minari(folder)
    download = f": minari download {where} fetches one" if ID.fullmatch(str(where)) else ""
    raise Mistake(f"there is no file or folder {shown(str(where))}, and no Minari dataset of that name{download}")


def _read_folder(path: Path) -> RawEpisodes:
    if is_lerobot(path):
        return read_lerobot(path)
    if is_minari(path):
        return read_minari(path)
    raise Mistake(f"the folder {path} is neither a Minari dataset (data/metadata.json) nor LeRobot's (meta/info.json)")


def _read_file(path: Path) -> RawEpisodes:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # a pipe would wait for a writer
        check_regular(file.fileno(), path)
        start = file.read(len(HDF5))
    if start == HDF5:
        return read_d4rl(path)
    if start.startswith(ZIP):
        return read_npz(path)
    raise Mistake(f"{path} is not a dataset that can be read: it must be {READ}")
