"""What the figures of results have in common: rows of learners beside the published ones, and columns of episodes."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from holdfast.benchmarks.atari.sources import SOURCES
from holdfast.study.groups import Group
from holdfast.study.published import all_rows, matching_row
from holdfast.study.summary import summarise

OURS, PUBLISHED, DATA, OTHER = "#1f6f8b", "#c9772b", "#555555", "#b3363c"
AS_PUBLISHED = "#7a4fa3"  # ours with a setting that the publication had and our default is not


def draw_published(axes: Axes, place: int, suite: str, found: Group, metric: str) -> None:
    """The published number, where there is one."""
    known = matching_row(all_rows(suite), found.learner, found.routing)
    if known and metric in known:
        axes.plot(known[metric], place, "D", mfc="none", mec=PUBLISHED, ms=7)


def draw_forgetting(
    axes: Axes, place: float, found: Group, *, digits: int, apart: float, colour: str = OURS, height: float = 0.55
) -> None:
    """What was forgotten; exactly nothing is said in words."""
    forgotten = summarise(found.matrices).forgotten
    axes.barh(place, forgotten, color=colour, height=height)
    words = f"{forgotten:.{digits}g}" if forgotten else "0, exactly"
    axes.text(forgotten + apart, place, words, va="center", fontsize=9)


def draw_episodes(axes: Axes, columns: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
    """Columns by name: a point for each episode, by colour, and a line at the mean of all."""
    rng = np.random.default_rng(0)
    for place, colours in enumerate(columns.values()):
        for colour, scores in colours.items():
            axes.plot(place + rng.uniform(-0.25, 0.25, len(scores)), scores, ".", color=colour, ms=4, alpha=0.6)
        if known := [score for scores in colours.values() for score in scores]:
            axes.hlines(np.mean(known), place - 0.35, place + 0.35, color="black", lw=1.5)
    axes.set_xticks(range(len(columns)), list(columns), fontsize=7)
    axes.set_xlim(-0.5, len(columns) - 0.5)
    plain(axes)
    axes.grid(visible=False)


def games_figure(tasks: Sequence[str], labels: Mapping[str, str]) -> tuple[Figure, Sequence[Axes]]:
    """A panel of episodes for each game, and what the colours stand for."""
    drawing, panels = plt.subplots(1, len(tasks), figsize=(11.5, 3.8), layout="constrained")
    for axes, task in zip(panels, tasks, strict=True):
        axes.set_title(task, fontsize=10)
    panels[0].set_ylabel("return of an episode")
    for colour, label in labels.items():
        panels[0].plot([], [], ".", color=colour, label=label)
    panels[0].plot([], [], "-", color="black", lw=1.5, label="mean")
    drawing.legend(loc="outside upper center", ncols=4, fontsize=9, frameon=False)
    return drawing, panels


def scores(task: str) -> list[int]:
    """What the recorded episodes of a game earned."""
    return [trace.score for trace in SOURCES["expert-100"].recording(task.lower()).traces]


def plain(axes: Axes) -> None:
    """Only what is read."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", alpha=0.25)
    axes.minorticks_off()
