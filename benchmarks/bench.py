"""How fast the pieces are on this machine: ratios taken in one run, each side timed in turn with the other."""

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from holdfast.data.episodes import Dataset, Episode
from holdfast.data.normaliser import Normaliser
from holdfast.data.windows import Windows
from holdfast.learners.learner import new_net
from holdfast.nets.policy import Policy
from holdfast.nets.transformer import DecisionTransformer, NetConfig
from holdfast.subnets.claim import SubnetConfig, begin
from holdfast.subnets.copies import Copy
from holdfast.subnets.layout import Layout
from holdfast.subnets.masked import Masked
from holdfast.subnets.selection import largest
from holdfast.suites.interface import Continuous, Interface

PANDA = Interface((26,), Continuous(4, 4), 50)  # the shapes of the publication's continuous benchmark
NET = NetConfig(heads=1, dropout=0.0)
BATCH, MEAN_LENGTH = 128, 8


def panda_like(episodes: int = 2_000) -> Dataset:
    """Short episodes of random numbers in the shapes of Panda."""
    rng = np.random.default_rng(0)

    def episode() -> Episode:
        steps = int(np.clip(rng.geometric(1 / MEAN_LENGTH), 1, 50))
        observations = rng.normal(size=(steps, 26)).astype(np.float32)
        return Episode(observations, rng.uniform(-1, 1, (steps, 4)).astype(np.float32), rng.normal(size=steps))

    return Dataset.of(episode() for _ in range(episodes))


def windows(dataset: Dataset, packed: bool, device: str) -> Windows:
    """The dataset as training reads it."""
    active = PANDA.actions.active
    options: dict[str, Any] = {"context": NET.context, "return_scale": 1.0, "sampling": "windows", "packed": packed}
    return Windows(dataset, Normaliser.fit(dataset), active, device=device, **options)


def masked(net: DecisionTransformer) -> Masked:
    """A first task's network at the publication's keep ratio."""
    layout = Layout.of(net, ("timestep",))
    weights = layout.join(dict(net.named_parameters()))
    copy = Copy(weights, torch.zeros(layout.total, dtype=torch.bool), {})
    return begin(SubnetConfig(keep=0.33), net, layout, copy, [], None, 1, torch.Generator().manual_seed(0))


def training_step(model: torch.nn.Module, source: Windows) -> Callable[[], None]:
    """One step of `fit`."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(parameters, 1e-4, fused=True)
    rng = np.random.default_rng(0)

    def step() -> None:
        optimiser.zero_grad()
        model.loss(source.sample(BATCH, rng)).backward()  # type: ignore[operator]
        torch.nn.utils.clip_grad_norm_(parameters, 0.25)
        optimiser.step()

    return step


def in_turn(first: Callable[[], Any], second: Callable[[], Any], rounds: int) -> tuple[float, float]:
    """Median milliseconds of two things, timed alternately so that both meet the same machine."""
    times: tuple[list[float], list[float]] = ([], [])
    for round_ in range(rounds + 2):
        for work, found in zip((first, second), times, strict=True):
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            began = time.perf_counter()
            work()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            if round_ >= 2:  # the first two warm up
                found.append(1e3 * (time.perf_counter() - began))
    return median(times[0]), median(times[1])


def acting(policy: Policy, count: int, steps: int = 20) -> Callable[[], None]:
    """Some steps of an evaluation, the simulator left out."""
    observations = np.zeros((count, 26), np.float32)

    def act() -> None:
        policy.reset(count)
        for _ in range(steps):
            policy.act(observations)

    return act


def measure(rounds: int, device: str) -> list[dict[str, Any]]:
    """All rows: what, its milliseconds, what it is held against, and the ratio."""
    dataset = panda_like()
    packed, padded = windows(dataset, True, device), windows(dataset, False, device)
    dense = new_net(NET, PANDA, 0).to(device)
    sparse = masked(new_net(NET, PANDA, 0)).to(device)
    rows = []

    def row(what: str, against: str, first: Callable[[], Any], second: Callable[[], Any], per: float = 1.0) -> None:
        ours, other = in_turn(first, second, rounds)
        ratio = ours / other / per
        rows.append({"what": what, "ms": ours, "against": against, "against_ms": other, "ratio": ratio})

    row("masked step", "dense step", training_step(sparse, packed), training_step(dense, packed))
    row("packed masked step", "padded masked step", training_step(sparse, packed), training_step(sparse, padded))
    scores = torch.rand(400_000, device=device)
    row("selection of 132,000 of 400,000", "torch.topk", lambda: largest(scores, 132_000), lambda: scores.topk(132_000))
    policy = Policy(new_net(NET, PANDA, 0).to(device), Normaliser.identity(), PANDA, 0.0, 1.0)
    row("20 episodes in lock-step, per episode", "one episode", acting(policy, 20), acting(policy, 1), per=20)
    return rows


def main() -> None:
    """Prints the table, and writes it as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows = measure(arguments.rounds, device)
    name = torch.cuda.get_device_name() if device == "cuda" else f"{torch.get_num_threads()} threads"
    table = Table("what", "ms", "against", "ms", "ratio", title=f"{device}, {name}")
    for row in rows:
        table.add_row(
            row["what"], f"{row['ms']:.2f}", row["against"], f"{row['against_ms']:.2f}", f"{row['ratio']:.3f}"
        )
    Console().print(table)
    if arguments.json:
        machine = {"device": device, "name": name, "python": platform.python_version(), "torch": torch.__version__}
        arguments.json.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
