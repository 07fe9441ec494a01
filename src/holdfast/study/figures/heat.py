"""Heat maps: the return of every task after every stage, and the weights that tasks share."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from holdfast.study.figures.drawing import KEPT, PAPER, WIDTH, Drawing, bare, canvas, styled, typeset, wrapped_name
from holdfast.study.figures.evaluated_run import EvaluatedRun
from holdfast.study.figures.study import Setting, Study

DARK, LIGHT = "#0d1117", "#ffffff"  # text on the colours of the scale
LEGIBLE = 8  # rows up to which a cell has room for its number


def matrix_figure(found: Study, setting: Setting) -> Drawing:
    """P[i][j]: the mean return on task j after learning task i."""
    tasks, size = setting.tasks, len(setting.tasks)
    shares = [[found.share(task, value) for task, value in zip(tasks, row, strict=True)] for row in setting.mean]
    words = [
        [f"{typeset(value)}{' =' if setting.carried(i, j) else ''}" for j, value in enumerate(row)]
        for i, row in enumerate(setting.mean)
    ]
    with styled():
        figure = _square(tasks, shares, words, "task", "after learning")
    kept = sum(setting.carried(i, j) for i in range(size) for j in range(i))
    alt = (
        f"Mean return of {setting.label} on each of {size} tasks after learning each. "
        f"{kept} of {size * (size - 1) // 2} later results are carried over, as nothing that acts had changed."
    )
    rows = [[task, *line] for task, line in zip(tasks, words, strict=True)]
    return Drawing(f"matrix-{setting.key}", setting.label, alt, figure, ["after learning", *tasks], rows)


def overlap_figure(setting: Setting, run: EvaluatedRun) -> Drawing:
    """Which share of a task's weights another task uses as well."""
    tasks = setting.tasks
    shares = [[run.overlap.get((own, other)) for other in tasks] for own in tasks]
    words = [["" if share is None else f"{share:.0%}" for share in row] for row in shares]
    with styled():
        figure = _square(tasks, shares, words, "is used by", "of the weights of")
    pairs = [(a, b, run.overlap[a, b]) for a in tasks for b in tasks if a != b and (a, b) in run.overlap]
    most = max(pairs, key=lambda pair: pair[2], default=None)
    alt = f"Weights that tasks of {setting.label} share, seed {run.seed}. " + (
        f"Most: {most[2]:.0%} of the weights of {most[0]} are used by {most[1]} too."
        if most
        else "No two tasks are in one copy, so that none are shared."
    )
    rows = [[task, *(cell or "another copy" for cell in line)] for task, line in zip(tasks, words, strict=True)]
    return Drawing(f"masks-{setting.key}", setting.label, alt, figure, ["share of", *tasks], rows)


def _square(
    tasks: Sequence[str],
    shares: Sequence[Sequence[float | None]],
    words: Sequence[Sequence[str]],
    across: str,
    down: str,
) -> Figure:
    """One row and one column per task; colour is the share, 1 or more at the dark end."""
    size = len(tasks)
    figure = canvas(WIDTH, min(60 + 46 * size, 250))
    axes: Axes = figure.subplots()
    values = np.array([[np.nan if share is None else share for share in row] for row in shares], float)
    axes.pcolormesh(values, cmap=KEPT, vmin=0, vmax=1, edgecolor=PAPER, linewidth=1.5)
    axes.invert_yaxis()
    small = size > LEGIBLE
    for row, line in enumerate(words):
        for column, word in enumerate(line):
            share = values[row, column]
            if word and not small:
                colour = {} if np.isnan(share) else {"color": LIGHT if share > 0.6 else DARK}
                axes.text(column + 0.5, row + 0.5, word, ha="center", va="center", **colour)  # type: ignore[arg-type]
    names = [wrapped_name(task) for task in tasks]
    axes.set_xticks(np.arange(size) + 0.5, names, rotation=90 if small else 0)
    axes.set_yticks(np.arange(size) + 0.5, names)
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_xlabel(across, fontstyle="italic")
    axes.set_ylabel(down, fontstyle="italic")
    bare(axes)
    return figure
