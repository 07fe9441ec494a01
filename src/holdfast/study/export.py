"""Copies runs without their weights: their records, their loss curves with few points, and how long training took.

python -m holdfast.study.export runs/panda3 --out results/panda3
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from holdfast.agent.events import training_seconds
from holdfast.data.files import write_bytes
from holdfast.data.printable import printable
from holdfast.errors import MISTAKE, Mistake
from holdfast.runs.folder import RunFolder
from holdfast.study.groups import runs_under
from holdfast.study.overwriting import RECORDS

POINTS = 100  # of a task's loss curve, at most
DIGITS = 5  # of a loss
LARGEST_LOSS = 1e30  # a larger one would overflow in a figure


@dataclass(frozen=True)
class ExportCommand:
    """Copy run folders, or all run folders under these folders, without their weights."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders, or folders of run folders."""
    out: Path
    """Folder to copy to; each run keeps its name."""


def main(words: Sequence[str] | None = None) -> None:
    """Exports runs; a user's mistake is one sentence and exit code 2."""
    command = tyro.cli(ExportCommand, prog="python -m holdfast.study.export", args=words)
    try:
        for place in export_runs(command.runs, command.out):
            print(printable(place))
    except Mistake as mistake:
        print(f"holdfast: {printable(mistake)}", file=sys.stderr)
        raise SystemExit(MISTAKE) from None


def export_runs(runs: Sequence[Path], out: Path) -> list[Path]:
    """Copies the records of these runs, and of all runs under these folders; returns the new folders."""
    found = {path: out / name for root in runs for path, name in _runs(root)}
    places = list(found.values())
    if twice := next((place for place in places if places.count(place) > 1), None):
        raise Mistake(f"two runs would both become {twice}: give the folder above them")
    if kept := next((place for place in places if (place / "events.jsonl").exists()), None):
        raise Mistake(f"{kept} is a run folder, which an export must not overwrite: choose another --out")
    for path, place in found.items():
        folder = RunFolder(path)
        for name in RECORDS:
            if folder.directory.exists(name):
                write_bytes(place / name, folder.directory.read_bytes(name))
        events = folder.events()
        for name, content in (("losses", loss_curves(events)), ("seconds", training_seconds(events))):
            write_bytes(place / f"{name}.json", (json.dumps(content) + "\n").encode())
    return places


def _runs(root: Path) -> list[tuple[Path, str]]:
    found = runs_under(root)
    if not found:
        raise Mistake(f"{root} holds no runs")
    return found


def loss_curves(events: Sequence[dict[str, Any]]) -> dict[str, list[tuple[int, float]]]:
    """For each task, points (step, loss) from the first step to the last, losses rounded."""
    curves: dict[str, list[tuple[int, float]]] = {}
    phases: dict[str, tuple[str, int]] = {}  # by task: the phase that is going on, and the steps before it
    for event in events:
        if event["kind"] == "train" and is_drawable(event["loss"]):
            task, phase = event["task"], event.get("phase", "")
            curve = curves.setdefault(task, [])
            if phases.setdefault(task, (phase, 0))[0] != phase:
                phases[task] = phase, curve[-1][0]
            curve.append((phases[task][1] + event["step"], float(f"{event['loss']:.{DIGITS}g}")))
    return {task: thinned(curve) for task, curve in curves.items()}


def is_drawable(loss: Any) -> bool:
    """Whether this is a number that a figure can show."""
    return type(loss) in (int, float) and abs(loss) <= LARGEST_LOSS


def thinned(curve: Sequence[Any]) -> list[Any]:
    """At most POINTS points of a curve, evenly spread, with both ends."""
    kept = np.linspace(0, len(curve) - 1, min(len(curve), POINTS)).round().astype(int)
    return [curve[index] for index in kept]


if __name__ == "__main__":
    main()
