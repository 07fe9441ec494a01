"""How much of each copy is claimed, and the bytes of each task on disk."""

import numpy as np
from matplotlib.axes import Axes

from holdfast.study.figures.drawing import FAINT, PAPER, SOFT, WIDTH, Drawing, canvas, colour_of, styled, wrapped_name
from holdfast.study.figures.evaluated_run import EvaluatedRun
from holdfast.study.figures.study import Setting, Study


def capacity_figure(found: Study, setting: Setting, run: EvaluatedRun) -> Drawing:
    """Above, each copy's weights by the task that claimed them; below, the bytes that each task adds."""
    accounts = run.matrix.accounts
    owned = {task: share for account in accounts for task, share in account["tasks"].items()}
    shares = {task: owned[task] for task in setting.tasks if task in owned}
    heights = [30 + 22 * len(accounts), 34 + 19 * len(shares)]
    with styled():
        figure = canvas(WIDTH, sum(heights) + 12)
        above, below = figure.subplots(2, 1, height_ratios=heights)
        _copies(above, found, run)
        _bytes(below, found, {task: share["bytes"] for task, share in shares.items()})
    used = [f"{account['occupied'] / account['total']:.0%} of copy {at}" for at, account in enumerate(accounts)]
    alt = f"Weights of {setting.label} that tasks own, seed {run.seed}: {', '.join(used)}; the rest is free."
    rows = [
        [task, str(at), *(f"{share[part]:,}" for part in ("selected", "reused", "new", "bytes"))]
        for at, account in enumerate(accounts)
        for task, share in account["tasks"].items()
    ]
    columns = ["task", "copy", "weights", "of these reused", "new", "bytes"]
    return Drawing(f"capacity-{setting.key}", setting.label, alt, figure, columns, rows)


def _copies(axes: Axes, found: Study, run: EvaluatedRun) -> None:
    accounts = run.matrix.accounts
    for place, account in enumerate(accounts):
        axes.barh(place, 100, height=0.6, color=FAINT, lw=0)
        start = 0.0
        for task, share in account["tasks"].items():
            width = 100 * share["new"] / account["total"]
            axes.barh(place, width, left=start, height=0.6, color=colour_of(found.tasks, task), ec=PAPER, lw=0.6)
            start += width
        free = f"{100 * account['free'] / account['total']:.0f} % free"
        axes.text(102, place, free, va="center", color=SOFT)
    axes.set_xlim(0, 100)
    axes.set_ylim(len(accounts) - 0.5, -0.5)
    axes.set_yticks(np.arange(len(accounts)), [f"copy {place}" for place in range(len(accounts))])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("weights claimed, in per cent of the copy")


def _bytes(axes: Axes, found: Study, costs: dict[str, int]) -> None:
    largest = max(costs.values())
    for place, (task, cost) in enumerate(costs.items()):
        axes.barh(place, cost / 1e3, height=0.6, color=colour_of(found.tasks, task), lw=0)
        axes.text(cost / 1e3 + largest / 6e4, place, f"{cost / 1e3:,.0f} kB", va="center", color=SOFT)
    axes.set_xlim(0, 1.25 * largest / 1e3)
    axes.set_ylim(len(costs) - 0.5, -0.5)
    axes.set_yticks(np.arange(len(costs)), [wrapped_name(task, 12) for task in costs])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("what the task adds on disk, in kB")
