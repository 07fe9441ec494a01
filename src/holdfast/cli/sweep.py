"""The command `holdfast sweep`: carries out the runs of a grid."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from holdfast.agent.progress import Screen
from holdfast.cli.output import Output, print_json, print_lines
from holdfast.cli.parsing import parse_words
from holdfast.runs.options import Flag
from holdfast.study.engines import Resources, device_for, engine_for
from holdfast.study.grid import read_grid
from holdfast.study.jobs import expand
from holdfast.study.sweep import Outcome, Sweep, outcome_table


@dataclass(frozen=True)
class SweepCommand:
    """Carry out the runs of a grid; finished runs are skipped, and interrupted ones resume."""

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
    """Number of runs at the same time; by default one per GPU, or as many as fit the cores (or Ray)."""
    gpu_service: Flag = False
    """Let several runs compute on a GPU at the same time, by default 8 (NVIDIA's multi-process service, --on local)."""
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


def sweep_command(words: Sequence[str]) -> None:
    """Carries out the runs of a grid, or only prints their command lines."""
    command = parse_words(SweepCommand, "sweep", words)
    grid = read_grid(command.grid, command.out, command.budget)
    device = device_for(command.on, command.device, command.gpus)
    jobs = expand(grid, command.part, device, command.cache)
    if command.dry:
        print_lines("\n".join(shlex.join(["holdfast", *job.words]) for job in jobs))
        return
    resources = Resources(command.at_once, command.cpus, command.gpus, command.address, command.gpu_service)
    with Screen(command.quiet) as screen, engine_for(command.on, jobs, device, grid.out, resources) as engine:
        outcomes = Sweep(jobs, engine, grid.out / "logs", screen).carry_out()
    _report(command, grid.out, outcomes)


def _report(command: SweepCommand, out: Path, outcomes: Sequence[Outcome]) -> None:
    """Prints how the runs ended; the exit code is 1 if one failed."""
    failed = sum(outcome.state == "failed" for outcome in outcomes)
    if command.json:
        print_json([_record(outcome) for outcome in outcomes])
    elif failed or not command.quiet:
        Output().print(outcome_table(outcomes))
        print_lines(f"{len(outcomes) - failed} of {len(outcomes)} runs are in {out}")
    if failed:
        raise SystemExit(1)


def _record(outcome: Outcome) -> dict[str, Any]:
    return {
        "run": outcome.job.name,
        "folder": str(outcome.job.path),
        "state": outcome.state,
        "seconds": outcome.seconds,
        "reason": outcome.reason,
        "log": str(outcome.log),
    }
