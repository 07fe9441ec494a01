"""The settings of `holdfast sweep`, and what it does with them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from holdfast.runs.engines import Resources, device_for, engine_for
from holdfast.runs.grid import Job, expand, read_grid
from holdfast.runs.recorder import Screen
from holdfast.runs.sweep import Result, Sweep


@dataclass(frozen=True)
class SweepCommand:
    """Carry out the runs of a grid; what is there already is not run again, and what was interrupted goes on."""

    grid: Annotated[Path, tyro.conf.Positional]
    """A TOML file, as in grids/."""
    on: Literal["local", "ray"] = "local"
    """Processes on this machine, or Ray."""
    part: tuple[str, ...] = ()
    """Parts of the grid; by default all."""
    out: Path | None = None
    """The folder of the run folders; by default what the grid says, or runs/ and its name."""
    budget: str | None = None
    """Instead of the one that the grid says, as in --budget smoke to try it out."""
    device: str = "auto"
    """auto, cpu or cuda, where the grid does not say."""
    at_once: int | None = None
    """Runs at the same time; by default one a GPU, or as many as the processor has room for (Ray: as it has room)."""
    memo: bool = True
    """Runs share finished fits and evaluations: what several have in common is trained and played once."""
    dry: bool = False
    """Check the grid and print its command lines; run nothing."""
    address: str | None = None
    """Of a Ray cluster; by default one is started on this machine."""
    cpus: float | None = None
    """Ray: processors per run; by default its threads."""
    gpus: float | None = None
    """Ray: GPUs per run, which may be a fraction; by default 1 with --device cuda, else none."""


@dataclass(frozen=True)
class Swept:
    """The runs of a grid, where they are, and how each ended; of a dry sweep none did."""

    out: Path
    jobs: Sequence[Job]
    results: Sequence[Result]


def sweep(command: SweepCommand) -> Swept:
    """Carries out the runs of a grid, or only checks it."""
    grid = read_grid(command.grid, command.out, command.budget)
    device = device_for(command.on, command.device, command.gpus)
    jobs = expand(grid, command.part, device, command.memo)
    if command.dry:
        return Swept(grid.out, jobs, [])
    resources = Resources(command.at_once, command.cpus, command.gpus, command.address)
    with Screen() as screen, engine_for(command.on, jobs, device, grid.out, resources) as engine:
        return Swept(grid.out, jobs, Sweep(jobs, engine, grid.out / "logs", screen).carry_out())
