"""Draws Atari-5 under the protocol `paper`: how near learners end to their targets, and what they replay.

python docs/images/make_atari5_figures.py results/atari5/paper docs/images/atari5.png docs/images/atari5-memorised.png
"""

import sys
from collections import Counter
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from holdfast.report.groups import Group, group, read
from holdfast.report.published import all_rows, matching
from holdfast.report.summary import summarise
from holdfast.runs.folder import RunFolder
from holdfast.suites.recordings import SOURCES

OURS, PUBLISHED, DATA, OTHER = "#1f6f8b", "#c9772b", "#555555", "#b3363c"
SHOWN = {  # rows from top to bottom, and what they are called
    "naive": "naive",
    "ewc": "ewc, strength 50",
    "si": "si, strength 1",
    "cumulative": "cumulative (keeps data)",
    "tsn-replaykl tau=0.25": "tsn-replaykl (1 copy)",
    "affinity-h tau=0.5 alpha=0.7": "affinity-h (2 copies)",
    "affinity-l tau=35": "affinity-l (3 to 5 copies)",
    "affinity-a tau=10": "affinity-a (4 copies)",
    "affinity-l tau=0 fit.return_scale=1556": "affinity-l, a copy per task",
    "tsn-core fit.return_scale=1556": "tsn-core (1 copy)",
    "tsn-core fit.return_scale=100": "tsn-core, returns / 100 (1 copy)",
    "single fit.return_scale=1556": "single (5 networks)",
}
Recorded = dict[str, list[tuple[int, int]]]  # by task, return and length of its episodes


def recorded(tasks: list[str]) -> Recorded:
    """What was learned from."""
    traces = {task: SOURCES["expert-10"].recording(task.lower()).traces for task in tasks}
    return {task: [(trace.score, len(trace)) for trace in found] for task, found in traces.items()}


def random_replay(data: Recorded) -> tuple[float, float]:
    """NormAvg of replaying one recorded episode of each task, drawn blindly: its mean and standard deviation."""
    shares = [[100 * score / max(episodes)[0] for score, _ in episodes] for episodes in data.values()]
    return float(np.mean([np.mean(part) for part in shares])), float(sum(map(np.var, shares)) ** 0.5 / len(shares))


def draw_share(axes: Axes, place: int, found: Group) -> None:
    """Ours with its interval and single runs, and the published one where there is one."""
    share = summarise(found.matrices).normalised
    assert share is not None
    low, high = share.interval or (share.value, share.value)
    axes.plot([low, high], [place, place], color=OURS, lw=2)
    axes.plot(share.value, place, "o", color=OURS, ms=7)
    row = matching(all_rows("atari5"), found.learner, found.routing)
    if row and "NormAvg" in row and found.settings["fit.return_scale"] == 1556:
        axes.plot(row["NormAvg"], place, "D", mfc="none", mec=PUBLISHED, ms=7)


def draw_forgetting(axes: Axes, place: int, found: Group) -> None:
    """What was forgotten; exactly nothing is said in words."""
    forgotten = summarise(found.matrices).forgotten
    axes.barh(place, forgotten, color=OURS, height=0.55)
    axes.text(forgotten + 8, place, f"{forgotten:.3g}" if forgotten else "0, exactly", va="center", fontsize=9)


def plain(axes: Axes) -> None:
    """Only what is read."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", alpha=0.25)
    axes.minorticks_off()


def learners(root: Path) -> Figure:
    """Share of the target and return forgotten, a row for each learner."""
    groups = {found.label: found for found in group(read(root)) if found.matrices}
    rows = [label for label in SHOWN if label in groups]
    drawing, (left, right) = plt.subplots(
        1, 2, figsize=(10.5, 4.9), sharey=True, width_ratios=[1.8, 1], layout="constrained"
    )
    for place, label in enumerate(rows):
        draw_share(left, place, groups[label])
        draw_forgetting(right, place, groups[label])
    mean, spread = random_replay(recorded(groups[rows[0]].matrices[0].tasks))
    left.axvspan(
        mean - spread, mean + spread, color=DATA, alpha=0.15, lw=0, label="replaying recorded episodes blindly"
    )
    left.axvline(mean, color=DATA, ls="--", lw=1)
    left.plot([], [], "o-", color=OURS, label="holdfast, three seeds, 95 % interval")
    left.plot([], [], "D", mfc="none", mec=PUBLISHED, label="published (other experts)")
    left.set_yticks(range(len(rows)), [SHOWN[label] for label in rows])
    left.invert_yaxis()
    left.set_xlim(0, 102)
    left.set_xlabel("NormAvg: share of the target return, % (more is better)")
    right.set_xlabel("AvgF: return forgotten")
    right.set_xlim(0, 560)
    left.legend(loc="lower left", fontsize=8, frameon=False)
    for axes in (left, right):
        plain(axes)
    return drawing


def policies(root: Path, index: int, task: str) -> dict[str, tuple[float, int]]:
    """What each different policy for a task earned right after the task was learned, and in how many steps."""
    found = {}
    for result in (result for result in read(root) if result.matrix):
        certificates = RunFolder(result.folder).read_certificates()
        own = next(known for known in certificates if (known.stage, known.task) == (index, task))
        found[own.fingerprint] = (result.matrix.returns[index][index][0], result.matrix.lengths[index][index][0])
    return found


def memorised(root: Path) -> Figure:
    """For each game whose episodes end by themselves, how many policies earned what, beside the recorded episodes."""
    tasks = next(result.matrix.tasks for result in read(root) if result.matrix)
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
        axes.set_title(f"{task}: {replays.total()} of {len(found)}", fontsize=10)
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
    learners(Path(sys.argv[1])).savefig(sys.argv[2], dpi=150)
    memorised(Path(sys.argv[1])).savefig(sys.argv[3], dpi=150)
