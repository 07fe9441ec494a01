"""Draws Atari-5 under the protocol `sticky`: what policies earn beside lists of actions, recorded and random.

python docs/images/make_atari5_sticky_figure.py results/atari5 docs/images/atari5-sticky.png
"""

import json
import sys
from pathlib import Path

from matplotlib.figure import Figure
from rows import DATA, OTHER, OURS, draw_episodes, games_figure, scores

from holdfast.study.groups import group_runs, read_runs


def figure(root: Path) -> Figure:
    """A panel for each game, a column for each player."""
    groups = {found.learner: found.matrices for found in group_runs(read_runs(root / "sticky"))}
    lists = json.loads((root / "blind-sticky.json").read_text())
    tasks = next(iter(groups.values()))[0].tasks
    labels = {
        DATA: "recorded, actions do not stick",
        OTHER: "sticky: a list of actions, random or recorded",
        OURS: "sticky: a policy, tsn-core or single",
    }
    drawing, panels = games_figure(tasks, labels)
    for index, (axes, task) in enumerate(zip(panels, tasks, strict=True)):
        played = {
            learner: [score for matrix in matrices for score in matrix.returns[-1][index]]
            for learner, matrices in groups.items()
        }
        columns = {"data": {DATA: scores(task)}, "random": {OTHER: lists["random"][task]}}
        columns |= {"list": {OTHER: lists["recorded"][task]}, "core": {OURS: played["tsn-core"]}}
        draw_episodes(axes, columns | {"single": {OURS: played["single"]}})
    return drawing


if __name__ == "__main__":
    figure(Path(sys.argv[1])).savefig(sys.argv[2], dpi=150)
