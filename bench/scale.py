"""Measures how time, memory and disk grow with the number of tasks in one agent."""

import argparse
import json
import resource
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from holdfast.agent.changes import Update
from holdfast.benchmarks.toy.field import DiscreteMoves, Rules
from holdfast.benchmarks.toy.suite import task
from holdfast.learners.sparse import Sparse
from holdfast.runs.configure import learner
from holdfast.runs.folder import RunFolder
from holdfast.tasks.data_choice import DataChoice
from holdfast.tasks.interface import Discrete
from holdfast.tasks.suite import Suite, suite_spec

SETTINGS = {"fit.steps": 60, "routing.threshold": 100.0, "routing.max_copies": 4, "transitions": 500}


def many(count: int) -> Suite:
    """A toy suite with this many tasks."""
    rng = np.random.default_rng(0)
    goals = [(float(x), float(y)) for x, y in rng.uniform(-0.8, 0.8, (count, 2))]
    moves = DiscreteMoves(Discrete(5, 9))
    tasks = tuple(task(f"Corner-{i}", Rules(goal, moves, False, False), 20.0, 500) for i, goal in enumerate(goals))
    return replace(suite_spec("toy").suite(choice=DataChoice(transitions=500)), tasks=tasks)


def measure(count: int) -> list[dict[str, Any]]:
    """One row per task: seconds of routing, training and writing, and bytes in memory and on disk."""
    suite = many(count)
    agent = learner("affinity-h", suite, settings={**SETTINGS}, device="cpu")
    assert isinstance(agent, Sparse)
    rows = []
    with tempfile.TemporaryDirectory() as place, RunFolder(Path(place) / "run", agent.plan) as folder:
        for number, new in enumerate(suite.tasks, start=1):
            new.dataset  # noqa: B018  recorded before the clock runs
            began = time.perf_counter()
            agent.route(new)
            routed = time.perf_counter()
            agent.learn(new)
            learned = time.perf_counter()
            update = Update("learn", new.name, {new.name: new.dataset.fingerprint})
            folder.commit(agent.snapshot(), update, newest_only=True)
            written = time.perf_counter()
            route, learn, write = routed - began, learned - routed, written - learned
            rows.append(
                {
                    "tasks": number,
                    "copies": agent.copies,
                    "route_s": route,
                    "train_s": learn - route,  # learning routes once more
                    "write_s": write,
                    "memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                    "disk_bytes": sum(path.stat().st_size for path in Path(place).rglob("*") if path.is_file()),
                }
            )
    return rows


def main() -> None:
    """Prints the table, and writes all rows to the file of `--json`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = measure(arguments.tasks)
    table = Table("tasks", "copies", "route ms", "train ms", "write ms", "memory MB", "disk MB", title="one agent, toy")
    for row in rows:
        if row["tasks"] in {2, 5, 10, 20, 50, arguments.tasks}:
            times = (f"{1e3 * row[name]:.0f}" for name in ("route_s", "train_s", "write_s"))
            sizes = (f"{row[name] / 1e6:.1f}" for name in ("memory_bytes", "disk_bytes"))
            table.add_row(str(row["tasks"]), str(row["copies"]), *times, *sizes)
    Console().print(table)
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
