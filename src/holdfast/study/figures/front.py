"""Every setting by return, size and forgetting."""

from dataclasses import dataclass
from typing import Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from holdfast.study.figures.drawing import (
    FAINT,
    INK,
    LOST,
    PAPER,
    SOFT,
    WIDTH,
    Drawing,
    canvas,
    decades,
    styled,
    typeset,
)
from holdfast.study.figures.point_numbers import number_points
from holdfast.study.figures.study import Setting, Study
from holdfast.study.summary import Estimate
from holdfast.study.tables import default_kind

Score = Literal["success %", "NormAvg", "AvgGap"]


@dataclass(frozen=True)
class FrontPoint:
    """A setting as a point; a larger `worth` is better."""

    setting: Setting
    number: int  # in the figure
    worth: Estimate
    size: float  # bytes
    forgotten: float  # below 0 if later tasks improved earlier ones

    def beaten_by(self, other: "FrontPoint") -> bool:
        """Whether a comparable setting is at least as good in all three measures, and better in one."""
        ours, theirs = self._measures, other._measures
        return (
            self.setting.terms == other.setting.terms
            and ours != theirs
            and all(their <= our for our, their in zip(ours, theirs, strict=True))
        )

    @property
    def _measures(self) -> tuple[float, float, float]:
        return -self.worth.value, self.size, self.lost

    @property
    def lost(self) -> float:
        """What was forgotten; nothing if the earlier tasks are better in the end."""
        return max(self.forgotten, 0.0)


def return_score(found: Study) -> Score:
    """How these settings compare by their returns: by AvgGap if a target is not positive."""
    return "NormAvg" if all(setting.summary.normalised for setting in found.settings) else "AvgGap"


def main_score(found: Study) -> Score:
    """The score of the suite's main table."""
    successes = [setting.summary.mean_success for setting in found.settings]
    return "success %" if default_kind(found.suite) == "success" and all(successes) else return_score(found)


def front_points(found: Study, score: Score) -> list[FrontPoint]:
    """The settings in their order; `worth` is the score, or minus AvgGap."""
    points = []
    for at, setting in enumerate(found.settings):
        summary = setting.summary
        if score == "success %":
            worth, lost = summary.mean_success, summary.success_forgetting
            forgotten = 100 * lost.value if lost else 0.0
            factor = 100
        else:
            worth, forgotten = (summary.normalised if score == "NormAvg" else summary.gap), summary.forgotten or 0.0
            factor = 1 if score == "NormAvg" else -1
        assert worth is not None  # a page has only runs with returns
        # tasks that are learned at once are not forgotten
        points.append(FrontPoint(setting, at + 1, _scaled(worth, factor), summary.bytes, forgotten))
    return points


def _scaled(found: Estimate, factor: int) -> Estimate:
    ends = sorted(factor * end for end in found.interval or ())
    return Estimate(factor * found.value, (ends[0], ends[1]) if ends else None)


def unbeaten(all_places: list[FrontPoint]) -> list[FrontPoint]:
    """The settings that no other beats in return, bytes and forgetting together, smallest first."""
    kept = [place for place in all_places if not any(place.beaten_by(other) for other in all_places)]
    return sorted(kept, key=lambda place: place.size)


def front_figure(found: Study) -> Drawing:
    """Bytes on the x axis, return on the y axis, forgetting as colour; unbeaten settings have a ring."""
    score = main_score(found)
    points = front_points(found, score)
    ringed = unbeaten(points)
    with styled():
        figure = canvas(1.1 * WIDTH, 230)
        axes: Axes = figure.subplots()
        draw_front(axes, points, ringed, score)
        most = max(point.lost for point in points) or 1.0
        colours = mpl.cm.ScalarMappable(mpl.colors.Normalize(0, most), LOST)
        bar = figure.colorbar(colours, ax=axes, fraction=0.035, pad=0.02)
        bar.set_label(f"forgotten ({_forgetting(score)})")
        bar.outline.set_visible(False)
        figure.draw_without_rendering()  # so that places are known
        number_points(axes, [(point.size / 1e6, point.worth.value) for point in points])
    alt = "Return, bytes and forgetting of every setting. Nothing beats: " + "; ".join(
        f"{point.setting.label} ({typeset(point.size / 1e6)} MB, forgets {typeset(point.forgotten)})"
        for point in ringed
    )
    rows = [
        [
            str(point.number),
            point.setting.label,
            typeset(abs(point.worth.value)),
            typeset(point.size / 1e6),
            typeset(point.forgotten),
            "yes" if point in ringed else "",
        ]
        for point in points
    ]
    columns = ["number", "setting", score, "MB", _forgetting(score), "unbeaten"]
    return Drawing("trade-off", "Return, bytes and forgetting", alt, figure, columns, rows)


def _forgetting(score: Score) -> str:
    return "success F %" if score == "success %" else "AvgF"


def draw_front(axes: Axes, points: list[FrontPoint], ringed: list[FrontPoint], score: Score) -> None:
    """The points of one suite: circles forget exactly nothing, squares are not exact, and the more the redder."""
    most = max(point.lost for point in points) or 1.0
    axes.grid(color=FAINT, lw=0.5)
    axes.set_axisbelow(True)
    axes.set_xscale("log")
    sizes = [point.size for point in points]
    decades(axes.xaxis, fine=max(sizes) < 30 * min(sizes))
    for terms in dict.fromkeys(point.setting.terms for point in ringed):
        same = [point for point in ringed if point.setting.terms == terms]
        axes.plot([point.size / 1e6 for point in same], [point.worth.value for point in same], color=SOFT, lw=0.8)
    for point in points:
        share = point.lost / most
        if point.worth.interval:
            axes.plot([point.size / 1e6] * 2, point.worth.interval, color=SOFT, lw=1)
        edge = {"mec": INK, "mew": 1.6} if point in ringed else {"mec": PAPER, "mew": 0.8}
        shape = "s" if point.forgotten else "o"
        axes.plot(point.size / 1e6, point.worth.value, shape, ms=8, color=LOST(share), zorder=3, **edge)  # type: ignore[arg-type]
    axes.margins(0.12)
    axes.set_xlabel("MB on disk")
    axes.set_ylabel("AvgGap (0 is the target)" if score == "AvgGap" else score)
    if score == "AvgGap":
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{abs(value):g}"))
