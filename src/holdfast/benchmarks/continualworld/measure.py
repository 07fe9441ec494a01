"""Measures the reference numbers of all fifty tasks, and plays the episodes of the scripted policies.

python -m holdfast.benchmarks.continualworld.measure --out results/continualworld/expert.json
"""

import json
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import tyro

from holdfast.benchmarks.continualworld.orders import CW20, MT50, simulated
from holdfast.benchmarks.continualworld.recording import DEFAULT_COUNT, record
from holdfast.benchmarks.continualworld.reference import FILE, Played, Reference, play_random, play_scripted
from holdfast.tasks.data_reports import silent
from holdfast.tasks.environments import Protocol
from holdfast.tasks.processes import processes


@dataclass(frozen=True)
class MeasureConfig:
    """The episodes, and the output file."""

    out: Path
    """JSON file to write every episode's return and success to; the numbers go to reference.json."""
    episodes: int = 50
    """Number of episodes per task, from the first seed of an evaluation on."""


def measure(name: str, protocol: Protocol, pool: Executor) -> tuple[Reference, Played]:
    """The numbers of a task, and the episodes of its scripted policy."""
    scripted = pool.submit(play_scripted, name, protocol)
    random = pool.submit(play_random, name, protocol)
    demonstrations = record(name, DEFAULT_COUNT, silent, pool)
    expert = scripted.result()
    reference = Reference(
        target=-float(np.median(demonstrations.lengths)),
        attempts=int(demonstrations.seeds[-1]) + 1,
        expert_success=float(np.mean(expert.successes)),
        expert_return=float(np.mean(expert.returns)),
        random_return=float(np.mean(random.result().returns)),
    )
    return reference, expert


def main() -> None:
    """Measures all tasks and writes both files."""
    config = tyro.cli(MeasureConfig, description=__doc__)
    protocol = Protocol(episodes=config.episodes)
    with processes() as pool:
        measured = {name: measure(name, protocol, pool) for name in MT50}
    lines = [f"{json.dumps(name)}: {json.dumps(asdict(reference))}" for name, (reference, _) in measured.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    played = {task: measured[simulated(task)][1] for task in dict.fromkeys([*CW20, *MT50])}
    record_of = {
        "protocol": asdict(protocol),
        "returns": {task: episodes.returns for task, episodes in played.items()},
        "successes": {task: episodes.successes for task, episodes in played.items()},
    }
    config.out.parent.mkdir(parents=True, exist_ok=True)
    config.out.write_text(json.dumps(record_of) + "\n")


if __name__ == "__main__":
    main()
