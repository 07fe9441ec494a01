"""What the figures of results have in common: a row for each learner, ours and the published beside each other."""

from matplotlib.axes import Axes

from holdfast.report.groups import Group
from holdfast.report.published import all_rows, matching
from holdfast.report.summary import summarise

OURS, PUBLISHED, DATA, OTHER = "#1f6f8b", "#c9772b", "#555555", "#b3363c"


def draw_published(axes: Axes, place: int, suite: str, found: Group, metric: str) -> None:
    """The published number, where there is one."""
    known = matching(all_rows(suite), found.learner, found.routing)
    if known and metric in known:
        axes.plot(known[metric], place, "D", mfc="none", mec=PUBLISHED, ms=7)


def draw_forgetting(axes: Axes, place: int, found: Group, digits: int, apart: float) -> None:
    """What was forgotten; exactly nothing is said in words."""
    forgotten = summarise(found.matrices).forgotten
    axes.barh(place, forgotten, color=OURS, height=0.55)
    words = f"{forgotten:.{digits}g}" if forgotten else "0, exactly"
    axes.text(forgotten + apart, place, words, va="center", fontsize=9)


def plain(axes: Axes) -> None:
    """Only what is read."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", alpha=0.25)
    axes.minorticks_off()
