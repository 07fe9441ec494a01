"""Draws Atari-5 under the protocol `paper`: how near learners end to their targets, and what they replay.

python docs/images/make_atari5_figures.py results/atari5 docs/images
"""

import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rows import AS_PUBLISHED, DATA, OTHER, OURS, PUBLISHED, draw_forgetting, draw_published, plain

from holdfast.benchmarks.atari.sources import SOURCES
from holdfast.runs.folder import RunFolder
from holdfast.study.groups import Group, RunResult, group_runs, read_runs

PAPER = {"protocol.name": "paper", "fit.return_scale": 1556.0, "fit.whole": True, "fit.steps": 8000}
SPARSE = {**PAPER, "subnets.outside": "private"}
SHOWN = (  # rows from top to bottom: what they are called, the learner, and settings that tell it from others
    ("naive", "naive", PAPER),
    ("ewc, strength 50", "ewc", PAPER),
    ("si, strength 1", "si", PAPER),
    ("cumulative (keeps data)", "cumulative", PAPER),
    ("tsn-replaykl (1 copy)", "tsn-replaykl", SPARSE),
    ("tsn-core (1 copy)", "tsn-core", SPARSE),
    ("affinity-h (2 copies)", "affinity-h", {**SPARSE, "routing.threshold": 0.5, "routing.alpha": 0.7}),
    ("affinity-l (3 to 5 copies)", "affinity-l", {**SPARSE, "routing.threshold": 35.0}),
    ("affinity-a (4 copies)", "affinity-a", {**SPARSE, "routing.threshold": 10.0}),
    ("affinity-l, a copy per task", "affinity-l", {**SPARSE, "routing.threshold": 0.0}),
    ("a copy per task, --fit.no-whole", "affinity-l", {**SPARSE, "routing.threshold": 0.0, "fit.whole": False}),
    ("single (5 networks)", "single", PAPER),
    ("single, --fit.no-whole", "single", {**PAPER, "fit.whole": False}),
)
Recorded = dict[str, list[tuple[int, int]]]  # by task, return and length of its episodes


def recorded(tasks: list[str]) -> Recorded:
    """What was learned from."""
    traces = {task: SOURCES["expert-10"].recording(task.lower()).traces for task in tasks}
    return {task: [(trace.score, len(trace)) for trace in found] for task, found in traces.items()}


def random_replay(data: Recorded) -> tuple[float, float]:
    """NormAvg of replaying one recorded episode of each task, drawn blindly: its mean and standard deviation."""
    shares = [[100 * score / max(episodes)[0] for score, _ in episodes] for episodes in data.values()]
    return float(np.mean([np.mean(part) for part in shares])), float(sum(map(np.var, shares)) ** 0.5 / len(shares))


def row(groups: list[Group], learner: str, settings: Mapping[str, float]) -> Group:
    """The one group of a learner with these settings."""
    (found,) = (
        found
        for found in groups
        if found.learner == learner and all(found.settings[name] == value for name, value in settings.items())
    )
    return found


def frozen(groups: list[Group], found: Group) -> list[Group]:
    """The same learner with norms and timestep tables frozen after a copy's first task, where it was run."""
    return [
        other
        for other in groups
        if (other.learner, other.routing) == (found.learner, found.routing)
        and other.settings.get("subnets.outside") == "frozen"
    ]


def draw_share(axes: Axes, place: float, found: Group, colour: str) -> None:
    """Ours, every seed and their mean."""
    shares = [matrix.metrics()["NormAvg"] for matrix in found.matrices]
    axes.plot([min(shares), max(shares)], [place, place], color=colour, lw=1)
    axes.plot(shares, [place] * len(shares), "o", mfc="white", mec=colour, ms=5)
    axes.plot(np.mean(shares), place, "o", color=colour, ms=7)


def learners(root: Path) -> Figure:
    """Share of the target and return forgotten, a row for each learner."""
    groups = group_runs(paper_runs(root))
    rows = {name: row(groups, learner, settings) for name, learner, settings in SHOWN}
    drawing, (left, right) = plt.subplots(
        1, 2, figsize=(10.5, 5.5), sharey=True, width_ratios=[1.8, 1], layout="constrained"
    )
    for place, found in enumerate(rows.values()):
        others = frozen(groups, found)
        draw_share(left, place - 0.17 * len(others), found, OURS)
        for other in others:
            draw_share(left, place + 0.17, other, AS_PUBLISHED)
        draw_published(left, place, "atari5", found, "NormAvg")
        draw_forgetting(right, place, found, digits=3, apart=8)
    mean, spread = random_replay(recorded(groups[0].matrices[0].tasks))
    left.axvspan(mean - spread, mean + spread, color=DATA, alpha=0.15, lw=0)
    left.axvline(mean, color=DATA, ls="--", lw=1)
    left.plot([], [], "o", color=OURS, label="holdfast, mean of three seeds")
    left.plot([], [], "o", color=AS_PUBLISHED, label="the same with norms frozen, as published")
    left.plot([], [], "o", mfc="white", mec=OURS, ms=5, label="each seed: one episode a game")
    left.plot([], [], "D", mfc="none", mec=PUBLISHED, label="published (other experts)")
    left.plot([], [], "--", color=DATA, label="a recorded episode drawn blindly,\n± one standard deviation")
    left.set_yticks(range(len(rows)), list(rows))
    left.invert_yaxis()
    left.set_xlim(0, 102)
    left.set_xlabel("NormAvg: share of the target return, % (more is better)")
    right.set_xlabel("AvgF: return forgotten")
    right.set_xlim(0, 560)
    left.legend(loc="lower left", fontsize=8, frameon=False)
    for axes in (left, right):
        plain(axes)
    return drawing


def paper_runs(root: Path) -> list[RunResult]:
    """The runs under the protocol `paper`."""
    return [result for result in read_runs(root) if result.matrix and result.settings["protocol.name"] == "paper"]


def policies(root: Path, index: int, task: str) -> dict[str, tuple[float, int]]:
    """What each different policy for a task earned right after the task was learned, and in how many steps."""
    found = {}
    for result in paper_runs(root):
        certificates = RunFolder(result.folder).read_certificates()
        own = next(known for known in certificates if (known.stage, known.task) == (index, task))
        found[own.fingerprint] = (result.matrix.returns[index][index][0], result.matrix.lengths[index][index][0])
    return found


def memorised(root: Path) -> Figure:
    """For each game whose episodes end by themselves, how many policies earned what, beside the recorded episodes."""
    tasks = paper_runs(root)[0].matrix.tasks
    data = {task: episodes for task, episodes in recorded(tasks).items() if len({length for _, length in episodes}) > 1}
    drawing, panels = plt.subplots(1, len(data), figsize=(10.5, 3.6), layout="constrained")
    for axes, (task, episodes) in zip(panels, data.items(), strict=True):
        found = list(policies(root, tasks.index(task), task).values())
        replays = Counter(result[0] for result in found if result in episodes)
        total = Counter(score for score, _ in found)
        widest = max(total.values())
        axes.plot([-0.04 * widest] * len(episodes), [score for score, _ in episodes], ">", color=DATA, ms=6)
        for score, count in total.items():
            axes.hlines(score, 0, count, color=OTHER, lw=4)
            axes.hlines(score, 0, replays[score], color=OURS, lw=4)
        axes.set_title(f"{task}: {replays.total()} of {len(found)} replay", fontsize=10)
        axes.set_xlim(-0.09 * widest, 1.08 * widest)
        axes.xaxis.get_major_locator().set_params(integer=True)
        plain(axes)
    panels[0].set_ylabel("return")
    drawing.supxlabel("policies that earned it", fontsize=10)
    panels[0].plot([], [], ">", color=DATA, label="a recorded episode")
    panels[0].plot([], [], "-", lw=4, color=OURS, label="its replay: same return, same length")
    panels[0].plot([], [], "-", lw=4, color=OTHER, label="something else")
    drawing.legend(loc="outside upper center", ncols=3, fontsize=9, frameon=False)
    return drawing


if __name__ == "__main__":
    learners(Path(sys.argv[1])).savefig(Path(sys.argv[2]) / "atari5.png", dpi=150)
    memorised(Path(sys.argv[1])).savefig(Path(sys.argv[2]) / "atari5-memorised.png", dpi=150)
