"""Whatever a run folder holds and whatever stands on the command line, a command ends well or with one sentence."""

import json
import os
import shutil
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from soak.cases import Workspace
from soak.fuzz import BY_HAND, EACH, Fuzz, carried_out, fill, tried
from soak.run_cases import OLD

from holdfast.cli.main import main
from holdfast.data.files import TENSORS, read_bytes
from holdfast.data.locks import locked
from tests.test_mistakes import command

SEED, FORGED, COUNT = 10, 60, 240


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    found = Workspace(tmp_path_factory.mktemp("workspace"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", "")  # which is set while datasets are made
        fill(found)
        yield found


def test_damaged_and_forged_inputs_end_with_exit_code_0_or_with_one_sentence(workspace: Workspace) -> None:
    by_hand = EACH * len(BY_HAND)
    numbers = [*range(0, by_hand, by_hand // FORGED), *range(by_hand, by_hand + COUNT)]
    kinds, wrong = set(), {}
    for number in numbers:
        case, _, found = tried(workspace, SEED, number)
        kinds.add(case.kind)
        if found:
            wrong[number] = found
    assert not wrong, f"python -m soak.fuzz --seed {SEED} --only {min(wrong)}: {wrong[min(wrong)]}"
    assert kinds >= {"agents", "datasets", "packs", "exported policies", "names", "runs"}


def test_an_input_that_ends_the_process_is_named_and_the_others_are_still_tried(
    tmp_path: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = tmp_path / "sitecustomize.py"
    plugin.write_text(
        "import os, soak.fuzz\n"
        "tried = soak.fuzz.tried\n"
        "soak.fuzz.tried = lambda w, s, n, shell: os._exit(9) if n == 1 else tried(w, s, n, shell)\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(__file__).parents[1]}")
    given = list(carried_out(workspace, range(3), Fuzz(count=3, shell=0)))
    assert [(one.number, one.end) for one in given if one.end == "failed"] == [(1, "failed")]
    assert [one.number for one in given] == [0, 1, 2]


# What fuzzing found


def test_reading_a_file_takes_no_more_memory_than_the_file_is_long(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 1_000)
    tracemalloc.start()
    try:
        read_bytes(tmp_path / "file", TENSORS)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize("path", ["x" * 300, "x/" * 5_000, "loop", "loop/x", "a\x00b"])
@pytest.mark.parametrize(
    "words",
    [
        *(["show"], ["evaluate"], ["table"], ["report"], ["sweep", "--dry"], ["run", "--dry", "--config"]),
        *(["run", "--dry", "--out"], ["run", "--dry", "--cache"], ["run", "--dry", "--reference"]),
        *(["table", "run", "--out"], ["table", "run", "--into"], ["report", "run", "--figures"]),
    ],
)
def test_a_path_that_can_lead_nowhere_is_one_sentence(
    words: list[str], path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(OLD / "naive", "run")
    Path("loop").symlink_to("loop")
    said = command(capsys, *words, path)
    assert len(said) < 20_000
    assert sorted(os.listdir()) == ["loop", "run"]


@pytest.mark.parametrize(
    "content", ["x = " + "[" * 100_000, "[[main]]\n" + "a." * 2_000 + "a = 1", "[[main]]\nseed = " + "9" * 5_000]
)
def test_a_grid_of_any_depth_is_one_sentence(content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "grid.toml").write_text(content)
    assert str(tmp_path / "grid.toml") in command(capsys, "sweep", str(tmp_path / "grid.toml"), "--dry")


def test_a_grid_or_a_page_that_is_a_pipe_is_not_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in command(capsys, "sweep", str(tmp_path / "pipe"), "--dry")
    assert "not a regular file" in command(capsys, "table", str(OLD / "naive"), "--out", str(tmp_path / "pipe"))
    assert (tmp_path / "pipe").is_fifo()  # as /dev/null must stay what it is


def test_a_page_that_is_not_text_is_not_filled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_bytes(b"caf\xe9")
    assert "UTF-8" in command(capsys, "table", str(OLD / "naive"), "--into", str(page))
    assert page.read_bytes() == b"caf\xe9"


def test_a_page_is_written_under_any_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["report", str(OLD / "naive"), "--no-videos", "--out", str(tmp_path / "\udcff\x1b")])
    assert capsys.readouterr().out.startswith(f"{tmp_path}/\\udcff\\x1b: ")


def test_the_lock_of_a_cache_makes_no_file_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "entry.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"), locked(tmp_path / "entry.lock"):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_a_damaged_log_is_found_before_anything_is_learned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = shutil.copytree(OLD / "ewc-unfinished", tmp_path / "run")
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    del events[-1]["time"]
    (run / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert "has no time" in command(capsys, "run", "--config", str(run), "--no-tensorboard", "--device", "cpu")
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
