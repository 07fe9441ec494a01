"""Tables are made of run folders: right numbers, published ones beside them, what is missing said."""

import io
import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from rich.console import Console

from holdfast.cli.main import main
from holdfast.cli.table import fill_page
from holdfast.data.files import encoded, write_bytes
from holdfast.errors import Mistake
from holdfast.evaluation.matrix import Matrix
from holdfast.evaluation.rollouts import Evaluation
from holdfast.runs.run import run
from holdfast.study.export import POINTS, RECORDS, export_runs, loss_curves, thinned
from holdfast.study.groups import group_runs, read_runs
from holdfast.study.published import all_rows, matching_row, published_row
from holdfast.study.run_tables import matrix_table, metrics_line
from holdfast.study.summary import summarise
from holdfast.study.table_formats import format_number, markdown
from holdfast.study.tables import make_table, read_records
from tests.tiny import QUIET, tiny_learner, tiny_suite

TASKS, TARGETS = ["PandaReach", "PandaPush", "PandaPickAndPlace"], [-0.00032, -0.436, -0.001]
CHANCE = [-10.041, -8.174, -9.824]
GAMES = ["Breakout", "Alien", "Atlantis", "Boxing", "Centipede"]
SUITES = {"panda3": (TASKS, TARGETS), "atari5": (GAMES, [114.0, 86.0, 1556.0, 97.0, 135.0])}


def a_run(
    root: Path,
    name: str,
    learner: str,
    seed: int,
    returns: list[float] | None,
    suite: str = "panda3",
    plan: Mapping[str, Any] = MappingProxyType({}),
    datasets: Mapping[str, str] = MappingProxyType({}),
    **routing: float,
) -> Path:
    """The records of a run in which every task earned these returns at every stage."""
    tasks, targets = SUITES[suite]
    names = {"suite": suite, "learner": learner, "seed": seed, "threads": seed, "order": tasks}
    config = {"config": {**names, "config": {"routing": routing}, **plan}, "data_returns": dict.fromkeys(tasks, -1.0)}
    write_bytes(root / name / "config.json", encoded({**config, "datasets": dict(datasets)}))
    if returns is not None:
        protocol = {"name": "paper", "episodes": len(returns), "first_seed": 7, **plan.get("protocol", {})}
        matrix = Matrix(suite, learner, "paper", seed, plan.get("budget", "full"), protocol, tasks, targets)
        matrix.copies, matrix.bytes = 1 + seed, {"total": 2_000_000}
        distinct = len(set(returns)) if suite == "atari5" else len(returns)
        succeeded = [suite == "panda3"] * len(returns)
        for stage in range(len(tasks)):
            for task in range(stage + 1):
                matrix.record(stage, task, Evaluation(returns, [1] * len(returns), succeeded, distinct))
        write_bytes(root / name / "matrix.json", encoded(matrix.to_json()))
    return root / name


def table(*roots: Path) -> str:
    return markdown(make_table("main", read_records(*roots)))


def cells(text: str, label: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {label} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_runs_that_differ_in_the_seed_alone_are_one_row(tmp_path):
    for seed in (0, 1):
        a_run(tmp_path, f"a-{seed}", "affinity-a", seed, [-1.0, -1.0], threshold=0.45)
    a_run(tmp_path, "b", "affinity-a", 0, [-2.0, -2.0], threshold=0.35)
    a_run(tmp_path, "c", "ewc", 0, [-2.0, -2.0], strength=50.0)
    a_run(tmp_path, "d", "ewc", 0, [-2.0, -2.0], strength=100.0)
    labels = [found.label for found in group_runs(read_runs(tmp_path))]
    ewc = ["ewc routing.strength=50", "ewc routing.strength=100"]
    assert labels == [*ewc, "affinity-a tau=0.35", "affinity-a tau=0.45"]


def test_behind_the_expert_is_measured_start_by_start(tmp_path):
    a_run(tmp_path, "a", "tsn-core", 0, [-1.0, -3.0])
    returns, successes = (dict.fromkeys(TASKS, pair) for pair in ([-0.5, -2.5], [True, False]))
    starts = {"protocol": {"episodes": 2, "first_seed": 7}, "returns": returns, "successes": successes}
    write_bytes(tmp_path / "expert.json", encoded(starts))
    text = table(tmp_path)
    assert cells(text, "the expert, same starts")[2:5] == ["-1.500<br>50 %"] * 3
    assert "0.500 [0.500, 0.500]" in cells(text, "tsn-core")  # at every start, so whichever starts are drawn
    write_bytes(tmp_path / "expert.json", encoded({**starts, "protocol": {"episodes": 2, "first_seed": 8}}))
    assert not any(cell.startswith("0.500") for cell in cells(table(tmp_path), "tsn-core"))  # other starts


def test_a_published_row_stands_once_under_the_settings_it_is_for(tmp_path):
    for name, strength in (("a", 50.0), ("b", 100.0)):
        a_run(tmp_path, name, "ewc", 0, [-2.0, -2.0], strength=strength)
    assert table(tmp_path).count("published: ewc") == 1


def test_a_summary_by_hand(tmp_path):
    for seed, value in enumerate((-1.0, -3.0)):
        a_run(tmp_path, str(seed), "tsn-core", seed, [value, value])
    (found,) = group_runs(read_runs(tmp_path))
    summary = summarise(found.matrices)
    gap = (2 - 0.00032 + 2 - 0.436 + 2 - 0.001) / 3
    assert summary.returns["PandaPush"].value == -2.0
    assert summary.returns["PandaPush"].interval == (-3.0, -1.0)  # one seed twice, a quarter of the time each
    assert summary.gap.value == pytest.approx(gap)
    assert summary.gap.interval == pytest.approx((gap - 1, gap + 1))
    assert summary.success["PandaReach"].value == 1.0
    # Shares of the way from chance to the target: those of the middle four of six, the best and the worst left out.
    ways = [((value - low) / (target - low)) for value in (-1, -3) for low, target in zip(CHANCE, TARGETS, strict=True)]
    assert summary.middle.value == pytest.approx(100 * sum(sorted(ways)[1:5]) / 4)
    assert (summary.normalised, summary.forgotten, summary.copies) == (None, 0.0, (1, 2))
    assert (summary.bytes, summary.episodes) == (2e6, 2)


def test_the_table_has_ours_the_published_row_and_what_is_missing(tmp_path):
    few = {"transitions": 9}
    a_run(tmp_path, "one", "affinity-l", 0, [-1.0, -1.0], plan=few, threshold=25.0)
    a_run(tmp_path, "two", "affinity-l", 1, None, plan=few, threshold=25.0)
    a_run(tmp_path, "core", "naive", 1, [-1.0, -1.0], plan=few)
    text = table(tmp_path)
    ours = cells(text, "affinity-l tau=25")
    assert ours[1:3] == ["0 (1 unfinished)", "-1.000 [-1.000, -1.000]<br>100 % [34.2, 100]"]
    assert ours[-4:] == ["0", "1", "2.000", "2"]
    published_row = cells(text, "*published: affinity-l tau=25* (a)")
    assert published_row[2:8] == ["-0.189", "-0.949", "-1.308", "0.670", "", "0"]
    assert published_row[8:11] == ["", "", "3"]
    assert cells(text, "naive")[1] == "1 (0 missing)"
    assert cells(text, "si")[1:] == ["missing", *["-"] * 11]
    assert cells(text, "*published: si*")[2] == "-1.754"
    assert cells(text, "the data itself")[2:6] == ["-1.000", "-1.000", "-1.000", "0.854"]
    assert "- affinity-l tau=25: one, two" in text
    assert "NormAvg" not in text  # the targets are negative


def test_a_run_on_the_screen_fits_80_columns_with_its_intervals(tmp_path):
    path = a_run(tmp_path, "one", "affinity-h", 0, [-11.5, -1.25, -1.0, -0.875], threshold=0.5, alpha=0.7)
    matrix = Matrix.from_json(json.loads((path / "matrix.json").read_text()))
    console = Console(width=80, file=io.StringIO())
    row = published_row(
        {"suite": "panda3", "learner": "affinity-h", "config": {"routing": {"threshold": 0.5, "alpha": 0.7}}}
    )
    console.print(matrix_table(matrix, dict.fromkeys(TASKS, -1.0), row))
    console.print(metrics_line(matrix))
    text = console.file.getvalue()
    assert "…" not in text
    assert [line.split("│")[1].strip() for line in text.splitlines() if "│" in line][3:] == [
        "95 %: from",
        "95 %: to",
        "success",
        "95 %: from, to",
        "the data's mean",
        "published",
        "target",
    ]
    assert "AvgGap 3.51 (" in text


@pytest.mark.parametrize(("distinct", "said"), [(2, "of 2 episodes"), (1, "of 2 episodes, 1 to 2 distinct")])
def test_the_screen_says_how_many_episodes_differ(distinct, said, tmp_path):
    path = a_run(tmp_path, "one", "naive", 0, [-1.0, -1.0])
    matrix = Matrix.from_json(json.loads((path / "matrix.json").read_text()))
    matrix.protocol["episodes"], matrix.distinct_episodes[-1][0] = 2, distinct
    assert str(matrix_table(matrix, {}, None).title).endswith(said)


def test_a_published_row_is_that_of_the_same_threshold():
    def row(suite: str, learner: str, **routing: float):
        return published_row({"suite": suite, "learner": learner, "config": {"routing": routing}})

    assert row("panda3", "affinity-a", threshold=0.35)["method"] == "affinity-a tau=0.35"
    assert row("panda3", "affinity-a", threshold=0.5) is None
    assert row("panda3", "ewc")["AvgGap"] == 7.632
    assert row("toy", "ewc") is None
    assert published_row({"suite": "panda3", "learner": "ewc", "config": {"strength": 50.0}})["AvgGap"] == 7.632
    assert published_row({"suite": "panda3", "learner": "ewc", "config": {"strength": 1e4}}) is None
    assert matching_row(all_rows("atari5"), "affinity-a", {"threshold": 16.0})["NormAvg"] == 88.5


@pytest.mark.parametrize(
    "change",
    [{"transitions": 2_000}, {"data": "expert-100"}, {"protocol": {"name": "noop"}}, {"order": ["Alien", "Boxing"]}],
    ids=lambda change: next(iter(change)),
)
def test_a_run_on_other_data_or_under_another_protocol_has_no_published_row(change):
    plan = {"suite": "atari5", "learner": "tsn-core", "protocol": {"name": "paper"}, "data": "expert-10"}
    assert published_row(plan)["NormAvg"] == 87.5
    assert published_row(plan | change) is None


def test_an_export_makes_the_same_table_and_has_no_weights(tmp_path):
    suite = tiny_suite(tasks=2)
    run(suite, tiny_learner("naive", suite), tmp_path / "runs" / "naive", QUIET)
    (place,) = export_runs([tmp_path / "runs"], tmp_path / "out")
    assert {path.name for path in place.iterdir()} == {*RECORDS, "losses.json", "seconds.json"}
    assert table(tmp_path / "out") == table(tmp_path / "runs")
    assert list(json.loads((place / "losses.json").read_text())) == suite.names
    assert export_runs([tmp_path / "runs" / "naive"], tmp_path / "other") == [tmp_path / "other" / "naive"]


def test_a_loss_curve_keeps_its_ends_and_few_points():
    curve = thinned(range(1, 1001))
    assert (len(curve), curve[0], curve[-1]) == (POINTS, 1, 1000)
    assert thinned([5]) == [5]
    events = [{"kind": "train", "task": "A", "step": 1, "loss": 0.5}, {"kind": "route", "task": "A"}]
    assert loss_curves(events) == {"A": [(1, 0.5)]}
    assert loss_curves([{**events[0], "loss": 2 / 3}]) == {"A": [(1, 0.66667)]}


def test_a_page_is_filled_between_its_marks_however_often(tmp_path, capsys):
    a_run(tmp_path / "runs", "one", "naive", 0, [-1.0, -1.0])
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- table: begin -->\nold\n<!-- table: end -->\nafter\n")
    for _ in range(2):
        main(["table", str(tmp_path / "runs"), "--into", str(page)])
    assert (
        page.read_text() == f"before\n<!-- table: begin -->\n{table(tmp_path / 'runs')}\n<!-- table: end -->\nafter\n"
    )
    main(["table", str(tmp_path / "runs")])
    assert capsys.readouterr().out == table(tmp_path / "runs") + "\n"


def test_a_page_of_several_tables_has_each_in_its_place():
    page = "<!-- a: begin -->\n1\n<!-- a: end -->\n<!-- b: begin -->\n2\n<!-- b: end -->\n"
    filled = fill_page(fill_page(page, "three", "b"), "four", "a")
    assert filled == page.replace("1", "four").replace("2", "three")
    with pytest.raises(Mistake, match="<!-- c: begin -->"):
        fill_page(page, "five", "c")


def test_the_command_fills_the_place_that_its_mark_names(tmp_path, capsys):
    a_run(tmp_path / "runs", "one", "naive", 0, [-1.0, -1.0])
    page = tmp_path / "page.md"
    page.write_text("<!-- table: begin -->\n1\n<!-- table: end -->\n<!-- b: begin -->\n2\n<!-- b: end -->\n")
    before = page.read_text()
    main(["table", str(tmp_path / "runs"), "--into", str(page), "--mark", "b"])
    assert page.read_text() == before.replace("\n2\n", f"\n{table(tmp_path / 'runs')}\n")
    with pytest.raises(SystemExit):
        main(["table", str(tmp_path / "runs"), "--mark", "b"])
    assert "--into PAGE" in capsys.readouterr().err


def test_mistakes_are_one_sentence(tmp_path, capsys):
    with pytest.raises(Mistake, match="no place for this table"):
        fill_page("a page", "a table")
    with pytest.raises(Mistake, match="holds no runs"):
        table(tmp_path)
    a_run(tmp_path, "x/run", "naive", 0, None)
    a_run(tmp_path, "y/run", "naive", 1, None)
    with pytest.raises(Mistake, match="two runs would both become"):
        export_runs([tmp_path / "x" / "run", tmp_path / "y" / "run"], tmp_path / "out")
    with pytest.raises(SystemExit) as end:
        main(["table", str(tmp_path), "--into", str(tmp_path / "nowhere.md")])
    assert end.value.code == 2
    assert capsys.readouterr().err == f"holdfast: there is no page {tmp_path / 'nowhere.md'}\n"


def test_numbers_have_as_many_digits_as_they_need():
    values = (0, -0.1893, 9.9994, 12.346, 123.46, 1556.4, -0.00032)
    assert [format_number(value) for value in values] == ["0", "-0.189", "9.999", "12.35", "123.5", "1556", "-0.00032"]


def test_the_screen_says_what_is_not_evaluated_yet(tmp_path):
    matrix = Matrix.from_json(json.loads((a_run(tmp_path, "one", "naive", 0, [-1.0]) / "matrix.json").read_text()))
    assert metrics_line(matrix).endswith(" MB")
    matrix.returns[-1] = [None] * len(matrix.tasks)
    assert metrics_line(matrix).endswith(f"evaluated after {len(matrix.tasks) - 1} of {len(matrix.tasks)} tasks so far")
