"""Reads columns of numbers from Arrow and Parquet files of strangers; sizes are checked before anything is read."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.data.files import check_own_file, damaged, unreadable
from holdfast.data.raw_episodes import check_size
from holdfast.data.spaces import DEEPEST
from holdfast.errors import Mistake

ROWS = 2**31  # most rows of a file
NUMBER = 8  # bytes: the largest kind of number
RATIO = 2**15  # the most bytes that Parquet's compressions make of one, in practice
MAGIC = b"ARROW1\0\0"  # the first bytes of an Arrow file
HEADER, COMPRESSION = 2, 3  # numbers of the fields in Arrow's tables Message and RecordBatch


def library() -> Any:
    """The module pyarrow."""
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise Mistake("pyarrow is not installed: pip install 'holdfast[datasets]'") from None
    return pyarrow


@contextmanager
def _damage_explained(path: Path) -> Iterator[Any]:
    pyarrow = library()
    try:
        yield pyarrow
    except OSError as problem:
        raise unreadable(problem, path) if problem.errno else _damaged(path, problem) from problem
    except (pyarrow.ArrowException, ValueError, KeyError, TypeError, OverflowError) as problem:
        if isinstance(problem, MemoryError):  # Arrow's own is one
            raise
        raise _damaged(path, problem) from problem


def _damaged(path: Path, problem: Exception) -> Mistake:
    """The user's message about a file that Arrow cannot read; Arrow explains itself in many lines."""
    return damaged(path, " ".join(str(problem).split())[:200])


def read_ipc(path: Path) -> Any:
    """The table in an Arrow file, validated.

    An Arrow file is a stream of messages between its magic bytes and its footer. The stream is read, message by
    message, because a compressed one could take any amount of memory: it is refused, and Minari writes none.
    """
    check_size(path.stat().st_size, path)
    with _damage_explained(path) as pyarrow, pyarrow.memory_map(str(path)) as source:
        if source.read(len(MAGIC)) != MAGIC:
            raise damaged(path, "it is not an Arrow file")
        messages = list(_until_the_end(pyarrow.ipc.MessageReader.open_stream(source)))
        if not messages:
            raise damaged(path, "it has no columns")
        schema = pyarrow.ipc.read_schema(messages[0])
        batches = []
        for message in messages[1:]:
            if message.type != "record batch" or is_compressed(message.metadata.to_pybytes()):
                raise Mistake(f"{path} is compressed or has dictionaries: write it as Minari does, without them")
            batch = pyarrow.ipc.read_record_batch(message, schema)
            batch.validate(full=True)  # offsets that point out of their buffers
            batches.append(batch)
        return pyarrow.Table.from_batches(batches, schema).combine_chunks()


def _until_the_end(messages: Any) -> Iterator[Any]:
    while True:
        try:
            yield messages.read_next_message()
        except StopIteration:
            return


def is_compressed(metadata: bytes) -> bool:
    """Whether the flatbuffer that describes a record batch names a compression; see Arrow's Message.fbs."""
    try:
        message = struct.unpack_from("<I", metadata)[0]
        header = _field(metadata, message, HEADER)
        if header is None:
            return False
        batch = header + struct.unpack_from("<I", metadata, header)[0]
        return _field(metadata, batch, COMPRESSION) is not None
    except struct.error:
        return True  # damaged: nothing of it is read


def _field(buffer: bytes, table: int, number: int) -> int | None:
    """Where a field of a flatbuffer's table lies, or None if it is not set."""
    fields = table - struct.unpack_from("<i", buffer, table)[0]
    size = struct.unpack_from("<H", buffer, fields)[0]
    place = 4 + 2 * number  # after the sizes of the list of fields and of the table
    offset = struct.unpack_from("<H", buffer, fields + place)[0] if place < size else 0
    return table + offset if offset else None


def read_tables(files: list[Path], read: Callable[[Path], Any]) -> Any:
    """The rows of all files as one table."""
    for file in files:
        check_own_file(file)
    with _damage_explained(files[0]) as pyarrow:
        return pyarrow.concat_tables([read(file) for file in files]).combine_chunks()


def read_parquet(path: Path, columns: list[str] | None = None) -> Any:
    """The columns of a Parquet file, validated."""
    with _damage_explained(path) as pyarrow, pyarrow.parquet.ParquetFile(path, memory_map=True) as file:
        about = file.metadata
        groups = [about.row_group(index) for index in range(about.num_row_groups)]
        size = sum(max(group.total_byte_size, 0) for group in groups)
        if not 0 <= about.num_rows <= ROWS or size > path.stat().st_size * RATIO:
            raise damaged(path, "it is shorter than its header says")
        # What a group says about its columns is not asked: where that is damaged, pyarrow ends the process.
        width = about.num_columns if columns is None else len(columns)  # at least one number each
        check_size(max(size, NUMBER * width * about.num_rows), path)  # repeated numbers take no space in the file
        table = file.read(columns=columns, use_threads=False)
        table.validate(full=True)
        return table.combine_chunks()


def numbers(column: Any, place: str) -> np.ndarray:
    """A column of numbers or of lists of equal length as an array, (N,) or (N, k, ...)."""
    pyarrow = library()
    if isinstance(column, pyarrow.ChunkedArray):
        column = pyarrow.concat_arrays(column.chunks) if column.num_chunks else pyarrow.array([], column.type)
    return _numbers(column, place, 0)


def _numbers(array: Any, place: str, depth: int) -> np.ndarray:
    types = library().types
    kind = array.type
    if array.null_count:
        raise Mistake(f"{place} has missing values: repair or leave out these steps")
    if types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind):
        if depth > DEEPEST:
            raise Mistake(f"{place} is nested too deeply")
        inner = _numbers(array.flatten(), place, depth + 1)
        width = len(inner) // max(len(array), 1)
        same = types.is_fixed_size_list(kind) or not np.any(np.diff(array.offsets.to_numpy()) != width)
        if not same:
            raise Mistake(f"{place} must have the same number of entries at every step")
        return inner.reshape(len(array), width, *inner.shape[1:])
    if types.is_boolean(kind):
        return array.to_numpy(zero_copy_only=False).astype(bool)
    if not (types.is_integer(kind) or types.is_floating(kind)):
        raise Mistake(f"{place} must be numbers, got {str(kind)[:80]}")
    return np.array(array.to_numpy(zero_copy_only=False))  # a copy, since the file may change
