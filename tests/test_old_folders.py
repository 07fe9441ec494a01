"""Folders that version 0.1 wrote: they open, act, are shown, and go on."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import holdfast
from holdfast.cli.main import main
from holdfast.evaluation.certificates import fingerprint
from holdfast.registry import LEARNERS
from holdfast.runs.folder import RunFolder

OLD = Path(__file__).parent / "fixtures" / "0.1"
FINISHED = [path.name for path in sorted(OLD.iterdir()) if not path.name.endswith("-unfinished")]
UNFINISHED = [path.name for path in sorted(OLD.iterdir()) if path.name.endswith("-unfinished")]


@pytest.fixture
def copied(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """An old folder that a test may write to."""
    return Path(shutil.copytree(OLD / request.param, tmp_path / request.param))


def test_there_is_a_folder_of_every_learner_of_that_version() -> None:
    assert len(FINISHED) == 10
    assert set(FINISHED) <= set(LEARNERS)


@pytest.mark.parametrize("copied", FINISHED, indirect=True)
def test_an_old_folder_opens_and_its_tasks_have_the_recorded_fingerprints(copied: Path) -> None:
    suite, learner = holdfast.reopen(copied, "cpu")
    last = [found for found in RunFolder(copied).read_certificates() if found.stage == len(suite.tasks) - 1]
    assert {found.format for found in last} == {1}
    assert {found.task: found.fingerprint for found in last} == {
        name: fingerprint(learner.policy(name), format=1) for name in suite.names
    }
    policy = learner.policy("SouthWest")
    policy.reset()
    assert 0 <= int(policy.act(np.array([0.3, -0.1, 0.0, 0.0], np.float32))) < 5


@pytest.mark.parametrize("copied", FINISHED, indirect=True)
def test_an_old_folder_is_shown(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["show", str(copied)])
    assert "NorthWest" in capsys.readouterr().out


@pytest.mark.parametrize("copied", UNFINISHED, indirect=True)
def test_an_old_unfinished_folder_goes_on_to_its_end(copied: Path) -> None:
    suite, learner = holdfast.reopen(copied, "cpu")
    before = RunFolder(copied).read_certificates()
    matrix = holdfast.run(suite, learner, copied)
    assert matrix.stages == len(suite.tasks)
    after = RunFolder(copied).read_certificates()
    assert after[: len(before)] == before
    assert {found.format for found in after} == {1}  # so that all stages can be compared
