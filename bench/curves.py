"""Compares the training losses of the fast and the reference implementation, for several seeds.

python -m bench.curves --json curves.json
"""

import argparse
import json
import platform
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from holdfast.runs.configure import learner
from holdfast.tasks.suite import Suite, suite
from holdfast.training.recorder import Silent

PLAIN = {"fit.captured": False, "fit.precision": "float32", "fit.packed": False}
WAYS: dict[str, dict[str, Any]] = {"fast": {}, "plain": PLAIN}
LEARNER = "tsn-core"


class Losses(Silent):
    """A recorder that keeps the losses of a fit."""

    def __init__(self) -> None:
        self.kept: list[tuple[int, float]] = []  # step, mean loss since the last recorded step

    def event(self, kind: str, **data: Any) -> None:
        if kind == "train":
            self.kept.append((data["step"], data["loss"]))


def curve(stream: Suite, way: str, seed: int, steps: int) -> list[tuple[int, float]]:
    """The losses of learning only the last task of a suite."""
    recorder, task = Losses(), stream.tasks[-1]
    alone = stream.ordered([task.name])
    agent = learner(LEARNER, alone, seed=seed, budget="quick", settings={"fit.steps": steps, **WAYS[way]})
    agent.learn(alone.tasks[0], recorder=recorder)
    return recorder.kept


def measure(streams: Sequence[Suite], seeds: int, steps: int) -> list[dict[str, Any]]:
    """A row per suite, way and seed."""
    rows = []
    for stream in streams:
        for seed, way in product(range(seeds), WAYS):
            losses = curve(stream, way, seed, steps)
            rows.append(
                {"suite": stream.name, "task": stream.tasks[-1].name, "way": way, "seed": seed, "losses": losses}
            )
    return rows


def shown(rows: Sequence[dict[str, Any]], most: int = 5) -> Table:
    """Mean and range over seeds, for consecutive parts of the curves."""
    table = Table("suite", "up to step", *(f"{way}: mean (range) over seeds" for way in WAYS))
    for name in dict.fromkeys(row["suite"] for row in rows):
        mine = [row for row in rows if row["suite"] == name]
        stretches = min(most, len(mine[0]["losses"]))
        cuts = [np.array_split(np.array(row["losses"]), stretches) for row in mine]
        for number in range(stretches):
            columns = []
            for way in WAYS:
                means = [cut[number][:, 1].mean() for row, cut in zip(mine, cuts, strict=True) if row["way"] == way]
                columns.append(f"{np.mean(means):.5f} ({min(means):.5f} to {max(means):.5f})")
            table.add_row(name, f"{cuts[0][number][-1, 0]:.0f}", *columns)
    return table


def main() -> None:
    """Prints the table, and writes all curves to the file of `--json`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = measure([suite("toy"), suite("panda3", transitions=10_000)], arguments.seeds, arguments.steps)
    Console().print(shown(rows))
    if arguments.json:
        device = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine()
        command = f"python -m bench.curves --seeds {arguments.seeds} --steps {arguments.steps}"
        record = {"command": command, "device": device, "torch": torch.__version__, "rows": rows}
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
