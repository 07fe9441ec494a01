"""Measures the speed of the parts on this machine, as ratios of times that are measured in turn."""

import argparse
import json
import platform
import resource
import time
from collections.abc import Callable, Generator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from bench.shapes import ATARI, PANDA, Shape
from holdfast.evaluation.rollouts import Rollouts, side_by_side
from holdfast.nets.policy import Policy
from holdfast.subnets.masked import Masked
from holdfast.tasks.environments import Environments, Protocol
from holdfast.training.captured import CapturedLoop
from holdfast.training.config import FitConfig
from holdfast.training.fit import EagerLoop, loop_for
from holdfast.training.step import Trainer

STRETCH = {"cuda": FitConfig().log_every, "cpu": 5}  # steps that are timed together: the loss is read back once


@dataclass(frozen=True)
class Row:
    """A measurement, a time to compare it with, and a lower bound."""

    what: str
    ms: float
    against: str = ""
    against_ms: float = 0.0
    per: float = 1.0  # how many of ours correspond to one of the other
    floor_ms: float = 0.0
    floor: str = ""  # what the floor counts

    @property
    def ratio(self) -> float:
        """Our time divided by the other."""
        return self.ms / self.against_ms / self.per if self.against_ms else 0.0


class Machine:
    """The peak operations and bytes per second of this machine, as measured."""

    def __init__(self, device: str) -> None:
        self.device = device
        dtype = torch.bfloat16 if device == "cuda" else torch.float32
        size = 8192 if device == "cuda" else 1024
        a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
        self.flops = 2 * size**3 / (clock(lambda: a @ b, device) * 1e-3)
        block = torch.zeros(2**28 if device == "cuda" else 2**24, device=device)
        self.bytes = 2 * block.nbytes / (clock(block.clone, device) * 1e-3)

    def ms(self, flops: float, moved: float) -> float:
        """The least milliseconds for this many operations and bytes."""
        return 1e3 * max(flops / self.flops, moved / self.bytes)


def clock(work: Callable[[], Any], device: str, rounds: int = 7) -> float:
    """Median milliseconds."""
    return in_turn([work], device, rounds)[0]


def in_turn(works: list[Callable[[], Any]], device: str, rounds: int) -> list[float]:
    """Median milliseconds of several functions, timed alternately so that conditions are the same."""
    times: list[list[float]] = [[] for _ in works]
    for number in range(rounds + 2):
        for work, own_times in zip(works, times, strict=True):
            if device == "cuda":
                torch.cuda.synchronize()
            began = time.perf_counter()
            work()
            if device == "cuda":
                torch.cuda.synchronize()
            if number >= 2:  # the first two warm up
                own_times.append(1e3 * (time.perf_counter() - began))
    return [median(own_times) for own_times in times]


def stepping(shape: Shape, device: str, masked: bool, packed: bool = True, captured: bool = True) -> Callable[[], None]:
    """A function that takes some training steps."""
    config = FitConfig(steps=10**9, batch=shape.batch, captured=captured, clip=0.25)
    model = shape.masked() if masked else shape.dense()
    trainer = Trainer(model.to(device).train(), config, None)
    loop = loop_for(trainer, shape.windows(device, packed), seed=0)
    assert isinstance(loop, CapturedLoop if captured and device == "cuda" else EagerLoop)
    done = 0

    def stretch() -> None:
        nonlocal done
        float(loop.advance(range(done, done + STRETCH[device])).mean())
        done += STRETCH[device]

    return stretch


def steps(shape: Shape, machine: Machine, rounds: int) -> list[Row]:
    """Training steps: masked against dense, packed against padded, captured against eager."""
    device = machine.device
    works = [stepping(shape, device, True), stepping(shape, device, False), stepping(shape, device, True, packed=False)]
    if device == "cuda":
        works.append(stepping(shape, device, True, captured=False))
    ours, dense, padded, *plain = (ms / STRETCH[device] for ms in in_turn(works, device, rounds))
    flops, moved = shape.cost(device)
    floor = f"{flops / 1e9:.1f} GFLOP, {moved / 1e6:.0f} MB"
    rows = [
        Row(f"{shape.name} masked step", ours, "dense step", dense, 1, machine.ms(flops, moved), floor),
        Row(f"{shape.name} packed masked step", ours, "padded", padded),
    ]
    return rows + [Row(f"{shape.name} captured masked step", ours, "eager", eager) for eager in plain]


def selection(shape: Shape, machine: Machine, rounds: int) -> Row:
    """The selection of all masks, compared with one torch.topk per tensor."""
    model = shape.masked().to(machine.device)
    assert isinstance(model, Masked)
    assert model.selector is not None
    pieces = model.scores.detach().abs().split(model.layout.sizes)
    (counts,) = model.selector.counts  # a first task has a single quota

    def reference() -> None:
        for values, k in zip(pieces, counts, strict=True):
            values.topk(k)

    ours, other = in_turn([model.mask, reference], machine.device, rounds)
    moved = 6 * model.layout.total  # reads scores and feasible entries, writes the mask
    return Row(f"{shape.name} selection", ours, "torch.topk", other, 1, machine.ms(0, moved), f"{moved / 1e6:.1f} MB")


def acting(shape: Shape, machine: Machine, rounds: int) -> Row:
    """Actions for twenty episodes at once, compared with one."""

    def twenty_steps(count: int) -> Callable[[], None]:
        policy, observations = shape.policy(machine.device), shape.observations(count)

        def act() -> None:
            policy.reset(count)
            for _ in range(20):
                policy.act(observations)

        return act

    many, one = (ms / 20 for ms in in_turn([twenty_steps(20), twenty_steps(1)], machine.device, rounds))
    return Row(f"{shape.name} action, 20 episodes", many, "1 episode", one, 20)


def routing(shape: Shape, machine: Machine, rounds: int) -> Row:
    """The distances to eight learned tasks, compared with one."""
    eight, one = in_turn([shape.routing(8, machine.device), shape.routing(1, machine.device)], machine.device, rounds)
    return Row(f"{shape.name} routing, 8 candidates", eight, "1 candidate", one, 8)


def playing(shape: Shape, machine: Machine) -> Row | None:
    """The steps of an evaluation, compared with the same steps of the simulators alone."""
    if find_spec(shape.simulator) is None:
        return None
    task, lanes, groups = shape.task(), 20, 2 if machine.device == "cuda" else 1
    share = Protocol(shape.protocol, episodes=lanes // groups, lanes=lanes // groups)
    assert task.environments is not None
    players = [(shape.policy(machine.device, task.interface), task.environments(share)) for _ in range(groups)]
    idle = task.interface.actions.for_environment(shape.actions(lanes // groups))

    def some(policy: Policy, environments: Environments, acts: bool) -> Generator[None, None, Rollouts]:
        observations = environments.reset(share.seeds)
        policy.reset(share.episodes)
        yield
        rewards = np.zeros(share.episodes)
        for _ in range(shape.game):
            environments.begin(policy.act(observations, rewards) if acts else idle)
            yield
            step = environments.finish()
            observations, rewards = step.observations, step.rewards
        return [], [], [], []

    def per_step(acts: bool) -> float:
        rollouts = {number: some(*player, acts) for number, player in enumerate(players)}
        for rollout in rollouts.values():
            next(rollout)  # up to the reset
        began = time.perf_counter()
        list(side_by_side(rollouts))
        return 1e3 * (time.perf_counter() - began) / shape.game

    pairs = [(per_step(True), per_step(False)) for _ in range(7)][2:]  # the first two warm up
    for _, environments in players:
        environments.close()
    ours, alone = (median(column) for column in zip(*pairs, strict=True))
    return Row(f"{shape.name} evaluation, step of 20 lanes", ours, "simulators alone", alone)


def measure(device: str, rounds: int) -> tuple[list[Row], dict[str, float]]:
    """All measurements, and the peak performance of the machine."""
    machine, rows = Machine(device), []
    for shape in (PANDA, ATARI) if device == "cuda" else (PANDA,):
        rows += [*steps(shape, machine, rounds), selection(shape, machine, rounds)]
        rows += [acting(shape, machine, rounds), routing(shape, machine, rounds)]
        rows += [row for row in [playing(shape, machine)] if row]
    gpu = torch.cuda.max_memory_allocated() if device == "cuda" else 0
    memory = {"peak_gpu_bytes": gpu, "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
    return rows, {"flops_per_s": machine.flops, "bytes_per_s": machine.bytes, **memory}


def main() -> None:
    """Prints the table, and writes it to the file of `--json`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows, limits = measure(device, arguments.rounds)
    name = torch.cuda.get_device_name() if device == "cuda" else f"{torch.get_num_threads()} threads"
    table = Table("what", "ms", "against", "ms", "ratio", "floor ms", "floor counts", title=f"{device}, {name}")
    for row in rows:
        floor = f"{row.floor_ms:.3f}" if row.floor else ""
        numbers = (f"{row.ms:.3f}", row.against, f"{row.against_ms:.3f}", f"{row.ratio:.3f}")
        table.add_row(row.what, *numbers, floor, row.floor)
    Console().print(table)
    Console().print(
        f"peak memory {limits['peak_bytes'] / 1e9:.2f} GB, on the GPU {limits['peak_gpu_bytes'] / 1e9:.2f} GB"
    )
    if arguments.json:
        machine = {"device": device, "name": name, "python": platform.python_version(), "torch": torch.__version__}
        measured = [{**asdict(row), "ratio": row.ratio} for row in rows]
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        command = f"python -m bench.bench --rounds {arguments.rounds}"
        record = {"command": command, "machine": machine, "limits": limits, "rows": measured}
        arguments.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
