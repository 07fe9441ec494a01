"""Data from a stranger: forged headers, truncated files and links end in one sentence, and take no memory."""

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import h5py
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from soak.damages import mutate
from soak.data_cases import FORGERIES
from soak.forged import external, forge_hdf5, forged_npz, huge, linked, loop, soft, text, virtual

from holdfast.data.arrow_reading import read_parquet
from holdfast.data.doctor import examine
from holdfast.data.raw_episodes import largest
from holdfast.data.sources import read_source
from holdfast.errors import Mistake
from holdfast.tasks.recorded import recorded
from tests.recorded_data import ENVIRONMENTS, flat, play, write_d4rl, write_lerobot, write_minari, write_npz

SEED, MUTATIONS = 19, 120  # for each format
MEMORY = 300 * 2**20  # bytes: what hundreds of damaged files of a few kilobytes may add
FORMATS = ("npz", "d4rl", "hdf5", "arrow", "parquet", "lerobot2", "lerobot3")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    return tmp_path


def written(kind: str, place: Path) -> Path:
    """Pendulum's data in one of the formats."""
    played, env = play(ENVIRONMENTS["pendulum"]), ENVIRONMENTS["pendulum"]()
    if kind == "npz":
        return write_npz(played, place)
    if kind == "d4rl":
        return write_d4rl(played, place)
    if kind.startswith("lerobot"):
        return write_lerobot(played, place, int(kind[-1]))
    return write_minari(played, place, env, kind)


def refusal(where: Any) -> str | None:
    """What is said against data, or None if it was read as valid data."""
    try:
        raw = read_source(where)
        assert all(finding.means and finding.advice for finding in examine(raw))
        recorded(raw)
    except Mistake as mistake:
        return str(mistake)
    return None


@pytest.mark.parametrize("kind", FORMATS)
def test_damaged_data_is_valid_or_refused_in_one_sentence(kind: str, place: Path) -> None:
    random = Random(f"{SEED} {kind}")
    original = written(kind, place)
    folder = original if original.is_dir() else original.parent
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused = 0
    for number in range(MUTATIONS):
        target = random.choice(files)
        content = target.read_bytes()
        target.write_bytes(mutate(content, random))
        said = refusal(original)
        target.write_bytes(content)
        assert said is None or 0 < len(said.splitlines()) == 1, (number, said)
        refused += said is not None
    assert refused > MUTATIONS // 4
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < MEMORY
    assert refusal(original) is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (huge, "larger than what is stored"),
        (external, "lies in another file"),
        (linked, "is a link"),
        (soft, "is a link"),
        (virtual, "lies in another file"),
        (text, "must be numbers"),
        (loop, "nested too deeply"),
    ],
)
def test_an_hdf5_file_that_reaches_elsewhere_or_claims_too_much_is_refused(
    change: Callable[[h5py.File], None], said: str, place: Path
) -> None:
    answer = refusal(forge_hdf5(written("d4rl", place), change))
    assert answer is not None
    assert said in answer


@pytest.mark.parametrize(
    ("shape", "dtype", "said"),
    [
        ((2**40,), "<f8", "shorter than its header"),
        ((2**62, 2**62), "<f8", "shorter than its header"),
        ((0,), "<f8", "does not have the length"),
        ((-5, 2), "<f8", "shorter than its header"),
        ((10,), "|O", "objects are not read"),
        ((10,), "<U2", "must be an array of numbers"),
        ((3,), "<f8", "does not have the length"),
    ],
)
def test_a_forged_header_of_numpy_is_refused(shape: tuple[int, ...], dtype: str, said: str, place: Path) -> None:
    answer = refusal(forged_npz(place / "data.npz", shape, dtype=dtype))
    assert answer is not None
    assert said in answer


@pytest.mark.parametrize("name", [name for name in FORGERIES if name.startswith("npz header")])
def test_a_header_of_numpy_that_is_no_header_is_refused(name: str, place: Path) -> None:
    assert "data.npz" in (refusal(FORGERIES[name](place)) or "")


def test_pickled_objects_are_never_loaded(place: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(place / "trapped"),)

    np.savez(place / "data.npz", observations=np.array([Trap()], object), actions=np.zeros(1, int))
    assert "objects are not read" in (refusal(place / "data.npz") or "")
    assert not (place / "trapped").exists()


def test_data_larger_than_the_memory_is_refused_before_it_is_read(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.data.raw_episodes.LARGEST", 100)
    assert largest() == 100
    for kind in FORMATS:
        assert "GiB" in (refusal(written(kind, place)) or ""), kind


def test_one_hot_vectors_that_do_not_fit_into_memory_are_refused_before_they_are_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("holdfast.data.raw_episodes.LARGEST", 2**20)
    states = np.arange(4_000)
    said = refusal([{"observations": states, "actions": np.zeros(4_000, int), "rewards": np.ones(4_000)}])
    assert "the encoded data would take" in (said or "")


@pytest.mark.parametrize("kind", ["lerobot2", "lerobot3", "hdf5", "arrow", "parquet"])
@pytest.mark.parametrize("instead", ["link", "pipe"])
def test_a_file_of_a_datasets_folder_that_is_a_link_or_a_pipe_is_refused(kind: str, instead: str, place: Path) -> None:
    folder = written(kind, place)
    for target in [path for path in sorted(folder.rglob("*")) if path.is_file()]:
        outside = Path(shutil.move(target, place / "outside"))
        if instead == "link":
            target.symlink_to(outside)
        else:
            os.mkfifo(target)
        assert refusal(folder) is not None, target
        target.unlink()
        shutil.move(outside, target)
    assert refusal(folder) is None


def test_a_link_to_a_folder_of_parquet_files_is_refused(place: Path) -> None:
    folder = written("lerobot2", place)
    shutil.move(folder / "data", place / "outside")
    (folder / "data").symlink_to(place / "outside")
    assert "not in the dataset's folder" in (refusal(folder) or "")


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_compressed_arrow_files_are_refused_before_they_take_memory(compression: str, place: Path) -> None:
    folder = written("arrow", place)
    file = next(folder.rglob("0/*.arrow"))
    table = pyarrow.ipc.open_file(file).read_all()
    options = pyarrow.ipc.IpcWriteOptions(compression=compression)
    with pyarrow.ipc.new_file(file, table.schema, options=options) as writer:
        writer.write_table(table)
    assert "is compressed" in (refusal(folder) or "")


def test_an_arrow_file_without_columns_is_refused(place: Path) -> None:
    folder = written("arrow", place)
    file = next(folder.rglob("0/*.arrow"))
    file.write_bytes(file.read_bytes()[:8] + bytes(8))
    assert "has no columns" in (refusal(folder) or "")


def test_repeated_values_of_parquet_count_as_much_as_they_take_in_memory(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = written("lerobot3", place)
    rows = 20_000
    columns = {"observation.state": np.zeros((rows, 1)).tolist(), "action": np.zeros((rows, 1)).tolist()}
    columns |= {"next.reward": np.zeros(rows), "frame_index": np.arange(rows), "episode_index": np.zeros(rows, int)}
    file = next((folder / "data").rglob("*.parquet"))
    pyarrow.parquet.write_table(pyarrow.table(columns), file)
    assert len(read_parquet(file)) == rows
    monkeypatch.setattr("holdfast.data.raw_episodes.LARGEST", 8 * 4 * rows)  # there are five columns
    assert file.stat().st_size < 8 * rows
    with pytest.raises(Mistake, match="GiB"):
        read_parquet(file)


LIMITED = """
import resource, sys
import pyarrow.parquet  # before memory is scarce
from holdfast.data import memory, raw_episodes
from holdfast.data.sources import read_source
from holdfast.errors import Mistake

raw_episodes.LARGEST, memory.OWN = 2**20, 2**25
before = resource.getrlimit(resource.RLIMIT_AS)
try:
    read_source(sys.argv[1])
except Mistake as mistake:
    print(mistake)
assert resource.getrlimit(resource.RLIMIT_AS) == before
"""


def test_a_list_that_decompresses_to_more_than_the_memory_is_refused(place: Path) -> None:
    folder = written("lerobot3", place)
    file = next((folder / "data").rglob("*.parquet"))
    row = {"observation.state": [np.zeros(2**24)], "action": [[0.0]], "next.reward": [0.0]}
    pyarrow.parquet.write_table(pyarrow.table({**row, "frame_index": [0], "episode_index": [0]}), file)
    assert file.stat().st_size < 10_000
    ran = subprocess.run(  # a process of its own: this one still has the memory that it wrote the file with
        [sys.executable, "-c", LIMITED, str(folder)], capture_output=True, text=True, check=True
    )
    assert ran.stdout == f"{folder} needs more memory than this machine can give it: split it\n"


@pytest.mark.parametrize(
    ("kind", "module"), [("d4rl", "h5py"), ("hdf5", "h5py"), ("arrow", "pyarrow"), ("lerobot3", "pyarrow")]
)
def test_a_format_whose_library_is_missing_says_how_to_install_it(
    kind: str, module: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = written(kind, place)
    monkeypatch.setitem(sys.modules, module, None)
    assert refusal(where) == f"{module} is not installed: pip install 'holdfast[datasets]'"


def test_a_pipe_is_not_waited_for(place: Path) -> None:
    os.mkfifo(place / "pipe")
    assert "not a regular file" in (refusal(place / "pipe") or "")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"total_episodes": 10**12}, "total_episodes"),
        ({"total_episodes": -1}, "total_episodes"),
        ({"total_episodes": 0}, "no episodes"),
        ({"total_episodes": 4}, "episode_3 is missing"),
        ({"data_format": "pickle"}, "hdf5, arrow and parquet"),
        ({"observation_space": "[" * 100_000}, "damaged"),
        (
            {"observation_space": json.dumps({"type": "Box", "shape": [2**40], "low": 0, "high": 0, "dtype": "f4"})},
            "shape",
        ),
        ({"observation_space": json.dumps({"type": "Text"})}, "at least one with numbers is needed"),
        ({"action_space": None}, "no action_space"),
        ({"observation_space": json.dumps({"type": "Discrete", "n": 2**70, "start": 0})}, ""),
    ],
)
def test_forged_metadata_of_minari_are_refused(change: dict[str, Any], said: str, place: Path) -> None:
    folder = written("hdf5", place)
    path = folder / "data" / "metadata.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    answer = refusal(folder)
    assert answer is not None
    assert said in answer


@pytest.mark.parametrize("name", ["os:system", "../x", "", 3, "a b"])
def test_an_environments_name_that_could_import_something_is_not_used(name: Any, place: Path) -> None:
    folder = written("hdf5", place)
    path = folder / "data" / "metadata.json"
    spec = json.dumps({"id": name, "entry_point": "os:system"})
    path.write_text(json.dumps({**json.loads(path.read_text()), "env_spec": spec}))
    data = recorded(read_source(folder))
    assert data.environment is None
    assert any("is not used" in note for note in data.notes)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"frame_index": [0, 1, 3, 3]}, "missing or there twice"),
        ({"episode_index": [0.5] * 4}, "must be one integer per step"),
        ({"action": [[1.0], [2.0], [1.0, 2.0], [1.0]]}, "same number of entries"),
        ({"action": [[1.0], None, [1.0], [1.0]]}, "missing values"),
        ({"action": ["a"] * 4}, "must be numbers"),
        ({"action": None}, "no column 'action'"),
    ],
)
def test_a_lerobot_dataset_with_wrong_columns_is_refused(columns: dict[str, Any], said: str, place: Path) -> None:
    folder = written("lerobot3", place)
    file = next((folder / "data").rglob("*.parquet"))
    good = {
        "observation.state": [[1.0, 2.0]] * 4,
        "action": [[1.0]] * 4,
        "next.reward": [1.0] * 4,
        "frame_index": [0, 1, 2, 3],
        "episode_index": [0] * 4,
    }
    kept = {name: values for name, values in {**good, **columns}.items() if values is not None}
    pyarrow.parquet.write_table(pyarrow.table(kept), file)
    answer = refusal(folder)
    assert answer is not None
    assert said in answer


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"actions": None}, "has no array 'actions'"),
        ({"rewards": np.ones(5)}, "rewards has 5 rows"),
        ({"terminals": np.ones(5, bool)}, "one entry for each of the 36 actions"),
        ({"terminals": np.full(36, 7)}, "true or false"),
        ({"observations": np.ones(())}, "single value"),
        ({"observations/a": np.ones((36, 1))}, "both as one array"),
        ({"actions": np.zeros((0, 1))}, "no steps"),
        ({"seeds": np.arange(9)}, "9 seeds for 3 episodes"),
    ],
)
def test_arrays_that_disagree_are_refused(arrays: dict[str, Any], said: str, place: Path) -> None:
    given = {**flat(play(ENVIRONMENTS["pendulum"])), **arrays}
    np.savez(place / "data.npz", **{name: array for name, array in given.items() if array is not None})
    answer = refusal(place / "data.npz")
    assert answer is not None
    assert said in answer
