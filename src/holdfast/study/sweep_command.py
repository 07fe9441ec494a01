"""The settings of `holdfast sweep`, and what it does with them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from holdfast.runs.options import Flag
from holdfast.runs.progress import Screen
from holdfast.study.engines import Resources, device_for, engine_for
from holdfast.study.grid import Job, expand, read_grid
from holdfast.study.sweep import Result, Sweep


@dataclass(frozen=True)
class SweepCommand:
    """Carry out the runs of a grid; what is there already is not run again, and what was interrupted goes on."""

    grid: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="GRID")]
    """TOML file that lists the runs, as in grids/."""
    on: Literal["local", "ray"] = "local"
    """Where to run: in processes on this machine, or on Ray."""
    part: tuple[str, ...] = ()
    """Parts of the grid to carry out; by default all."""
    out: Path | None = None
    """Folder for the run folders; by default the one that the grid names, or runs/ and the grid's name."""
    budget: str | None = None
    """Budget of every run, instead of the one in the grid: --budget smoke tries a grid out."""
    device: str = "auto"
    """Device of runs for which the grid names none: auto, cpu or cuda."""
    at_once: int | None = None
    """Number of runs at the same time; by default one per GPU, or as many as the cores (or Ray) have room for."""
    cache: bool = True
    """Share finished fits and evaluations, so that what several runs have in common is done once."""
    dry: Flag = False
    """Check the grid and print its command lines; run nothing."""
    address: str | None = None
    """Address of a Ray cluster; by default one is started on this machine."""
    cpus: float | None = None
    """Processor cores per run on Ray; by default the run's threads."""
    gpus: float | None = None
    """GPUs per run on Ray, which may be a fraction; by default 1 with --device cuda, otherwise 0."""
    json: Flag = False
    """Print how each run ended as JSON."""
    quiet: Flag = False
    """Print nothing unless a run fails."""


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
    jobs = expand(grid, command.part, device, command.cache)
    if command.dry:
        return Swept(grid.out, jobs, [])
    resources = Resources(command.at_once, command.cpus, command.gpus, command.address)
    with Screen(command.quiet) as screen, engine_for(command.on, jobs, device, grid.out, resources) as engine:
        return Swept(grid.out, jobs, Sweep(jobs, engine, grid.out / "logs", screen).carry_out())
