"""Curves over the stages: the return of every task after each, and the loss within each."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from holdfast.study.figures.drawing import (
    FAINT,
    PAPER,
    SOFT,
    WIDTH,
    Drawing,
    canvas,
    colour_of,
    decades,
    marker_of,
    styled,
    typeset,
    wrapped_name,
)
from holdfast.study.figures.evaluated_run import Curve, EvaluatedRun
from holdfast.study.figures.study import Setting, Study

Points = list[tuple[int, float]]  # stages, and the value there


def learning_figure(found: Study, setting: Setting) -> Drawing:
    """One line per task, from the stage that learned it to the last; the background is the task being trained."""
    tasks = setting.tasks
    lines = {task: _points(found, task, [row[at] for row in setting.mean], at) for at, task in enumerate(tasks)}
    with styled():
        figure = canvas(WIDTH, 200)
        axes: Axes = figure.subplots()
        _background(axes, found, tasks)
        axes.axhline(1, color=SOFT, lw=0.8, ls=(0, (4, 3)))
        for task, points in lines.items():
            _seeds(axes, found, setting, task)
            colour, marker = colour_of(found.tasks, task), marker_of(found.tasks, task)
            places, values = [stage + 1 for stage, _ in points], [value for _, value in points]
            axes.plot(places, values, color=colour, marker=marker, ms=5, mec=PAPER, mew=0.7, clip_on=False, zorder=3)
        low = min([0.0, *(value for points in lines.values() for _, value in points)])
        axes.set_ylim(low, max(1.08, *(value + 0.05 for points in lines.values() for _, value in points), 0))
        axes.set_ylabel(f"1 = {found.reference_name}")
    rows = [
        [task, *(typeset(dict(points).get(stage)) for stage in range(len(tasks)))] for task, points in lines.items()
    ]
    alt = f"Normalised return of {setting.label} on every task after each stage. " + "; ".join(
        f"{task} ends at {typeset(points[-1][1])}" for task, points in lines.items() if points
    )
    return Drawing(
        f"curves-{setting.key}", setting.label, alt, figure, ["task", *(f"after {task}" for task in tasks)], rows
    )


def _points(found: Study, task: str, values: Sequence[float | None], first: int) -> Points:
    shares = [(stage, found.share(task, value)) for stage, value in enumerate(values) if stage >= first]
    return [(stage, share) for stage, share in shares if share is not None]


def _seeds(axes: Axes, found: Study, setting: Setting, task: str) -> None:
    """A faint line for each seed if there are several."""
    if len(setting.runs) < 2:
        return
    at = setting.tasks.index(task)
    for matrix in setting.matrices:
        points = _points(found, task, [row[at] for row in matrix.mean], at)
        places, values = [stage + 1 for stage, _ in points], [value for _, value in points]
        axes.plot(
            places, values, color=colour_of(found.tasks, task), lw=0.7, alpha=0.5, marker="_", ms=4, clip_on=False
        )


def _background(axes: Axes, found: Study, tasks: Sequence[str]) -> None:
    """A band for each stage, in the colour of the task that it trains."""
    for stage, task in enumerate(tasks):
        axes.axvspan(stage, stage + 1, color=colour_of(found.tasks, task), alpha=0.13, lw=0)
    axes.set_xlim(0, len(tasks))
    axes.set_xticks(np.arange(len(tasks)) + 0.5, [wrapped_name(task) for task in tasks])
    axes.tick_params(axis="x", length=0)
    axes.set_xlabel("task being trained")


def loss_figure(found: Study, setting: Setting, run: EvaluatedRun) -> Drawing:
    """The loss of each task's own training, from its first step to its last."""
    curves = {task: run.losses[task] for task in setting.tasks if run.losses.get(task)}
    with styled():
        figure = canvas(WIDTH, 160)
        axes: Axes = figure.subplots()
        _background(axes, found, setting.tasks)
        for task, curve in curves.items():
            _loss_line(axes, setting.tasks.index(task), curve, colour_of(found.tasks, task))
        values = [value for curve in curves.values() for _, value in curve]
        if 0 < 3 * min(values) < max(values):
            axes.set_yscale("log")
            decades(axes.yaxis, fine=max(values) < 30 * min(values))
        axes.grid(axis="y", color=FAINT, lw=0.5)
        axes.set_ylabel("training loss")
    alt = f"Training loss of {setting.label}, seed {run.seed}, within each task. " + _ends(curves)
    rows = [[task, str(curve[-1][0]), f"{curve[0][1]:.3g}", f"{curve[-1][1]:.3g}"] for task, curve in curves.items()]
    columns = ["task", "steps", "first loss", "last loss"]
    return Drawing(f"loss-{setting.key}", setting.label, alt, figure, columns, rows)


def _loss_line(axes: Axes, stage: int, curve: Curve, colour: str) -> None:
    steps, values = zip(*curve, strict=True)
    axes.plot(stage + np.array(steps) / steps[-1], values, color=colour, lw=1, marker="" if len(steps) > 2 else ".")


def _ends(curves: Mapping[str, Curve]) -> str:
    return "; ".join(f"{task} falls to {curve[-1][1]:.3g}" for task, curve in curves.items())
