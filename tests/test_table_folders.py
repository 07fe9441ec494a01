"""A table or a page is made of the runs that there are: it names what it leaves out, and writes over none of them."""

import csv
import io
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from holdfast.cli.main import main
from holdfast.data.printable import printable
from holdfast.errors import Mistake
from holdfast.runs.run import run
from holdfast.study import export
from holdfast.study.export import export_runs, is_drawable
from holdfast.study.groups import group_runs, read_runs
from holdfast.study.overwriting import RUN
from holdfast.study.table_formats import FORMATS, comma_separated, markdown
from holdfast.study.table_lines import TableLine
from holdfast.study.table_terminal import column_blocks, print_table
from holdfast.study.tables import ResultTable, make_table, read_records
from tests.test_results import TASKS, a_run
from tests.tiny import QUIET, tiny_learner, tiny_suite

RETURNS = [-1.0, -2.0, -4.0]


def other_tool(path: Path) -> Path:
    """A folder that has a config.json and is none of ours."""
    path.mkdir(parents=True)
    (path / "config.json").write_text('{"model": {"layers": 3}}')
    return path


# What is left out


def test_another_tools_folder_is_left_out_and_named_in_one_line(tmp_path, capsys):
    a_run(tmp_path, "ours", "naive", 0, RETURNS)
    theirs = other_tool(tmp_path / "theirs")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    main(["table", str(tmp_path)])
    shown, said = capsys.readouterr()
    assert "- naive: ours\n" in shown
    assert len(said.splitlines()) == 2
    assert all(line.startswith("holdfast: skipped: ") for line in said.splitlines())
    assert str(theirs) in said


@pytest.mark.parametrize("command", ["table", "report"])
def test_where_no_run_remains_it_is_a_mistake(tmp_path, capsys, command):
    theirs = other_tool(tmp_path / "theirs")
    with pytest.raises(SystemExit) as end:
        main([command, str(tmp_path)])
    said = capsys.readouterr().err.splitlines()
    assert end.value.code == 2
    assert [str(theirs) in said[0], said[1:]] == [True, [f"holdfast: {tmp_path} holds no runs that can be read"]]


def test_a_folder_that_cannot_be_listed_is_left_out_and_named(tmp_path, monkeypatch):
    a_run(tmp_path, "ours", "naive", 0, RETURNS)
    closed = tmp_path / "closed"
    closed.mkdir()
    listed = Path.iterdir

    def iterdir(path: Path) -> Any:
        if path == closed:
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    skipped: list[str] = []
    assert [result.name for result in read_runs(tmp_path, skip=skipped.append)] == ["ours"]
    assert skipped == [f"{closed} cannot be read (Permission denied)"]


PLAN = {"suite": "panda3", "learner": "naive", "seed": 0, "order": TASKS, "config": {}}


@pytest.mark.parametrize(
    "change",
    [
        *({"config": {**PLAN, name: value}} for name, value in {"suite": 1, "learner": [], "seed": "0"}.items()),
        *({"config": {**PLAN, "order": order}} for order in ("PandaReach", [], [1], ["PandaReach"] * 2, None)),
        *({"config": {**PLAN, "target": target}} for target in ("PandaReach=1", [1], None)),
        *({"config": {**PLAN, "config": config}} for config in (None, {"fit": 3})),
        *({"data_returns": value} for value in (None, [], {"PandaReach": "x"}, {"PandaReach": float("nan")})),
        *({name: 3} for name in ("datasets", "command", "versions", "hardware")),
        {"threads": "many"},
    ],
    ids=str,
)
def test_a_config_of_wrong_types_is_left_out(tmp_path, change):
    a_run(tmp_path, "ours", "naive", 1, RETURNS)
    path = a_run(tmp_path, "odd", "naive", 0, RETURNS) / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    skipped: list[str] = []
    table = make_table("main", read_records(tmp_path, skip=skipped.append))
    assert [line.runs for line in table.lines if line.runs] == [("ours",)]
    assert len(skipped) == 1
    assert str(path) in skipped[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("targets", [None] * 3),
        ("targets", [float("inf")] * 3),
        ("targets", [1.0]),
        ("targets", [10**400] * 3),
        ("tasks", [1, 2, 3]),
        ("protocol", "paper"),
        ("protocol", {}),
        ("copies", "two"),
        ("bytes", {}),
        ("bytes", {"total": None}),
        ("task_copy", []),
        ("accounts", [{}]),
        ("accounts", [{"total": 0, "occupied": 0, "free": 0, "tasks": {}}]),
        ("distinct_episodes", [[0] * 3] * 3),
        ("distinct_episodes", [[None] * 3] * 3),
        ("successes", [[None] * 3] * 3),
        ("carried", [[0]]),
        ("returns", None),
        ("single", "x"),
    ],
    ids=str,
)
def test_a_matrix_of_wrong_types_or_numbers_is_left_out(tmp_path, name, value):
    a_run(tmp_path, "ours", "naive", 1, RETURNS)
    path = a_run(tmp_path, "odd", "naive", 0, RETURNS) / "matrix.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))
    skipped: list[str] = []
    table = make_table("main", read_records(tmp_path, skip=skipped.append))
    assert [line.runs for line in table.lines if line.runs] == [("ours",)]
    assert [found.startswith(f"{path} is ") for found in skipped] == [True]


@pytest.mark.parametrize(
    ("loss", "drawn"), [(1, True), (-2.5, True), (True, False), ("1", False), (None, False), (10**400, False)]
)
def test_only_losses_that_a_figure_can_show_are_drawn(loss, drawn):
    assert is_drawable(loss) == drawn


# What rows are called


def test_a_run_without_results_does_not_rename_the_others(tmp_path):
    data = dict.fromkeys(TASKS, "a")
    for seed in (0, 1):
        a_run(tmp_path, f"core-{seed}", "tsn-core", seed, RETURNS, datasets=data)
    a_run(tmp_path, "near", "affinity-l", 0, RETURNS, datasets=data, threshold=25.0)
    before = [found.label for found in group_runs(read_runs(tmp_path))]
    assert before == ["tsn-core", "affinity-l tau=25"]
    a_run(tmp_path, "begun", "si", 0, None, datasets={TASKS[0]: "b"})
    a_run(tmp_path, "other", "tsn-core", 2, None, plan={"config": {"fit": {"steps": 5}}, "budget": "smoke"})
    a_run(tmp_path, "third", "tsn-core", 3, None, datasets={TASKS[0]: "c"})
    after = [found.label for found in group_runs(read_runs(tmp_path)) if found.matrices]
    assert after == before
    assert len({found.label for found in group_runs(read_runs(tmp_path))}) == len(group_runs(read_runs(tmp_path))) == 5


# Formulas


@pytest.mark.parametrize("name", ["=1+1", "+1+1", "-1+cmd", "@SUM(A1)", "\t=1+1", "\r=1+1"])
def test_no_name_is_a_formula_in_a_spreadsheet_and_numbers_stay_numbers(tmp_path, name):
    path = a_run(tmp_path, name, "naive", 0, RETURNS)
    for file in path.iterdir():
        file.write_text(file.read_text().replace("PandaReach", json.dumps(name)[1:-1]).replace("naive", name.strip()))
    for kind in ("main", "tasks"):
        cells = [
            cell
            for row in csv.reader(io.StringIO(comma_separated(make_table(kind, read_records(tmp_path)))))
            for cell in row
        ]
        assert [cell for cell in cells if name.strip() in cell]
        for cell in cells:
            assert not cell.startswith(("=", "+", "@", "\t", "\r"))
            if cell.startswith("-"):
                float(cell)
    assert "-2.3333333333333335" in cells


# What is printed


@pytest.mark.parametrize("form", FORMATS)
def test_no_name_reaches_the_screen_with_control_characters(tmp_path, form):
    a_run(tmp_path, "\x1b[31mred\x9b\u202e", "naive", 0, RETURNS)
    text = FORMATS[form](make_table("main", read_records(tmp_path)))
    assert all(letter.isprintable() for letter in text.replace("\n", ""))
    assert "x1b" in text


def test_a_name_that_is_no_text_is_printed_as_its_escape(tmp_path, capsys):
    os.mkdir(os.fsencode(tmp_path) + b"/\xff")
    theirs = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff/\x1b[2J"))
    other_tool(theirs)
    a_run(tmp_path, os.fsdecode(b"run\xfe"), "naive", 0, RETURNS)
    main(["table", str(tmp_path)])
    shown, said = capsys.readouterr()
    assert "run\\udcfe" in shown
    assert "\\udcff/\\x1b[2J" in said
    assert printable("Grüße, 世界") == "Grüße, 世界"


def on_screen(table: ResultTable, width: int) -> str:
    console = Console(width=width, file=io.StringIO(), force_terminal=True, color_system=None)
    print_table(table, console)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [80, 100, 200])
def test_a_table_fits_the_terminal_and_has_the_numbers_of_the_markdown(tmp_path, width):
    for seed in (0, 1):
        a_run(tmp_path, f"core-{seed}", "tsn-core", seed, [value - seed for value in RETURNS])
    a_run(tmp_path, "near", "affinity-l", 0, RETURNS, threshold=25.0)
    table = make_table("main", read_records(tmp_path))
    text = on_screen(table, width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert all(column in text for column in table.columns)
    for line in table.lines:
        for name in TASKS:
            if name in line.values:
                assert f"{line.values[name].value:.3f}" in text
    assert "published: tsn-core" in text
    assert " ".join(["core-0,", "core-1"]) in text


def test_columns_that_do_not_fit_stand_below_and_none_is_lost():
    assert list(column_blocks([10, 5, 5, 5], 40)) == [[0, 1, 2, 3]]
    assert list(column_blocks([10, 5, 5, 5], 26)) == [[0, 1, 2], [0, 3]]
    assert list(column_blocks([10, 50, 5], 26)) == [[0, 1], [0, 2]]


def test_names_on_the_screen_are_no_markup():
    table = ResultTable(
        "[bold]t", ("learner", "[red]x[/red]"), (TableLine("[link=file:///]a", {"[red]x[/red]": "[/]"}),), ("[b]",)
    )
    text = on_screen(table, 80)
    assert all(word in text for word in ("[bold]t", "[red]x[/red]", "[link=file:///]a", "[/]", "[b]"))


def test_a_terminal_gets_a_table_and_a_pipe_markdown(tmp_path, monkeypatch, capsys):
    a_run(tmp_path, "one", "naive", 0, RETURNS)
    expected = markdown(make_table("main", read_records(tmp_path))) + "\n"
    main(["table", str(tmp_path)])
    assert capsys.readouterr().out == expected
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    main(["table", str(tmp_path)])
    assert "| naive |" not in capsys.readouterr().out
    main(["table", str(tmp_path), "--format", "md"])
    assert capsys.readouterr().out == expected
    main(["table", str(tmp_path), "--out", str(tmp_path / "table.md")])
    assert (tmp_path / "table.md").read_text() == expected


# What is written over


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A run folder, with its weights."""
    root, suite = tmp_path_factory.mktemp("trained"), tiny_suite(tasks=2)
    run(suite, tiny_learner("tsn-core", suite), root / "run", QUIET)
    return root / "run"


def content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("part", RUN)
@pytest.mark.parametrize(
    "words", [("table", "--out"), ("table", "--into"), ("report", "--out"), ("report", "--figures")]
)
def test_no_part_of_a_runs_record_is_written_over(trained, tmp_path, capsys, words, part):
    (tmp_path / "link").symlink_to(trained / part)
    (tmp_path / "folder").symlink_to(trained)
    inside = ["page.md"] if part in ("weights", "state", "memory") else []
    command, option = words
    before = content(trained)
    for place in (trained / part, tmp_path / "link", tmp_path / "folder" / part):
        written = str(place.joinpath(*inside))
        out = ["--out", str(tmp_path / "page.html")] if option == "--figures" else []
        with pytest.raises(SystemExit) as end:
            main([command, str(trained), option, written, *out])
        said = capsys.readouterr().err
        assert (end.value.code, len(said.splitlines())) == (2, 1)
        assert "belongs to the record of the run" in said
    assert content(trained) == before


def test_a_page_and_a_table_may_stand_beside_a_runs_record(trained):
    main(["table", str(trained), "--out", str(trained / "table.md")])
    assert (trained / "table.md").exists()
    (trained / "table.md").unlink()


def test_an_export_does_not_overwrite_a_run(trained, tmp_path):
    before = content(trained)
    with pytest.raises(Mistake, match="must not overwrite"):
        export_runs([trained], trained.parent)
    assert content(trained) == before
    (place,) = export_runs([trained], tmp_path)
    assert export_runs([trained], tmp_path) == [place]  # an older export may be


def test_results_of_damaged_runs_are_not_exported_in_part(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "runs" / "one")
    (tmp_path / "runs" / "half").mkdir()
    (tmp_path / "runs" / "half" / "matrix.json").write_text("{}")
    with pytest.raises(SystemExit) as end:
        export.main([str(tmp_path / "runs"), "--out", str(tmp_path / "out")])
    assert end.value.code == 2
    assert not (tmp_path / "out").exists()
