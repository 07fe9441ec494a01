"""Time and bytes of an agent, task by task: python -m soak.growth --out results/agent/growth.json"""

import json
import platform
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import torch
import tyro

from soak.agent_cases import STEPS
from soak.commands import in_process
from soak.fuzz import say
from soak.soak import SMOKE, Soaking


@dataclass(frozen=True)
class Growth:
    """Learn tasks of random interfaces into one agent, and record the seconds and the bytes of each."""

    out: Path
    """File to write, as JSON."""
    tasks: int = 50
    """Tasks that are learned."""
    seed: int = 0
    """Seed of the interfaces."""


def measured(tasks: int, seed: int) -> list[dict[str, float]]:
    """By task: seconds of `holdfast agent learn` with two training steps, and bytes of the agent after it."""
    rows = []
    with tempfile.TemporaryDirectory() as path, patch.dict("holdfast.agent.agent.BUDGETS", smoke=STEPS):
        soaking = Soaking(Path(path), seed)
        for number in range(tasks):
            data = soaking.data(f"task-{number}")
            begun = time.perf_counter()
            outcome = in_process(["agent", "learn", str(soaking.folder), f"task-{number}", "--data", data, *SMOKE])
            assert outcome.code == 0, outcome.err
            seconds = time.perf_counter() - begun
            size = sum(file.stat().st_size for file in soaking.folder.rglob("*") if file.is_file())
            weights = sum(file.stat().st_size for file in (soaking.folder / "weights").glob("*.safetensors"))
            rows.append({"tasks": number + 1, "seconds": round(seconds, 4), "bytes": size, "weights": weights})
    return rows


if __name__ == "__main__":
    torch.set_num_threads(1)
    chosen = tyro.cli(Growth)
    command = f"python -m soak.growth --tasks {chosen.tasks} --seed {chosen.seed} --out {chosen.out}"
    found = {"command": command, "machine": platform.processor() or platform.machine()}
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.write_text(json.dumps({**found, "rows": measured(chosen.tasks, chosen.seed)}, indent=1) + "\n")
    say(f"wrote {chosen.out}")
