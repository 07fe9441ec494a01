"""`--evaluate ends`: fewer evaluations, whose results are the same, and metrics that say what they lack."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.cli.run import parse_run
from holdfast.errors import Mistake
from holdfast.evaluation.matrix import Matrix
from holdfast.evaluation.metrics import (
    avg_forgetting,
    backward_transfer,
    forgetting,
    forward_transfer,
    mean_success,
    success_forgetting,
)
from holdfast.runs.forecast import forecast
from holdfast.runs.options import Options
from holdfast.runs.run import run
from holdfast.study.summary import summarise
from holdfast.study.sweep import fully_evaluated
from holdfast.tasks.suite import Suite
from tests.kills import killed_after_every_event
from tests.tiny import QUIET, contents, tiny_learner, tiny_suite

ENDS = replace(QUIET, evaluate="ends")
GAPS = [[0.5, None, None], [None, 0.75, None], [0.25, 0.5, 1.0]]
RUN = ["--suite", "toy", "--budget", "smoke", "--fit.steps", "3", "--no-tensorboard", "--device", "cpu"]


def suite_with_ends(*ends: int) -> Suite:
    """Four tasks, of which these numbers are ends."""
    found = tiny_suite(tasks=4)
    return replace(found, spec=replace(found.spec, ends=ends))


def played(matrix: Matrix) -> list[list[bool]]:
    return [[cell is not None for cell in row] for row in matrix.returns]


def test_each_task_is_played_when_it_was_learned_and_all_tasks_at_the_ends(tmp_path: Path) -> None:
    found = suite_with_ends(2)
    matrix = run(found, tiny_learner("naive", found), tmp_path / "run", ENDS)
    yes, no = True, False
    assert played(matrix) == [[yes, no, no, no], [yes, yes, no, no], [no, no, yes, no], [yes, yes, yes, yes]]
    assert (matrix.stages, matrix.has_gaps) == (4, True)
    assert fully_evaluated(matrix, ENDS, ends=(2,))
    assert not fully_evaluated(matrix, ENDS, ends=(2, 3))
    assert not fully_evaluated(matrix, QUIET, ends=(2,))


def test_results_and_the_metrics_that_they_suffice_for_are_those_of_every_stage(tmp_path: Path) -> None:
    found = suite_with_ends()
    ends = run(found, tiny_learner("naive", found), tmp_path / "ends", ENDS)
    every = run(found, tiny_learner("naive", found), tmp_path / "every", QUIET)
    for stage, row in enumerate(ends.returns):
        assert all(cell in (None, every.returns[stage][task]) for task, cell in enumerate(row))
    own, known = ends.metrics(), every.metrics()
    assert own["AvgF"] is None
    assert known["AvgF"] is not None
    same = ("NormAvg", "AvgGap", "BWT", "Success", "SuccessF")
    assert [own[name] for name in same] == [known[name] for name in same]
    assert ends.intervals() == every.intervals()
    assert summarise([ends]).since_learned == summarise([every]).since_learned


@pytest.mark.parametrize("name", ["tsn-core", "single"])
def test_a_learner_that_retains_has_no_gaps_since_its_results_are_carried_over(name: str, tmp_path: Path) -> None:
    found = suite_with_ends()
    run(found, tiny_learner(name, found), tmp_path / "ends", ENDS)
    run(found, tiny_learner(name, found), tmp_path / "every", QUIET)
    assert contents(tmp_path / "ends") == contents(tmp_path / "every")


def test_the_rest_is_played_later_to_the_same_bits(tmp_path: Path) -> None:
    found = suite_with_ends(2)
    run(found, tiny_learner("ewc", found), tmp_path / "ends", ENDS)
    run(found, tiny_learner("ewc", found), tmp_path / "ends", QUIET)
    run(found, tiny_learner("ewc", found), tmp_path / "every", QUIET)
    assert contents(tmp_path / "ends") == contents(tmp_path / "every")


def test_killed_at_any_event_and_resumed_it_ends_at_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = suite_with_ends(2)
    run(found, tiny_learner("naive", found), tmp_path / "whole", ENDS)
    kills = killed_after_every_event(
        lambda: run(found, tiny_learner("naive", found), tmp_path / "killed", ENDS), monkeypatch
    )
    assert kills > 4
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


def test_every_command_says_what_is_not_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "runs" / "naive"
    words = ["run", *RUN, "--learner", "naive", "--out", str(folder)]
    main([*words, "--no-evaluate"])  # as it was called in version 0.1
    assert not (folder / "matrix.json").exists()
    main(["evaluate", str(folder), "--ends", "--device", "cpu"])
    said = capsys.readouterr().out
    assert "AvgF not measured" in said
    assert f"not evaluated after every task: holdfast evaluate {folder} plays the rest" in " ".join(said.split())
    main(["show", str(folder), "--json"])
    record = json.loads(capsys.readouterr().out)
    assert record["matrix"]["metrics"]["AvgF"] is None
    for kind, missing in (("main", "AvgF"), ("tasks", "F")):
        main(["table", str(tmp_path / "runs"), "--table", kind])
        table = capsys.readouterr().out
        assert f" {missing} |" in table
        assert "not measured" in table
    for form in ("tex", "csv"):
        main(["table", str(tmp_path / "runs"), "--format", form])
        assert "not measured" in capsys.readouterr().out
    main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "report.html")])
    page = (tmp_path / "report.html").read_text()
    assert "Where a cell is empty, the task was not played after that stage." in page
    assert "not all of them, so that AvgF is not measured" in page
    main(["evaluate", str(folder), "--device", "cpu"])
    assert "not measured" not in capsys.readouterr().out


def test_a_forecast_says_when_tasks_are_played(tmp_path: Path) -> None:
    words = [*RUN, "--learner", "naive", "--evaluate", "ends", "--evaluate-at", "10", "100"]
    command = parse_run([*words, "--out", str(tmp_path / "run")])
    said = forecast(command.spec)
    assert "of each task after it is learned, and of every learned task after 4 tasks" in said
    assert "10 episodes at 10, 100 % of a task's training" in said


def test_a_metric_is_none_only_if_a_result_that_it_needs_is_missing() -> None:
    assert mean_success(GAPS) == (0.25 + 0.5 + 1.0) / 3
    assert success_forgetting(GAPS) == ((0.5 - 0.25) + (0.75 - 0.5)) / 2
    assert backward_transfer(GAPS) == -((0.5 - 0.25) + (0.75 - 0.5)) / 2
    assert forward_transfer(GAPS, [0.0, 0.5, 0.5]) == (0.25 + 0.5) / 2
    assert forgetting(GAPS) == [None, 0.25, 0.0]
    assert avg_forgetting(GAPS) is None
    assert success_forgetting([[None, None], [0.5, 0.5]]) is None


def test_what_contradicts_itself_is_refused() -> None:
    with pytest.raises(Mistake, match="leave it or --evaluate ends out"):
        Options(evaluate="ends", full_matrix=True)
    with pytest.raises(Mistake, match="evaluate must be one of every, ends, none, got False"):
        Options(evaluate=False)  # type: ignore[arg-type]
