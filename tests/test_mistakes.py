"""A user's mistake gets one clear sentence and exit code 2, and damages nothing."""

import errno
import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from holdfast.agent.devices import check_device
from holdfast.cli.main import main
from holdfast.data.episodes import Dataset, Episode
from holdfast.data.files import packed, read_bytes, read_json, unpacked, write_bytes
from holdfast.errors import Mistake
from holdfast.registry import LEARNERS, SUITES
from holdfast.runs.configure import configure
from holdfast.runs.configure import learner as learner_by_name
from holdfast.runs.folder import RunFolder
from holdfast.runs.run import reopen, run
from holdfast.tasks.interface import Continuous, Discrete, Interface
from holdfast.tasks.suite import Suite, suite
from tests.agents import learn, new_agent
from tests.tiny import QUIET, contents, tiny_learner, tiny_plan, tiny_suite

GOOD = (np.zeros((3, 2)), np.zeros(3, int), np.zeros(3))


def command(capsys, *words: str) -> str:
    """What a command that must fail says."""
    with pytest.raises(SystemExit) as stop:
        main(list(words))
    assert stop.value.code == 2
    *progress, said = capsys.readouterr().err.splitlines()
    assert all(line.startswith("task ") for line in progress)
    assert said.startswith("holdfast: ")
    return said


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 2])
def test_values_that_are_not_finite_are_named(bad, place):
    arrays = [array.astype(float).copy() for array in GOOD]
    arrays[place][1] = bad
    with pytest.raises(Mistake, match="must be finite, but step 1 is not"):
        Episode(*arrays)


def test_episodes_must_have_steps_and_one_length():
    with pytest.raises(Mistake, match="at least one step"):
        Episode(np.zeros((0, 2)), np.zeros(0, int), np.zeros(0))
    with pytest.raises(Mistake, match="same length"):
        Episode(np.zeros((3, 2)), np.zeros(2, int), np.zeros(3))
    with pytest.raises(Mistake, match="one reward per step"):
        Episode(np.zeros((3, 2)), np.zeros(3, int), np.zeros((3, 1)))


def test_datasets_must_have_episodes_of_one_shape():
    with pytest.raises(Mistake, match="at least one episode"):
        Dataset.of([])
    with pytest.raises(Mistake, match="the same shape"):
        Dataset.of([Episode(*GOOD), Episode(np.zeros((3, 4)), *GOOD[1:])])
    with pytest.raises(Mistake, match="at least one step"):
        Dataset(*GOOD, lengths=np.array([3, 0]))
    with pytest.raises(Mistake, match="one row for each"):
        Dataset(*GOOD, lengths=np.array([2]))
    with pytest.raises(Mistake, match="observations must be finite, but step 0 of episode 1 is not"):
        Dataset(np.array([[0.0, 0.0], [0.0, np.nan], [0.0, 0.0]]), *GOOD[1:], lengths=np.array([1, 2]))
    with pytest.raises(Mistake, match="rewards must be finite"), np.errstate(over="ignore"):
        Dataset.of([Episode(*GOOD[:2], np.full(3, 1e300))])  # too large for what it is stored in


@pytest.mark.parametrize(
    ("interface", "said"),
    [
        (Interface((3,), Discrete(2, 2), 9), "observations must have shape"),
        (Interface((2,), Discrete(2, 2), 2), "at most 2 steps"),
        (Interface((2,), Continuous(1, 2), 9), "2 floats per step"),
    ],
)
def test_data_of_another_interface_is_refused(interface, said):
    with pytest.raises(Mistake, match=said):
        interface.check(Dataset.of([Episode(*GOOD)]))


def test_actions_out_of_range_are_refused():
    with pytest.raises(Mistake, match=r"must lie in 0\.\.1, got 0\.\.2"):
        Discrete(2, 4).check(np.array([0, 1, 2]))
    with pytest.raises(Mistake, match="one integer"):
        Discrete(2, 4).check(np.array([0.5]))
    with pytest.raises(Mistake, match=r"\[-1, 1\]"):
        Continuous(1, 1).check(np.array([[1.5]]))
    with pytest.raises(Mistake, match="fit into"):
        Discrete(5, 4)
    with pytest.raises(Mistake, match="fit into"):
        Continuous(5, 4)
    with pytest.raises(Mistake, match="padded with zeros"):
        Continuous(1, 2).check(np.array([[0.5, 0.5]]))


def test_interfaces_and_targets_that_make_no_sense_are_refused():
    for shape in ((), (3, 4), (0,)):
        with pytest.raises(Mistake, match="a vector or a stack of frames"):
            Interface(shape, Discrete(2, 2), 9)
    with pytest.raises(Mistake, match="horizon"):
        Interface((3,), Discrete(2, 2), 0)
    with pytest.raises(Mistake, match="target"):
        replace(tiny_suite().tasks[0], target=float("nan"))


@pytest.mark.parametrize("name", ["../up", "a/b", "", ".hidden", "a b", "x" * 65, "a\x00b", "~"])
def test_a_task_name_cannot_leave_its_folder(name):
    with pytest.raises(Mistake, match="a task's name"):
        replace(tiny_suite().tasks[0], name=name)


def test_tasks_that_no_network_fits_are_no_suite():
    toy, other = tiny_suite().tasks[0], tiny_suite("toy-continuous").tasks[1]
    with pytest.raises(Mistake, match="one network cannot be used for both"):
        Suite("mixed", (toy, other))
    with pytest.raises(Mistake, match="different names"):
        Suite("twice", (toy, toy))
    with pytest.raises(Mistake, match="has no tasks"):
        Suite("empty", ())
    with pytest.raises(Mistake, match="has no task 'Nowhere'"):
        tiny_suite().ordered(["Nowhere"])


def test_bad_data_of_a_task_is_named_and_leaves_the_learner_as_it_was(tmp_path):
    good = tiny_suite()
    bad = replace(good.tasks[1], load=lambda: Dataset.of([Episode(np.full((3, 4), np.nan), *GOOD[1:])]))
    broken = replace(good, tasks=(good.tasks[0], bad, good.tasks[2]))
    learner = tiny_learner("affinity-l", broken)
    with pytest.raises(Mistake, match=f"the data of {bad.name} cannot be used"):
        run(broken, learner, tmp_path / "run", QUIET)
    assert learner.learned == []  # found before the first task was trained
    run(good, tiny_learner("affinity-l", good), tmp_path / "run", QUIET)  # with good data it goes on
    run(good, tiny_learner("affinity-l", good), tmp_path / "whole", QUIET)
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")


@pytest.mark.parametrize("name", ["tsn-replaykl", "affinity-a", "affinity-l", "affinity-h"])
def test_a_task_that_fails_at_its_very_end_leaves_the_learner_as_it_was(name, monkeypatch):
    found = tiny_suite()
    learner, whole = tiny_learner(name, found), tiny_learner(name, found)
    for task in found.tasks:
        with monkeypatch.context() as patch:
            patch.setattr(type(learner.config.routing), "keep", _fail)
            with pytest.raises(MemoryError):
                learner.learn(task)
        learner.learn(task)
        whole.learn(task)
    ours, theirs = learner.snapshot(), whole.snapshot()
    assert ours.notes == theirs.notes
    assert ours.weights.keys() == theirs.weights.keys()
    for file, tensors in ours.weights.items():
        assert all(torch.equal(tensor, theirs.weights[file][name]) for name, tensor in tensors.items())


def _fail(*_: object) -> None:
    raise MemoryError


def test_unknown_names_are_answered_with_the_known_ones(capsys):
    assert "there are toy" in command(capsys, "run", "--suite", "nowhere")
    assert "there are naive" in command(capsys, "run", "--learner", "nobody")
    assert "there are smoke" in command(capsys, "run", "--budget", "endless")
    assert "there are holdfast" in command(capsys, "run", "--preset", "none")
    assert "no task 'Nowhere'" in command(capsys, "run", "--order", "Nowhere")
    assert "there is no command 'walk'" in command(capsys, "walk")
    with pytest.raises(Mistake, match="there is no suite"):
        suite("nowhere")


def test_a_place_that_may_not_be_used_is_named(capsys, tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "runs/private")

    monkeypatch.setattr("holdfast.cli.show.RunFolder", refuse)
    assert "permission denied: runs/private" in command(capsys, "show", "runs/private")


def test_a_folder_that_is_no_run_is_said_so(capsys, tmp_path):
    assert "not a run folder" in command(capsys, "evaluate", str(tmp_path))
    assert "not a run folder" in command(capsys, "show", str(tmp_path / "nothing"))
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "config.json").write_text('{"config": {}}')
    assert "lacks config, learner" in command(capsys, "evaluate", str(tmp_path / "empty"))
    (tmp_path / "another").mkdir()
    (tmp_path / "another" / "config.json").write_text('{"model": "mine"}')
    for words in (["run", "--budget", "smoke", "--out"], ["evaluate"], ["show"]):
        assert "not the config.json of a run" in command(capsys, *words, str(tmp_path / "another"))
    (tmp_path / "mine.txt").write_text("mine")
    assert "not empty and not a run folder" in command(capsys, "run", "--budget", "smoke", "--out", str(tmp_path))
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_a_folder_of_another_config_is_left_alone(tmp_path):
    found = tiny_suite()
    run(found, tiny_learner("naive", found), tmp_path / "run", QUIET)
    before = contents(tmp_path / "run")
    with pytest.raises(Mistake, match=r"fit.steps = 12, not 13"):
        run(found, tiny_learner("naive", found, fit__steps=13), tmp_path / "run", QUIET)
    with pytest.raises(Mistake, match="seed = 0, not 1"):
        run(found, tiny_learner("naive", found, seed=1), tmp_path / "run", QUIET)
    assert contents(tmp_path / "run") == before


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("learner", {"learner": "affinity-a"}),
        ("preset", {"preset": "paper"}),
        ("backbone", {"backbone": "mlp"}),
        ("suite", {"found": tiny_suite("toy-continuous")}),
    ],
)
def test_what_decides_other_settings_is_named_before_them(name, other, tmp_path):
    plans = [tiny_plan(**{"found": tiny_suite(), "learner": "affinity-l", **more}) for more in ({}, other)]
    begun, wanted = (getattr(plan, name) for plan in plans)
    with RunFolder(tmp_path / "run", plans[0]):
        pass
    with pytest.raises(Mistake, match=f"is a run with {name} = {begun}, not {wanted}: choose another --out"):
        RunFolder(tmp_path / "run", plans[1])


def test_an_agent_that_is_taken_for_a_run_is_said_to_be_one(capsys, tmp_path):
    folder = new_agent(tmp_path / "my agent", "affinity-l")
    learn(folder, "swing", "pendulum")
    for words in (["show"], ["evaluate"], ["run", "--budget", "smoke", "--out"], ["run", "--config"]):
        said = command(capsys, *words, str(folder.path))
        assert f"{folder.path} is an agent, not a run" in said
        for verb in ("list", "verify"):
            assert f"holdfast agent {verb} '{folder.path}'" in said
            main(["agent", verb, str(folder.path)])
    (folder.path / "config.json").write_text(
        '{"config": {"config": {}, "learner": "naive", "seed": 0, "suite": "toy"}}'
    )
    assert "lacks order: restore it from a backup" in command(capsys, "show", str(folder.path))


def test_other_data_than_the_run_began_with_is_refused(tmp_path):
    found = tiny_suite()
    run(found, tiny_learner("naive", found), tmp_path / "run", replace(QUIET, evaluate="none"))
    record = json.loads((tmp_path / "run" / "config.json").read_text())
    record["datasets"][found.names[0]] = "0" * 64
    (tmp_path / "run" / "config.json").write_text(json.dumps(record))
    records = (tmp_path / "run" / name for name in ("certificates.json", "routes.json"))
    for path in [*(tmp_path / "run" / "weights").glob("*"), *records]:
        path.unlink()
    with pytest.raises(Mistake, match="changed since"):
        run(found, tiny_learner("naive", found), tmp_path / "run", QUIET)


def test_an_episode_is_made_of_lists_too():
    made = Episode([[0.0, 1.0], [1.0, 0.0]], [0, 1], [0.5, 1])
    assert (made.observations.shape, made.total) == ((2, 2), 1.5)


@pytest.mark.parametrize(
    ("observations", "said"),
    [
        ([[0.0], [1.0, 2.0]], "same shape at every step"),
        (["left", "right"], "must be numbers"),
        ([{"position": 0.0}, {"position": 1.0}], "must be numbers"),
        (3.0, "one row per step"),
    ],
)
def test_observations_that_are_no_numbers_are_said_so(observations, said):
    with pytest.raises(Mistake, match=said):
        Episode(observations, np.zeros(2, int), np.zeros(2))


@pytest.mark.parametrize("name", SUITES)
def test_no_transitions_are_a_mistake(name):
    with pytest.raises(Mistake, match=r"transitions must be at least 1 .* got 0"):
        suite(name, transitions=0)


@pytest.mark.parametrize("name", ["naive", "tsn-core"])
def test_a_run_that_lost_its_index_is_not_learned_again_beside_its_results(name, tmp_path, capsys):
    found = tiny_suite()
    run(found, tiny_learner(name, found), tmp_path / "run", QUIET)
    (tmp_path / "run" / "weights" / "index.json").unlink()
    before = contents(tmp_path / "run")
    with pytest.raises(Mistake, match=r"results but no weights .*index.json is missing"):
        run(found, tiny_learner(name, found), tmp_path / "run", QUIET)
    assert "results but no weights" in command(capsys, "evaluate", str(tmp_path / "run"))
    assert contents(tmp_path / "run") == before


@pytest.mark.parametrize("content", [b'{"a": 1}', b"[]"])
def test_an_index_of_something_else_is_said_to_be_damaged(content, tmp_path, capsys):
    found = tiny_suite()
    run(found, tiny_learner("naive", found), tmp_path, QUIET)
    (tmp_path / "weights" / "index.json").write_bytes(content)
    assert "index.json is damaged" in command(capsys, "show", str(tmp_path))


def test_certificates_of_something_else_are_said_to_be_damaged(tmp_path, capsys):
    found = tiny_suite()
    run(found, tiny_learner("naive", found), tmp_path, QUIET)
    (tmp_path / "certificates.json").write_text('[{"stage": 0}]')
    assert "certificates.json is damaged" in command(capsys, "show", str(tmp_path))


def test_changed_data_of_a_task_learned_before_is_noticed_too(tmp_path, monkeypatch):
    found = tiny_suite()
    stopped = tiny_learner("cumulative", found)
    train = stopped.train
    monkeypatch.setattr(stopped, "train", lambda task, *more: _fail() if task is found.tasks[2] else train(task, *more))
    with pytest.raises(MemoryError):
        run(found, stopped, tmp_path / "run", QUIET)
    data = found.tasks[0].dataset
    shifted = Dataset(data.observations + 100, data.actions, data.rewards, data.lengths)
    changed = replace(found, tasks=(replace(found.tasks[0], load=lambda: shifted), *found.tasks[1:]))
    with pytest.raises(Mistake, match=f"the data of {found.names[0]} changed"):
        run(changed, tiny_learner("cumulative", changed), tmp_path / "run", QUIET)


def test_a_learner_of_another_suite_or_order_is_refused(tmp_path):
    found = tiny_suite()
    for other in (tiny_suite("toy-continuous"), found.ordered(found.names[::-1])):
        with pytest.raises(Mistake, match="the learner is for toy"):
            run(other, tiny_learner("naive", found), tmp_path / "run", QUIET)
    assert not (tmp_path / "run").exists()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))


def remove(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("harm", [cut, flip, remove])
@pytest.mark.parametrize("name", ["naive", "affinity-l"])
def test_a_damaged_weights_file_is_named_and_never_used(name, harm, tmp_path):
    found = tiny_suite()
    run(found, tiny_learner(name, found), tmp_path / "run", QUIET)
    victim = sorted((tmp_path / "run" / "weights").glob("*.safetensors"))[-1]
    harm(victim)
    with pytest.raises(Mistake, match=victim.name):
        reopen(tmp_path / "run", suite=found)


def test_a_damaged_record_is_named(tmp_path):
    (tmp_path / "matrix.json").write_text('{"suite": ')
    with pytest.raises(Mistake, match=r"matrix.json is damaged"):
        read_json(tmp_path / "matrix.json")
    with pytest.raises(Mistake, match=r"x.safetensors is damaged"):
        unpacked(b"no tensors here", tmp_path / "x.safetensors", hashlib.sha256(b"no tensors here").hexdigest())


def test_a_file_with_other_tensors_is_refused_even_if_it_is_whole(tmp_path):
    _, digest = packed({"x": torch.zeros(3)})
    with pytest.raises(Mistake, match="was changed"):
        unpacked(packed({"x": torch.ones(3)})[0], tmp_path / "a.safetensors", digest)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(number, tmp_path, monkeypatch):
    path = tmp_path / "kept.json"
    write_bytes(path, b"old")

    def full(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Mistake, match="no space is left"):
        write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["kept.json"]


CRAMPED = """
import resource, signal, sys
from holdfast.cli.main import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
main(sys.argv[1:])
"""


def test_a_run_that_cannot_write_says_so_and_goes_on_when_it_can(tmp_path):
    words = ["run", "--budget", "smoke", "--learner", "naive", "--fit.steps", "5", "--no-tensorboard"]
    small = [sys.executable, "-c", CRAMPED, *words, "--out", str(tmp_path / "run")]
    failed = subprocess.run(small, capture_output=True, text=True, check=False)
    assert failed.returncode == 2
    assert "no space is left" in failed.stderr
    assert [line for line in failed.stderr.splitlines() if not line.startswith("task ")] == [
        failed.stderr.splitlines()[-1]
    ]
    assert not list(tmp_path.rglob("*.part"))
    main([*words, "--out", str(tmp_path / "run")])
    main([*words, "--out", str(tmp_path / "whole")])
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")


def test_a_place_that_cannot_be_written_is_said_so(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    assert "is a file" in command(capsys, "run", "--budget", "smoke", "--out", str(tmp_path / "file"))
    assert "cannot be written" in command(capsys, "run", "--budget", "smoke", "--out", str(tmp_path / "file" / "run"))


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_a_read_only_place_is_said_so(number, capsys, tmp_path, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "mkdir", refuse)
    said = command(capsys, "run", "--suite", "toy", "--learner", "naive", "--out", str(tmp_path / "there"))
    assert "cannot be written" in said


@pytest.mark.parametrize("read", [read_json, read_bytes])
def test_a_file_that_may_not_be_read_is_said_so(read, tmp_path, monkeypatch):
    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(Mistake, match="cannot be read"):
        read(tmp_path / "file")


def test_settings_that_make_no_sense_are_refused_before_anything_is_written(capsys, tmp_path):
    words = ["run", "--budget", "smoke", "--out", str(tmp_path / "run")]
    for flag, value in (
        ("--fit.steps", "0"),
        ("--fit.learning-rate", "-1"),
        ("--net.heads", "3"),
        ("--net.heads", "0"),
        ("--net.dropout", "1"),
        ("--subnets.keep", "0"),
        ("--subnets.keep", "1.5"),
        ("--routing.memory", "1"),
        ("--subnets.quantise-bits", "9"),
        ("--protocol.episodes", "0"),
        ("--device", "gpu"),
        ("--device", "cuda:99"),
        ("--threads", "-1"),
        ("--transitions", "0"),
        ("--subnets.noise", "-1"),
        ("--subnets.exclude", "nonsense"),
        ("--subnets.exclude", "embed_return encoder timestep trunk head"),
        ("--routing.threshold", "nan"),
    ):
        command(capsys, *words, flag, *value.split())
    for flag, value in (
        ("--routing.batches", "0"),
        ("--routing.windows", "0"),
        ("--routing.alpha", "2"),
        ("--routing.action-threshold", "0"),
    ):
        command(capsys, *words, "--learner", "affinity-h", flag, value)
    assert not (tmp_path / "run").exists()


def test_a_loss_that_explodes_is_said_so_and_nothing_of_it_is_kept(tmp_path):
    found = tiny_suite()
    learner = tiny_learner("tsn-core", found, fit__learning_rate=1e30)
    with pytest.raises(Mistake, match=r"lower fit.learning_rate"):
        run(found, learner, tmp_path / "run", QUIET)
    assert learner.learned == []
    assert RunFolder(tmp_path / "run").learned == 0


def test_a_copy_without_free_weights_is_said_so():
    found = tiny_suite()
    learner = tiny_learner("tsn-core", found, subnets__reuse=False, subnets__keep=1.0, subnets__tasks=1)
    learner.learn(found.tasks[0])
    with pytest.raises(Mistake, match="task 2 in one copy would select nothing in 10 of 10 tensors"):
        learner.learn(found.tasks[1])
    assert learner.learned == found.names[:1]


@pytest.mark.parametrize("name", ["naive", "single", "affinity-l"])
def test_a_task_is_learned_once_and_a_run_begins_with_a_new_learner(name, tmp_path):
    found = tiny_suite(tasks=2)
    learner = tiny_learner(name, found)
    run(found, learner, tmp_path / "run", QUIET)
    with pytest.raises(Mistake, match="already learned"):
        learner.learn(found.tasks[0])
    with pytest.raises(Mistake, match="a run begins with a new learner"):
        run(found, learner, tmp_path / "other", QUIET)
    run(found, learner, tmp_path / "run", QUIET)  # its own run it may go on with


def test_a_setting_that_no_learner_has_is_refused():
    found = replace(SUITES["toy"], presets={"paper": {"fit.stepps": 3}}).suite()
    with pytest.raises(Mistake, match=r"no learner has a setting 'fit.stepps'"):
        configure("toy", "naive", suite=found)
    with pytest.raises(Mistake, match="no learner has a setting"):
        learner_by_name("naive", tiny_suite(), settings={"speed": 3})


@pytest.mark.parametrize("name", ["naive", "tsn-core"])
def test_a_policy_before_anything_is_learned_is_a_mistake(name):
    with pytest.raises(Mistake, match="nothing is learned yet"):
        tiny_learner(name).policy("NorthEast")


@pytest.mark.skipif(torch.cuda.is_available(), reason="only where there is no accelerator")
def test_an_accelerator_that_is_not_there_is_said_so():
    with pytest.raises(Mistake, match="there is no cuda on this machine"):
        check_device("cuda")


@pytest.mark.parametrize("name", SUITES)
@pytest.mark.parametrize("learner", LEARNERS)
def test_every_preset_and_budget_of_every_suite_is_known_to_the_learners(name, learner):
    found = SUITES[name]
    for preset in found.presets:
        for budget in found.budgets:
            assert configure(name, learner, preset, budget).budget == budget


def test_a_run_without_results_is_told_how_to_go_on(tmp_path, capsys):
    found = tiny_suite()
    run(found, tiny_learner("naive", found), tmp_path / "run", replace(QUIET, evaluate="none"))
    (tmp_path / "run" / "matrix.json").unlink(missing_ok=True)
    page = str(tmp_path / "page.html")
    assert f"holdfast evaluate {tmp_path / 'run'}" in command(capsys, "report", str(tmp_path / "run"), "--out", page)
    index = tmp_path / "run" / "weights" / "index.json"
    record = json.loads(index.read_text())
    index.write_text(json.dumps({**record, "stages": record["stages"][:1]}))
    (tmp_path / "run" / "certificates.json").unlink()
    assert f"holdfast run --config {tmp_path / 'run'}" in command(capsys, "evaluate", str(tmp_path / "run"))


def test_an_order_without_a_task_is_said_so(tmp_path, capsys):
    words = ("run", "--suite", "toy", "--budget", "smoke", "--out", str(tmp_path / "run"), "--order")
    assert "the order names no task" in command(capsys, *words)
