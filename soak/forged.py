"""Data that claims what is not so: forged headers, links out of a file, and numbers that no task has."""

import io
import json
import os
import struct
import warnings
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow
import pyarrow.parquet

STEPS = 24
Arrays = dict[str, Any]
Forgery = Callable[[Path], Path]  # writes data into a folder and returns what is given as --data


def good() -> Arrays:
    """Two episodes that can be learned."""
    rng = np.random.default_rng(0)
    return {
        "observations": rng.normal(size=(STEPS, 3)).astype(np.float32),
        "actions": rng.uniform(-1, 1, (STEPS, 2)).astype(np.float32),
        "rewards": rng.random(STEPS),
        "terminals": np.zeros(STEPS, bool),
        "timeouts": np.arange(STEPS) % 12 == 11,
    }


# NumPy


def forged_npz(path: Path, shape: tuple[int, ...], size: int | None = None, dtype: str = "<f8") -> Path:
    """A file whose array claims this shape."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": dtype, "fortran_order": False, "shape": shape})
    return _zipped(path, header.getvalue() + bytes(size or 80))


def _zipped(path: Path, content: bytes, names: tuple[str, ...] = ("observations.npy", "actions.npy")) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of equal names
        for name in names:
            archive.writestr(name, content)
    return path


def _npy(header: str, version: int = 1) -> bytes:
    """A header of NumPy's that may say anything."""
    text = header.encode("latin-1")
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + bytes(80)


def _headers() -> dict[str, bytes]:
    said = "{{'descr': {}, 'fortran_order': {}, 'shape': {}, }}"
    return {
        "deep": _npy("(" * 5_000),
        "deep list": _npy(said.format("[" * 900 + "]" * 900, False, "(3,)")),
        "long": _npy("x" * 20_000),
        "claims 4 GiB of header": b"\x93NUMPY\x02\x00" + b"\xff" * 4 + bytes(80),
        "version 9": _npy(said.format("'<f8'", False, "(3,)"), 9),
        "calls": _npy("__import__('os').mkdir('called')"),
        "shape of text": _npy(said.format("'<f8'", False, "'(3,)'")),
        "shape of floats": _npy(said.format("'<f8'", False, "(1e300,)")),
        "huge integers": _npy(said.format("'<f8'", False, f"({'9' * 4_000},)")),
        "more digits than are read": _npy(said.format("'<f8'", False, f"({'9' * 5_000},)")),
        "zero bytes each": _npy(said.format("'|S0'", False, f"({2**62},)")),
        "void": _npy(said.format("'|V0'", False, f"({2**62},)")),
        "nested dtype": _npy(said.format("[('a', [('b', '<f8')])]", False, "(3,)")),
        "dtype of 2 GiB": _npy(said.format("'|S2147483647'", False, "(1,)")),
        "unknown dtype": _npy(said.format("'<q99'", False, "(3,)")),
        "order of text": _npy(said.format("'<f8'", "'F'", "(10,)")),
        "not text": b"\x93NUMPY\x01\x00\xff\x00" + b"\xff" * 400,
        "nothing": b"",
    }


def _forged_header(content: bytes) -> Forgery:
    return lambda folder: _zipped(folder / "data.npz", content)


def _forged_shape(shape: tuple[int, ...], dtype: str = "<f8") -> Forgery:
    return lambda folder: forged_npz(folder / "data.npz", shape, dtype=dtype)


def _members(*names: str) -> Forgery:
    content = io.BytesIO()
    np.save(content, np.zeros(4))
    return lambda folder: _zipped(folder / "data.npz", content.getvalue(), names)


def _zip_flags(folder: Path) -> Path:
    """An archive that says it is encrypted."""
    path = _members("observations.npy", "actions.npy")(folder)
    content = bytearray(path.read_bytes())
    at = content.rindex(b"PK\x01\x02")
    content[at + 8] |= 1
    path.write_bytes(content)
    return path


def _zip_sizes(folder: Path) -> Path:
    """An archive whose directory claims 4 GiB for a member."""
    path = _members("observations.npy", "actions.npy")(folder)
    content = bytearray(path.read_bytes())
    at = content.rindex(b"PK\x01\x02")
    content[at + 24 : at + 28] = b"\xfe\xff\xff\xff"
    path.write_bytes(content)
    return path


def _zip_method(method: int) -> Forgery:
    def write(folder: Path) -> Path:
        with zipfile.ZipFile(folder / "data.npz", "w", method) as archive:
            archive.writestr("observations.npy", bytes(80))
        return folder / "data.npz"

    return write


def _bomb(folder: Path) -> Path:
    """A file of kilobytes that decompresses to more than the memory."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (2**43,)})
    piece = bytes(2**24)
    with (
        zipfile.ZipFile(folder / "data.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("observations.npy", "w") as stream,
    ):
        stream.write(header.getvalue())
        for _ in range(16):
            stream.write(piece)
    return folder / "data.npz"


class _Trap:
    """An object that makes a folder when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("called",)


def _pickled(folder: Path) -> Path:
    np.savez(folder / "data.npz", observations=np.array([_Trap()], object), actions=np.zeros(1, int))
    return folder / "data.npz"


# Numbers


def _numbers() -> dict[str, Arrays]:
    """Arrays that differ from good ones; None stands for one that is missing."""
    wide = np.zeros((STEPS, 70_000), np.float32)
    return {
        "no observations": {"observations": None},
        "no actions": {"actions": None},
        "no rewards": {"rewards": None},
        "no ends": {"terminals": None, "timeouts": None},
        "scalars": {"observations": np.float32(1), "actions": np.float32(1)},
        "no width": {"observations": np.zeros((STEPS, 0), np.float32)},
        "actions of no width": {"actions": np.zeros((STEPS, 0), np.float32)},
        "too wide": {"observations": wide},
        "actions too wide": {"actions": wide},
        "six axes": {"observations": np.zeros((STEPS, 2, 2, 2, 2, 2), np.float32)},
        "no steps": {name: array[:0] for name, array in good().items()},
        "one step": {name: array[:1] for name, array in good().items()},
        "NaN": {"observations": np.full((STEPS, 3), np.nan)},
        "infinite rewards": {"rewards": np.full(STEPS, np.inf)},
        "huge rewards": {"rewards": np.full(STEPS, 1e308)},
        "tiny rewards": {"rewards": np.full(STEPS, 1e-320)},
        "huge observations": {"observations": np.full((STEPS, 3), 1e300)},
        "huge actions": {"actions": np.full((STEPS, 2), 1e300)},
        "long doubles": {"observations": np.full((STEPS, 3), np.longdouble("1e4000"))},
        "constant actions": {"actions": np.zeros((STEPS, 2), np.float32)},
        "actions up to 2**62": {"actions": np.full(STEPS, 2**62)},
        "unsigned actions": {"actions": np.full(STEPS, 2**64 - 1, np.uint64)},
        "negative actions": {"actions": np.full(STEPS, -(2**63))},
        "states up to 2**62": {"observations": np.full(STEPS, 2**62)},
        "many discrete parts": {"actions": np.full((STEPS, 60), 3)},
        "complex": {"observations": np.zeros((STEPS, 3), np.complex64)},
        "dates": {"observations": np.zeros((STEPS, 3), "datetime64[s]")},
        "text": {"actions": np.full(STEPS, "left")},
        "bytes": {"actions": np.full(STEPS, b"left")},
        "records": {"observations": np.zeros(STEPS, [("a", "f4"), ("b", "f4")])},
        "half": {"observations": np.full((STEPS, 3), 60_000, np.float16)},
        "big-endian": {"observations": np.zeros((STEPS, 3), ">f8")},
        "two rewards a step": {"rewards": np.zeros((STEPS, 2))},
        "too few rewards": {"rewards": np.zeros(STEPS - 1)},
        "too many actions": {"actions": np.zeros((STEPS + 1, 2), np.float32)},
        "ends of numbers": {"terminals": np.linspace(-1, 1, STEPS)},
        "ends of NaN": {"timeouts": np.full(STEPS, np.nan)},
        "ends twice a step": {"timeouts": np.zeros((STEPS, 2), bool)},
        "every step an end": {"terminals": np.ones(STEPS, bool)},
        "parts and a whole": {"observations/a": np.zeros((STEPS, 2)), "observations/b/c": np.zeros((STEPS, 1))},
        "a path as a part": {"observations": None, "observations/../../x": np.zeros((STEPS, 2))},
        "an absolute part": {"observations": None, "observations//etc/passwd": np.zeros((STEPS, 2))},
        "deep parts": {"observations": None, "observations/" + "a/" * 60 + "b": np.zeros((STEPS, 2))},
        "pixels and numbers": {
            "observations": None,
            "observations/seen": np.zeros((STEPS, 40, 40, 3), np.uint8),
            "observations/speed": np.zeros((STEPS, 2)),
        },
        "a pixel": {"observations": np.zeros((STEPS, 1, 1, 3), np.uint8)},
        "images of a thousand colours": {"observations": np.zeros((STEPS, 8, 8, 1_000), np.uint8)},
    }


def _arrays(change: Arrays) -> Arrays:
    return {name: array for name, array in {**good(), **change}.items() if array is not None}


def _as_npz(change: Arrays) -> Forgery:
    def write(folder: Path) -> Path:
        np.savez_compressed(folder / "data.npz", **_arrays(change))
        return folder / "data.npz"

    return write


def _as_hdf5(change: Arrays) -> Forgery:
    def write(folder: Path) -> Path:
        with h5py.File(folder / "data.hdf5", "w") as file:
            for name, array in _arrays(change).items():
                with suppress(TypeError, ValueError):  # what HDF5 does not have, such as dates, is left out
                    file.create_dataset(name, data=array)
        return folder / "data.hdf5"

    return write


# HDF5


def huge(file: h5py.File) -> None:
    """Claims terabytes that are not stored."""
    del file["observations"]
    file.create_dataset("observations", (2**40, 3), "f4", chunks=(1024, 3), compression="gzip")


def external(file: h5py.File) -> None:
    """Takes its bytes from another file."""
    del file["observations"]
    file.create_dataset("observations", (4, 3), "f4", external=[("/etc/passwd", 0, 48)])


def linked(file: h5py.File) -> None:
    """Is in another file."""
    del file["observations"]
    file["observations"] = h5py.ExternalLink("/etc/other.hdf5", "/observations")


def soft(file: h5py.File) -> None:
    """Is a link within the file."""
    del file["observations"]
    file["observations"] = h5py.SoftLink("/rewards")


def virtual(file: h5py.File) -> None:
    """Is put together from other files."""
    del file["observations"]
    layout = h5py.VirtualLayout((4, 3), "f4")
    layout[:] = h5py.VirtualSource("/etc/other.hdf5", "x", (4, 3))
    file.create_virtual_dataset("observations", layout)


def text(file: h5py.File) -> None:
    """Is text."""
    del file["observations"]
    file["observations"] = ["a", "b"]


def loop(file: h5py.File) -> None:
    """Contains itself."""
    del file["observations"]
    file.create_group("observations")["inner"] = file["/"]
    file["observations/again"] = file["observations"]


def wide(file: h5py.File) -> None:
    """Has thousands of parts."""
    del file["observations"]
    for number in range(3_000):
        file[f"observations/{number}"] = np.zeros(STEPS, np.float32)


def references(file: h5py.File) -> None:
    """Refers to other arrays."""
    del file["observations"]
    file.create_dataset("observations", (STEPS,), h5py.ref_dtype)[0] = file["rewards"].ref


def of_any_length(file: h5py.File) -> None:
    """Has rows of different lengths."""
    del file["observations"]
    file.create_dataset("observations", (STEPS,), h5py.vlen_dtype(np.float32))


def null(file: h5py.File) -> None:
    """Has no shape."""
    del file["observations"]
    file["observations"] = h5py.Empty("f4")


def enumerated(file: h5py.File) -> None:
    """Has names for numbers."""
    del file["actions"]
    file.create_dataset("actions", (STEPS,), h5py.enum_dtype({"left": 0, "right": 1}, "i"))


def unfilled(file: h5py.File) -> None:
    """Has pieces that were never written."""
    del file["rewards"]
    file.create_dataset("rewards", (STEPS,), "f8", chunks=(4,))


FORGED_HDF5 = (
    *(huge, external, linked, soft, virtual, text, loop),
    *(wide, references, of_any_length, null, enumerated, unfilled),
)


def forge_hdf5(path: Path, change: Callable[[h5py.File], None]) -> Path:
    """Changes a file that is there."""
    with h5py.File(path, "a") as file:
        change(file)
    return path


def _changed_hdf5(change: Callable[[h5py.File], None]) -> Forgery:
    return lambda folder: forge_hdf5(_as_hdf5({})(folder), change)


# Minari: what its metadata may say

NESTED = {"type": "Box", "dtype": "float32", "shape": [1], "low": [0], "high": [1]}
METADATA: dict[str, dict[str, Any]] = {
    "an object": {"observation_space": {"type": "Box"}},
    "no JSON": {"observation_space": "{"},
    "deep JSON": {"observation_space": "[" * 100_000},
    "deep dictionaries": {"observation_space": '{"type": "Dict", "subspaces": {"a": ' * 400 + "1" + "}}" * 400},
    "a list": {"observation_space": "[]"},
    "a number": {"action_space": "1e999"},
    "unknown": {"observation_space": json.dumps({"type": "Graph"})},
    "text": {"observation_space": json.dumps({"type": "Text", "max_length": 3})},
    "a box of terabytes": {"observation_space": json.dumps({**NESTED, "shape": [2**40]})},
    "a box of many axes": {"observation_space": json.dumps({**NESTED, "shape": [1] * 100_000})},
    "a negative box": {"observation_space": json.dumps({**NESTED, "shape": [-3]})},
    "a box of text": {"observation_space": json.dumps({**NESTED, "shape": "3"})},
    "a box of objects": {"observation_space": json.dumps({**NESTED, "dtype": "object"})},
    "a box of nonsense": {"observation_space": json.dumps({**NESTED, "dtype": "os.system"})},
    "bounds of NaN": {"observation_space": json.dumps({**NESTED, "low": [float("nan")], "high": [float("inf")]})},
    "bounds that are missing": {"observation_space": json.dumps({**NESTED, "low": []})},
    "bounds of text": {"action_space": json.dumps({**NESTED, "high": ["a"]})},
    "bounds the wrong way": {"action_space": json.dumps({**NESTED, "low": [9], "high": [-9]})},
    "huge bounds": {"action_space": json.dumps({**NESTED, "low": [-1e308], "high": [1e308]})},
    "ragged bounds": {"action_space": json.dumps({**NESTED, "shape": [2], "low": [[0], [0, 1]]})},
    "too many actions": {"action_space": json.dumps({"type": "Discrete", "n": 2**62, "start": 0})},
    "no actions": {"action_space": json.dumps({"type": "Discrete", "n": 0, "start": 0})},
    "fewer than no actions": {"action_space": json.dumps({"type": "Discrete", "n": -5, "start": 0})},
    "actions of text": {"action_space": json.dumps({"type": "Discrete", "n": "4", "start": None})},
    "a huge start": {"action_space": json.dumps({"type": "Discrete", "n": 4, "start": 10**400})},
    "too many combinations": {"action_space": json.dumps({"type": "MultiDiscrete", "nvec": [2**31] * 8})},
    "combinations of text": {"action_space": json.dumps({"type": "MultiDiscrete", "nvec": "999"})},
    "bits": {"action_space": json.dumps({"type": "MultiBinary", "n": [2**20, 2**20]})},
    "paths as keys": {
        "observation_space": json.dumps({"type": "Dict", "subspaces": {"../../x": NESTED, "/y": NESTED}})
    },
    "empty": {"observation_space": json.dumps({"type": "Dict", "subspaces": {}})},
    "an empty tuple": {"observation_space": json.dumps({"type": "Tuple", "subspaces": []})},
    "a tuple of thousands": {"observation_space": json.dumps({"type": "Tuple", "subspaces": [NESTED] * 20_000})},
    "episodes without end": {"total_episodes": 10**7},
    "too many episodes": {"total_episodes": 10**30},
    "episodes below zero": {"total_episodes": -1},
    "no episodes": {"total_episodes": 0},
    "true episodes": {"total_episodes": True},
    "episodes of text": {"total_episodes": "3"},
    "a path as format": {"data_format": "../../x"},
    "a list as format": {"data_format": ["hdf5"]},
    "an environment that imports": {"env_spec": json.dumps({"id": "os:Pendulum-v1"})},
    "an environment of nothing": {"env_spec": "{}"},
    "an environment of a path": {"env_spec": json.dumps({"id": "../../x"})},
    "an environment of settings": {"env_spec": json.dumps({"id": "Pendulum-v1", "kwargs": {"g": "x"}})},
    "an environment that is deep": {"env_spec": "[" * 100_000},
    "an environment with an entry point": {"env_spec": json.dumps({"id": "New-v0", "entry_point": "os:mkdir"})},
    "images of nothing": {"jpeg_encoding": "yes"},
    "no space": {"observation_space": None, "action_space": None},
}


def minari_metadata(folder: Path, change: dict[str, Any]) -> Path:
    """Changes what a dataset says of itself."""
    path = folder / "data" / "metadata.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    return folder


# LeRobot


def lerobot(**change: Any) -> Forgery:
    """A dataset with other columns; None stands for one that is missing."""

    def write(folder: Path) -> Path:
        columns: Arrays = {
            "observation.state": [[0.5, float(step)] for step in range(STEPS)],
            "action": [[0.1]] * STEPS,
            "next.reward": [1.0] * STEPS,
            "episode_index": [0] * STEPS,
            "frame_index": list(range(STEPS)),
        }
        columns |= {name.replace("__", "."): value for name, value in change.items()}
        columns = {name: value for name, value in columns.items() if value is not None}
        (folder / "meta").mkdir()
        (folder / "data").mkdir()
        features = {name: {"dtype": "float32", "shape": [1]} for name in columns}
        (folder / "meta" / "info.json").write_text(json.dumps({"features": features}))
        pyarrow.parquet.write_table(pyarrow.table(columns), folder / "data" / "file.parquet")
        return folder

    return write


def _nested(depth: int) -> list[Any]:
    return [_nested(depth - 1)] if depth else [0.5]


def _info(content: str) -> Forgery:
    def write(folder: Path) -> Path:
        lerobot()(folder)
        (folder / "meta" / "info.json").write_text(content)
        return folder

    return write


def _repeated(folder: Path) -> Path:
    """A file of kilobytes with rows that take gigabytes."""
    lerobot()(folder)
    pieces = [pyarrow.array(np.zeros(2**20))] * 2**9
    table = pyarrow.table(
        {name: pyarrow.chunked_array(pieces) for name in ("observation.state", "action", "episode_index")}
    )
    pyarrow.parquet.write_table(table.append_column("frame_index", table.column(0)), folder / "data" / "file.parquet")
    return folder


LEROBOT: dict[str, Forgery] = {
    "no action": lerobot(action=None),
    "no state": lerobot(observation__state=None),
    "no episodes": lerobot(episode_index=None),
    "unequal lengths": lerobot(observation__state=[[0.0] * (step % 3) for step in range(STEPS)]),
    "missing values": lerobot(action=[None] * STEPS),
    "missing numbers": lerobot(action=[[None]] * STEPS),
    "text": lerobot(action=["left"] * STEPS),
    "records": lerobot(action=[{"a": 1}] * STEPS),
    "deep lists": lerobot(action=[_nested(60)] * STEPS),
    "NaN": lerobot(observation__state=[[float("nan"), 0.0]] * STEPS),
    "episodes of floats": lerobot(episode_index=[0.5] * STEPS),
    "episodes out of order": lerobot(episode_index=[2**62 - step for step in range(STEPS)]),
    "frames below zero": lerobot(frame_index=[-step for step in range(STEPS)]),
    "frames twice": lerobot(frame_index=[0] * STEPS),
    "two rewards": lerobot(next__reward=[[1.0, 2.0]] * STEPS),
    "info of a list": _info("[]"),
    "info of nothing": _info(""),
    "deep info": _info("[" * 100_000),
    "features of numbers": _info('{"features": {"observation.state": 3}}'),
    "features that are not there": _info('{"features": {"observation.x": {"dtype": "float32"}, "action": {}}}'),
    "a feature of a path": _info('{"features": {"observation.../../x": {"dtype": null}, "action": {}}}'),
    "a feature of pictures": _info('{"features": {"observation.x": {"dtype": "video"}, "action": {}}}'),
    "rows that take gigabytes": _repeated,
}
SHAPES: tuple[tuple[int, ...], ...] = ((2**40,), (2**62, 2**62), (0,), (-5, 2), (3,), (1,) * 40, (2**63,))


def forgeries() -> dict[str, Forgery]:
    """All that is written from nothing, by a name that says what is wrong."""
    return {
        **{f"npz header: {name}": _forged_header(content) for name, content in _headers().items()},
        **{f"npz shape {shape}": _forged_shape(shape) for shape in SHAPES},
        **{f"npz of {dtype}": _forged_shape((10,), dtype) for dtype in ("|O", "<U2", "<c16", "<m8[s]", "|V8")},
        "npz of paths": _members("../../observations.npy", "/observations.npy", "actions.npy"),
        "npz of the same name": _members("observations.npy", "observations.npy", "actions.npy"),
        "npz of deep names": _members("observations/" + "a/" * 1_000 + "b.npy", "actions.npy"),
        "npz of odd names": _members("observations/\x1b[31m\n.npy", "actions.npy"),
        "npz of many": _members(*(f"observations/{number}.npy" for number in range(2_000)), "actions.npy"),
        "npz that is encrypted": _zip_flags,
        "npz that claims 4 GiB": _zip_sizes,
        "npz in bzip2": _zip_method(zipfile.ZIP_BZIP2),
        "npz in lzma": _zip_method(zipfile.ZIP_LZMA),
        "npz bomb": _bomb,
        "npz of pickles": _pickled,
        **{f"npz: {name}": _as_npz(change) for name, change in _numbers().items()},
        **{f"hdf5: {name}": _as_hdf5(change) for name, change in _numbers().items()},
        **{f"hdf5: {change.__name__}": _changed_hdf5(change) for change in FORGED_HDF5},
        **{f"lerobot: {name}": write for name, write in LEROBOT.items()},
    }
