"""Return, bytes and forgetting of all learners on several suites, side by side."""

from collections.abc import Sequence

from matplotlib.axes import Axes

from holdfast.study.figures.drawing import INK, LOST, WIDTH, Drawing, canvas, styled, typeset
from holdfast.study.figures.front import FrontPoint, draw_front, front_points, main_score, unbeaten
from holdfast.study.figures.point_numbers import name_points
from holdfast.study.figures.study import Study


def best_points(found: Study) -> list[FrontPoint]:
    """The best setting of every learner, by the suite's main score."""
    best: dict[str, FrontPoint] = {}
    for point in front_points(found, main_score(found)):
        before = best.get(point.setting.learner)
        if before is None or point.worth.value > before.worth.value:
            best[point.setting.learner] = point
    return list(best.values())


def suites_figure(studies: Sequence[Study]) -> Drawing:
    """A panel for each suite: bytes on the x axis, the score on the y axis, forgetting as colour."""
    points = [best_points(found) for found in studies]
    with styled():
        figure = canvas(WIDTH * len(studies), 230)
        panels: list[Axes] = list(figure.subplots(1, len(studies), squeeze=False)[0])
        for axes, found, shown in zip(panels, studies, points, strict=True):
            draw_front(axes, shown, unbeaten(shown), main_score(found))
            axes.margins(x=0.2)  # for names
            axes.set_title(found.suite, loc="left", fontsize=9)
        panels[0].plot([], [], "o", ms=8, color=LOST(0.0), label="forgets exactly nothing")
        panels[0].plot([], [], "s", ms=8, color=LOST(1.0), label="forgets, here the most in its panel")
        panels[0].plot([], [], "o", ms=8, mfc="none", mec=INK, mew=1.6, label="no other beats it in all three")
        figure.legend(loc="outside lower center", ncols=3)
        figure.draw_without_rendering()  # so that places are known
        for axes, shown in zip(panels, points, strict=True):
            places = [(point.size / 1e6, point.worth.value) for point in shown]
            name_points(axes, places, [point.setting.learner for point in shown])
    rows = [
        [
            found.suite,
            point.setting.label,
            f"{main_score(found)} {typeset(abs(point.worth.value))}",
            typeset(point.size / 1e6),
            typeset(point.forgotten),
        ]
        for found, shown in zip(studies, points, strict=True)
        for point in shown
    ]
    alt = "Score, bytes and forgetting of every learner on " + ", ".join(found.suite for found in studies)
    columns = ["suite", "best setting", "score", "MB", "forgotten"]
    return Drawing("suites", "Return, bytes and forgetting by suite", alt, figure, columns, rows)
