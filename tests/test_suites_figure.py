"""The figure of return or success, bytes and forgetting on several suites, made from run folders."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from holdfast.study.figures.front import draw_front, front_points, main_score, return_score
from holdfast.study.figures.point_numbers import name_points
from holdfast.study.figures.study import Study, read_study
from holdfast.study.figures.suites import best_points, suites_figure

RESULTS = Path(__file__).parent.parent / "results"
PANDA, CONTINUAL = RESULTS / "panda3", RESULTS / "continualworld" / "cw20"


@pytest.fixture(scope="module")
def studies() -> list[Study]:
    """Panda-3 and CW20; their intervals take a while."""
    return [read_study([PANDA]), read_study([CONTINUAL])]


def test_every_learner_of_every_suite_is_in_the_figure_with_its_best_setting(studies: list[Study]) -> None:
    drawing = suites_figure(studies)
    shown = {(suite, label.split()[0]) for suite, label, *_ in drawing.rows}
    assert shown == {(found.suite, setting.learner) for found in studies for setting in found.settings}
    assert len(drawing.rows) == len(shown)
    for found in studies:
        best = {point.setting.learner: point.worth.value for point in best_points(found)}
        for point in front_points(found, main_score(found)):
            assert point.worth.value <= best[point.setting.learner]
    texts = {text.get_text() for axes in drawing.figure.axes for text in axes.texts}
    assert any("tsn-core" in text for text in texts)


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
