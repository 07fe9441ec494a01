"""Reads columns of numbers from Arrow and Parquet files of strangers; sizes are checked before anything is read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.data.files import damaged, unreadable
from holdfast.data.raw_episodes import check_size
from holdfast.data.spaces import DEEPEST
from holdfast.errors import Mistake

ROWS = 2**31  # most rows of a file
COMPRESSION = 2**15  # the most bytes that Parquet's encodings make of one, in practice


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
        raise (unreadable if problem.errno else damaged_file)(problem, path) from problem
    except (pyarrow.ArrowException, ValueError, KeyError, TypeError, OverflowError, MemoryError) as problem:
        raise damaged(path, problem) from problem


def damaged_file(problem: Exception, path: Path) -> Mistake:
    """The user's message about a file that Arrow cannot read."""
    return damaged(path, str(problem).splitlines()[0][:200])


def read_ipc(path: Path) -> Any:
    """The table in an Arrow file, validated."""
    with _damage_explained(path) as pyarrow, pyarrow.memory_map(str(path)) as source:
        reader = pyarrow.ipc.open_file(source)
        batches = []
        for index in range(reader.num_record_batches):
            batch = reader.get_batch(index)
            batch.validate(full=True)  # offsets that point out of their buffers
            batches.append(batch)
            check_size(sum(batch.nbytes for batch in batches), path)
        return pyarrow.Table.from_batches(batches, reader.schema).combine_chunks()


def read_parquet(path: Path, columns: list[str] | None = None) -> Any:
    """The columns of a Parquet file, validated."""
    with _damage_explained(path) as pyarrow, pyarrow.parquet.ParquetFile(path, memory_map=True) as file:
        about = file.metadata
        groups = [about.row_group(index) for index in range(about.num_row_groups)]
        size = sum(max(group.total_byte_size, 0) for group in groups)
        if not 0 <= about.num_rows <= ROWS or size > path.stat().st_size * COMPRESSION:
            raise damaged(path, "it is shorter than its header says")
        check_size(size, path)
        table = file.read(columns=columns, use_threads=False)
        table.validate(full=True)
        return table.combine_chunks()


def numbers(column: Any, place: str) -> np.ndarray:
    """A column of numbers or of lists of equal length as an array, (N,) or (N, k, ...)."""
    pyarrow = library()
    array = column.combine_chunks() if isinstance(column, pyarrow.ChunkedArray) else column
    if isinstance(array, pyarrow.ChunkedArray):
        array = pyarrow.concat_arrays(array.chunks) if array.num_chunks else pyarrow.array([], array.type)
    return _numbers(array, place, 0)


def _numbers(array: Any, place: str, depth: int) -> np.ndarray:
    pyarrow = library()
    kind = array.type
    if array.null_count:
        raise Mistake(f"{place} has missing values: repair or leave out these steps")
    if pyarrow.types.is_fixed_size_list(kind) or pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind):
        if depth > DEEPEST:
            raise Mistake(f"{place} is nested too deeply")
        inner = _numbers(array.flatten(), place, depth + 1)
        width = len(inner) // max(len(array), 1)
        lengths = {width}
        if not pyarrow.types.is_fixed_size_list(kind):
            lengths = set(np.diff(array.offsets.to_numpy()).tolist())
        if len(lengths) > 1 or width * len(array) != len(inner):
            raise Mistake(f"{place} must have the same number of entries at every step")
        return inner.reshape(len(array), width, *inner.shape[1:])
    if pyarrow.types.is_boolean(kind):
        return array.to_numpy(zero_copy_only=False).astype(bool)
    if not (pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind)):
        raise Mistake(f"{place} must be numbers, got {str(kind)[:80]}")
    return np.array(array.to_numpy(zero_copy_only=False))  # a copy, since the file may change
