"""The copy of each task, and its distances to the tasks that it might have joined."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from holdfast.agent.routes import distance, far, route_reason, sources
from holdfast.study.figures.drawing import (
    FAINT,
    INK,
    PAPER,
    SOFT,
    WIDTH,
    Drawing,
    bare,
    canvas,
    colour_of,
    decades,
    marker_of,
    styled,
    wrapped_name,
)
from holdfast.study.figures.evaluated_run import EvaluatedRun
from holdfast.study.figures.study import Setting, Study

RouteRecord = Mapping[str, Any]  # as routes.json has it


def routing_figure(found: Study, setting: Setting, run: EvaluatedRun) -> Drawing:
    """Copies as lanes, tasks in order of arrival, and an arrow from the task whose mask each started from."""
    routes = run.routes
    decided = [route for route in routes if route["candidates"]]
    lanes = 1 + max(route["copy"] for route in routes)
    heights = [26 + 26 * lanes, *([34 + 20 * len(decided)] if decided else [])]
    with styled():
        figure = canvas(WIDTH, sum(heights) + 26)
        panels = figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
        _lanes(panels[0], found, routes, lanes)
        if decided:
            _distances(panels[1], found, decided)
    alt = f"Routing of {setting.label}, seed {run.seed}. {' '.join(route_reason(route) for route in routes)}"
    columns = ["task", "copy", "starts from", "distances", "threshold", "because"]
    rows = [_row(route) for route in routes]
    return Drawing(f"routes-{setting.key}", setting.label, alt, figure, columns, rows)


def _row(route: RouteRecord) -> list[str]:
    distances = ", ".join(f"{candidate['task']} {far(distance(candidate))}" for candidate in route["candidates"])
    threshold = "" if route["threshold"] is None else far(route["threshold"])
    copy = f"{route['copy']}{' (new)' if route['opened'] else ''}"
    return [route["task"], copy, ", ".join(sources(route)), distances, threshold, route["reason"]]


def _lanes(axes: Axes, found: Study, routes: Sequence[RouteRecord], lanes: int) -> None:
    places = {route["task"]: (at, route["copy"]) for at, route in enumerate(routes)}
    for lane in range(lanes):
        first = min(at for at, copy in places.values() if copy == lane)
        axes.plot([first, len(routes) - 0.7], [lane, lane], color=FAINT, lw=7, solid_capstyle="round", zorder=0)
    for route in routes:
        here = places[route["task"]]
        for source in sources(route):
            there = places[source]
            bend = f"arc3,rad={-0.5 / (1 + here[0] - there[0])}" if there[1] == here[1] else "arc3"
            arrow = {"arrowstyle": "-|>", "color": INK, "lw": 1, "connectionstyle": bend, "shrinkA": 6, "shrinkB": 6}
            axes.annotate("", here, there, arrowprops=arrow)
        colour, marker = colour_of(found.tasks, route["task"]), marker_of(found.tasks, route["task"])
        axes.plot(*here, marker=marker, ms=9, color=colour, mec=PAPER, mew=1.2, zorder=3)
    axes.set_xlim(-0.4, len(routes) - 0.6)
    axes.set_ylim(lanes - 0.5, -0.9)
    axes.set_xticks(range(len(routes)), [wrapped_name(route["task"]) for route in routes])
    axes.set_yticks(range(lanes), [f"copy {lane}" for lane in range(lanes)])
    bare(axes)


def _distances(axes: Axes, found: Study, routes: Sequence[RouteRecord]) -> None:
    """For each decision, the distance of every candidate; the bar ends at the threshold."""
    measured = [[candidate for candidate in route["candidates"] if isfinite(distance(candidate))] for route in routes]
    far_away = [candidate["distance"] for candidates in measured for candidate in candidates]
    limits = [route["threshold"] for route in routes]
    least = min(far_away + limits)
    if least > 0:
        axes.set_xscale("log")
        decades(axes.xaxis, fine=max(far_away + limits) < 100 * least)
    low = least / 2.5 if least > 0 else least - 0.1 * (max(far_away + limits) - least)
    for place, (route, candidates) in enumerate(zip(routes, measured, strict=True)):
        axes.barh(place, route["threshold"] - low, left=low, height=0.62, color=FAINT, lw=0, zorder=0)
        axes.plot([route["threshold"]] * 2, [place - 0.36, place + 0.36], color=SOFT, lw=1.2)
        nearest = min((candidate["distance"] for candidate in candidates), default=None)
        for candidate in candidates:
            colour, marker = colour_of(found.tasks, candidate["task"]), marker_of(found.tasks, candidate["task"])
            inside = colour if candidate["distance"] == nearest else PAPER
            axes.plot(candidate["distance"], place, marker, ms=6, mec=colour, mfc=inside, mew=1.2, ls="", zorder=3)
    axes.set_ylim(len(routes) - 0.5, -0.5)
    axes.set_yticks(np.arange(len(routes)), [wrapped_name(route["task"], 12) for route in routes])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("distance to learned tasks; bar: near enough")
