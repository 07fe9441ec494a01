"""Draws how far every learner ends from its targets on Panda-3, and what it forgot, ours beside the published.

python docs/images/make_panda3_figure.py results/panda3 docs/images/panda3.png
"""

import json
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rows import DATA, OURS, PUBLISHED, draw_forgetting, draw_published, plain

from holdfast.evaluation.metrics import avg_gap
from holdfast.report.groups import Group, group, read
from holdfast.report.summary import summarise

SHOWN = {  # rows from top to bottom, and what they are called
    "naive": "naive",
    "ewc strength=10000": "ewc, strength 1e4",
    "si strength=0.5": "si, strength 0.5",
    "cumulative": "cumulative (keeps data)",
    "tsn-replaykl tau=0.25 subnets.outside=shared": "tsn-replaykl, leak open",
    "tsn-replaykl tau=0.25 subnets.outside=private": "tsn-replaykl",
    "affinity-h tau=0.5 alpha=0.7": "affinity-h",
    "affinity-a tau=0.45": "affinity-a (3 copies)",
    "affinity-l tau=25": "affinity-l (3 copies)",
    "tsn-core subnets.outside=private": "tsn-core (1 copy)",
    "single": "single (3 networks)",
}


def expert_gap(root: Path, targets: list[float], tasks: list[str]) -> float:
    """Of the expert that made the data, from the same starts."""
    returns = json.loads((root / "expert.json").read_text())["returns"]
    return avg_gap([float(np.mean(returns[task])) for task in tasks], targets)


def draw_gap(axes: Axes, place: int, found: Group) -> None:
    """Ours with its interval, and the published one where there is one."""
    gap = summarise(found.matrices).gap
    low, high = gap.interval or (gap.value, gap.value)
    axes.plot([low, high], [place, place], color=OURS, lw=2)
    axes.plot(gap.value, place, "o", color=OURS, ms=7)
    if found.label != "tsn-replaykl tau=0.25 subnets.outside=private":  # the published one had its leak open
        draw_published(axes, place, "panda3", found, "AvgGap")


def figure(root: Path) -> Figure:
    """Both panels."""
    groups = {found.label: found for found in group(read(root)) if found.matrices}
    rows = [label for label in SHOWN if label in groups]
    drawing, (left, right) = plt.subplots(
        1, 2, figsize=(10.5, 4.6), sharey=True, width_ratios=[1.6, 1], layout="constrained"
    )
    for place, label in enumerate(rows):
        draw_gap(left, place, groups[label])
        draw_forgetting(right, place, groups[label], digits=2, apart=0.15)
    matrix = groups[rows[0]].matrices[0]
    left.axvline(expert_gap(root, matrix.targets, matrix.tasks), color=DATA, ls="--", lw=1)
    left.plot([], [], "o-", color=OURS, label="holdfast, 95 % interval")
    left.plot([], [], "D", mfc="none", mec=PUBLISHED, label="published (other expert, other starts)")
    left.plot([], [], "--", color=DATA, label="our expert itself, same starts")
    left.set_xscale("log")
    left.set_xticks([0.5, 1, 2, 5, 10], ["0.5", "1", "2", "5", "10"])
    left.set_yticks(range(len(rows)), [SHOWN[label] for label in rows])
    left.invert_yaxis()
    left.set_xlabel("AvgGap: distance to the target return (less is better)")
    right.set_xlabel("AvgF: return forgotten")
    right.set_xlim(0, 11)
    left.legend(loc="lower right", fontsize=8, frameon=False)
    for axes in (left, right):
        plain(axes)
    return drawing


if __name__ == "__main__":
    figure(Path(sys.argv[1])).savefig(sys.argv[2], dpi=150)
