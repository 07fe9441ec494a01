"""A joint learner gets all tasks in one call: its run has one commit, the last row of the matrix, and resumes."""

import json
from pathlib import Path

import pytest

import holdfast
from holdfast.agent.progress import FolderRecorder
from holdfast.cli.main import main
from holdfast.errors import Mistake
from holdfast.runs.folder import RunFolder
from holdfast.runs.options import Options
from holdfast.runs.run import reopen, run
from holdfast.study.sweep import fully_evaluated
from holdfast.tasks.suite import Suite
from tests.tiny import QUIET, contents, tiny_learner, tiny_suite

OFTEN = Options(tensorboard=False, quiet=True, save_every=0.0)
NEEDS_EARLIER_ROWS = ("AvgF", "BWT", "FWT", "SuccessF")
PLUGIN = '''"""One dense network, trained on all tasks at once in two phases."""

from collections.abc import Sequence

from holdfast.data.randomness import derive
from holdfast.data.windows import EqualShares
from holdfast.learners.dense import DenseConfig, OneNetworkLearner
from holdfast.learners.learner import JointLearner, LearnerSpec
from holdfast.tasks.task import Task
from holdfast.training.config import FitConfig
from holdfast.training.fit import fit
from holdfast.training.recorder import Recorder


class InPhases(JointLearner, OneNetworkLearner):
    def train_jointly(self, tasks: Sequence[Task], recorder: Recorder) -> None:
        windows = EqualShares([self.begin(task, place) for place, task in enumerate(tasks)])
        for phase in ("first", "second"):
            fit(self.net, windows, self.config.fit, derive(self.seed, phase), recorder, phase)


LEARNERS = {"joint": LearnerSpec(InPhases, lambda net: DenseConfig(net, FitConfig()), "all tasks at once")}
'''


@pytest.fixture
def plugin(tmp_path: Path, own_plugins: None) -> Path:
    """A plugin file with a joint learner."""
    path = tmp_path / "joint.py"
    path.write_text(PLUGIN)
    holdfast.plugin(path)
    return path


@pytest.fixture
def suite(plugin: Path) -> Suite:
    return tiny_suite()


def test_a_run_commits_once_certifies_and_evaluates_the_last_row_alone(suite: Suite, tmp_path: Path) -> None:
    matrix = run(suite, tiny_learner("joint", suite), tmp_path / "run", QUIET)
    folder = RunFolder(tmp_path / "run")
    assert folder.is_complete
    assert [bool(stage.files) for stage in folder.store.index.stages] == [False, False, True]
    assert [(found.stage, found.task) for found in folder.read_certificates()] == [(2, name) for name in suite.names]
    assert matrix.returns[:2] == [[None] * 3] * 2
    assert all(matrix.returns[2])
    assert matrix.stages == 3
    assert fully_evaluated(matrix, QUIET, ends=())
    assert [path.name for path in (tmp_path / "run" / "weights").glob("*.safetensors")] == ["dense.0.safetensors"]
    assert not (tmp_path / "run" / "state").exists()


def test_metrics_that_compare_stages_are_none_and_the_others_are_there(suite: Suite, tmp_path: Path) -> None:
    run(suite, tiny_learner("joint", suite), tmp_path / "run", QUIET)
    metrics = json.loads((tmp_path / "run" / "matrix.json").read_text())["metrics"]
    assert all(metrics[name] is None for name in NEEDS_EARLIER_ROWS)
    assert metrics["F"] == {}
    assert None not in (metrics["NormAvg"], metrics["AvgGap"])


def test_it_is_reopened_and_the_same_call_again_writes_nothing(suite: Suite, tmp_path: Path) -> None:
    run(suite, tiny_learner("joint", suite), tmp_path / "run", QUIET)
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    run(suite, tiny_learner("joint", suite), tmp_path / "run", QUIET)
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == before
    _, learner = reopen(tmp_path / "run", "cpu", suite)
    assert learner.learned == suite.names


class Killed(BaseException):
    """Stands for whatever can end a process."""


def test_killed_at_every_save_of_either_phase_and_resumed_it_ends_at_the_same_bits(
    suite: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(suite, tiny_learner("joint", suite), tmp_path / "whole", QUIET)
    save, kills = FolderRecorder.save, 0

    def save_and_stop(self: FolderRecorder, phase: str, tensors: dict) -> None:
        save(self, phase, tensors)
        raise Killed

    monkeypatch.setattr(FolderRecorder, "save", save_and_stop)
    while True:
        try:
            run(suite, tiny_learner("joint", suite), tmp_path / "killed", OFTEN)
            break
        except Killed:
            kills += 1
    assert kills == 6  # at steps 4, 8 and 12 of 12, in two phases
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


def test_no_further_task_is_learned_into_it(suite: Suite, tmp_path: Path) -> None:
    first = suite.ordered(suite.names[:2])
    run(first, tiny_learner("joint", first), tmp_path / "run", QUIET)
    with pytest.raises(Mistake, match="joint learns all tasks at once"):
        holdfast.learn_more(tmp_path / "run", suite.tasks[2], "cpu", first, options=QUIET)


def test_every_command_works_on_its_run(plugin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--suite", "toy", "--budget", "smoke", "--fit.steps", "5", "--no-tensorboard", "--device", "cpu"]
    run_words = ["run", *small, "--learner", "joint", "--out", str(tmp_path / "runs" / "joint")]
    main([*run_words, "--evaluate", "none"])
    main(["evaluate", str(tmp_path / "runs" / "joint"), "--device", "cpu"])
    said = capsys.readouterr().out
    assert "all tasks at once" in said
    assert "AvgF" not in said
    main([*run_words, "--dry"])
    said = capsys.readouterr().out
    assert "5 steps per task, 20 for all tasks at once" in said
    assert "complete" in said
    for others in ([], ["naive"]):
        for other in others:
            main(["run", *small, "--learner", other, "--out", str(tmp_path / "runs" / other)])
        for kind in ("main", "tasks"):
            main(["table", str(tmp_path / "runs"), "--table", kind])
            assert "joint" in capsys.readouterr().out
        main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "report.html")])
        assert "All tasks were learned at once by joint" in (tmp_path / "report.html").read_text()
