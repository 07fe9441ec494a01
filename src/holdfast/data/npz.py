"""Reads NumPy `.npz` files from strangers: no pickle, and sizes are checked before anything is allocated."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from math import prod
from pathlib import Path
from tokenize import TokenError
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np
from numpy.lib import format as npy

from holdfast.data.files import damaged, unreadable
from holdfast.data.observation_parts import note_text
from holdfast.data.raw_episodes import RawEpisodes, check_size
from holdfast.data.transitions import split, wanted
from holdfast.errors import Mistake

DEFLATE = 1_032  # the most bytes that deflate can make of one
HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
OBSERVED = "observations/"  # parts of a Dict
DAMAGES = (BadZipFile, zlib.error, TokenError, ValueError, EOFError, KeyError, NotImplementedError, RuntimeError)
MEMBERS = 10_000  # most arrays in a file


def read_npz(path: Path) -> RawEpisodes:
    """The episodes in a file with observations, actions, rewards, terminals and timeouts."""
    try:
        with path.open("rb") as file, ZipFile(file) as archive:
            size = file.seek(0, 2)
            members = [member for member in archive.infolist() if wanted(_name(member))]
            _check(members, size, path)
            return _split_without_text({_name(member): _read(archive, member, path) for member in members}, path)
    except OSError as problem:
        raise unreadable(problem, path) from problem
    except DAMAGES as problem:
        raise damaged(path, str(problem)[:200]) from problem  # NumPy repeats the header, however long it is


def _split_without_text(arrays: Mapping[str, np.ndarray | None], path: Path) -> RawEpisodes:
    """The episodes in these arrays; those that are text (None) are left out."""
    episodes = split({name: array for name, array in arrays.items() if array is not None}, path)
    for name, array in arrays.items():
        if array is None:
            note_text(name.removeprefix(OBSERVED).replace("/", "."), episodes.notes)
    return episodes


def _name(member: ZipInfo) -> str:
    return member.filename.removesuffix(".npy")


def _check(members: list[ZipInfo], size: int, path: Path) -> None:
    """Raises if what the file says about its arrays cannot be true, or is too much."""
    if len(members) > MEMBERS or len({member.filename for member in members}) != len(members):
        raise Mistake(f"{path} has too many arrays, or several with one name")
    if sum(member.compress_size for member in members) > size:
        raise damaged(path, "its arrays overlap")
    for member in members:
        if member.compress_type not in (ZIP_STORED, ZIP_DEFLATED) or member.flag_bits & 1:
            raise Mistake(f"{path} is compressed or encrypted in a way that NumPy does not write")
        if member.file_size > member.compress_size * DEFLATE:
            raise damaged(path, f"{_name(member)} is shorter than its header says")
    check_size(sum(member.file_size for member in members), path)


def _read(archive: ZipFile, member: ZipInfo, path: Path) -> np.ndarray | None:
    """The numbers of an array; None for a part of the observations that is text."""
    with archive.open(member) as stream:
        version = npy.read_magic(stream)
        if version not in HEADERS:
            raise damaged(path, f"{_name(member)} has an unknown format")
        shape, fortran, dtype = HEADERS[version](stream)
        if dtype.kind == "U" and _name(member).startswith(OBSERVED):
            return None
        if dtype.hasobject or dtype.kind not in "biuf":
            raise Mistake(f"{_name(member)} in {path} must be an array of numbers, got {dtype}: objects are not read")
        count = prod(shape)
        if min(shape, default=1) < 0 or count * dtype.itemsize > member.file_size:
            raise damaged(path, f"{_name(member)} is shorter than its header says")
        content = _exactly(stream, count * dtype.itemsize)
        if len(content) != count * dtype.itemsize or stream.read(1):
            raise damaged(path, f"{_name(member)} does not have the length that its header says")
    array = np.frombuffer(content, dtype, count).reshape(shape, order="F" if fortran else "C")
    return array.astype(dtype.newbyteorder("="), order="C", copy=False)


def _exactly(stream: Any, count: int) -> bytearray:
    """At most so many bytes; read in pieces, so that a forged length allocates nothing."""
    content = bytearray()
    while len(content) < count and (piece := stream.read(min(count - len(content), 2**24))):
        content += piece
    return content
