"""Draws toy.png from run folders: per learner, every task's mean return after each stage."""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

LEARNERS = [
    "naive", "cumulative", "ewc", "si", "single",
    "tsn-core", "tsn-replaykl", "affinity-a", "affinity-l", "affinity-h",
]  # fmt: skip
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7"]  # told apart by colour-blind readers as well
MARKERS = ["o", "s", "^", "D"]


def draw(axes: Axes, matrix: dict[str, Any]) -> None:
    """One learner: band i is the time in which task i is trained, a point at its end is what was earned then."""
    tasks, metrics = matrix["tasks"], matrix["metrics"]
    for index, task in enumerate(tasks):
        axes.axvspan(index, index + 1, color=COLOURS[index], alpha=0.13, linewidth=0)
        stages = range(index, len(tasks))
        means = [matrix["mean"][stage][index] for stage in stages]
        axes.plot(
            [stage + 1 for stage in stages], means, color=COLOURS[index], marker=MARKERS[index],
            markersize=6, linewidth=2, label=task, clip_on=False, zorder=3,
        )  # fmt: skip
    axes.set_title(f"{matrix['learner']}\nNormAvg {metrics['NormAvg']:.1f}   AvgF {metrics['AvgF']:.2f}", fontsize=11)
    axes.set_xlim(0, len(tasks))
    axes.set_ylim(0, 20)
    axes.set_yticks([0, 5, 10, 15, 20])
    axes.set_xticks([stage + 1 for stage in range(len(tasks))])
    axes.grid(axis="y", color="white", linewidth=0.8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def main(runs: Path, out: Path) -> None:
    """Reads runs/LEARNER/matrix.json and writes the figure; the suffix decides the format."""
    matplotlib.rcParams.update({"font.size": 10, "figure.facecolor": "white"})
    figure, grid = plt.subplots(2, 5, figsize=(13, 6), sharex=True, sharey=True, layout="constrained")
    for axes, learner in zip(grid.flat, LEARNERS, strict=True):
        draw(axes, json.loads((runs / learner / "matrix.json").read_text()))
    for axes in grid[:, 0]:
        axes.set_ylabel("mean return (target 20)")
    for axes in grid[-1]:
        axes.set_xlabel("tasks learned")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False, fontsize=11,
                  title="a line per task; the background is the task being trained")  # fmt: skip
    figure.savefig(out, dpi=140)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python docs/images/make_toy_figure.py RUNS docs/images/toy.png")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
