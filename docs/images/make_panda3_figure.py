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
from rows import AS_PUBLISHED, DATA, OURS, PUBLISHED, draw_forgetting, draw_published, plain

from holdfast.evaluation.metrics import avg_gap
from holdfast.study.groups import Group, group_runs, read_runs
from holdfast.study.summary import summarise

PAPER = "treatment=paper"
SHOWN = {  # rows from top to bottom: what they are called, and the groups in them
    "naive": ("naive treatment=equal", f"naive {PAPER}"),
    "ewc, strength 50": (f"ewc {PAPER}",),
    "ewc, strength 1e4": ("ewc treatment=equal strength=10000",),
    "si, strength 0.5": ("si treatment=equal strength=0.5", f"si {PAPER}"),
    "cumulative (keeps data)": ("cumulative treatment=equal", f"cumulative {PAPER}"),
    "tsn-replaykl, leak open": ("tsn-replaykl tau=0.25 subnets.outside=shared",),
    "tsn-replaykl": ("tsn-replaykl tau=0.25 subnets.outside=private",),
    "affinity-h": ("affinity-h tau=0.5 alpha=0.7",),
    "affinity-a (3 copies)": ("affinity-a tau=0.45",),
    "affinity-l (3 copies)": ("affinity-l tau=25",),
    "tsn-core (1 copy)": ("tsn-core subnets.outside=private",),
    "single (3 networks)": ("single treatment=equal", f"single {PAPER}"),
}
UNPUBLISHED = ("ewc, strength 1e4", "tsn-replaykl")  # the published ones had strength 50 and an open leak


def expert_gap(root: Path, targets: list[float], tasks: list[str]) -> float:
    """Of the expert that made the data, from the same starts."""
    returns = json.loads((root / "expert.json").read_text())["returns"]
    return avg_gap([float(np.mean(returns[task])) for task in tasks], targets)


def draw_gap(axes: Axes, place: float, found: Group, colour: str) -> None:
    """Ours with its interval."""
    gap = summarise(found.matrices).gap
    low, high = gap.interval or (gap.value, gap.value)
    axes.plot([low, high], [place, place], color=colour, lw=2)
    axes.plot(gap.value, place, "o", color=colour, ms=7)


def figure(root: Path) -> Figure:
    """Both panels."""
    groups = {found.label: found for found in group_runs(read_runs(root)) if found.matrices}
    drawing, (left, right) = plt.subplots(
        1, 2, figsize=(10.5, 5.2), sharey=True, width_ratios=[1.6, 1], layout="constrained"
    )
    for row, (name, labels) in enumerate(SHOWN.items()):
        for number, label in enumerate(labels):
            place = row + 0.36 * (number - (len(labels) - 1) / 2)
            colour = AS_PUBLISHED if label.endswith(PAPER) else OURS
            draw_gap(left, place, groups[label], colour)
            draw_forgetting(right, place, groups[label], digits=2, apart=0.15, colour=colour, height=0.6 / len(labels))
        if name not in UNPUBLISHED:
            draw_published(left, row, "panda3", groups[labels[0]], "AvgGap")
    matrix = next(iter(groups.values())).matrices[0]
    left.axvline(expert_gap(root, matrix.targets, matrix.tasks), color=DATA, ls="--", lw=1)
    left.plot([], [], "o-", color=OURS, label="holdfast, 95 % interval")
    left.plot([], [], "o-", color=AS_PUBLISHED, label="without normalisation and action mask,\nas published")
    left.plot([], [], "D", mfc="none", mec=PUBLISHED, label="published (other expert, other starts)")
    left.plot([], [], "--", color=DATA, label="our expert itself, same starts")
    left.set_xscale("log")
    left.set_xticks([0.5, 1, 2, 5, 10], ["0.5", "1", "2", "5", "10"])
    left.set_yticks(range(len(SHOWN)), list(SHOWN))
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
