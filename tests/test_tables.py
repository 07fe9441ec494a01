"""Every table of the publication can be made of run folders: its numbers are the records', and nothing is hidden."""

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest

from holdfast.cli.main import main
from holdfast.cli.table import TableCommand
from holdfast.errors import Mistake
from holdfast.evaluation.statistics import interquartile_mean
from holdfast.study.export_rliable import rliable, scores
from holdfast.study.groups import group_runs, read_runs
from holdfast.study.published import differences, published_tables
from holdfast.study.published_settings import published_settings
from holdfast.study.summary import summarise
from holdfast.study.table_formats import FORMATS, comma_separated, latex, markdown
from holdfast.study.table_lines import TableLine
from holdfast.study.tables import KINDS, ResultTable, make_table, read_records
from tests.test_results import GAMES, TASKS, a_run

KEPT = Path(__file__).parent.parent / "results" / "panda3"
SUITES = ["atari5", "panda3"]
PAPER = {"protocol": {"name": "paper", "episodes": 20}, "data": "minari", "transitions": None}
RETURNS = [-1.0, -2.0, -4.0]


def parsed(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def some_runs(root: Path) -> list[Path]:
    """Three learners, one of them with two seeds, and a run that was not finished."""
    core = [a_run(root, f"core-{seed}", "tsn-core", seed, [value - seed for value in RETURNS]) for seed in (0, 1)]
    single = a_run(root, "alone", "single", 0, RETURNS)
    return [
        *core,
        single,
        a_run(root, "near", "affinity-l", 0, RETURNS, threshold=25.0),
        a_run(root, "begun", "si", 1, None),
    ]


# What there is


def published_numbers(suite: str, kind: str) -> list[dict[str, Any]]:
    """The publication's rows of a table, read from its record by hand."""
    found = published_tables()[suite]
    if kind == "aux":
        rows = [
            dict(zip(("NormAvg", "AvgF"), row[2:], strict=True)) if isinstance(row, list) else row
            for row in found["aux_runs"]
        ]
    elif kind == "single":
        rows = [found["single_task"]]
    elif kind == "thresholds" and suite == "panda3":  # printed together with the auxiliary runs
        rows = [row for row in found["aux_runs"] if "tau" in row["method"] and row["method"].endswith("r1")]
    else:
        rows = found[{"tasks": "main"}.get(kind, kind)]
    return [{name: value for name, value in row.items() if name != "method"} for row in rows]


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("success", "routes")])
def test_every_table_of_the_publication_can_be_asked_for_and_has_all_of_its_numbers(tmp_path, suite, kind):
    a_run(tmp_path, "one", "naive", 0, RETURNS, suite)
    lines = make_table(kind, read_records(tmp_path), paper=True).lines
    shown = [number for line in lines for number in line.published.values()]
    for row in published_numbers(suite, kind):
        assert not [value for value in row.values() if value not in shown]
    in_the_table = sum(len(row) for row in published_numbers(suite, kind))
    sweeps = len(published_tables()[suite].get("single_task_best_sweep", [])) if kind == "single" else 0
    runs = len(published_numbers(suite, kind)) if kind == "aux" else 0  # the number of each run is a number as well
    assert len(shown) == in_the_table + sweeps + runs + (3 if (kind, suite) == ("main", "panda3") else 0)  # the data


def test_the_command_offers_the_tables_and_formats_that_there_are():
    hints = get_type_hints(TableCommand)
    for name, known in (("table", {*KINDS}), ("format", {*FORMATS, "rliable"})):
        choices, nothing = get_args(hints[name])
        assert (set(get_args(choices)), nothing) == (known, type(None))


def test_help_names_every_table(capsys):
    with pytest.raises(SystemExit) as end:
        main(["table", "--help"])
    assert end.value.code == 0
    said = capsys.readouterr().out
    assert f"{{{','.join(KINDS)}}}" in said


# Numbers


@pytest.fixture(scope="module")
def kept_lines() -> list[dict[str, str]]:
    return parsed(comma_separated(make_table("main", read_records(KEPT))))


def test_each_number_is_what_the_matrices_say(kept_lines):
    ours = [line for line in kept_lines if line["status"] == "ours"]
    assert len(ours) == len({line["learner"] for line in ours}) > 20
    for line in ours:
        found = [json.loads((KEPT / run / "matrix.json").read_text()) for run in line["runs"].split(", ")]
        for task, name in enumerate(found[0]["tasks"]):
            returns = np.array([matrix["returns"][-1][task] for matrix in found])
            assert float(line[name]) == pytest.approx(returns.mean(), abs=1e-12)
            assert float(line[f"{name} low"]) <= float(line[name]) <= float(line[f"{name} high"])
            successes = np.array([matrix["successes"][-1][task] for matrix in found])
            assert float(line[f"{name} success"]) == pytest.approx(successes.mean(), abs=1e-12)
        for measure in ("AvgGap", "AvgF"):
            expected = np.mean([matrix["metrics"][measure] for matrix in found])
            assert float(line[measure]) == pytest.approx(expected, abs=1e-12)
        assert float(line["MB"]) == pytest.approx(np.mean([matrix["bytes"]["total"] for matrix in found]) / 1e6)
        assert line["copies"] == str(found[0]["copies"])
        assert int(line["episodes"]) == min(min(matrix["distinct_episodes"][-1]) for matrix in found)


def test_every_run_is_in_a_row(kept_lines):
    names = [run for line in kept_lines for run in line["runs"].split(", ") if run]
    assert sorted(names) == sorted(str(path.parent.relative_to(KEPT)) for path in KEPT.rglob("config.json"))


def test_the_published_number_stands_beside_ours(kept_lines):
    row = next(line for line in kept_lines if line["learner"] == "affinity-l tau=25")
    assert (row["AvgGap published"], row["PandaPush published"], row["copies published"]) == ("0.67", "-0.949", "3")
    assert "fit.steps 20,000 (published: 1,000,000)" in row["published differs in"]


def test_markdown_and_latex_have_the_numbers_of_the_csv(tmp_path):
    some_runs(tmp_path)
    for kind in KINDS:
        table = make_table(kind, read_records(tmp_path))
        for line in parsed(comma_separated(table)):
            for name in [*TASKS, "AvgGap", "MB"]:
                if line.get(name):
                    shown = f"{float(line[name]):.3f}"
                    assert shown in markdown(table)
                    assert shown in latex(table)


def test_forgetting_has_an_interval_over_the_episodes_that_lost_it(tmp_path):
    path = a_run(tmp_path, "one", "naive", 0, [0.0, 0.0])
    record = json.loads((path / "matrix.json").read_text())
    record["returns"][2][0] = [-1.0, -3.0]  # the first task, after the last
    (path / "matrix.json").write_text(json.dumps(record))
    (found,) = group_runs(read_runs(tmp_path))
    summary = summarise(found.matrices)
    # The mean of two draws from {1, 3} is 1, 2 or 3, its ends within the middle 95 %; and one of two tasks forgot.
    assert (summary.lost["PandaReach"].value, summary.lost["PandaReach"].interval) == (2.0, (1.0, 3.0))
    assert (summary.forgotten, summary.forgetting.interval) == (1.0, (0.5, 1.5))


def test_one_episode_of_one_run_has_no_interval_and_of_two_runs_has_one(tmp_path):
    a_run(tmp_path, "a", "naive", 0, [10.0] * 20, "atari5")
    (line,) = [line for line in make_table("main", read_records(tmp_path)).lines if line.runs]
    assert (line.values["Alien"].interval, line.values["episodes"]) == (None, "1")
    a_run(tmp_path, "b", "naive", 1, [20.0] * 20, "atari5")
    (line,) = [line for line in make_table("main", read_records(tmp_path)).lines if line.runs]
    assert (line.values["Alien"].value, line.values["Alien"].interval) == (15.0, (10.0, 20.0))


def test_the_same_episode_twenty_times_is_one_success(tmp_path):
    path = a_run(tmp_path, "one", "naive", 0, [1.0] * 20)
    record = json.loads((path / "matrix.json").read_text())
    record["distinct_episodes"] = [[1 if cell else None for cell in row] for row in record["distinct_episodes"]]
    (path / "matrix.json").write_text(json.dumps(record))
    (line,) = [line for line in make_table("main", read_records(tmp_path)).lines if line.runs]
    low, _ = line.rates["PandaPush"].interval
    assert low == pytest.approx(0.2065, abs=1e-4)  # Wilson's lower limit of 1 in 1


# Rows


def test_missing_is_missing(tmp_path):
    some_runs(tmp_path)
    for kind, label in (("main", "naive"), ("tasks", "naive"), ("thresholds", "affinity-a tau=0.45")):
        lines = [line for line in make_table(kind, read_records(tmp_path)).lines if line.label == label]
        assert lines
        assert all(line.missing and line.published for line in lines)
    text = markdown(make_table("main", read_records(tmp_path)))
    assert "| naive | missing | - | - | - |" in text
    assert "| si | 1 unfinished; 0 missing | - | - | - |" in text
    assert "| affinity-l tau=25 | 0 (1 missing) | " in text
    assert "| tsn-replaykl | 2 missing | - |" in markdown(make_table("aux", read_records(tmp_path)))


def test_a_table_of_the_paper_has_its_rows_and_no_others(tmp_path):
    some_runs(tmp_path)
    a_run(tmp_path, "far", "affinity-l", 0, RETURNS, threshold=99.0)
    labels = [line.label for line in make_table("main", read_records(tmp_path), paper=True).lines][1:]
    assert sorted(labels) == sorted(row["method"] for row in published_tables()["panda3"]["main"])
    assert "affinity-l tau=99" in [line.label for line in make_table("main", read_records(tmp_path)).lines]


def with_settings(root: Path, name: str, learner: str, seed: int = 0, **settings: Any) -> Path:
    return a_run(root, name, learner, seed, RETURNS, plan={"config": settings})


def test_a_table_of_our_own_runs_has_nothing_published(tmp_path):
    a_run(tmp_path, "one", "naive", 0, RETURNS)
    table = make_table("main", read_records(tmp_path), ours=True)
    assert [line.label for line in table.lines if line.runs] == ["naive"]
    assert not any(line.published or line.missing or line.differs for line in table.lines)
    assert any(line.published for line in make_table("main", read_records(tmp_path)).lines)


def test_a_published_row_stands_beside_the_runs_that_differ_least_and_says_in_what(tmp_path):
    for strength in (50.0, 1e4, 1e7):
        with_settings(tmp_path, f"ewc-{strength:g}", "ewc", strength=strength)
    for seed in (0, 1):  # none has the published 0.5, and of this one there are more
        with_settings(tmp_path, f"si-10-{seed}", "si", seed, strength=10.0)
    with_settings(tmp_path, "si-1", "si", strength=1.0)
    for outside in ("private", "shared"):
        with_settings(tmp_path, outside, "tsn-core", subnets={"outside": outside})
    a_run(tmp_path, "replay", "tsn-replaykl", 0, RETURNS, threshold=0.5)
    with_settings(tmp_path, "far", "affinity-l", routing={"threshold": 25.0}, subnets={"outside": "private"})
    lines = make_table("main", read_records(tmp_path), paper=True).lines[1:]
    assert len(lines) == len(published_tables()["panda3"]["main"])  # no row twice, and no row of ours without one
    differs = {line.runs: line.differs for line in lines if line.runs}
    assert {runs: list(found) for runs, found in differs.items()} == {
        ("ewc-50",): [],
        ("si-10-0", "si-10-1"): ["strength 10 (published: 0.5)"],
        ("shared",): ["frozen weights stay as they are (published: the optimiser goes on moving them)"],
        ("replay",): ["routing.threshold 0.5 (published: 0.25)"],
        ("far",): ["subnets.outside private (published: shared)"],
    }
    everything = make_table("main", read_records(tmp_path)).lines
    assert sum(line.source == "ewc" for line in everything) == 1
    assert len([line for line in everything if line.label.startswith("ewc")]) == 3


def test_a_published_row_stands_beside_runs_with_results_rather_than_without(tmp_path):
    a_run(tmp_path, "begun", "ewc", 0, None, plan={"config": {"strength": 50.0}})
    with_settings(tmp_path, "done", "ewc", strength=1e4)
    assert [line.runs for line in make_table("main", read_records(tmp_path), paper=True).lines if line.runs] == [
        ("done",)
    ]


def test_the_kept_runs_make_the_published_table_and_no_more():
    lines = [line for line in make_table("main", read_records(KEPT), paper=True).lines if line.runs]
    labels = {row["method"].split()[0]: row["method"] for row in published_tables()["panda3"]["main"]}
    assert {line.label.split()[0]: line.source for line in lines} == labels
    assert len(lines) == len(labels)
    nearest = {"ewc treatment=paper", "si treatment=paper", "tsn-core subnets.outside=shared"}
    assert nearest <= {line.label for line in lines}


@pytest.mark.parametrize(("suite", "first", "second"), [("panda3", 3.505, 5.638), ("atari5", None, 86.1)])
def test_a_published_run_stands_beside_the_seed_of_its_number(tmp_path, suite, first, second):
    for seed in (0, 1):
        a_run(tmp_path, str(seed), "tsn-replaykl", seed, [-1.0], suite, threshold=0.25)
    ours = [line for line in make_table("aux", read_records(tmp_path)).lines if line.runs]
    measure = "AvgGap" if suite == "panda3" else "NormAvg"
    assert [line.published.get(measure) for line in ours] == [first, second]  # Atari's first is not published


@pytest.mark.parametrize(
    "change",
    [{"protocol": {"name": "noop"}}, {"data": "expert-100"}, {"transitions": 2_000}, {"budget": "quick"}],
    ids=lambda change: next(iter(change)),
)
def test_runs_under_other_conditions_are_another_row_whose_label_says_so(tmp_path, change):
    a_run(tmp_path, "a", "tsn-core", 0, [10.0], "atari5", PAPER)
    a_run(tmp_path, "b", "tsn-core", 1, [10.0], "atari5", {**PAPER, **change})
    a_run(tmp_path, "c", "naive", 1, [10.0], "atari5", {**PAPER, **change})
    labels = [found.label for found in group_runs(read_runs(tmp_path))]
    assert len(labels) == 3
    assert all(next(iter(change)) in label for label in labels if label != "tsn-core")


def test_runs_of_other_data_under_the_same_name_are_another_row(tmp_path):
    for seed, letters in enumerate("aab"):
        a_run(tmp_path, str(seed), "naive", seed, RETURNS, datasets=dict.fromkeys(TASKS, letters))
    a_run(tmp_path, "begun", "naive", 3, None, datasets={TASKS[0]: "b"})
    groups = [[result.name for result in found.results] for found in group_runs(read_runs(tmp_path))]
    assert sorted(groups) == [["0", "1"], ["2", "begun"]]


def test_a_published_number_beside_other_conditions_says_in_what_they_differ(tmp_path):
    fit = {"steps": 20_000, "learning_rate": 3e-4, "schedule": "constant", "return_scale": 1556.0}
    a_run(tmp_path, "a", "tsn-core", 0, [10.0], "atari5", {**PAPER, "config": {"fit": fit}})
    text = markdown(make_table("main", read_records(tmp_path)))
    assert "| *published: tsn-core* |" in text
    assert "differ from the published" not in text
    for name, value in {"steps": 8, "learning_rate": 1e-3, "schedule": "one-cycle", "return_scale": 100.0}.items():
        a_run(tmp_path / name, "a", "tsn-core", 0, [10.0], "atari5", {**PAPER, "config": {"fit": {**fit, name: value}}})
        other = markdown(make_table("main", read_records(tmp_path / name)))
        assert "these runs differ from the published: fit." + name.replace("_", "\\_") in other
    a_run(tmp_path, "b", "naive", 0, [10.0], "atari5", {**PAPER, "data": "expert-100", "protocol": {"name": "noop"}})
    text = markdown(make_table("main", read_records(tmp_path)))
    assert "| *published: tsn-core* |" in text
    assert "| *published: naive* (a) |" in text
    assert "(a) these runs differ from the published: protocol.name noop (published: paper); data expert-100" in text


def test_every_way_to_differ_has_letters_of_its_own():
    lines = tuple(TableLine(str(number), {}, differs=(str(number),)) for number in range(26 + 26 * 26 + 1))
    marks = list(ResultTable("", (), lines, ()).marks.values())
    assert [marks[place] for place in (0, 25, 26, 27, 701, 702)] == ["a", "z", "aa", "ab", "zz", "aaa"]
    assert len(set(marks)) == len(lines)


def test_a_run_of_fewer_tasks_differs_from_the_published():
    settings = published_settings("panda3", "naive")
    assert differences("panda3", "naive", {**settings, "order": TASKS}) == ()
    (found,) = differences("panda3", "naive", {**settings, "order": TASKS[:2]})
    assert found.startswith("tasks PandaReach, PandaPush (published: ")


def test_the_order_of_folders_does_not_matter(tmp_path):
    tmp_path = tmp_path / "deeper"
    paths = some_runs(tmp_path)
    for kind in KINDS:
        whole = markdown(make_table(kind, read_records(tmp_path)))
        assert markdown(make_table(kind, read_records(*paths))) == whole
        assert markdown(make_table(kind, read_records(*reversed(paths)))) == whole
        assert markdown(make_table(kind, read_records(paths[0], tmp_path))) == whole
        assert markdown(make_table(kind, read_records(tmp_path, tmp_path.parent))) == whole
        assert markdown(make_table(kind, read_records(tmp_path.parent, tmp_path))) == whole


def test_the_same_folders_give_the_same_bytes(tmp_path):
    paths = [str(path) for path in some_runs(tmp_path)]
    code = "from holdfast.cli.main import main; import sys; main(sys.argv[1:])"
    found = []
    for number in ("1", "2"):
        words = [sys.executable, "-c", code, "table", *paths, "--format", "csv"]
        environment = {**os.environ, "PYTHONHASHSEED": number}
        found.append(subprocess.run(words, env=environment, capture_output=True, check=True).stdout)
    assert found[0] == found[1]
    assert found[0].decode() == comma_separated(make_table("main", read_records(tmp_path))) + "\n"


def test_a_run_beside_its_export_counts_once(tmp_path):
    shutil.copytree(a_run(tmp_path, "runs/one", "naive", 0, RETURNS), tmp_path / "results" / "one")
    (found,) = group_runs(read_runs(tmp_path))
    assert len(found.results) == 1
    a_run(tmp_path, "results/one", "naive", 0, [-9.0] * 3)
    with pytest.raises(Mistake, match="results/one and runs/one are one run with two results"):
        read_runs(tmp_path)


def made(path: Path, **surroundings: Any) -> Path:
    """The run, with a record of how it was made."""
    record = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**record, **surroundings}))
    return path


@pytest.mark.parametrize(
    ("old", "new"),
    [({"holdfast": "0.9.0"}, {"holdfast": "0.10.0"}), ({"torch": "2.9.1"}, {"holdfast": "0.1.0", "torch": "2.9.0"})],
)
def test_of_one_run_with_two_versions_the_newer_counts_and_a_note_says_so(tmp_path, old, new):
    made(a_run(tmp_path, "a", "naive", 0, [-1.0] * 3), versions=new)
    made(a_run(tmp_path, "b", "naive", 0, [-2.0] * 3), versions=old)
    made(a_run(tmp_path, "c", "naive", 0, [-3.0] * 3), versions={})
    table = make_table("main", read_records(tmp_path))
    (line,) = [line for line in table.lines if line.runs]
    assert (line.runs, line.values["PandaPush"].value) == (("a",), -1.0)
    note = "a is taken, not {}: the same run, made with older versions, or earlier on another device."
    assert {note.format("c or b"), note.format("b or c")} & set(table.notes)
    assert not [note for note in make_table("main", read_records(tmp_path / "a")).notes if "is taken" in note]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"hardware": {"accelerator": None}}, {"hardware": {"accelerator": "H200"}}),
        ({"command": "holdfast run --device cuda --out b"}, {"command": "holdfast run --device cpu --out a"}),
    ],
)
def test_of_one_run_on_two_devices_the_later_counts(tmp_path, old, new):
    for name, how in (("a", new), ("b", old)):
        made(a_run(tmp_path, name, "naive", 0, [-1.0 if name == "a" else -2.0] * 3), **how)
    with pytest.raises(Mistake, match="a and b are one run made twice, and which is newer is not recorded"):
        read_runs(tmp_path)  # as of exports, which have no times
    for name, time in (("a", 2.0), ("b", 1.0)):
        (tmp_path / name / "events.jsonl").write_text(json.dumps({"time": time, "kind": "learn", "step": 0}) + "\n")
    assert [(result.name, result.instead) for result in read_runs(tmp_path)] == [("a", ("b",))]


def test_two_results_of_a_run_that_was_made_the_same_way_are_refused(tmp_path):
    for name in ("a", "b"):
        path = a_run(tmp_path, name, "naive", 0, [-1.0 if name == "a" else -2.0] * 3)
        made(path, versions={"torch": "2.9.0"}, command=f"holdfast run --device cpu --out {name}")
    with pytest.raises(Mistake, match="a and b are one run with two results"):
        read_runs(tmp_path)


def test_a_run_with_its_whole_matrix_played_is_no_other_result(tmp_path):
    paths = [a_run(tmp_path, name, "naive", 0, RETURNS) for name in ("a", "b")]
    record = json.loads((paths[1] / "matrix.json").read_text())
    for name in ("returns", "successes", "lengths", "distinct_episodes"):
        record[name][0][2] = record[name][2][2]  # the last task, before it was learned
    record["carried"][1][0], record["single"] = 0, [0.0] * 3
    (paths[1] / "matrix.json").write_text(json.dumps(record))
    assert [result.name for result in read_runs(tmp_path)] == ["a"]


def test_links_to_runs_are_followed_and_to_themselves_are_not(tmp_path):
    a_run(tmp_path / "far", "one", "naive", 0, RETURNS)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "linked").symlink_to(tmp_path / "far")
    (tmp_path / "far" / "back").symlink_to(tmp_path / "far")
    assert [result.name for result in read_runs(tmp_path / "runs")] == ["linked/one"]


def test_a_suite_is_chosen_where_there_are_several(tmp_path):
    a_run(tmp_path, "a", "naive", 0, [10.0], "atari5")
    a_run(tmp_path, "b", "naive", 0, RETURNS)
    assert read_records(tmp_path, suite="atari5").tasks == GAMES
    with pytest.raises(Mistake, match="holds runs of atari5 and panda3: choose one with --suite"):
        read_records(tmp_path)
    with pytest.raises(Mistake, match="holds no run of toy"):
        read_records(tmp_path, suite="toy")


# Formats


NASTY = r"a_b&c%d$e#f{g}~h^i\j<script>|k"


def test_what_means_something_in_latex_or_markdown_is_escaped(tmp_path):
    a_run(tmp_path, NASTY, "naive", 0, RETURNS)
    table = make_table("main", read_records(tmp_path))
    assert NASTY not in latex(table)
    assert r"a\_b\&c\%d\$e\#f\{g\}\textasciitilde{}h\textasciicircum{}i\textbackslash{}j\textless{}script" in latex(
        table
    )
    assert "<script>" not in markdown(table)
    assert NASTY in comma_separated(table)


@pytest.mark.parametrize("kind", KINDS)
def test_latex_has_as_many_cells_in_every_row_and_balanced_braces(tmp_path, kind):
    some_runs(tmp_path)
    a_run(tmp_path, NASTY, "cumulative", 0, RETURNS)
    table = make_table(kind, read_records(tmp_path))
    text = latex(table)
    body = re.sub(r"\\shortstack\[r\]\{[^}]*\}", "", text.split(r"\midrule")[1].split(r"\bottomrule")[0])
    counts = {len(re.split(r"(?<!\\)&", row)) for row in body.strip().split(r" \\" + "\n")}
    assert counts == {len(table.columns)}
    bare = re.sub(r"\\[{}]", "", text)
    assert bare.count("{") == bare.count("}")
    assert text.isascii()


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="LaTeX is not installed")
def test_latex_compiles(tmp_path):
    some_runs(tmp_path / "runs")
    a_run(tmp_path / "runs", NASTY, "cumulative", 0, RETURNS)
    found = [latex(make_table(kind, read_records(tmp_path / "runs"))) for kind in KINDS]
    head = "\\documentclass{article}\n\\usepackage{booktabs,graphicx}\n\\begin{document}\n"
    (tmp_path / "page.tex").write_text(head + "\n".join(found) + "\n\\end{document}\n")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]


@pytest.mark.parametrize("kind", KINDS)
def test_csv_has_a_number_or_nothing_in_every_cell_of_numbers(tmp_path, kind):
    some_runs(tmp_path)
    text = comma_separated(make_table(kind, read_records(tmp_path)))
    rows = list(csv.reader(io.StringIO(text)))
    assert {len(row) for row in rows} == {len(rows[0])}
    assert len(set(rows[0])) == len(rows[0])
    for line in parsed(text):
        for name in [*TASKS, "AvgGap", "AvgGap low", "AvgGap published", "return", "MB"]:
            assert not line.get(name) or np.isfinite(float(line[name]))


def test_a_table_goes_to_the_screen_or_into_a_file(tmp_path, capsys):
    some_runs(tmp_path / "runs")
    main(["table", str(tmp_path / "runs"), "--table", "single"])
    shown = capsys.readouterr().out
    main(["table", str(tmp_path / "runs"), "--table", "single", "--out", str(tmp_path / "made" / "single.md")])
    assert (tmp_path / "made" / "single.md").read_text() == shown
    assert shown == markdown(make_table("single", read_records(tmp_path / "runs"))) + "\n"


# rliable


def test_scores_are_runs_by_tasks_and_shares_of_the_targets(tmp_path):
    for seed, value in enumerate((57.0, 114.0)):
        a_run(tmp_path, str(seed), "naive", seed, [value], "atari5")
    a_run(tmp_path, "begun", "si", 0, None, "atari5")
    record = json.loads(rliable(read_records(tmp_path)))
    assert record["tasks"] == GAMES
    assert np.shape(record["scores"]["naive"]) == (2, 5)
    assert [row[0] for row in record["scores"]["naive"]] == [0.5, 1.0]
    assert (record["runs"], record["missing"]) == ({"naive": ["0", "1"]}, ["begun"])


def test_rliable_takes_the_scores_and_has_our_interquartile_mean(tmp_path):
    library = pytest.importorskip("rliable.library")
    metrics = pytest.importorskip("rliable.metrics")
    for seed, value in enumerate((40.0, 90.0, 50.0)):
        a_run(tmp_path, str(seed), "naive", seed, [value], "atari5")
        a_run(tmp_path, f"core-{seed}", "tsn-core", seed, [value + 9], "atari5")
    found = scores(read_records(tmp_path))
    again = {name: np.array(rows) for name, rows in json.loads(rliable(read_records(tmp_path)))["scores"].items()}
    points, ends = library.get_interval_estimates(again, lambda runs: np.array([metrics.aggregate_iqm(runs)]), reps=50)
    assert set(points) == {"naive", "tsn-core"}
    for name, array in found.items():
        assert points[name][0] == pytest.approx(interquartile_mean(array.ravel()))
        assert ends[name].shape == (2, 1)


def test_scores_need_targets_above_nothing_and_all_tasks(tmp_path):
    a_run(tmp_path, "one", "naive", 0, [1.0], "atari5")
    record = json.loads((tmp_path / "one" / "matrix.json").read_text())
    (tmp_path / "one" / "matrix.json").write_text(json.dumps({**record, "targets": [0.0] * 5}))
    with pytest.raises(Mistake, match="no normalised scores"):
        rliable(read_records(tmp_path))


# Mistakes


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def without(name: str):
    def remove(path: Path) -> None:
        record = json.loads(path.read_text())
        del record[name]
        path.write_text(json.dumps(record))

    return remove


def with_returns(value: Any):
    def put(path: Path) -> None:
        record = json.loads(path.read_text())
        record["returns"][1][0] = value
        path.write_text(json.dumps(record))

    return put


@pytest.mark.parametrize(
    ("name", "damage", "sentence"),
    [
        ("matrix.json", cut, "matrix.json is damaged"),
        ("matrix.json", without("returns"), "matrix.json is damaged"),
        ("matrix.json", with_returns([]), "PandaReach after stage 1 must have returns"),
        ("matrix.json", with_returns([1.0]), "matrix.json is damaged"),
        ("matrix.json", with_returns(["x"]), "must be a finite number, got 'x'"),
        ("matrix.json", with_returns([float("nan")] * 3), "must be a finite number, got nan"),
        ("matrix.json", lambda path: path.write_text("[]"), "matrix.json is damaged"),
        ("config.json", cut, "config.json is damaged"),
        ("config.json", without("config"), "config.json is not the config.json of a run"),
        ("config.json", lambda path: path.write_text("[]"), "config.json is not the config.json of a run"),
        ("config.json", Path.unlink, "is half a run folder"),
    ],
)
def test_a_damaged_run_folder_is_left_out_and_named(tmp_path, capsys, name, damage, sentence):
    path = a_run(tmp_path, "runs/one", "naive", 0, RETURNS)
    a_run(tmp_path, "runs/two", "naive", 1, RETURNS)
    damage(path / name)
    main(["table", str(tmp_path / "runs")])
    shown, said = capsys.readouterr()
    assert "- naive: two\n" in shown
    assert sentence in said
    assert said.count(str(path)) == 1
    assert len(said.splitlines()) == 1
    with pytest.raises(Mistake, match=sentence):  # unless it is said otherwise, nothing is left out
        read_runs(tmp_path / "runs")


@pytest.mark.parametrize("record", [[], {"protocol": {"episodes": 3, "first_seed": 7}, "returns": {"A": [1]}}])
def test_an_expert_that_is_damaged_is_a_mistake(tmp_path, record):
    a_run(tmp_path, "one", "naive", 0, RETURNS)
    (tmp_path / "expert.json").write_text(json.dumps(record))
    with pytest.raises(Mistake, match=r"expert\.json cannot be used"):
        read_records(tmp_path)


@pytest.mark.parametrize("command", ["table", "show"])
def test_a_reader_who_has_seen_enough_is_no_error(command, tmp_path):
    a_run(tmp_path, "one", "naive", 0, RETURNS, plan={"config": {"fit": {"steps": 1}}})
    code = "from holdfast.cli.main import main; import sys; main(sys.argv[1:])"
    words = [sys.executable, "-c", code, command, str(tmp_path / "one")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as writing:
        writing.stdout.close()  # before anything is written
        assert (writing.stderr.read(), writing.wait()) == (b"", 141)


def test_another_pipe_that_breaks_is_not_hidden(monkeypatch):
    def broken(_: Any) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("holdfast.cli.table.table_command", broken)
    with pytest.raises(BrokenPipeError):
        main(["table"])


def test_a_matrix_of_another_run_is_a_mistake(tmp_path):
    shutil.copyfile(a_run(tmp_path, "a", "si", 0, RETURNS) / "matrix.json", tmp_path / "matrix.json")
    shutil.copyfile(tmp_path / "matrix.json", a_run(tmp_path, "b", "naive", 0, RETURNS) / "matrix.json")
    (tmp_path / "matrix.json").unlink()
    with pytest.raises(Mistake, match="of another run than the config"):
        read_runs(tmp_path)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "a table needs run folders"),
        (["nowhere"], "there is no folder nowhere"),
        (["runs", "--table", "single"], "none of these runs is one for the table single"),
        (["runs", "--out", "runs"], "runs is a folder: give the name of a file"),
        (["runs", "--out", "."], ". is a folder: give the name of a file"),
        (["runs", "--paper"], "nothing is published about toy"),
        (["runs", "--paper", "--ours"], "--paper prints published rows alone, and --ours none of them"),
        (["runs", "--into", "page.md", "--format", "csv"], "--into fills a Markdown page"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path, monkeypatch, capsys, words, sentence):
    monkeypatch.chdir(tmp_path)
    path = a_run(Path("runs"), "one", "naive", 0, RETURNS)
    for name in ("config.json", "matrix.json"):
        (path / name).write_text((path / name).read_text().replace("panda3", "toy").replace("Panda", "Toy"))
    with pytest.raises(SystemExit) as end:
        main(["table", *words])
    said = capsys.readouterr().err
    assert (end.value.code, len(said.splitlines())) == (2, 1)
    assert sentence in said
