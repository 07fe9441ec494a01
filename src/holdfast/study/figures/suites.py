"""Return, bytes and forgetting of all learners on several suites, a panel each."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from holdfast.agent.settings import flattened
from holdfast.runs.configure import configure
from holdfast.runs.plan import Plan
from holdfast.study.figures.drawing import INK, LOST, PAPER, WIDTH, Drawing, canvas, styled, typeset
from holdfast.study.figures.front import FrontPoint, Score, draw_front, front_points, main_score, unbeaten
from holdfast.study.figures.point_numbers import name_points
from holdfast.study.figures.study import Setting, Study
from holdfast.study.group_labels import rank

ACROSS = 3  # panels in a row
HEIGHT = 280  # points of a panel
STAR: dict[str, Any] = {"marker": "*", "ms": 7, "mfc": PAPER, "mec": "none", "ls": ""}
METHOD = ("subnets.", "routing.")  # settings of the method; network and training follow the amount of data


@dataclass(frozen=True)
class Panel:
    """What is drawn of one suite."""

    title: str
    score: Score
    points: list[FrontPoint]
    default: list[FrontPoint]  # those of the default preset
    ringed: list[FrontPoint]  # those that no setting beats

    def name(self, point: FrontPoint) -> str:
        """The learner, and whether this is the default preset."""
        return point.setting.learner + (" (default)" if point in self.default else "")


def panel_of(found: Study) -> Panel:
    """The best setting of every learner, the default preset, and the settings that no other beats."""
    score = main_score(found)
    points = front_points(found, score)
    best = best_points(points)
    default = best_points([point for point in points if is_default(point.setting, found.suite)])
    ringed = unbeaten(points)
    shown = [point for point in points if point in [*best, *default, *ringed]]
    return Panel(title_of(found), score, shown, default, ringed)


def best_points(points: Sequence[FrontPoint]) -> list[FrontPoint]:
    """The best of these settings for every learner, by the score."""
    best: dict[str, FrontPoint] = {}
    for point in points:
        before = best.get(point.setting.learner)
        if before is None or point.worth.value > before.worth.value:
            best[point.setting.learner] = point
    return list(best.values())


def is_default(setting: Setting, suite: str) -> bool:
    """Whether this is the learner, the preset and the method of `holdfast run --suite SUITE`."""
    if (setting.learner, setting.settings.get("preset")) != (Plan.learner, Plan.preset):
        return False
    usual = configure(suite, Plan.learner, Plan.preset)
    recorded = json.loads(json.dumps(asdict(usual.config)))
    return _method(setting.settings) == _method(dict(flattened(recorded)))


def _method(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name.startswith(METHOD)}


def title_of(found: Study) -> str:
    """The suite, and the data of each task, as in "cw10, 10 demonstrations a task"."""
    parts = [found.suite]
    for unit in ("transitions", "demonstrations"):
        counts = [f"{count:,}" for count in _values(found, unit)]
        if counts:
            parts.append(f"{' or '.join(counts)} {unit} a task")
    kinds = _values(found, "data")
    if kinds:
        parts.append(f"data {' or '.join(kinds)}")
    return ", ".join(parts)


def _values(found: Study, name: str) -> list[Any]:
    """What is recorded of a setting."""
    values: set[Any] = {setting.settings.get(name) for setting in found.settings}
    return sorted(values - {None})


def suites_figure(studies: Sequence[Study]) -> Drawing:
    """A panel for each suite: bytes on the x axis, the score on the y axis, forgetting as colour.

    A learner has the same number in all panels; the names stand below them.
    """
    panels = [panel_of(found) for found in studies]
    names = sorted({panel.name(point) for panel in panels for point in panel.points}, key=rank)
    numbers = {name: str(at + 1) for at, name in enumerate(names)}
    across = min(ACROSS, len(panels))
    down = -(-len(panels) // across)
    with styled():
        figure = canvas(WIDTH * across, HEIGHT * down)
        places: list[Axes] = list(np.ravel(figure.subplots(down, across, squeeze=False)))
        for axes in places[len(panels) :]:
            axes.remove()
        for axes, panel in zip(places, panels, strict=False):
            _draw_panel(axes, panel)
        marks = _marks()
        figure.legend(list(marks.values()), list(marks), loc="outside upper center", ncols=len(marks))
        entries = [f"{number} {name}" for name, number in numbers.items()]
        unmarked = [Line2D([], [], ls="") for _ in entries]
        figure.legend(unmarked, entries, loc="outside lower center", ncols=6, handlelength=0)
        figure.draw_without_rendering()  # so that places are known
        for axes, panel in zip(places, panels, strict=False):
            at = [(point.size / 1e6, point.worth.value) for point in panel.points]
            name_points(axes, at, [numbers[panel.name(point)] for point in panel.points])
    rows = [
        [
            panel.title,
            panel.name(point),
            point.setting.label,
            f"{panel.score} {typeset(abs(point.worth.value))}",
            typeset(point.size / 1e6),
            typeset(point.forgotten),
            "yes" if point in panel.ringed else "",
        ]
        for panel in panels
        for point in panel.points
    ]
    alt = "Score, bytes and forgetting of every learner: " + "; ".join(panel.title for panel in panels)
    columns = ["suite", "name", "setting", "score", "MB", "forgotten", "unbeaten"]
    return Drawing("suites", "Return, bytes and forgetting by suite", alt, figure, columns, rows)


def _draw_panel(axes: Axes, panel: Panel) -> None:
    """Points, stars and title."""
    draw_front(axes, panel.points, panel.ringed, panel.score)
    for point in panel.default:
        axes.plot(point.size / 1e6, point.worth.value, zorder=3.5, **STAR)
    axes.margins(0.16)  # for numbers
    axes.set_title(panel.title, loc="left", fontsize=9)


def _marks() -> dict[str, Any]:
    """What shapes, colours and rings mean: a mark for each label of the legend."""
    kept = Line2D([], [], ls="", marker="o", ms=8, color=LOST(0.0))
    return {
        "forgets exactly nothing": kept,
        "forgets, here the most in its panel": Line2D([], [], ls="", marker="s", ms=8, color=LOST(1.0)),
        "no other beats it in all three": Line2D([], [], ls="", marker="o", ms=8, mfc="none", mec=INK, mew=1.6),
        "the default preset": (kept, Line2D([], [], **STAR)),
    }
