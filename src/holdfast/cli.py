"""The command line: names in, run folders out."""

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from select import POLLERR, poll
from typing import Annotated, Literal

import tyro
from rich.console import Console

from holdfast.data.cache import local_replays
from holdfast.data.minari import local_datasets
from holdfast.errors import Mistake
from holdfast.experts.make import TASKS, make_expert
from holdfast.experts.supply import suite as suite_named
from holdfast.experts.supply import supply_of
from holdfast.learners import LEARNERS
from holdfast.report.page.command import ReportCommand, put_page
from holdfast.report.results import TableCommand, put_table
from holdfast.report.terminal import checks_table, show
from holdfast.runs.command import FLAGS, carry_out, default_command, parse, show_data
from holdfast.runs.folder import RunFolder
from holdfast.runs.options import Options
from holdfast.runs.recorder import Screen
from holdfast.runs.run import reopen, run
from holdfast.runs.sweep import table
from holdfast.runs.sweep_command import SweepCommand, sweep
from holdfast.suites import SUITES

USAGE = """usage: holdfast COMMAND ...

  run        learn a suite's tasks one after another; again = resume
  evaluate   evaluate a run that was trained where no simulator is
  show       print a run's matrix, routes and certificate
  sweep      carry out the runs of a grid, on this machine or on Ray; again = resume
  table      the paper's tables from runs, beside the published numbers
  report     make a page of runs: one file, with figures and videos, that opens offline
  data       build, check or list recorded data
  expert     train or tune the expert of a task, and record or score it
  suites     what there is to learn
  learners   what there is to learn with

holdfast COMMAND --help tells more; holdfast run --suite S --learner L --help lists that learner's settings."""


class Output(Console):
    """The screen; that nobody reads it any more is seen to by `main`."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


@dataclass(frozen=True)
class EvaluateCommand:
    """Fill the matrix of a run that was trained with --no-evaluate."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run folder."""
    re_evaluate: bool = False
    """Play every episode again."""
    memo: Path | None = None
    """A folder of evaluations that runs share: one that was done before, to the bit, is recalled."""
    device: str = "auto"
    """auto, cpu or cuda."""


@dataclass(frozen=True)
class DataCommand:
    """Build the data of a suite, check it against the simulator, or list what there is on this machine."""

    what: Annotated[Literal["build", "check", "list"], tyro.conf.Positional]
    suite: Annotated[str | None, tyro.conf.Positional] = None
    """The suite; by default panda3, or with `list` all."""
    transitions: int | None = None
    """Transitions per task; by default the suite's amount."""
    data: str | None = None
    """Which data, where the suite has several (atari5: expert-10, expert-100, minari)."""
    order: tuple[str, ...] = ()
    """The tasks; by default all."""
    again: bool = False
    """Build also what is there already."""
    replays: int = 50
    """Episodes per task that a check replays."""


@dataclass(frozen=True)
class ShowCommand:
    """Print a run's matrix, routes and certificate."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run folder."""


def run_command(arguments: Sequence[str]) -> None:
    """holdfast run"""
    command = parse(arguments, default_command(arguments))
    if not carry_out(command):
        return
    if command.options.evaluate:
        show_run(command.out)
    else:
        print(f"trained, not evaluated: holdfast evaluate {command.out}")


def evaluate_command(arguments: Sequence[str]) -> None:
    """holdfast evaluate"""
    command = tyro.cli(EvaluateCommand, prog="holdfast evaluate", args=arguments, config=FLAGS)
    RunFolder(command.run).check_weights()
    suite, learner = reopen(command.run, command.device)
    if learner.learned != suite.names:
        raise Mistake(f"{command.run} is not trained to its end: run its command again first")
    run(suite, learner, command.run, Options(re_evaluate=command.re_evaluate, memo=command.memo, tensorboard=False))
    show_run(command.run)


def sweep_command(arguments: Sequence[str]) -> None:
    """holdfast sweep"""
    command = tyro.cli(SweepCommand, prog="holdfast sweep", args=arguments, config=FLAGS)
    done = sweep(command)
    if command.dry:
        print("\n".join(shlex.join(["holdfast", *job.words]) for job in done.jobs))
        return
    Output().print(table(done.results))
    failed = sum(result.state == "failed" for result in done.results)
    print(f"{len(done.jobs) - failed} of {len(done.jobs)} runs are in {done.out}")
    if failed:
        raise SystemExit(1)


def data_command(arguments: Sequence[str]) -> None:
    """holdfast data"""
    command = tyro.cli(DataCommand, prog="holdfast data", args=arguments, config=FLAGS)
    if command.what == "list":
        everything = [*local_replays(), *local_datasets()]
        found = supply_of(suite_named(command.suite)).local() if command.suite else everything
        for name, episodes, transitions in found:
            print(f"{name:<40}{episodes:>9} episodes{transitions:>10} transitions")
        return
    if command.replays < 1:
        raise Mistake(f"a check replays at least one episode of each task, got --replays {command.replays}")
    suite = suite_named(command.suite or "panda3", command.order, command.transitions, command.data)
    supply = supply_of(suite)
    with Screen() as screen:
        names = supply.build(suite, partial(show_data, screen), command.again)
    if command.what == "build":
        print("\n".join(names))
    else:
        Output().print(checks_table(supply.check(suite, command.replays)))


def expert_command(arguments: Sequence[str]) -> None:
    """holdfast expert"""
    task, *settings = arguments or ["--help"]
    if task in ("-h", "--help"):
        print(
            f"usage: holdfast expert TASK ...\n\ntasks: {', '.join(TASKS)}\n\nholdfast expert TASK --help tells more."
        )
    else:
        make_expert(task, settings, partial(print, flush=True))


def show_command(arguments: Sequence[str]) -> None:
    """holdfast show"""
    show_run(tyro.cli(ShowCommand, prog="holdfast show", args=arguments, config=FLAGS).run)


def table_command(arguments: Sequence[str]) -> None:
    """holdfast table"""
    put_table(tyro.cli(TableCommand, prog="holdfast table", args=arguments, config=FLAGS))


def show_run(path: Path) -> None:
    """Prints a run."""
    folder = RunFolder(path)
    matrix = folder.read_matrix()
    if matrix is None:
        raise Mistake(f"{path} has no results yet: {folder.how_to_go_on()}")
    show(Output(), folder, matrix)


def report_command(arguments: Sequence[str]) -> None:
    """holdfast report"""
    put_page(tyro.cli(ReportCommand, prog="holdfast report", args=arguments, config=FLAGS))


def suites_command(arguments: Sequence[str]) -> None:
    """holdfast suites"""
    no_more(arguments)
    for name, make in SUITES.items():
        print(f"{name:<16}{(make.__doc__ or '').splitlines()[0]}")


def learners_command(arguments: Sequence[str]) -> None:
    """holdfast learners"""
    no_more(arguments)
    for name, entry in LEARNERS.items():
        print(f"{name:<16}{entry.about}")


def no_more(arguments: Sequence[str]) -> None:
    """Raises if there are words that mean nothing."""
    if arguments:
        raise Mistake(f"this command takes no {' '.join(arguments)!r}")


COMMANDS: dict[str, Callable[[Sequence[str]], None]] = {
    "run": run_command,
    "evaluate": evaluate_command,
    "show": show_command,
    "sweep": sweep_command,
    "table": table_command,
    "report": report_command,
    "data": data_command,
    "expert": expert_command,
    "suites": suites_command,
    "learners": learners_command,
}
AGAIN = {  # what to do after an interrupt, where the command does not simply go on
    "expert": "the same command begins anew; with --init, an Atari expert goes on from its last checkpoint",
}


def _unread() -> bool:
    """Whether no one reads what is printed, as when `head` has seen enough; what is left is then thrown away."""
    place, watch = sys.stdout.fileno(), poll()
    watch.register(place, 0)  # errors are told unasked
    left = any(event & POLLERR for _, event in watch.poll(0))
    if left:
        os.dup2(os.open(os.devnull, os.O_WRONLY), place)
    return left


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command; a user's mistake is one sentence and exit code 2, and a reader who left is none."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help"):
        print(USAGE)
        return
    try:
        if words[0] not in COMMANDS:
            raise Mistake(f"there is no command {words[0]!r}; there are {', '.join(COMMANDS)}")
        COMMANDS[words[0]](words[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        if not _unread():  # but another pipe broke
            raise
        raise SystemExit(141) from None  # as a shell says of who dies of it
    except Mistake as mistake:
        print(f"holdfast: {mistake}", file=sys.stderr)
        raise SystemExit(2) from None
    except PermissionError as problem:
        print(f"holdfast: {problem.filename} may not be used ({problem.strerror})", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        print(f"holdfast: interrupted; {AGAIN.get(words[0], 'the same command goes on from here')}", file=sys.stderr)
        raise SystemExit(130) from None
