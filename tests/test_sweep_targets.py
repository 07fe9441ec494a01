"""The column "best sweep" is made of runs that were asked for other returns, or said not to be measured."""

from pathlib import Path

import pytest

from holdfast.study.published import SWEEP, differences
from holdfast.study.table_formats import markdown
from holdfast.study.tables import ResultTable, make_table, read_records
from tests.test_results import TASKS, a_run

REACH, PUSH, PICK = TASKS


def asked(root: Path, name: str, returns: list[float], *targets: str, learner: str = "single") -> None:
    a_run(root, name, learner, 0, returns, plan={"target": list(targets)})


def sweeps(table: ResultTable, label: str) -> dict[str, object]:
    return {
        str(line.values["task"]): line.values.get(SWEEP)
        for line in table.lines
        if line.label == label and line.values["task"] in TASKS
    }


@pytest.mark.parametrize("paper", [True, False])
def test_the_best_mean_over_the_returns_that_were_asked_for_is_shown_of_each_task(tmp_path, paper):
    asked(tmp_path, "own", [-2.0, -4.0])
    asked(tmp_path, "better", [-1.0, -2.0], f"{PUSH}=-0.5")
    asked(tmp_path, "worse", [-8.0, -9.0], f"{PICK}=-7.0", f"{PUSH}=-7.0")
    table = make_table("single", read_records(tmp_path), paper)
    label = next(line.label for line in table.lines if line.runs == ("own",))
    assert label == "single target=default"
    found = sweeps(table, label)
    assert found[REACH] == "not measured"  # none was asked for another return of it
    assert found[PUSH].value == -1.5  # the better one's
    assert found[PICK].value == -3.0  # what it is with its own target
    assert found[PUSH].interval is None
    assert any(note.startswith("best sweep: ") for note in table.notes)
    others = [line for line in table.lines if line.runs and line.runs != ("own",)]
    assert bool(others) is not paper
    assert not [line for line in others if SWEEP in line.values]


def test_without_such_runs_the_column_says_not_measured(tmp_path):
    asked(tmp_path, "own", [-2.0, -4.0])
    asked(tmp_path, "other", [-1.0, -2.0], f"{PUSH}=-0.5", learner="naive")
    table = make_table("single", read_records(tmp_path), paper=True)
    assert set(sweeps(table, "single").values()) == {"not measured"}
    assert "not measured" in markdown(table)
    assert not [note for note in table.notes if note.startswith("best sweep")]


def test_runs_with_other_settings_are_no_sweep(tmp_path):
    asked(tmp_path, "own", [-2.0, -4.0])
    a_run(tmp_path, "other", "single", 0, [-1.0, -2.0], plan={"target": [f"{PUSH}=-0.5"], "budget": "smoke"})
    table = make_table("single", read_records(tmp_path), paper=True)
    assert "not measured" in {found for line in table.lines if (found := line.values.get(SWEEP))}
    assert not [note for note in table.notes if note.startswith("best sweep")]


def test_a_run_that_was_asked_for_another_return_differs_from_the_published():
    (said,) = differences("panda3", "single", {"target": [f"{PUSH}=-0.5"]})
    assert said == "target PandaPush=-0.5 (published: the suite's own)"
