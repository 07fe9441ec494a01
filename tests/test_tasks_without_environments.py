"""A task without environments is learned, certified and scored on held-out episodes, and in every table and page."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from holdfast.cli.main import main
from holdfast.data.episodes import Dataset, Episode
from holdfast.errors import Mistake
from holdfast.evaluation.matrix import Matrix
from holdfast.evaluation.offline import every_step_once, offline_score
from holdfast.evaluation.rollouts import evaluate
from holdfast.runs.folder import RunFolder
from holdfast.runs.run import run
from holdfast.study.groups import group_runs, read_runs
from holdfast.study.summary import summarise
from holdfast.tasks.environments import Protocol
from holdfast.tasks.suite import Suite
from tests.tiny import ALL, IN_TURN, QUIET, contents, tiny_learner, tiny_suite


def without_environments(*places: int, name: str = "toy", held_out: bool = True) -> Suite:
    """A tiny suite, in which the tasks at these places have no environments."""
    found = tiny_suite(name)

    def blind(place: int) -> bool:
        return place in places

    tasks = [
        replace(
            task, environments=None, simulator=None, held_out=(lambda task=task: task.dataset) if held_out else None
        )
        if blind(place)
        else task
        for place, task in enumerate(found.tasks)
    ]
    return replace(found, tasks=tuple(tasks))


def test_show_says_why_a_task_has_no_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = without_environments(1, held_out=False)
    run(found, tiny_learner("naive", found), tmp_path, QUIET)
    main(["show", str(tmp_path)])
    line = f"no results, since there is no environment and no held-out data: {found.names[1]}\n"
    assert line in capsys.readouterr().out


@pytest.mark.parametrize("name", ALL)
def test_every_learner_learns_and_certifies_it_and_the_rest_is_as_ever(name: str, tmp_path: Path) -> None:
    run(tiny_suite(), tiny_learner(name, tiny_suite()), tmp_path / "whole", QUIET)
    found = without_environments(1)
    matrix = run(found, tiny_learner(name, found), tmp_path / "blind", QUIET)
    whole, blind = (contents(tmp_path / name) for name in ("whole", "blind"))
    assert {path: bits for path, bits in whole.items() if path != "matrix.json"} == {
        path: bits for path, bits in blind.items() if path != "matrix.json"
    }
    played = RunFolder(tmp_path / "whole").read_matrix()
    assert played is not None
    for stage in range(3):
        assert matrix.returns[stage] == [
            None if place == 1 else cell for place, cell in enumerate(played.returns[stage])
        ]
        assert (matrix.scores[stage][1] is not None) == (stage >= (1 if name in IN_TURN else 2))
        assert matrix.scores[stage][0] is matrix.scores[stage][2] is None
    assert matrix.stages == 3


def test_metrics_are_those_of_the_other_tasks() -> None:
    matrix = Matrix(
        "toy", "naive", "paper", 0, "smoke", {"name": "p", "episodes": 1}, ["A", "B", "C"], [10.0, 1.0, 20.0]
    )
    matrix.offline = ["B"]
    for stage, task, value in [(0, 0, 8.0), (1, 0, 9.0), (2, 0, 4.0), (2, 2, 20.0)]:
        matrix.returns[stage][task], matrix.successes[stage][task] = [value], [value > 5]
        matrix.lengths[stage][task], matrix.distinct_episodes[stage][task] = [1], 1
    metrics = matrix.metrics()
    assert metrics["NormAvg"] == (40 + 100) / 2
    assert metrics["AvgGap"] == (6 + 0) / 2
    assert metrics["F"] == {"A": 5.0, "C": 0.0}
    assert metrics["AvgF"] == 5.0
    assert metrics["BWT"] == -4.0
    assert (metrics["Success"], metrics["SuccessF"]) == (0.5, 1.0)
    summary = summarise([replace(matrix, copies=1, bytes={"total": 1})])
    assert summary.forgetting is not None
    assert (summary.forgetting.value, summary.lost["A"].value, summary.learned["C"].value) == (5.0, 5.0, 20.0)
    assert (summary.mean_success.value, summary.success_forgetting.value) == (0.5, 1.0)  # type: ignore[union-attr]


@pytest.mark.parametrize("places", [(1,), (2,), (0, 2), (0, 1, 2)])
def test_show_tables_and_pages_have_it(
    places: tuple[int, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = without_environments(*places)
    for seed in range(2):
        run(found, tiny_learner("ewc", found, seed=seed), tmp_path / "runs" / f"s{seed}", QUIET)
    main(["show", str(tmp_path / "runs" / "s0")])
    assert "likelihood" in capsys.readouterr().out
    for kind in ("main", "tasks", "aux"):
        main(["table", str(tmp_path / "runs"), "--table", kind])
        assert "likelihood" in capsys.readouterr().out
    words = ["report", str(tmp_path / "runs"), "--out", str(tmp_path / "page.html"), "--no-videos"]
    if len(places) < 3:
        main(words)
        assert "likelihood" in (tmp_path / "page.html").read_text()
    else:
        with pytest.raises(SystemExit):
            main(words)
        assert "no task with an environment" in capsys.readouterr().err


def test_scores_are_in_events_and_in_the_matrix_and_are_carried_over(tmp_path: Path) -> None:
    found = without_environments(0)
    matrix = run(found, tiny_learner("tsn-core", found), tmp_path, QUIET)
    events = [event for event in RunFolder(tmp_path).events() if event["kind"] == "score"]
    assert [(event["stage"], event["task"], event["carried"]) for event in events] == [
        (stage, found.names[0], origin) for stage, origin in enumerate([None, 0, 0])
    ]
    assert json.loads((tmp_path / "matrix.json").read_text())["scores"] == matrix.scores
    assert matrix.scores[0][0] == matrix.scores[2][0] == events[0]["score"]
    again = RunFolder(tmp_path).read_matrix()
    assert again is not None
    assert (again.offline, again.scores) == ([found.names[0]], matrix.scores)


def test_without_held_out_episodes_there_is_no_score_and_a_run_is_complete(tmp_path: Path) -> None:
    found = without_environments(1, held_out=False)
    matrix = run(found, tiny_learner("naive", found), tmp_path, QUIET)
    assert matrix.stages == 3
    assert all(cell is None for row in matrix.scores for cell in row)
    main(["show", str(tmp_path)])


def test_interrupted_before_the_score_it_is_scored_when_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    found = without_environments(0)
    whole = run(found, tiny_learner("naive", found), tmp_path / "whole", QUIET)
    with monkeypatch.context() as patch:
        patch.setattr("holdfast.runs.results.offline_score", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(found, tiny_learner("naive", found), tmp_path / "cut", QUIET)
    assert run(found, tiny_learner("naive", found), tmp_path / "cut", QUIET).scores == whole.scores


def test_every_step_is_scored_once() -> None:
    lengths = [1, 4, 5, 9]
    dataset = Dataset.of(
        Episode(np.zeros((length, 4), np.float32), np.zeros(length, np.int64), np.zeros(length, np.float32))
        for length in lengths
    )
    first, counts = every_step_once(dataset, 4)
    assert counts.max() <= 4
    steps = [step for begin, count in zip(first, counts, strict=True) for step in range(begin, begin + count)]
    assert steps == list(range(sum(lengths)))


@pytest.mark.parametrize(("name", "measure"), [("toy", "likelihood"), ("toy-continuous", "squared error")])
def test_the_score_is_that_of_the_networks_loss_and_training_makes_it_better(name: str, measure: str) -> None:
    found = tiny_suite(name, 1)
    scores = []
    for steps in (1, 200):
        learner = tiny_learner("naive", found, fit__steps=steps, fit__learning_rate=3e-3, net__dropout=0.5)
        learner.learn(found.tasks[0])
        policy, dataset = learner.policy(found.names[0]), found.tasks[0].dataset
        scores.append(offline_score(policy, dataset)[measure])
        assert offline_score(policy, dataset)[measure] == scores[-1]  # nothing is dropped, nothing is drawn
    better = scores[1] > scores[0] if measure == "likelihood" else scores[1] < scores[0]
    assert better
    assert all(math.isfinite(score) and score >= 0 for score in scores)


def test_playing_it_is_refused_in_one_sentence() -> None:
    found = without_environments(0)
    learner = tiny_learner("naive", found)
    learner.learn(found.tasks[0])
    with pytest.raises(Mistake, match="has no environments: add environments"):
        evaluate(learner.policy(found.names[0]), found.tasks[0], Protocol(episodes=1))


def test_runs_with_and_without_environments_are_no_one_setting(tmp_path: Path) -> None:
    for seed, found in enumerate((tiny_suite(), without_environments(0))):
        run(found, tiny_learner("naive", found, seed=seed), tmp_path / str(seed), QUIET)
    assert len(group_runs(read_runs(tmp_path))) == 2
