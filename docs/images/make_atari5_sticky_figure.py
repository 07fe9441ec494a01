"""Draws Atari-5 under the protocol `sticky`: what policies earn beside lists of actions, recorded and random.

python docs/images/make_atari5_sticky_figure.py results/atari5 docs/images/atari5-sticky.png
"""

import json
import sys
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from rows import DATA, OTHER, OURS, draw_episodes

from holdfast.report.groups import group, read
from holdfast.suites.recordings import SOURCES


def figure(root: Path) -> Figure:
    """A panel for each game, a column for each player."""
    groups = {found.learner: found.matrices for found in group(read(root / "sticky"))}
    lists = json.loads((root / "blind-sticky.json").read_text())
    tasks = next(iter(groups.values()))[0].tasks
    drawing, panels = plt.subplots(1, len(tasks), figsize=(11.5, 3.8), layout="constrained")
    for index, (axes, task) in enumerate(zip(panels, tasks, strict=True)):
        recorded = [trace.score for trace in SOURCES["expert-100"].recording(task.lower()).traces]
        played = {
            learner: [score for matrix in matrices for score in matrix.returns[-1][index]]
            for learner, matrices in groups.items()
        }
        columns = {"data": {DATA: recorded}, "random": {OTHER: lists["random"][task]}}
        columns |= {"list": {OTHER: lists["recorded"][task]}, "core": {OURS: played["tsn-core"]}}
        draw_episodes(axes, columns | {"single": {OURS: played["single"]}})
        axes.set_title(task, fontsize=10)
    panels[0].set_ylabel("return of an episode")
    panels[0].plot([], [], ".", color=DATA, label="recorded, actions do not stick")
    panels[0].plot([], [], ".", color=OTHER, label="sticky: a list of actions, random or recorded")
    panels[0].plot([], [], ".", color=OURS, label="sticky: a policy, tsn-core or single")
    panels[0].plot([], [], "-", color="black", lw=1.5, label="mean")
    drawing.legend(loc="outside upper center", ncols=4, fontsize=9, frameon=False)
    return drawing


if __name__ == "__main__":
    figure(Path(sys.argv[1])).savefig(sys.argv[2], dpi=150)
