"""Draws the mean success of every learner on CW20 in the end beside the published, and what it forgot.

python docs/images/make_continualworld_figure.py results/continualworld docs/images/continualworld.png
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rows import DATA, OURS, PUBLISHED, plain

from holdfast.study.expert_record import EXPERT, read_expert
from holdfast.study.groups import Group, group_runs, read_runs
from holdfast.study.other_publications import other_publications
from holdfast.study.summary import summarise
from holdfast.study.table_lines import SUCCESS

SHOWN = {  # rows from top to bottom: what they are called, the folder and group in them, and the method's name in t-DGR
    "naive": ("cw20", "naive", "fine-tuning"),
    "l2": ("cw20", "l2", None),
    "ewc": ("cw20", "ewc", "online EWC"),
    "si": ("cw20", "si", None),
    "tsn-replaykl": ("cw20", "tsn-replaykl tau=0.25", None),
    "affinity-a": ("cw20", "affinity-a tau=1", None),
    "affinity-h (2 copies)": ("cw20", "affinity-h tau=0.5 alpha=0.7", None),
    "lora": ("cw20", "lora", None),
    "tsn-core": ("cw20", "tsn-core", None),
    "affinity-l (1 copy, 9 % new)": ("one-copy", "affinity-l tau=25", None),
    "affinity-l (9 to 10 copies)": ("cw20", "affinity-l tau=25", None),
    "packnet": ("cw20", "packnet", "PackNet"),
    "single (20 networks)": ("cw20", "single", None),
    "cumulative (keeps data)": ("cw20", "cumulative", None),
    "er (keeps some data)": ("cw20", "er", None),
    "multitask (all data at once)": ("cw20", "multitask", "multitask"),
}


def draw_success(axes: Axes, place: int, found: Group) -> None:
    """Ours with its interval."""
    success = summarise(found.matrices).mean_success
    assert success
    assert success.interval
    axes.plot(100 * np.array(success.interval), [place, place], color=OURS, lw=2)
    axes.plot(100 * success.value, place, "o", color=OURS, ms=7)


def draw_lost(axes: Axes, place: int, found: Group) -> None:
    """What was forgotten; exactly nothing is said in words."""
    lost = summarise(found.matrices).success_forgetting
    if lost is None:
        axes.text(1.5, place, "learns all at once", va="center", fontsize=9)
        return
    axes.barh(place, 100 * lost.value, color=OURS, height=0.55)
    words = f"{100 * lost.value:.1f}" if lost.value else "0, exactly"
    axes.text(max(100 * lost.value, 0) + 1.5, place, words, va="center", fontsize=9)


def figure(root: Path) -> Figure:
    """Both panels."""
    groups = {
        (folder, found.label): found
        for folder in ("cw20", "one-copy")
        for found in group_runs(read_runs(root / folder))
        if found.matrices
    }
    t_dgr = next(found for found in other_publications() if found["name"] == "t-DGR")["rows"]["cw20"]
    drawing, (left, right) = plt.subplots(
        1, 2, figsize=(10.5, 6.2), sharey=True, width_ratios=[1.6, 1], layout="constrained"
    )
    for row, (folder, label, method) in enumerate(SHOWN.values()):
        draw_success(left, row, groups[folder, label])
        draw_lost(right, row, groups[folder, label])
        if method:
            left.plot(t_dgr[method][SUCCESS], row, "D", mfc="none", mec=PUBLISHED, ms=7)
    expert = read_expert(root / EXPERT).successes
    tasks = groups["cw20", "single"].matrices[0].tasks
    left.axvline(100 * np.mean([expert[task] for task in tasks]), color=DATA, ls="--", lw=1, zorder=0)
    left.plot([], [], "o-", color=OURS, label="holdfast, 95 % interval")
    left.plot([], [], "D", mfc="none", mec=PUBLISHED, label="published in t-DGR\n(other Meta-World, other networks)")
    left.plot([], [], "--", color=DATA, label="the demonstrators, same starts")
    left.set_yticks(range(len(SHOWN)), list(SHOWN))
    left.invert_yaxis()
    left.set_xlim(0, 100)
    left.set_xlabel("mean success on CW20 in the end, per cent")
    right.set_xlabel("success forgotten, points")
    right.set_xlim(-4, 88)
    left.legend(loc="center left", fontsize=8, frameon=False)
    for axes in (left, right):
        plain(axes)
    return drawing


if __name__ == "__main__":
    figure(Path(sys.argv[1])).savefig(sys.argv[2], dpi=150)
