"""Whatever names and numbers runs have, a page is made of them, or a sentence says why one is left out."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.main import main
from holdfast.errors import Mistake
from holdfast.runs.run import run
from holdfast.study.export import export_runs
from holdfast.study.figures.study import read_study
from holdfast.study.page.compose import report
from holdfast.study.table_formats import markdown
from holdfast.study.tables import make_table, read_records
from tests.test_page import Outline, first_tasks
from tests.test_results import a_run
from tests.tiny import QUIET, tiny_learner, tiny_suite

Damage = Callable[[Any], Any]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A routed learner and one that forgets, of two tasks."""
    root, suite = tmp_path_factory.mktemp("inputs") / "runs", tiny_suite(tasks=2)
    for name in ("affinity-l", "naive"):
        run(suite, tiny_learner(name, suite), root / name, QUIET)
    return root


@pytest.fixture
def copied(runs: Path, tmp_path: Path) -> Path:
    """Exports of them, to be changed."""
    export_runs([runs], tmp_path / "runs")
    return tmp_path / "runs"


def change(path: Path, damage: Damage) -> None:
    path.write_text(json.dumps(damage(json.loads(path.read_text()))))


def renamed(root: Path, old: str, new: str) -> None:
    for path in root.rglob("*.json"):
        path.write_text(path.read_text().replace(old, json.dumps(new)[1:-1]))


# Names


@pytest.mark.parametrize("name", ["\x1b[31mred\x00\x07", "\u202etxet", "\udcff", "x" * 3_000, " ", "a\nb", "$x^2$"])
def test_a_task_may_be_called_anything(copied: Path, tmp_path: Path, name: str) -> None:
    renamed(copied, "NorthEast", name)
    page = report([copied], tmp_path / "page.html", videos=False).page
    assert all(letter.isprintable() for letter in page.read_text(encoding="utf-8").replace("\n", ""))


def test_a_label_of_any_length_makes_files_with_names_that_a_disk_takes(copied: Path, tmp_path: Path) -> None:
    for at, path in enumerate(copied.glob("*/config.json")):
        budget = {"budget": f"{'b' * 900}{at}"}
        change(path, lambda record, new=budget: record | {"config": record["config"] | new})
        change(path.with_name("matrix.json"), lambda record, new=budget: record | new)
    written = report([copied], tmp_path / "page.html", tmp_path / "figures", videos=False)
    assert len({path.name for path in written.figures}) == len(written.figures)
    assert max(len(path.name) for path in written.figures) < 120


# Numbers


def test_a_run_of_one_task_has_a_page_and_a_table(tmp_path: Path) -> None:
    suite = tiny_suite(tasks=1)
    for name in ("affinity-l", "naive"):
        run(suite, tiny_learner(name, suite), tmp_path / "runs" / name, QUIET)
    main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "page.html"), "--no-videos"])
    assert "1 task, 2 settings, 2 runs" in Outline(tmp_path / "page.html").text
    assert "| naive |" in markdown(make_table("main", read_records(tmp_path / "runs")))


def test_runs_of_other_tasks_make_one_page(copied: Path, tmp_path: Path) -> None:
    shutil.copytree(copied / "naive", copied / "few")
    first_tasks(copied / "few", 1)
    report([copied], tmp_path / "page.html", videos=False)
    assert "3 settings" in Outline(tmp_path / "page.html").text


@pytest.mark.parametrize("value", [0.0, 1e-300, -1e30, 1e30])
def test_any_finite_return_can_be_drawn(copied: Path, tmp_path: Path, value: float) -> None:
    def put(record: Any) -> Any:
        record["returns"][1][0] = [value] * len(record["returns"][1][0])
        return record

    change(copied / "naive" / "matrix.json", put)
    report([copied], tmp_path / "page.html", videos=False)


def test_losses_that_are_no_numbers_are_not_drawn(copied: Path) -> None:
    nan = float("nan")
    change(
        copied / "naive" / "losses.json",
        lambda _: {"NorthEast": [[1, nan], [2, 0.5], [0, 1.0]], "SouthWest": [[1, nan]]},
    )
    (naive,) = [setting for setting in read_study([copied]).settings if setting.learner == "naive"]
    assert naive.runs[0].losses == {"NorthEast": [[2, 0.5]]}


def without_first(record: list[Any]) -> list[Any]:
    return record[1:]


def gap(record: list[Any]) -> list[Any]:
    return [{**route, "copy": 2 * route["copy"] + 1} for route in record]


def far(record: list[Any]) -> list[Any]:
    return [{**route, "threshold": None} for route in record]


def nowhere(record: list[Any]) -> list[Any]:
    return [{**route, "source": "nowhere"} for route in record]


def distances(value: Any) -> Damage:
    def put(record: list[Any]) -> list[Any]:
        return [{**route, "candidates": [{"task": "NorthEast", "distance": value}]} for route in record]

    return put


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *(("routes.json", damage) for damage in (without_first, gap, far, nowhere, distances("far"))),
        *((name, lambda _: [{}]) for name in ("routes.json", "certificates.json")),
        *((name, lambda _: 3) for name in ("routes.json", "losses.json", "certificates.json")),
        ("losses.json", lambda _: {"NorthEast": 1}),
        ("certificates.json", lambda record: [{**one, "fingerprint": 1} for one in record]),
    ],
)
def test_a_run_with_a_damaged_record_is_left_out_of_the_page_and_named(
    copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, damage: Damage
) -> None:
    change(copied / "affinity-l" / name, damage)
    main(["report", str(copied), "--out", str(tmp_path / "page.html"), "--no-videos"])
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith(f"holdfast: skipped: {copied / 'affinity-l' / name} is ")
    assert "1 setting, 1 run" in Outline(tmp_path / "page.html").text
    with pytest.raises(SystemExit) as end:
        main(["report", str(copied / "affinity-l"), "--out", str(tmp_path / "none.html"), "--no-videos"])
    assert end.value.code == 2
    assert not (tmp_path / "none.html").exists()
    with pytest.raises(Mistake):
        read_study([copied])


def test_a_distance_that_could_not_be_computed_is_no_damage(copied: Path, tmp_path: Path) -> None:
    def put(record: list[Any]) -> list[Any]:
        for route in record:
            for candidate in route["candidates"]:
                candidate["distance"] = None
        return record

    change(copied / "affinity-l" / "routes.json", put)
    report([copied], tmp_path / "page.html", videos=False)
    assert "∞" in Outline(tmp_path / "page.html").text


def test_records_that_are_not_there_are_not_shown(tmp_path: Path) -> None:
    a_run(tmp_path, "one", "naive", 0, [1.0, 2.0])  # neither versions nor hardware, routes or certificates
    report([tmp_path / "one"], tmp_path / "page.html", videos=False)
    assert "How it was made" in Outline(tmp_path / "page.html").text
