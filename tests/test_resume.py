"""Same seed, same bits; killed anywhere and resumed, the same bits as uninterrupted."""

import itertools
import json
import os
import random
import signal
import sys
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from holdfast.agent.progress import FolderRecorder
from holdfast.data.directory import Directory
from holdfast.errors import Mistake
from holdfast.runs.configure import learner_for
from holdfast.runs.folder import RunFolder
from holdfast.runs.options import Options
from holdfast.runs.run import reopen, run
from holdfast.study.groups import group_runs, read_runs
from holdfast.tasks.processes import forkserver
from holdfast.training.step import Trainer
from tests.tiny import ALL, QUIET, contents, tiny_learner, tiny_plan, tiny_suite

OFTEN = Options(tensorboard=False, save_every=0.0)


def run_tiny(name: str, path: Path, options: Options = QUIET, suite: str = "toy", **settings: Any) -> None:
    found = tiny_suite(suite)
    run(found, tiny_learner(name, found, **settings), path, options)


@pytest.mark.parametrize("name", ALL)
def test_the_same_seed_gives_the_same_bits_and_another_seed_others(name, tmp_path):
    run_tiny(name, tmp_path / "a")
    run_tiny(name, tmp_path / "b")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    run_tiny(name, tmp_path / "c", seed=1)
    assert contents(tmp_path / "a")["certificates.json"] != contents(tmp_path / "c")["certificates.json"]


class Interruption(Exception):
    """Stands for whatever can end a process."""


save = FolderRecorder.save


def save_and_stop(self: FolderRecorder, phase: str, tensors: dict) -> None:
    save(self, phase, tensors)
    raise Interruption


def interruptions(name: str, path: Path, **more: Any) -> int:
    """How often a run is interrupted until it ends."""
    for count in range(100):
        try:
            run_tiny(name, path, OFTEN, **more)
        except Interruption:
            continue
        return count
    raise AssertionError("the run does not end")


@pytest.mark.parametrize("name", ALL)
def test_interrupted_at_every_save_and_resumed_gives_the_same_bits(name, tmp_path, monkeypatch):
    run_tiny(name, tmp_path / "whole")
    monkeypatch.setattr(FolderRecorder, "save", save_and_stop)
    assert interruptions(name, tmp_path / "broken") == 9  # at steps 4, 8 and 12 of 12, in three tasks
    assert contents(tmp_path / "whole") == contents(tmp_path / "broken")


@pytest.mark.parametrize("name", ALL)
def test_the_same_learner_interrupted_and_called_again_gives_the_same_bits(name, tmp_path, monkeypatch):
    """As in a notebook: the object is not made anew."""
    run_tiny(name, tmp_path / "whole")
    found = tiny_suite()
    learner, progress, left = tiny_learner(name, found), FolderRecorder.progress, [2, 3, 10**9]

    def stop_sometimes(self: FolderRecorder, done: int, total: int, loss: float) -> None:
        progress(self, done, total, loss)
        left[0] -= 1
        if left[0] == 0:
            left.pop(0)
            raise Interruption

    monkeypatch.setattr(FolderRecorder, "progress", stop_sometimes)
    for _ in range(2):
        with pytest.raises(Interruption):
            run(found, learner, tmp_path / "broken", QUIET)
    run(found, learner, tmp_path / "broken", QUIET)
    assert contents(tmp_path / "whole") == contents(tmp_path / "broken")


@pytest.mark.parametrize("name", ["naive", "ewc", "affinity-l"])
def test_interrupted_at_one_write_after_another_and_resumed_gives_the_same_bits(name, tmp_path, monkeypatch):
    """Any file can be the one that was being written."""
    run_tiny(name, tmp_path / "whole")
    write, calls, stop_at = Directory.write_bytes, [0], [0]

    def write_or_stop(self: Directory, name: str, content: bytes) -> None:
        calls[0] += 1
        if calls[0] == stop_at[0]:
            path = self.path / f"{name}.part"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content[: len(content) // 2])  # as a kill leaves it
            raise Interruption
        write(self, name, content)

    monkeypatch.setattr(Directory, "write_bytes", write_or_stop)
    interruptions, done = 0, False
    while not done:
        calls[0], stop_at[0] = 0, interruptions + 1  # the first write, then the second of what is left, and so on
        try:
            run_tiny(name, tmp_path / "broken")
            done = True
        except Interruption:
            interruptions += 1
    assert interruptions >= 6
    assert contents(tmp_path / "whole") == contents(tmp_path / "broken")


CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir"}  # as Python's audit calls what changes files


def run_until(event: int, name: str, path: Path, **settings: Any) -> None:
    """Runs, and kills its own process before the so-manieth change of a file, flush or training step."""
    events, fsync, step = itertools.count(1), os.fsync, Trainer.step

    def count(*_: Any) -> None:
        if next(events) == event:
            os.kill(os.getpid(), signal.SIGKILL)

    def count_changes(kind: str, details: tuple) -> None:
        writes = kind == "open" and isinstance(details[2], int) and details[2] & (os.O_WRONLY | os.O_RDWR)
        if writes or kind in CHANGES:
            count()

    sys.addaudithook(count_changes)
    os.fsync = lambda file: (count(), fsync(file))[1]
    Trainer.step = lambda *words: (count(), step(*words))[1]  # type: ignore[method-assign, assignment]
    run_tiny(name, path, OFTEN, **settings)


def _exit_codes(name: str, path: Path) -> list[int]:
    """Of a run that is killed at an event, started again and killed at another, until it ends by itself."""
    torch.set_num_threads(1)
    rng, codes = random.Random(name), []
    while codes[-1:] != [0] and len(codes) < 100:
        event, child = rng.randint(1, 75), os.fork()  # safe, since this process has one thread
        if not child:
            try:
                run_until(event, name, path)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    return codes


@pytest.fixture(scope="module")
def other_process() -> Iterator[ProcessPoolExecutor]:
    """A process that can be forked: unlike that of the tests, it has one thread."""
    with ProcessPoolExecutor(1, forkserver()) as pool:
        yield pool


@pytest.mark.parametrize("name", ALL)
def test_a_process_killed_at_one_event_after_another_and_started_again_gives_the_same_bits(
    name, tmp_path, other_process
):
    run_tiny(name, tmp_path / "whole")
    *killed, ended = other_process.submit(_exit_codes, name, tmp_path / "killed").result()
    assert ended == 0
    assert set(killed) == {-signal.SIGKILL}
    assert len(killed) >= 4
    assert contents(tmp_path / "whole") == contents(tmp_path / "killed")
    assert not list((tmp_path / "killed").rglob("*.part"))


def test_an_interrupted_log_is_read_without_what_was_undone(tmp_path, monkeypatch):
    run_tiny("naive", tmp_path / "whole")
    save, stops = FolderRecorder.save, [2]

    def stop_sometimes(self: FolderRecorder, phase: str, tensors: dict) -> None:
        save(self, phase, tensors)
        stops[0] -= 1
        if stops[0] == 0:
            raise Interruption

    monkeypatch.setattr(FolderRecorder, "save", stop_sometimes)
    with pytest.raises(Interruption):
        run_tiny("naive", tmp_path / "broken", OFTEN)
    events = tmp_path / "broken" / "events.jsonl"
    events.write_text(events.read_text() + '{"time": 1, "kind": "tra')  # cut off in the middle of a line
    run_tiny("naive", tmp_path / "broken", OFTEN)

    def curve(folder: str) -> list[tuple]:
        found = RunFolder(tmp_path / folder).events()
        return [(event["stage"], event["step"], event["loss"]) for event in found if event["kind"] == "train"]

    assert curve("whole") == curve("broken")
    assert len(curve("whole")) == 9
    assert "resume" in events.read_text()


def test_a_torn_line_of_the_log_says_nothing(tmp_path):
    run_tiny("naive", tmp_path / "run")
    before, log = RunFolder(tmp_path / "run").events(), tmp_path / "run" / "events.jsonl"
    first, *rest = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([first, b"\0\0\0\n", b'{"time": 1.0, "ki\xff\n', *rest]))
    assert RunFolder(tmp_path / "run").events() == before


def test_a_finished_run_is_shown_without_a_write(tmp_path):
    run_tiny("naive", tmp_path / "run")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")}
    run_tiny("naive", tmp_path / "run", Options())
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")} == before


def test_a_saved_fit_that_was_changed_is_not_resumed(tmp_path, monkeypatch):
    run_tiny("naive", tmp_path / "whole")
    monkeypatch.setattr(FolderRecorder, "save", save_and_stop)
    with pytest.raises(Interruption):
        run_tiny("naive", tmp_path / "run", OFTEN)
    monkeypatch.setattr(FolderRecorder, "save", save)
    (saved,) = (tmp_path / "run" / "state").glob("fit.*")
    content = bytearray(saved.read_bytes())
    content[-9] ^= 1
    saved.write_bytes(content)
    with pytest.raises(Mistake, match="was changed or truncated: delete it"):
        run_tiny("naive", tmp_path / "run")
    saved.unlink()
    run_tiny("naive", tmp_path / "run")
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")


def test_a_line_that_is_being_written_is_no_event_yet(tmp_path):
    run_tiny("naive", tmp_path / "run")
    before = RunFolder(tmp_path / "run").events()
    with (tmp_path / "run" / "events.jsonl").open("a") as file:
        file.write('{"time": 1.0, "kind": "tra')
    assert RunFolder(tmp_path / "run").events() == before


def test_a_complete_run_is_not_run_again(tmp_path):
    run_tiny("affinity-l", tmp_path)
    before = (tmp_path / "events.jsonl").read_text()
    run_tiny("affinity-l", tmp_path)
    assert (tmp_path / "events.jsonl").read_text() == before
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("name", ["naive", "ewc", "cumulative", "single", "tsn-core", "affinity-h"])
def test_training_now_and_evaluating_later_gives_what_evaluating_on_the_way_gives(name, tmp_path):
    run_tiny(name, tmp_path / "whole")
    run_tiny(name, tmp_path / "later", replace(QUIET, evaluate="none"))
    assert not (tmp_path / "later" / "matrix.json").exists()
    found = tiny_suite()
    _, learner = reopen(tmp_path / "later", suite=found)
    run(found, learner, tmp_path / "later", QUIET)
    assert contents(tmp_path / "whole") == contents(tmp_path / "later")


def test_shared_parameters_are_evaluated_later_as_they_were_at_each_stage(tmp_path):
    run_tiny("tsn-core", tmp_path / "whole", subnets__outside="shared")
    run_tiny("tsn-core", tmp_path / "later", replace(QUIET, evaluate="none"), subnets__outside="shared")
    run_tiny("tsn-core", tmp_path / "later", subnets__outside="shared")
    assert contents(tmp_path / "whole") == contents(tmp_path / "later")


@pytest.mark.parametrize("name", ["naive", "tsn-core"])
def test_the_full_matrix_is_the_same_now_and_later(name, tmp_path):
    run_tiny(name, tmp_path / "whole", replace(QUIET, full_matrix=True))
    run_tiny(name, tmp_path / "later", replace(QUIET, evaluate="none"))
    run_tiny(name, tmp_path / "later", replace(QUIET, full_matrix=True))
    assert contents(tmp_path / "whole") == contents(tmp_path / "later")
    returns = json.loads((tmp_path / "whole" / "matrix.json").read_text())["returns"]
    assert all(cell is not None for row in returns for cell in row)


@pytest.mark.parametrize("name", ["naive", "cumulative", "affinity-l"])
def test_the_rest_of_the_matrix_can_be_filled_in_later_and_changes_nothing_else(name, tmp_path):
    run_tiny(name, tmp_path / "whole", replace(QUIET, full_matrix=True))
    run_tiny(name, tmp_path / "later")
    run_tiny(name, tmp_path / "later", replace(QUIET, full_matrix=True))
    assert contents(tmp_path / "whole") == contents(tmp_path / "later")


@pytest.mark.parametrize("name", ["naive", "single", "affinity-l"])
def test_a_learner_acts_after_a_run_that_was_complete_already(name, tmp_path):
    run_tiny(name, tmp_path)
    found = tiny_suite()
    learner = tiny_learner(name, found)
    run(found, learner, tmp_path, QUIET)
    assert learner.learned == found.names
    assert learner.policy(found.names[0]) is not None


def test_results_are_carried_over_where_nothing_changed_and_evaluating_again_gives_the_same(tmp_path):
    run_tiny("tsn-core", tmp_path / "a")
    run_tiny("tsn-core", tmp_path / "b", replace(QUIET, re_evaluate=True))
    carried, played = (json.loads((tmp_path / name / "matrix.json").read_text()) for name in "ab")
    assert carried["carried"] == [[None, None, None], [0, None, None], [0, 1, None]]
    assert played["carried"] == [[None] * 3] * 3
    assert carried["returns"] == played["returns"]


def test_nothing_is_carried_over_where_something_changed(tmp_path):
    run_tiny("naive", tmp_path)
    assert json.loads((tmp_path / "matrix.json").read_text())["carried"] == [[None] * 3] * 3


def test_a_restored_learner_learns_on_as_if_never_stopped(tmp_path):
    found = tiny_suite()
    first = found.ordered(found.names[:2])
    plan = tiny_plan(found, "affinity-a")
    straight = learner_for(plan, found, "cpu")
    for task in found.tasks:
        straight.learn(task)
    early, late = learner_for(plan, found, "cpu"), learner_for(plan, found, "cpu")
    for task in first.tasks:
        early.learn(task)
    late.restore(early.snapshot())
    late.learn(found.tasks[2])
    for name, tensors in straight.snapshot().weights.items():
        for key, tensor in tensors.items():
            assert torch.equal(tensor, late.snapshot().weights[name][key]), (name, key)


def test_a_resumed_run_has_the_threads_it_began_with(tmp_path):
    found = tiny_suite()
    learner = tiny_learner("naive", found, threads=3)
    before = torch.get_num_threads()
    seen = []
    train = learner.train
    learner.train = lambda *words: (seen.append(torch.get_num_threads()), train(*words))  # type: ignore[method-assign]
    run(found, learner, tmp_path / "run", QUIET)
    assert seen == [3, 3, 3]
    assert torch.get_num_threads() == before
    assert RunFolder(tmp_path / "run").record["threads"] == 3


def test_two_processes_cannot_work_in_one_folder(tmp_path):
    found = tiny_suite()
    learner = tiny_learner("naive", found)
    with RunFolder(tmp_path / "run", learner.plan), pytest.raises(Mistake, match="another process"):
        run(found, learner, tmp_path / "run", QUIET)


def test_a_run_of_before_a_setting_came_is_resumed_evaluated_and_is_no_other_row(tmp_path):
    """Records of older versions lack what was added since, and mean what it was then."""
    found = tiny_suite()
    run(found, tiny_learner("naive", found), tmp_path / "run", replace(QUIET, evaluate="none"))
    record = json.loads((tmp_path / "run" / "config.json").read_text())
    assert record["config"]["config"]["fit"].pop("whole") is True
    (tmp_path / "run" / "config.json").write_text(json.dumps(record))
    _, learner = reopen(tmp_path / "run", "cpu", found)
    assert learner.plan.config.fit.whole
    run(found, learner, tmp_path / "run", QUIET)
    with pytest.raises(Mistake, match=r"fit\.whole = True, not False"):
        run(found, tiny_learner("naive", found, fit__whole=False), tmp_path / "run", QUIET)
    run(found, tiny_learner("naive", found, seed=1), tmp_path / "new", QUIET)
    assert [made.label for made in group_runs(read_runs(tmp_path))] == ["naive"]
