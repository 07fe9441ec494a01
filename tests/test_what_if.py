"""What other thresholds would have given is read from the record, and true where no decision would differ."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.cli.main import main
from holdfast.runs.folder import RunFolder
from holdfast.runs.run import run
from holdfast.study.what_if import Prediction, what_if
from tests.tiny import QUIET, tiny_learner, tiny_suite


def route(task: str, *distances: float | None, threshold: float = 5.0, opened: bool = True) -> dict[str, Any]:
    candidates = [{"task": f"T{at}", "distance": distance, "full": False} for at, distance in enumerate(distances)]
    return {"task": task, "candidates": candidates, "threshold": threshold, "opened": opened}


def plan(threshold: Any = 5.0, max_copies: int | None = None) -> dict[str, Any]:
    return {"config": {"routing": {"threshold": threshold, "max_copies": max_copies}}}


def matrix(tasks: int, copies: int) -> Any:
    names = [f"T{at}" for at in range(tasks)]
    return SimpleNamespace(tasks=names, copies=copies, bytes={"total": 1_000}, accounts=[{"total": 50}] * copies)


ROUTES = [route("T0"), route("T1", 7.0), route("T2", 9.0, 3.0, opened=False), route("T3", None, 8.0, 12.0)]


def test_one_more_task_shares_a_copy_at_the_distance_of_its_nearest():
    assert what_if(ROUTES, matrix(4, 3), plan()) == [
        Prediction(None, 4, 1_200),
        Prediction(3.0, 3, 1_000),  # the run's own threshold, 5, is from here on
        Prediction(7.0, 2, 800),
        Prediction(8.0, 1, 600),
    ]


def test_no_more_copies_are_predicted_than_allowed():
    found = what_if(ROUTES, matrix(4, 2), plan(max_copies=2))
    assert [(one.least, one.copies) for one in found] == [(None, 2), (8.0, 1)]


def test_a_full_copy_is_not_joined_at_any_threshold():
    full = {"task": "T0", "distance": 1.0, "full": True}
    routes = [route("T0"), {**route("T1"), "candidates": [full]}]
    assert what_if(routes, matrix(2, 2), plan()) == [Prediction(None, 2, 1_000)]


def test_a_decision_that_was_not_made_with_the_threshold_stays():
    """affinity-h compares a single candidate with 1."""
    routes = [route("T0"), route("T1", 0.5, threshold=1.0, opened=False), route("T2", 0.2, 0.4)]
    found = what_if(routes, matrix(3, 2), plan())
    assert [(one.least, one.copies) for one in found] == [(None, 2), (0.2, 1)]


def test_a_distance_that_could_not_be_computed_is_beyond_every_threshold():
    routes = [route("T0"), route("T1", None), route("T2", float("nan"), 2.0)]
    found = what_if(routes, matrix(3, 2), plan())
    assert [(one.least, one.copies) for one in found] == [(None, 3), (2.0, 2)]


def test_without_a_threshold_there_is_nothing_to_vary():
    assert what_if(ROUTES, matrix(4, 3), plan("auto")) == []
    assert what_if(ROUTES, matrix(4, 3), {"config": {}}) == []


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs in which every task has a copy, and in which all share one."""
    place, suite = tmp_path_factory.mktemp("runs"), tiny_suite()
    for name, threshold in (("apart", -1.0), ("together", 1e12)):
        run(suite, tiny_learner("affinity-l", suite, routing__threshold=threshold), place / name, QUIET)
    return {name: place / name for name in ("apart", "together")}


def predicted(path: Path, threshold: float) -> Prediction:
    folder = RunFolder(path)
    found = what_if(folder.read_routes(), folder.read_matrix(), folder.record["config"])
    return [one for one in found if one.least is None or one.least <= threshold][-1]


@pytest.mark.parametrize("name", ["apart", "together"])
def test_at_its_own_threshold_a_run_predicts_itself(name, folders):
    matrix = RunFolder(folders[name]).read_matrix()
    own = RunFolder(folders[name]).record["config"]["config"]["routing"]["threshold"]
    found = predicted(folders[name], own)
    assert (found.copies, found.bytes) == (matrix.copies, matrix.bytes["total"])


def test_a_run_predicts_the_copies_of_another_and_nearly_its_bytes(folders):
    together = RunFolder(folders["together"]).read_matrix()
    found = predicted(folders["apart"], 1e12)
    assert found.copies == together.copies == 1
    assert found.bytes == pytest.approx(together.bytes["total"], rel=0.05)
    apart = RunFolder(folders["apart"]).read_matrix()
    found = predicted(folders["together"], -1.0)
    assert found.copies == apart.copies == 3
    assert found.bytes == pytest.approx(apart.bytes["total"], rel=0.05)


def test_show_prints_it_and_says_that_it_is_a_prediction(folders, capsys):
    main(["show", str(folders["apart"]), "--what-if"])
    told = capsys.readouterr().out
    assert "threshold from" in told
    assert "predicted" in told
