"""The figure of return or success, bytes and forgetting on several suites, made from run folders."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from holdfast.study.figures.front import draw_front, front_points, main_score, return_score, unbeaten
from holdfast.study.figures.point_numbers import name_points
from holdfast.study.figures.study import Study, read_study
from holdfast.study.figures.suites import Panel, is_default, panel_of, suites_figure, title_of

RESULTS = Path(__file__).parent.parent / "results"
PANDA, CONTINUAL = RESULTS / "panda3", RESULTS / "continualworld" / "cw20"
REUSE = RESULTS / "reuse"
TITLES = {  # of the folders with records of the default preset
    "panda": "panda3, 50,000 transitions a task",
    "panda-few": "panda3, 2,000 transitions a task",
    "atari": "atari5, data expert-100",
    "cw20": "cw20, 100 demonstrations a task",
    "one-step-h200": "cw10, 10 demonstrations a task",
    "cw20-few": "cw20, 10 demonstrations a task",
}


@pytest.fixture(scope="module")
def studies() -> list[Study]:
    """Panda-3 and CW20; their intervals take a while."""
    return [read_study([PANDA, REUSE / "panda"]), read_study([CONTINUAL])]


@pytest.fixture(scope="module")
def panels(studies: list[Study]) -> list[Panel]:
    """What is drawn of them."""
    return [panel_of(found) for found in studies]


def test_every_learner_of_every_suite_is_drawn_with_its_best_setting(studies: list[Study], panels: list[Panel]) -> None:
    for found, panel in zip(studies, panels, strict=True):
        assert {point.setting.learner for point in panel.points} == {found.learner for found in found.settings}
        for point in front_points(found, main_score(found)):
            drawn = [other.worth.value for other in panel.points if other.setting.learner == point.setting.learner]
            assert point.worth.value <= max(drawn)


@pytest.mark.parametrize("folder", TITLES)
def test_the_runs_of_the_default_preset_are_found_on_every_suite_with_every_amount_of_data(folder: str) -> None:
    found = read_study([REUSE / folder])
    assert title_of(found) == TITLES[folder]
    (default,) = [setting for setting in found.settings if is_default(setting, found.suite)]
    own = {result.folder.name for result in found.results if result.folder.name.startswith("holdfast-affinity-l-s")}
    assert {run.path.name for run in default.runs} == own


@pytest.mark.parametrize("folder", ["panda", "panda-few", "atari"])
def test_the_default_preset_is_drawn_and_marked_wherever_there_is_a_record_of_it(folder: str) -> None:
    found = read_study([REUSE / folder])
    panel = panel_of(found)
    (point,) = panel.default
    assert is_default(point.setting, found.suite)
    assert [other for other in panel.points if panel.name(other) == "affinity-l (default)"] == [point]


def test_the_default_preset_is_drawn_where_another_setting_has_a_better_score(panels: list[Panel]) -> None:
    panda, _ = panels
    (default,) = panda.default
    (best,) = [point for point in panda.points if panda.name(point) == "affinity-l"]
    assert best.worth.value > default.worth.value
    assert best.size > default.size


def test_no_other_preset_and_no_other_setting_of_the_method_is_the_default(panels: list[Panel]) -> None:
    _, continual = panels
    assert any(point.setting.learner == "affinity-l" for point in continual.points)
    assert continual.default == []  # only the preset `paper`


def test_what_no_setting_beats_is_drawn_with_a_ring(studies: list[Study], panels: list[Panel]) -> None:
    for found, panel in zip(studies, panels, strict=True):
        expected = unbeaten(front_points(found, main_score(found)))
        assert panel.ringed == expected
        assert all(point in panel.points for point in expected)
    panda, _ = panels
    single = [point for point in panda.points if point.setting.learner == "single"]
    assert [point.setting.settings["net.width"] for point in single] == [64, 128]  # the fewest bytes, the best score


def test_every_point_has_the_number_of_its_name_and_every_default_a_star(
    studies: list[Study], panels: list[Panel]
) -> None:
    drawing = suites_figure(studies)
    marks, names = ([text.get_text() for text in legend.get_texts()] for legend in drawing.figure.legends)
    assert "the default preset" in marks
    numbers = {name: number for number, name in (entry.split(" ", 1) for entry in names)}
    assert len(set(numbers.values())) == len(numbers)
    for axes, panel in zip(drawing.figure.axes, panels, strict=True):
        assert axes.get_title(loc="left") == panel.title
        shown = [number for text in axes.texts for number in text.get_text().split(", ")]
        assert sorted(shown) == sorted(numbers[panel.name(point)] for point in panel.points)
        stars = [np.ravel(line.get_xydata()).tolist() for line in axes.lines if line.get_marker() == "*"]
        assert stars == [[point.size / 1e6, point.worth.value] for point in panel.default]
    assert [row[:2] for row in drawing.rows] == [
        [panel.title, panel.name(point)] for panel in panels for point in panel.points
    ]


def test_a_circle_is_what_forgets_exactly_nothing_and_not_what_became_better(studies: list[Study]) -> None:
    _, continual = studies
    points = front_points(continual, "success %")
    axes = Figure().subplots()
    draw_front(axes, points, [], "success %")
    drawn = {line.get_xydata()[0][1]: line.get_marker() for line in axes.lines if line.get_marker() in ("o", "s")}
    shapes = {point.setting.learner: drawn[point.worth.value] for point in points}
    better = {point.setting.learner for point in points if point.forgotten < 0}
    assert {"er", "si"} <= better
    assert {shapes[learner] for learner in better} == {"s"}
    assert {shapes[learner] for learner in ("single", "packnet", "tsn-core")} == {"o"}
    assert all(point.lost >= 0 for point in points)


def test_the_score_is_that_of_the_suites_main_table(studies: list[Study]) -> None:
    panda, continual = studies
    assert main_score(panda) == return_score(panda) == "AvgGap"
    assert main_score(continual) == "success %"
    for point in front_points(continual, "success %"):
        summary = point.setting.summary
        assert summary.mean_success is not None
        assert point.worth.value == 100 * summary.mean_success.value
        assert point.size == summary.bytes
    for point in front_points(panda, "AvgGap"):
        gap = point.setting.summary.gap
        assert gap is not None
        assert point.worth.value == -gap.value
        assert point.worth.interval is None or point.worth.interval[0] <= point.worth.value <= point.worth.interval[1]


def test_names_beside_points_do_not_overlap() -> None:
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    places = [(float(at), float(at % 3)) for at in range(6)]
    axes.plot(*zip(*places, strict=True), "o")
    axes.margins(0.3)
    figure.draw_without_rendering()
    name_points(axes, places, [f"learner-{at}" for at in range(6)])
    figure.draw_without_rendering()
    boxes = [text.get_window_extent().get_points() for text in axes.texts]
    for at, box in enumerate(boxes):
        for other in boxes[at + 1 :]:
            assert not (np.all(box[0] < other[1]) and np.all(other[0] < box[1]))


def test_names_are_off_the_lines_between_points() -> None:
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1, 2], [1, 1, 0], "o-")
    axes.margins(0.3)
    figure.draw_without_rendering()
    name_points(axes, [(0, 1), (1, 1), (2, 0)], ["first", "second", "third"])
    figure.draw_without_rendering()
    path = axes.transData.transform_path(axes.lines[0].get_path())
    for text in axes.texts:
        assert not path.intersects_bbox(text.get_window_extent(), filled=False), text.get_text()


def test_a_name_that_is_far_from_its_point_has_a_line_to_it() -> None:
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    places = [(0.5 + 0.02 * column, 0.5 + 0.03 * row) for column in range(5) for row in range(5)]
    axes.plot(*zip(*places, strict=True), "o")
    axes.set(xlim=(0, 1), ylim=(0, 1))
    figure.draw_without_rendering()
    name_points(axes, places, ["a long name"] * len(places))
    lines = [text.arrow_patch is not None for text in axes.texts]  # type: ignore[attr-defined]
    assert any(lines)
    assert not all(lines)
