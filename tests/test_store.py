"""One more task is learned into a finished run as if it had been planned, and what is learned stays as it was."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.cli.main import main
from holdfast.data.directory import Directory
from holdfast.errors import Mistake
from holdfast.evaluation.certificates import fingerprint
from holdfast.learners.learner import Learner
from holdfast.runs.folder import RunFolder
from holdfast.runs.more import learn_more
from holdfast.runs.options import Options
from holdfast.runs.run import datasets_of, reopen, run
from tests.kills import Killed, killed_after_every_event
from tests.test_learner_contract import DENSE
from tests.tiny import IN_TURN, QUIET, RETAINING, SPARSE, contents, tiny_learner, tiny_suite

OLD = Path(__file__).parent / "fixtures" / "0.1"
OFTEN = Options(tensorboard=False, quiet=True, save_every=0.0)
SUITE = tiny_suite()
FIRST, EXTRA = SUITE.ordered(SUITE.names[:2]), SUITE.tasks[2]


def settings(name: str) -> dict[str, Any]:
    """What makes a run of two tasks learn as one of three does."""
    return {"subnets__tasks": 3} if name in (*SPARSE, "packnet") else {}


def begun(name: str, path: Path, **more: Any) -> Path:
    """A finished run of the first two tasks."""
    run(FIRST, tiny_learner(name, FIRST, **settings(name), **more), path, QUIET)
    return path


def planned(name: str, path: Path) -> Path:
    """A finished run of all three tasks."""
    run(SUITE, tiny_learner(name, SUITE, **settings(name)), path, QUIET)
    return path


def learn_extra(path: Path, options: Options = QUIET) -> Learner:
    return learn_more(path, EXTRA, "cpu", FIRST, options=options)


def learned(path: Path) -> dict[str, bytes]:
    """All that was learned: weights, memory, index, certificates and routes."""
    return {name: content for name, content in contents(path).items() if name != "matrix.json"}


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    return begun("affinity-l", tmp_path / "finished")


@pytest.mark.parametrize("name", IN_TURN)
def test_a_task_learned_into_a_finished_run_gives_the_bits_of_a_run_that_planned_it(name: str, tmp_path: Path) -> None:
    whole, more = planned(name, tmp_path / "whole"), begun(name, tmp_path / "more")
    before = {path: (more / path).read_bytes() for path in ("matrix.json", "config.json")}
    learner = learn_extra(more)
    assert learned(more) == learned(whole)
    assert {path: (more / path).read_bytes() for path in before} == before
    assert learner.learned == SUITE.names
    assert not (more / "state").exists()
    _, again = reopen(more, "cpu", FIRST)
    assert fingerprint(again.policy(EXTRA.name)) == fingerprint(learner.policy(EXTRA.name))


@pytest.mark.parametrize("name", IN_TURN)
def test_killed_after_every_event_and_called_again_it_ends_at_the_same_bits(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = begun(name, tmp_path / "more")
    shutil.copytree(more, tmp_path / "whole")
    learn_extra(tmp_path / "whole")
    assert killed_after_every_event(lambda: learn_extra(more, OFTEN), monkeypatch) >= 4
    assert learned(more) == learned(tmp_path / "whole")
    assert not (more / "state").exists()


@pytest.mark.parametrize("name", ["ewc", "tsn-core"])
def test_killed_at_every_write_and_called_again_it_ends_at_the_same_bits(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(name, tmp_path / "before")
    shutil.copytree(tmp_path / "before", tmp_path / "whole")
    learn_extra(tmp_path / "whole")
    write, left = Directory.write_bytes, [0]

    def write_or_stop(self: Directory, file: str, content: bytes) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise Killed
        write(self, file, content)

    monkeypatch.setattr(Directory, "write_bytes", write_or_stop)
    for number in range(1, 100):
        more = Path(shutil.copytree(tmp_path / "before", tmp_path / f"more-{number}"))
        left[0] = number
        try:
            learn_extra(more)
            break
        except Killed:
            learn_extra(more)
            assert learned(more) == learned(tmp_path / "whole"), number
    assert number > 6


@pytest.mark.parametrize("name", RETAINING)
def test_earlier_tasks_keep_their_certificates_if_the_learner_retains(name: str, tmp_path: Path) -> None:
    learn_extra(begun(name, tmp_path))
    known = {(found.stage, found.task): found.fingerprint for found in RunFolder(tmp_path).read_certificates()}
    assert {known[2, task] for task in FIRST.names} == {known[1, task] for task in FIRST.names}
    assert (2, EXTRA.name) in known


@pytest.mark.parametrize("name", ["si", "single", "affinity-l"])
def test_a_failed_write_leaves_all_that_was_learned_as_it_was(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = begun(name, tmp_path / "before")
    more = Path(shutil.copytree(before, tmp_path / "more"))
    write = Directory.write_bytes

    def no_space(self: Directory, file: str, content: bytes) -> None:
        if file.startswith("weights/") and file.endswith(".2.safetensors"):
            raise Mistake("no space is left")
        write(self, file, content)

    with monkeypatch.context() as patch:
        patch.setattr(Directory, "write_bytes", no_space)
        with pytest.raises(Mistake, match="no space"):
            learn_extra(more)
    old, new = contents(before), contents(more)
    assert {path: new[path] for path in old if path != "weights/index.json"} == {
        path: old[path] for path in old if path != "weights/index.json"
    }
    assert reopen(more, "cpu", FIRST)[1].learned == FIRST.names
    learn_extra(more)
    learn_extra(before)
    assert learned(more) == learned(before)


def test_a_run_on_the_same_folder_does_not_touch_further_tasks(tmp_path: Path) -> None:
    for name in ("naive", "affinity-l"):
        learn_extra(begun(name, tmp_path / name))
        before = {path: path.read_bytes() for path in (tmp_path / name).rglob("*") if path.is_file()}
        learner = tiny_learner(name, FIRST, **settings(name))
        run(FIRST, learner, tmp_path / name, QUIET)
        assert {path: path.read_bytes() for path in (tmp_path / name).rglob("*") if path.is_file()} == before
        assert learner.learned == SUITE.names
        old = json.loads((tmp_path / name / "matrix.json").read_text())
        run(FIRST, tiny_learner(name, FIRST, **settings(name)), tmp_path / name, replace(QUIET, re_evaluate=True))
        new = json.loads((tmp_path / name / "matrix.json").read_text())
        assert {**new, "carried": None} == {**old, "carried": None}


def test_the_same_call_again_learns_nothing(finished: Path) -> None:
    learn_extra(finished)
    before = {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()}
    assert learn_extra(finished).learned == SUITE.names
    assert {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()} == before


def test_several_tasks_are_learned_one_after_another(finished: Path) -> None:
    learn_extra(finished)
    learn_more(finished, replace(EXTRA, name="Fourth"), "cpu", FIRST, options=QUIET)
    assert RunFolder(finished).further == [EXTRA.name, "Fourth"]


def test_show_names_further_tasks_and_keeps_to_the_plan_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "run")
    words = ["--suite", "toy", "--learner", "affinity-l", "--budget", "smoke", "--fit.steps", "5", "--no-tensorboard"]
    main(["run", *words, "--subnets.tasks", "3", "--order", *FIRST.names, "--out", path, "--device", "cpu"])
    holdfast.learn_more(path, EXTRA, "cpu", options=QUIET)
    capsys.readouterr()
    main(["show", path, "--verify"])
    said = capsys.readouterr().out
    assert f"learned after the plan's tasks: {EXTRA.name}" in said
    assert said.count(EXTRA.name) == 1
    assert "equal to the bit after each of 3 stages" in " ".join(said.split())
    main(["show", path, "--json"])
    assert json.loads(capsys.readouterr().out)["further"] == [EXTRA.name]
    main(["evaluate", path, "--device", "cpu"])
    main(["table", path])
    assert EXTRA.name not in capsys.readouterr().out.replace(f"tasks: {EXTRA.name}", "")
    main(["report", path, "--out", str(tmp_path / "report.html")])
    assert EXTRA.name not in (tmp_path / "report.html").read_text()


# Refusals


def test_an_unfinished_run_learns_no_further_task(tmp_path: Path) -> None:
    run(FIRST, tiny_learner("naive", FIRST), tmp_path / "run", replace(QUIET, evaluate="none"))
    with pytest.raises(Mistake, match="is not finished: holdfast evaluate"):
        learn_extra(tmp_path / "run")


def test_a_name_is_taken_once(finished: Path) -> None:
    with pytest.raises(Mistake, match=f"has already learned a task {FIRST.names[0]}"):
        learn_more(finished, FIRST.tasks[0], "cpu", FIRST, options=QUIET)
    learn_extra(finished)
    other = replace(EXTRA, load=lambda: FIRST.tasks[0].dataset)
    with pytest.raises(Mistake, match=f"has already learned a task {EXTRA.name}"):
        learn_more(finished, other, "cpu", FIRST, options=QUIET)


@pytest.mark.parametrize("name", DENSE)
def test_a_learner_with_one_network_refuses_a_task_of_another_shape(name: str, tmp_path: Path) -> None:
    begun(name, tmp_path / "run")
    before = contents(tmp_path / "run")
    other = replace(tiny_suite("toy-continuous").tasks[0], name="Other")
    with pytest.raises(Mistake, match=r"Other .*one network for all tasks"):
        learn_more(tmp_path / "run", other, "cpu", FIRST, options=QUIET)
    assert contents(tmp_path / "run") == before


@pytest.mark.parametrize("name", ["ewc", "si"])
def test_a_finished_folder_of_version_0_1_has_no_memory_to_learn_on_with(name: str, tmp_path: Path) -> None:
    shutil.copytree(OLD / name, tmp_path / "run")
    before = contents(tmp_path / "run")
    with pytest.raises(Mistake, match="has no memory, which this learner needs to learn another task"):
        learn_more(tmp_path / "run", replace(EXTRA, name="Extra"), "cpu", options=QUIET)
    assert contents(tmp_path / "run") == before


@pytest.mark.parametrize("name", ["naive", "single", "affinity-l"])
def test_a_finished_folder_of_version_0_1_learns_on_where_nothing_more_is_needed(name: str, tmp_path: Path) -> None:
    shutil.copytree(OLD / name, tmp_path / "run")
    extra = replace(EXTRA, name="Extra")
    learn_more(tmp_path / "run", extra, "cpu", options=QUIET)
    assert {found.format for found in RunFolder(tmp_path / "run").read_certificates()} == {1}
    assert reopen(tmp_path / "run", "cpu")[1].learned == [*SUITE.names, "Extra"]


def test_data_of_further_tasks_is_needed_by_a_learner_that_replays_it(tmp_path: Path) -> None:
    learn_extra(begun("cumulative", tmp_path))
    more = replace(SUITE.tasks[0], name="More")
    with pytest.raises(Mistake, match=f"needs the data of {EXTRA.name}"):
        learn_more(tmp_path, more, "cpu", FIRST, options=QUIET)
    other = [*FIRST.tasks, replace(EXTRA, load=lambda: FIRST.tasks[0].dataset)]
    with pytest.raises(Mistake, match=f"the data of {EXTRA.name} is not the data that it was learned from"):
        learn_more(tmp_path, more, "cpu", FIRST, datasets=datasets_of(other), options=QUIET)
    learner = learn_more(tmp_path, more, "cpu", FIRST, datasets=datasets_of(SUITE.tasks), options=QUIET)
    assert learner.learned[-1] == "More"


def test_what_was_saved_of_another_unfinished_task_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    more = begun("naive", tmp_path / "more")
    shutil.copytree(more, tmp_path / "whole")
    learn_extra(tmp_path / "whole")
    stop_after(2, monkeypatch)
    other = replace(EXTRA, name="Other", load=lambda: FIRST.tasks[0].dataset)
    with pytest.raises(Killed):
        learn_more(more, other, "cpu", FIRST, options=OFTEN)
    assert list((more / "state").iterdir())
    monkeypatch.undo()
    learn_extra(more, OFTEN)
    assert learned(more) == learned(tmp_path / "whole")


def stop_after(saves: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.agent.store import Store

    write, left = Store.write_fit, [saves]

    def write_and_stop(self: Store, *words: Any) -> None:
        write(self, *words)
        left[0] -= 1
        if left[0] == 0:
            raise Killed

    monkeypatch.setattr(Store, "write_fit", write_and_stop)


# Memory


@pytest.mark.parametrize("name", ["ewc", "si", "cumulative", "er"])
def test_what_only_learning_on_needs_stays_of_the_newest_stage_alone(name: str, tmp_path: Path) -> None:
    begun(name, tmp_path)
    assert [path.name for path in (tmp_path / "memory").iterdir()] == ["memory.1.safetensors"]
    assert not (tmp_path / "state").exists()
    assert RunFolder(tmp_path).is_complete
    learn_extra(tmp_path)
    assert [path.name for path in (tmp_path / "memory").iterdir()] == ["memory.2.safetensors"]
    assert RunFolder(tmp_path).is_complete


def test_learners_without_memory_have_no_folder_for_it(tmp_path: Path) -> None:
    begun("naive", tmp_path)
    assert not (tmp_path / "memory").exists()


def test_a_memory_that_was_changed_is_refused(tmp_path: Path) -> None:
    begun("ewc", tmp_path)
    file = tmp_path / "memory" / "memory.1.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(Mistake, match=r"memory\.1\.safetensors"):
        learn_extra(tmp_path)
