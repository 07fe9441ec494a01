"""Draws Atari-5 under the protocol `noop`: what was recorded, what is played, and how much of it is a replay.

python docs/images/make_atari5_noop_figure.py results/atari5/noop docs/images/atari5-noop.png
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rows import DATA, OTHER, OURS, draw_episodes, games_figure, scores

from holdfast.benchmarks.atari.games import STARTS
from holdfast.benchmarks.atari.sources import SOURCES
from holdfast.runs.folder import RunFolder
from holdfast.study.groups import RunResult, read_runs

KINDS = ("own", "shared", "warm")  # a copy or network of its own, a fresh mask in a shared copy, another task's mask
DENSE = ("naive", "cumulative", "ewc", "si")  # neither fresh nor warm: one network goes on from task to task


@dataclass(frozen=True)
class Played:
    """An episode: what it earned, and whether it is one of the data, from the same start and of the same length."""

    score: float
    replay: bool
    kind: str  # of its policy


Game = tuple[list[int], list[Played]]  # the returns of recorded episodes, and episodes that were played


def episodes(runs: list[RunResult], index: int, task: str) -> Iterator[Played]:
    """The episodes of each different policy for a task, right after the task was learned."""
    traces = SOURCES["expert-100"].recording(task.lower()).traces
    recorded = {(trace.noops, trace.score, len(trace) - trace.noops) for trace in traces}
    seen = set()
    for result in runs:
        folder, matrix = RunFolder(result.folder), result.matrix
        certificates = {(known.stage, known.task): known.fingerprint for known in folder.read_certificates()}
        if (policy := certificates[index, task]) in seen:
            continue
        seen.add(policy)
        kind = next((kind_of(route) for route in folder.read_routes() if route["task"] == task), "own")
        first = matrix.protocol["first_seed"]
        cells = zip(matrix.returns[index][index], matrix.lengths[index][index], strict=True)
        for seed, (score, length) in enumerate(cells, first):
            start = seed % (STARTS["noop"].noops + 1)
            yield Played(score, (start, score, length) in recorded, kind)


def kind_of(route: dict[str, Any]) -> str:
    """What a task started with."""
    return "own" if route["opened"] else "warm" if route["source"] else "shared"


def draw_game(axes: Axes, data: list[int], played: list[Played]) -> None:
    """A column of recorded episodes, and one of what each kind of policy played."""
    columns: dict[str, dict[str, Sequence[float]]] = {"data": {DATA: data}}
    for kind in KINDS:
        these = [each for each in played if each.kind == kind]
        columns[kind] = {
            OTHER: [each.score for each in these if not each.replay],
            OURS: [each.score for each in these if each.replay],
        }
    draw_episodes(axes, columns)


def read_games(root: Path) -> dict[str, Game]:
    """By game, what was recorded and what is played."""
    runs = [result for result in read_runs(root) if result.matrix and result.matrix.learner not in DENSE]
    return {task: (scores(task), list(episodes(runs, index, task))) for index, task in enumerate(runs[0].matrix.tasks)}


def figure(games: dict[str, Game]) -> Figure:
    """A panel for each game."""
    labels = {DATA: "recorded", OURS: "played: a recorded episode again", OTHER: "played: not recorded"}
    drawing, panels = games_figure(list(games), labels)
    for axes, (data, played) in zip(panels, games.values(), strict=True):
        draw_game(axes, data, played)
    return drawing


def words(games: dict[str, Game]) -> Iterator[str]:
    """The same as lines."""
    for task, (data, played) in games.items():
        yield f"{task}: {len(data)} recorded, mean {np.mean(data):.1f}\n"
        for kind in KINDS:
            these = [each for each in played if each.kind == kind]
            new = [each.score for each in these if not each.replay]
            if these:
                mean = f", mean {np.mean([each.score for each in these]):.1f}"
                others = f", of the others {np.mean(new):.1f}" if new else ""
                yield f"  {kind}: {len(these)} played, {len(these) - len(new)} of them recorded{mean}{others}\n"


if __name__ == "__main__":
    found = read_games(Path(sys.argv[1]))
    figure(found).savefig(sys.argv[2], dpi=150)
    sys.stdout.writelines(words(found))
