"""Every setting by return, size and forgetting."""

from dataclasses import dataclass

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


@dataclass(frozen=True)
class FrontPoint:
    """A setting as a point; a larger `worth` is better."""

    setting: Setting
    number: int  # in the figure
    worth: Estimate
    size: float  # bytes
    forgotten: float

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
        return -self.worth.value, self.size, self.forgotten


def front_points(found: Study) -> list[FrontPoint]:
    """The settings in their order; `worth` is NormAvg, or minus AvgGap if a target is not positive."""
    rows = [(setting, setting.summary) for setting in found.settings]
    normed = all(summary.normalised for _, summary in rows)
    return [
        FrontPoint(
            setting,
            at + 1,
            summary.normalised if normed and summary.normalised else _turned(summary.gap),
            summary.bytes,
            max(summary.forgotten or 0.0, 0.0),  # tasks that are learned at once are not forgotten
        )
        for at, (setting, summary) in enumerate(rows)
    ]


def _turned(gap: Estimate | None) -> Estimate:
    assert gap is not None  # a page has only runs with returns
    return Estimate(-gap.value, gap.interval and (-gap.interval[1], -gap.interval[0]))


def unbeaten(all_places: list[FrontPoint]) -> list[FrontPoint]:
    """The settings that no other beats in return, bytes and forgetting together, smallest first."""
    kept = [place for place in all_places if not any(place.beaten_by(other) for other in all_places)]
    return sorted(kept, key=lambda place: place.size)


def front_figure(found: Study) -> Drawing:
    """Bytes on the x axis, return on the y axis, forgetting as colour; unbeaten settings have a ring."""
    points = front_points(found)
    ringed = unbeaten(points)
    normed = all(setting.summary.normalised for setting in found.settings)
    with styled():
        figure = canvas(1.1 * WIDTH, 230)
        axes: Axes = figure.subplots()
        _draw(axes, points, ringed)
        axes.set_xlabel("MB on disk")
        axes.set_ylabel("NormAvg" if normed else "AvgGap (0 is the target)")
        if not normed:
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{abs(value):g}"))
        most = max(point.forgotten for point in points) or 1.0
        colours = mpl.cm.ScalarMappable(mpl.colors.Normalize(0, most), LOST)
        bar = figure.colorbar(colours, ax=axes, fraction=0.035, pad=0.02)
        bar.set_label("forgotten (AvgF)")
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
    columns = ["number", "setting", "NormAvg" if normed else "AvgGap", "MB", "AvgF", "unbeaten"]
    return Drawing("trade-off", "Return, bytes and forgetting", alt, figure, columns, rows)


def _draw(axes: Axes, points: list[FrontPoint], ringed: list[FrontPoint]) -> None:
    most = max(point.forgotten for point in points) or 1.0
    axes.grid(color=FAINT, lw=0.5)
    axes.set_axisbelow(True)
    axes.set_xscale("log")
    sizes = [point.size for point in points]
    decades(axes.xaxis, fine=max(sizes) < 30 * min(sizes))
    for terms in dict.fromkeys(point.setting.terms for point in ringed):
        same = [point for point in ringed if point.setting.terms == terms]
        axes.plot([point.size / 1e6 for point in same], [point.worth.value for point in same], color=SOFT, lw=0.8)
    for point in points:
        share = point.forgotten / most
        if point.worth.interval:
            axes.plot([point.size / 1e6] * 2, point.worth.interval, color=SOFT, lw=1)
        edge = {"mec": INK, "mew": 1.6} if point in ringed else {"mec": PAPER, "mew": 0.8}
        axes.plot(point.size / 1e6, point.worth.value, "o", ms=8, color=LOST(share), zorder=3, **edge)  # type: ignore[arg-type]
    axes.margins(0.12)
