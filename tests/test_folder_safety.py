"""A run folder: nothing outside it is touched, nothing of a user's is removed, and nothing in it is believed unread."""

import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load, save

from holdfast.agent.plan import MOST_THREADS
from holdfast.agent.progress import FolderRecorder
from holdfast.cli.main import main
from holdfast.data.directory import Directory
from holdfast.data.locks import locked
from holdfast.errors import DEFECT, Mistake
from holdfast.learners.sparse import Sparse
from holdfast.runs.folder import RunFolder
from holdfast.runs.options import Options
from holdfast.runs.run import reopen, run
from holdfast.study.running import end
from holdfast.training import fit as fitting
from tests.tiny import QUIET, contents, tiny_learner, tiny_suite

OLD = Path(__file__).parent / "fixtures" / "0.1"
RECORDS = ["config.json", "weights/index.json", "matrix.json", "certificates.json", "routes.json", "events.jsonl"]
SMALL = ["--suite", "toy", "--learner", "naive", "--budget", "smoke", "--fit.steps", "5", "--no-tensorboard"]


def command(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command that must fail says; of folders that are left out, there may be a line each."""
    with pytest.raises(SystemExit) as stop:
        main(list(words))
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert all(line.startswith(("holdfast: ", "task ")) for line in said.splitlines())
    return said


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A finished run that a test may spoil."""
    return Path(shutil.copytree(OLD / "affinity-l", tmp_path / "run"))


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    record = json.loads(path.read_text())
    path.write_text(json.dumps(change(record)))


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# Nothing outside


@pytest.mark.parametrize("name", ["state", "weights", "memory", "tensorboard"])
def test_a_folder_that_is_a_link_leads_nowhere(name: str, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "thesis.txt").write_text("years")
    found = tiny_suite()
    run(found, tiny_learner("ewc", found), tmp_path / "run", replace(QUIET, evaluate="none"))
    shutil.rmtree(tmp_path / "run" / name, ignore_errors=True)
    (tmp_path / "run" / name).symlink_to(victim)
    with suppress(Mistake):  # where there is nothing to read or write there, nothing is wrong
        run(found, tiny_learner("ewc", found), tmp_path / "run", QUIET)
    assert {path.name: path.read_text() for path in victim.iterdir()} == {"thesis.txt": "years"}


@pytest.mark.parametrize("name", ["state", "tensorboard"])
def test_nothing_is_written_through_a_link_while_learning(name: str, tmp_path: Path) -> None:
    victim, found = tmp_path / "victim", tiny_suite()
    victim.mkdir()
    with RunFolder(tmp_path / "run", tiny_learner("naive", found).plan):
        (tmp_path / "run" / name).symlink_to(victim)
    with pytest.raises(Mistake, match=f"{name} is a link"):
        run(found, tiny_learner("naive", found), tmp_path / "run", Options(save_every=0.0, tensorboard=True))
    assert list(victim.iterdir()) == []


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_that_is_a_link_is_neither_read_nor_written(name: str, folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (folder / name).rename(outside)
    (folder / name).symlink_to(outside)
    before = outside.read_bytes()
    with pytest.raises(Mistake, match="is a link"):
        _reopened_and_played(folder)
    assert outside.read_bytes() == before


def _reopened_and_played(folder: Path) -> None:
    suite, learner = reopen(folder, "cpu")
    run(suite, learner, folder, replace(QUIET, re_evaluate=True))


def test_the_folder_itself_may_be_a_link(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "link").symlink_to(folder)
    main(["evaluate", str(tmp_path / "link"), "--device", "cpu"])
    assert "equal to the bit" in capsys.readouterr().out


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # the name of a socket must be short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def make_huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**40)  # a hole


@pytest.mark.parametrize("make", [make_pipe, Path.mkdir, make_socket, make_huge])
@pytest.mark.parametrize("name", RECORDS)
def test_what_is_no_regular_file_of_a_sensible_size_is_not_read(
    name: str, make: Callable[[Path], None], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / name).unlink()
    make(folder / name)
    said = command(capsys, "evaluate", str(folder), "--device", "cpu")
    assert any(words in said for words in ("not a regular file", "too large", "cannot be read", "Is a directory"))


def test_what_a_user_puts_among_the_weights_stays(tmp_path: Path) -> None:
    found = tiny_suite()
    kept = [Path("weights/NOTES.txt"), Path("weights/old/mine"), Path("weights/copy-9.9.safetensors"), Path("state/my")]
    with RunFolder(tmp_path / "run", tiny_learner("affinity-l", found).plan):
        for path in kept:
            (tmp_path / "run" / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "run" / path).write_text("mine")
    run(found, tiny_learner("affinity-l", found), tmp_path / "run", QUIET)
    assert all((tmp_path / "run" / path).read_text() == "mine" for path in kept)
    assert RunFolder(tmp_path / "run").is_complete


# Power may fail at any moment


class PowerCut(BaseException):
    """No code runs after it, not even what cleans up."""


@pytest.mark.parametrize("name", ["ewc", "affinity-l"])
def test_after_a_power_cut_at_any_system_call_of_a_commit_the_run_ends_as_uninterrupted(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = tiny_suite(tasks=2)

    def learned(path: Path) -> None:
        run(found, tiny_learner(name, found, fit__steps=2), path, replace(QUIET, evaluate="none", save_every=0.0))

    learned(tmp_path / "whole")
    left, calls = [0], [0]

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def cut_or_call(*words: Any, **more: Any) -> Any:
            calls[0] += 1
            left[0] -= 1
            if left[0] <= 0:
                raise PowerCut
            return call(*words, **more)

        return cut_or_call

    for event in range(1, 200):
        shutil.rmtree(tmp_path / "cut", ignore_errors=True)
        with monkeypatch.context() as patch:
            left[0] = event
            for call in ("replace", "unlink", "fsync", "rmdir"):
                patch.setattr(os, call, counted(getattr(os, call)))
            try:
                learned(tmp_path / "cut")
                break
            except PowerCut:
                pass
        learned(tmp_path / "cut")
        assert contents(tmp_path / "cut") == contents(tmp_path / "whole"), event
        assert not list((tmp_path / "cut").rglob("*.part"))
        assert not (tmp_path / "cut" / "state").exists()
    assert event > 30


# A folder that is moved away


def test_a_run_whose_folder_is_moved_stops_and_writes_nothing_into_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = tiny_suite()
    run(found, tiny_learner("naive", found), tmp_path / "whole", QUIET)
    progress, path = FolderRecorder.progress, tmp_path / "run"

    def move_once(self: FolderRecorder, done: int, total: int, loss: float) -> None:
        progress(self, done, total, loss)
        if self.current.stage == 1 and path.exists():
            path.rename(tmp_path / "moved")
            path.mkdir()

    with monkeypatch.context() as patch:
        patch.setattr(FolderRecorder, "progress", move_once)
        with pytest.raises(Mistake, match="was moved or removed while this process was using it"):
            run(found, tiny_learner("naive", found), path, QUIET)
    assert list(path.iterdir()) == []
    run(found, tiny_learner("naive", found), tmp_path / "moved", QUIET)
    assert contents(tmp_path / "moved") == contents(tmp_path / "whole")


def test_a_lock_on_a_file_that_was_replaced_keeps_nobody_out(tmp_path: Path) -> None:
    path, inside = tmp_path / "lock", threading.Event()

    def enter() -> None:
        with locked(path):
            inside.set()

    with locked(path):
        waiting = threading.Thread(target=enter)
        waiting.start()
        path.unlink()
        with locked(path):  # of the new file, which whoever waited for the old one must wait for as well
            pass
    waiting.join(60)
    assert inside.is_set()


# Certificates


def test_weights_that_changed_with_their_hash_are_not_certified(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = (folder / "weights").glob("copy-0.*")
    tensors = load(path.read_bytes())
    tensors["weights"] = torch.full_like(tensors["weights"], float("nan"))
    content = save(tensors)
    old, new = (hashlib.sha256(found).hexdigest() for found in (path.read_bytes(), content))
    path.write_bytes(content)
    index = folder / "weights" / "index.json"
    index.write_text(index.read_text().replace(old, new))
    with pytest.raises(Mistake, match=r"the policy of NorthEast .* is not the one that its certificate was given for"):
        reopen(folder, "cpu")
    for words in (["evaluate", "--re-evaluate"], ["evaluate"], ["show", "--verify"]):
        assert "the policy of NorthEast" in command(capsys, *words, str(folder))
    main(["show", str(folder)])
    assert "(fingerprints as recorded)" in " ".join(capsys.readouterr().out.split())


def test_a_task_that_was_put_into_another_copy_is_refused(tmp_path: Path) -> None:
    found = tiny_suite()
    run(found, tiny_learner("affinity-l", found, routing__threshold=-1.0), tmp_path / "run", QUIET)
    index = tmp_path / "run" / "weights" / "index.json"

    def moved(record: Any) -> Any:
        record["stages"][-1]["notes"]["places"][found.names[1]]["copy"] = 0
        record["stages"][-1]["notes"]["places"][found.names[2]]["copy"] = 1
        return record

    edit(index, moved)
    with pytest.raises(Mistake, match=f"{found.names[1]} has claimed .* entries, but"):
        reopen(tmp_path / "run", "cpu", found)
    with pytest.raises(Mistake, match=f"{found.names[1]} has claimed .* entries, but"):
        run(found, tiny_learner("affinity-l", found, routing__threshold=-1.0), tmp_path / "run", QUIET)


def test_what_was_recomputed_is_said_to_be(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["show", "--verify"], ["evaluate", "--device", "cpu"]):
        main([words[0], str(folder), *words[1:]])
        assert "(fingerprints recomputed)" in " ".join(capsys.readouterr().out.split())


def test_a_folder_without_its_index_gives_no_learner(folder: Path) -> None:
    (folder / "weights" / "index.json").unlink()
    with pytest.raises(Mistake, match="results but no weights"):
        reopen(folder, "cpu")


def test_an_index_of_fewer_tasks_than_have_results_is_refused(folder: Path) -> None:
    edit(folder / "weights" / "index.json", lambda record: {"stages": record["stages"][-1:]})
    with pytest.raises(Mistake, match="1 stages of the tasks NorthEast, SouthWest, NorthWest"):
        reopen(folder, "cpu")


@pytest.mark.parametrize(
    "change",
    [
        {"suite": "panda3"},
        {"learner": "affinity-a"},
        {"seed": 5},
        {"budget": "quick"},
        {"preset": "other"},
        {"tasks": ["SouthWest", "NorthEast", "NorthWest"]},
    ],
)
def test_a_matrix_of_another_run_is_not_shown_as_this_ones(
    change: dict[str, Any], folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(folder / "matrix.json", lambda record: {**record, **change})
    page = ["--out", str(tmp_path / "page.html")]
    for words in (["show"], ["evaluate"], ["table"], ["report", *page]):
        assert "is of another run than the config.json beside it" in command(capsys, words[0], str(folder), *words[1:])


# Records


def put(path: str, value: Any) -> Callable[[Any], Any]:
    """Sets one value in a record: `a.0.b` is record["a"][0]["b"]."""

    def change(record: Any) -> Any:
        *way, last = [int(part) if part.lstrip("-").isdigit() else part for part in path.split(".")]
        inner = record
        for part in way:
            inner = inner[part]
        inner[last] = value
        return record

    return change


def without(path: str) -> Callable[[Any], Any]:
    def change(record: Any) -> Any:
        *way, last = path.split(".")
        inner = record
        for part in way:
            inner = inner[int(part) if part.isdigit() else part]
        del inner[last]
        return record

    return change


FILE = "stages.2.files.weights/copy-0"
WRONG: list[tuple[str, Callable[[Any], Any]]] = [
    ("config.json", lambda _: []),
    ("config.json", lambda _: None),
    ("config.json", put("config", [])),
    ("config.json", put("config.order", "NorthEast")),
    ("config.json", put("config.order", [1, 2, 3])),
    ("config.json", put("config.order", ["../up", "b", "c"])),
    ("config.json", put("config.order", ["a\0b", "b", "c"])),
    ("config.json", put("config.order", ["NorthEast"] * 3)),
    ("config.json", put("config.seed", "0")),
    ("config.json", put("config.seed", True)),
    ("config.json", put("config.seed", 10**30)),
    ("config.json", put("config.learner", ["naive"])),
    ("config.json", put("config.learner", "nobody")),
    ("config.json", put("config.suite", {})),
    ("config.json", put("config.suite", "nowhere")),
    ("config.json", put("config.config", 3)),
    ("config.json", put("config.config.fit", 3)),
    ("config.json", put("config.config.fit.steps", "300")),
    ("config.json", put("config.config.fit.steps", -1)),
    ("config.json", put("config.config.fit.learning_rate", float("nan"))),
    ("config.json", put("config.config.net.width", [])),
    ("config.json", put("config.config.routing", "near")),
    ("config.json", put("config.protocol", [])),
    ("config.json", put("config.protocol.episodes", 0)),
    ("config.json", without("config.protocol.episodes")),
    ("config.json", without("config.seed")),
    ("config.json", put("data_returns", [])),
    ("config.json", put("data_returns.NorthEast", "much")),
    ("config.json", put("data_returns.NorthEast", float("inf"))),
    ("config.json", put("datasets", {"NorthEast": 3})),
    ("config.json", put("threads", 100_000)),
    ("config.json", put("threads", 0)),
    ("config.json", put("threads", "2")),
    ("config.json", put("processes", -2)),
    ("config.json", put("versions", [])),
    ("config.json", put("command", 7)),
    ("weights/index.json", lambda _: []),
    ("weights/index.json", put("stages", {})),
    ("weights/index.json", put("stages", [1, 2, 3])),
    ("weights/index.json", lambda record: {"stages": record["stages"] * 2}),
    ("weights/index.json", put("stages.2.files", [])),
    ("weights/index.json", put("stages.2.files", {})),
    ("weights/index.json", without("stages.2.notes")),
    ("weights/index.json", put("stages.2.notes", [])),
    ("weights/index.json", put("stages.2.notes.learned", ["NorthEast"])),
    ("weights/index.json", put("stages.2.notes.learned", 3)),
    ("weights/index.json", put("stages.2.notes.places.NorthEast.copy", -1)),
    ("weights/index.json", put("stages.2.notes.places.NorthEast.copy", "0")),
    ("weights/index.json", put("stages.2.notes.places.NorthEast.copy", 10**12)),
    ("weights/index.json", put("stages.2.notes.places.NorthEast.new", "many")),
    ("weights/index.json", put("stages.2.bytes", 3)),
    ("weights/index.json", put("stages.2.bytes.total", -3)),
    ("weights/index.json", put(f"{FILE}", "copy-0")),
    ("weights/index.json", put(f"{FILE}.sha256", 5)),
    ("weights/index.json", put(f"{FILE}.sha256", "0" * 63)),
    ("weights/index.json", put(f"{FILE}.path", "/etc/passwd")),
    ("weights/index.json", put(f"{FILE}.path", "../other/weights/copy-0.2.safetensors")),
    ("weights/index.json", put(f"{FILE}.path", "weights/../../up.safetensors")),
    ("weights/index.json", put(f"{FILE}.path", "weights/a\0b.safetensors")),
    ("weights/index.json", put("unused", ["config.json"])),
    ("weights/index.json", put("unused", ["weights/copy-0.2.safetensors"])),
    ("matrix.json", lambda _: 3),
    ("matrix.json", without("tasks")),
    ("matrix.json", put("tasks", "NorthEast")),
    ("matrix.json", put("targets", [1.0])),
    ("matrix.json", put("targets", [1.0, float("nan"), 2.0])),
    ("matrix.json", put("returns", [[]])),
    ("matrix.json", put("returns.2.0", [])),
    ("matrix.json", put("returns.2.0", 5.0)),
    ("matrix.json", put("returns.2.0.1", "much")),
    ("matrix.json", put("returns.2.0.1", float("inf"))),
    ("matrix.json", put("returns.2.0", None)),
    ("matrix.json", put("successes.2.0", [1])),
    ("matrix.json", put("lengths.2.0.0", -4)),
    ("matrix.json", put("distinct_episodes.2.0", 0)),
    ("matrix.json", put("distinct_episodes.2.0", 10**6)),
    ("matrix.json", put("carried.2.0", 7)),
    ("matrix.json", put("carried.2.0", "first")),
    ("matrix.json", put("copies", -1)),
    ("matrix.json", put("task_copy", {"NorthEast": 99})),
    ("matrix.json", put("bytes", {})),
    ("matrix.json", put("accounts", [3])),
    ("matrix.json", put("single", [1.0])),
    ("matrix.json", put("protocol", {"episodes": "many"})),
    ("certificates.json", lambda _: {}),
    ("certificates.json", lambda _: [3]),
    ("certificates.json", put("0.stage", -1)),
    ("certificates.json", put("0.stage", 99)),
    ("certificates.json", put("0.stage", "0")),
    ("certificates.json", put("0.task", "Elsewhere")),
    ("certificates.json", put("0.fingerprint", 5)),
    ("certificates.json", put("0.fingerprint", "short")),
    ("certificates.json", put("0.more", 5)),
    ("certificates.json", lambda record: [*record, record[0]]),
    ("routes.json", lambda _: {}),
    ("routes.json", lambda _: ["near"]),
    ("routes.json", without("1.task")),
    ("routes.json", put("1.task", "Elsewhere")),
    ("routes.json", put("1.copy", "0")),
    ("routes.json", put("1.candidates", 3)),
    ("routes.json", put("1.candidates", [{}])),
    ("routes.json", put("1.threshold", "far")),
    ("routes.json", put("1.reason", None)),
]


@pytest.mark.parametrize(("name", "change"), WRONG, ids=[f"{name}-{place}" for place, (name, _) in enumerate(WRONG)])
def test_a_record_that_says_nonsense_is_one_sentence(
    name: str, change: Callable[[Any], Any], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(folder / name, change)
    before = files(folder)
    command(capsys, "evaluate", str(folder), "--device", "cpu")
    assert files(folder) == before


@pytest.mark.parametrize("name", [name for name in RECORDS if name.endswith(".json")])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"a": 1e999',
        b"1" * 5000,
        b'{"config": "\\ud800"}',
        b'["\\ud800"]',
        b"NaN",
        b'"text"',
        b"{}",
    ],
    ids=range(10),
)
def test_a_record_that_is_no_json_of_ours_is_one_sentence(
    name: str, content: bytes, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / name).write_bytes(content)
    command(capsys, "evaluate", str(folder), "--device", "cpu")


@pytest.mark.parametrize(
    "line",
    [
        "3",
        "[]",
        '{"time": 1.0}',
        '{"kind": 3, "time": 1.0}',
        '{"time": "now", "kind": "train"}',
        '{"time": 1.0, "kind": "train", "stage": 0, "task": "A", "step": "x", "loss": 1.0}',
        '{"time": 1.0, "kind": "train", "stage": 0, "task": "A", "step": 1, "loss": NaN}',
        '{"time": 1.0, "kind": "train", "stage": -1, "task": "A", "step": 1, "loss": 1}',
        '{"time": 1.0, "kind": "resume", "stage": 0}',
    ],
)
def test_an_event_that_says_nonsense_is_one_sentence(
    line: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (folder / "events.jsonl").open("a") as file:
        file.write(line + "\n")
    said = command(capsys, "report", str(folder), "--out", str(tmp_path / "page.html"))
    assert "events.jsonl is damaged (line " in said


# Names, threads, exit codes


@pytest.mark.parametrize("name", ["x" * 256, "a" * 300 + "/run", "a\0b"])
def test_a_name_that_no_file_can_have_is_one_sentence(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command(capsys, "run", *SMALL, "--out", str(tmp_path / name))
    command(capsys, "show", str(tmp_path / name))
    command(capsys, "evaluate", str(tmp_path / name))


@pytest.mark.parametrize("count", ["0", "100000", str(MOST_THREADS + 1)])
def test_more_threads_than_a_machine_bears_are_refused_before_there_is_a_folder(
    count: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = command(capsys, "run", *SMALL, "--threads", count, "--out", str(tmp_path / "run"))
    assert "threads must be at least 1 and at most 1,024" in said
    assert not (tmp_path / "run").exists()


def test_as_many_threads_as_a_large_machine_has_are_possible_here(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "holdfast", "run", *SMALL, "--threads", str(MOST_THREADS), "--order", "NorthEast"]
    patient = {**os.environ, "OMP_WAIT_POLICY": "passive"}  # threads that wait sleep, so that other tests go on
    done = subprocess.run(
        [*words, "--out", str(tmp_path / "run")], env=patient, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("name", ["si", "affinity-l"])
@pytest.mark.parametrize("at", [1, 6, 12])
def test_an_interrupted_fit_is_saved_says_its_step_and_goes_on_to_the_same_bits(
    name: str, number: signal.Signals, at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = tiny_suite(tasks=2)
    run(found, tiny_learner(name, found), tmp_path / "whole", QUIET)
    step, taken = fitting.EagerLoop._step, [0]

    def step_and_signal(self: fitting.EagerLoop, number_of_step: int) -> torch.Tensor:
        taken[0] += 1
        if taken[0] == 12 + at:  # in the second task
            os.kill(os.getpid(), number)
        return step(self, number_of_step)

    monkeypatch.setattr(fitting.EagerLoop, "_step", step_and_signal)
    with pytest.raises(KeyboardInterrupt, match=f"interrupted at step {at} of 12 of task {found.names[1]}; the same"):
        run(found, tiny_learner(name, found), tmp_path / "cut", QUIET)
    before = taken[0]
    run(found, tiny_learner(name, found), tmp_path / "cut", QUIET)
    assert taken[0] - before == 12 - at  # no step is taken twice
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")
    losses = [
        [event["loss"] for event in RunFolder(tmp_path / run_name).events() if event["kind"] == "train"]
        for run_name in ("whole", "cut")
    ]
    assert losses[0] == losses[1]


def test_the_command_line_says_where_it_was_interrupted_and_ends_as_a_shell_expects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    step = fitting.EagerLoop._step

    def step_and_signal(self: fitting.EagerLoop, number: int) -> torch.Tensor:
        if number == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, number)

    monkeypatch.setattr(fitting.EagerLoop, "_step", step_and_signal)
    with pytest.raises(SystemExit) as stop:
        main(["run", *SMALL, "--out", str(tmp_path / "run")])
    assert stop.value.code == 130
    assert (
        "interrupted at step 3 of 5 of task NorthEast; the same command goes on from there" in capsys.readouterr().err
    )


def test_a_second_signal_ends_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, step = tiny_suite(), fitting.EagerLoop._step

    def step_and_signals(self: fitting.EagerLoop, number: int) -> torch.Tensor:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        return step(self, number)

    monkeypatch.setattr(fitting.EagerLoop, "_step", step_and_signals)
    with pytest.raises(KeyboardInterrupt) as stop:
        run(found, tiny_learner("naive", found), tmp_path / "run", QUIET)
    assert type(stop.value) is KeyboardInterrupt


def test_broken_retention_is_a_defect_with_a_traceback_that_a_sweep_does_not_try_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    learn = Sparse.learn

    def learn_and_spoil(self: Sparse, *words: Any) -> None:
        learn(self, *words)
        if len(self.learned) == 2:
            self.model_copies[0].weights[self.subnetworks[self.learned[0]].mask] += 1.0

    monkeypatch.setattr(Sparse, "learn", learn_and_spoil)
    words = ["run", "--suite", "toy", "--learner", "tsn-core", "--budget", "smoke", "--fit.steps", "5"]
    with pytest.raises(SystemExit) as stop:
        main([*words, "--no-tensorboard", "--out", str(tmp_path / "run")])
    assert stop.value.code == DEFECT == 70
    said = capsys.readouterr().err
    assert "Traceback" in said
    (tmp_path / "log").write_text(said)
    found = end(DEFECT, tmp_path / "log")
    assert found.how == "defect"
    assert "which must stay equal to the bit" in found.reason


def test_a_directory_writes_reads_and_removes_below_itself_alone(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    directory.write_json("weights/a.json", {"a": [1, 2]})
    assert directory.read_json("weights/a.json") == {"a": [1, 2]}
    directory.append_line("log", "one")
    directory.append_line("log", "two")
    assert directory.read_bytes("log") == b"one\ntwo\n"
    assert directory.read_bytes("log", 4, last=True) == b"two\n"
    directory.remove("weights/a.json")
    directory.remove("weights/a.json")
    directory.remove("nowhere/a.json")
    assert not directory.exists("weights/a.json")
    assert not directory.exists("nowhere/a.json")
