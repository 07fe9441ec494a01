"""The table of success, forgetting and forward transfer, beside other publications, also after a run's first tasks."""

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.agent.changes import Update
from holdfast.agent.events import training_seconds
from holdfast.agent.session import Session
from holdfast.cli.main import main
from holdfast.errors import Interrupted
from holdfast.evaluation.curves import CurvePoint
from holdfast.evaluation.matrix import Matrix
from holdfast.runs.run import run
from holdfast.study import other_publications
from holdfast.study.export import export_runs
from holdfast.study.groups import RunResult
from holdfast.study.summary import Estimate
from holdfast.study.table_formats import FORMATS
from holdfast.study.tables import Records, default_kind, make_table
from holdfast.study.transfer import forward_transfer
from tests.tiny import QUIET, tiny_learner, tiny_suite

AT = replace(QUIET, evaluate="ends", evaluate_at=(50, 100))
SHORTER = """from holdfast import SuiteSpec, suite

ORDER = ("NorthEast", "SouthWest")


def tasks(choice):
    return suite("toy", ORDER, choice.transitions).tasks


SUITES = {"toy2": SuiteSpec("toy2", "the first two tasks of toy", ORDER, tasks)}
"""


def flags(rate: float) -> list[bool]:
    return [number < 4 * rate for number in range(4)]


def a_matrix(learner: str, seed: int, rates: list[list[float | None]], curves: list[list[float]]) -> Matrix:
    """A matrix of three tasks with these success rates of four episodes, and these at 50 and 100 % of the training."""
    tasks = ["A", "B", "C"]
    matrix = Matrix("cw20", learner, "paper", seed, "smoke", {"name": "p", "episodes": 4}, tasks, [1.0] * 3)
    for stage, row in enumerate(rates):
        for task, rate in enumerate(row):
            if rate is not None:
                matrix.successes[stage][task], matrix.returns[stage][task] = flags(rate), [0.0, 1.0, 2.0, 3.0]
                matrix.lengths[stage][task], matrix.distinct_episodes[stage][task] = [1] * 4, 4
    for task, own in zip(tasks, curves, strict=False):
        points = zip((50, 100), own, strict=False)
        matrix.curves[task] = [CurvePoint(at, [0.0] * 4, flags(rate), 4) for at, rate in points]
    matrix.copies, matrix.bytes = 1, {"weights": 1, "memory": 0, "total": 1_000_000}
    matrix.task_copy, matrix.stage_bytes = dict.fromkeys(tasks, 0), [10, 20, 1_000_000]
    return matrix


GAPS: list[list[float | None]] = [[1.0, None, None], [None, 1.0, None], [0.5, 0.75, 1.0]]
ALONE = [[0.5, 1.0], [0.5, 1.0], [0.5, 0.5]]  # areas 0.5, 0.5 and 0.375
FASTER = [[0.5, 1.0], [1.0, 1.0], [0.5, 0.5]]  # areas 0.5, 0.75 and 0.375


def records(*matrices: Matrix) -> Records:
    """These matrices as runs."""
    results = [
        RunResult(
            f"{matrix.learner}-{matrix.seed}",
            {"suite": matrix.suite, "learner": matrix.learner, "seed": matrix.seed, "order": matrix.tasks},
            {},
            matrix,
        )
        for matrix in matrices
    ]
    return Records(matrices[0].suite, results, None)


def rows(content: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content)))


def test_every_number_is_that_of_the_formulas() -> None:
    found = records(*(a_matrix(name, 0, GAPS, curves) for name, curves in (("single", ALONE), ("naive", FASTER))))
    naive, single, *_ = rows(FORMATS["csv"](make_table(None, found)))
    assert float(naive["success %"]) == 75
    assert float(naive["success F %"]) == pytest.approx(100 * (0.5 + 0.25) / 2)
    assert float(naive["forward transfer"]) == pytest.approx((0.75 - 0.5) / (1 - 0.5) / 3)
    assert float(naive["forward transfer low"]) < float(naive["forward transfer high"])
    assert (naive["copies"], float(naive["MB"]), naive["seeds"]) == ("1", 1.0, "0")
    assert (single["learner"], float(single["forward transfer"])) == ("single", 0.0)


def test_what_cancels_is_zero_not_floating_point_noise() -> None:
    again = [[0.75, 1.0], [0.5, 0.75], [0.25, 1.0]]
    singles = [a_matrix("single", seed, GAPS, curves) for seed, curves in enumerate((ALONE, FASTER, again))]
    assert forward_transfer(singles, singles) == Estimate(0.0, (0.0, 0.0))
    naive = a_matrix("naive", 0, GAPS, [])
    for stage, task, succeeded in ((0, 0, 7), (1, 1, 1), (2, 0, 4), (2, 1, 4), (2, 2, 4)):
        naive.successes[stage][task] = [number < succeeded for number in range(10)]
        naive.returns[stage][task], naive.distinct_episodes[stage][task] = [0.0] * 10, 10
    assert 0.7 - 0.4 + 0.1 - 0.4 != 0
    (line, *_) = rows(FORMATS["csv"](make_table("success", records(naive))))
    assert float(line["success F %"]) == 0


def test_forward_transfer_compares_equal_seeds() -> None:
    naive = a_matrix("naive", 1, GAPS, FASTER)
    one, other = a_matrix("single", 1, GAPS, ALONE), a_matrix("single", 2, GAPS, FASTER)
    assert forward_transfer([naive], [one, other]) == forward_transfer([naive], [one])
    without_its_seed = forward_transfer([naive], [other])
    assert without_its_seed is not None
    assert without_its_seed.value == 0


def test_forward_transfer_needs_equal_moments_of_all_tasks_and_of_single() -> None:
    naive, single = a_matrix("naive", 0, GAPS, FASTER), a_matrix("single", 0, GAPS, ALONE)
    assert forward_transfer([naive], [single]) is not None
    assert forward_transfer([naive], []) is None
    naive.single_curves = single.curves
    assert forward_transfer([naive], []) == forward_transfer([naive], [single])
    assert forward_transfer([naive, a_matrix("naive", 1, GAPS, FASTER[:2])], [single]) is None
    assert forward_transfer([naive], [a_matrix("single", 0, GAPS, [[0.5]] * 3)]) is None
    table = FORMATS["md"](make_table("success", records(naive, a_matrix("packnet", 0, GAPS, []))))
    packnet = next(line for line in table.splitlines() if line.startswith("| packnet"))
    assert "not measured" in packnet


def test_other_publications_stand_in_blocks_of_their_own_with_all_differences() -> None:
    assert (default_kind("cw10"), default_kind("cw20"), default_kind("panda3")) == ("success", "success", "main")
    table = make_table(None, records(a_matrix("naive", 0, GAPS, [])))
    shown = FORMATS["md"](table)
    assert "| *published: t-DGR, in t-DGR* (a) |  | 83.9 | 14.6 |" in shown
    assert "| *published: PackNet, in t-DGR* (a) |  | 74.1 | -0.2 |" in shown
    assert "| *published: fine-tuning, in CompoFormer* (b) |  | 8 |" in shown
    assert "(t-DGR is arXiv 2401.02576, CompoFormer is arXiv 2411.11364) are a direction, not a race" in shown
    assert "are of all 20 tasks, ours of A, B, C" in shown
    for publication in other_publications.other_publications():
        assert all(difference in shown.replace("\\", "") for difference in publication["differs"])
    published = [row for row in rows(FORMATS["csv"](table)) if row["status"] == "published"]
    assert len(published) == 17
    assert float(published[0]["success % published"]) == 97.0
    assert "published: LoRA, in CompoFormer" in FORMATS["tex"](table)
    cw10 = other_publications.other_lines("cw10")
    assert [int(line.published["success %"]) for line in cw10] == [75, 69, 64, 60, 54, 29, 29, 26, 16, 11]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of three tasks, and runs of the first two of them."""
    tmp_path = tmp_path_factory.mktemp("runs")
    for count in (3, 2):
        found = tiny_suite(tasks=count)
        for name in ("naive", "single", "affinity-l"):
            learner = tiny_learner(name, found, protocol__episodes=10)
            run(found, learner, tmp_path / f"{count}" / name, replace(AT, evaluate="every"))
    return tmp_path


def table(capsys: pytest.CaptureFixture[str], *words: object) -> list[dict[str, Any]]:
    main(["table", *map(str, words), "--format", "csv"])
    return rows(capsys.readouterr().out)


@pytest.mark.parametrize("kind", ["success", "main", "tasks"])
def test_a_run_after_its_first_tasks_is_a_run_of_these_tasks(
    kind: str, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = table(capsys, runs / "3", "--stages", 2, "--table", kind)
    whole = table(capsys, runs / "2", "--table", kind)
    assert any(row.get("forward transfer") for row in whole) == (kind == "success")
    assert [{**row, "minutes": ""} for row in cut] == [{**row, "minutes": ""} for row in whole]


def test_an_interrupted_run_is_one_of_the_tasks_that_it_finished_and_of_no_more(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found, commit = tiny_suite(tasks=3), Session.commit

    def interrupted_in_the_third(session: Session, update: Update) -> None:
        if len(session.learner.learned) == 3:
            raise Interrupted("interrupted", 2)
        commit(session, update)

    monkeypatch.setattr(Session, "commit", interrupted_in_the_third)
    learner = tiny_learner("affinity-l", found, protocol__episodes=10)
    with pytest.raises(Interrupted):
        run(found, learner, tmp_path / "runs" / "affinity-l", replace(AT, evaluate="every"))
    export_runs([tmp_path / "runs"], tmp_path / "out")
    (cut,) = [line for line in table(capsys, tmp_path / "out", "--stages", 2) if line["status"] == "ours"]
    (whole,) = [line for line in table(capsys, runs / "2" / "affinity-l") if line["status"] == "ours"]
    assert cut == whole
    (unfinished,) = [line for line in table(capsys, tmp_path / "out") if line["runs"] == "affinity-l"]
    assert unfinished["seeds"] == "0 unfinished"


def test_its_title_says_what_was_cut_and_its_suite_is_that_of_these_tasks(
    runs: Path, tmp_path: Path, own_plugins: None, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["table", str(runs / "3"), "--stages", "2", "--format", "tex"])
    assert r"\caption{toy: final results, a row for each setting of a learner (runs of toy after 2 tasks)}" in (
        capsys.readouterr().out
    )
    (tmp_path / "shorter.py").write_text(SHORTER)
    holdfast.plugin(tmp_path / "shorter.py")
    main(["table", str(runs / "3"), "--stages", "2", "--format", "tex", "--suite", "toy2"])
    assert r"\caption{toy2: final results, a row for each setting of a learner (runs of toy after 2 tasks)}" in (
        capsys.readouterr().out
    )
    with pytest.raises(SystemExit):
        main(["table", str(runs / "3"), "--stages", "0"])
    assert "--stages must be at least 1" in capsys.readouterr().err


def test_training_time_is_that_of_training_alone_and_unknown_of_a_cached_fit() -> None:
    log = [
        (0.0, "learn", "A"),
        (1.0, "train", "A"),
        (4.0, "curve", "A"),  # three seconds of playing
        (5.0, "train", "A"),
        (100.0, "resume", "A"),
        (102.0, "train", "A"),
        (109.0, "evaluate", "A"),
        (110.0, "learn", "B"),
        (110.5, "recall", "B"),
        (110.5, "train", "B"),
    ]
    assert training_seconds({"time": at, "kind": kind, "task": task} for at, kind, task in log) == {"A": 1 + 1 + 2}


def test_an_export_knows_how_long_training_took(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    export_runs([runs / "3"], tmp_path)
    here = table(capsys, runs / "3", "--table", "success")
    assert all(float(row["minutes"]) > 0 for row in here)
    assert table(capsys, tmp_path, "--table", "success") == here
    shorter = table(capsys, tmp_path, "--table", "success", "--stages", 2)
    assert all(float(less["minutes"]) < float(more["minutes"]) for less, more in zip(shorter, here, strict=True))


def test_a_run_that_learned_all_tasks_at_once_has_no_first_tasks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for count in (3, 2):
        found = tiny_suite(tasks=count)
        run(found, tiny_learner("multitask", found), tmp_path / f"{count}", QUIET)
    assert [row["runs"] for row in table(capsys, tmp_path, "--stages", 2, "--table", "success")] == ["2"]
    with pytest.raises(SystemExit):
        main(["table", str(tmp_path / "3"), "--stages", "2"])
    assert "learned all tasks at once: it has no results after 2 tasks" in " ".join(capsys.readouterr().err.split())


def test_the_page_shows_the_same_table(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = {
        "name": "Elsewhere",
        "source": "a <book>",
        "differs": ["another world"],
        "rows": {"toy": {"best": {"success %": 42.5}}},
    }
    monkeypatch.setattr(other_publications, "other_publications", lambda: [toy])
    main(["report", str(runs / "3"), "--out", str(tmp_path / "page.html"), "--no-videos"])
    page = (tmp_path / "page.html").read_text()
    assert "Beside other publications" in page
    assert "published: best, in Elsewhere (a)" in page
    assert "Elsewhere is a &lt;book&gt;" in page
    assert "42.5" in page
    assert "(a) these runs differ from the published: another world." in page
