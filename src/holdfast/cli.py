"""The command line: names in, run folders out."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console

from holdfast.data.cache import local_replays
from holdfast.data.minari import local_datasets
from holdfast.errors import Mistake
from holdfast.experts.make import TASKS, make_expert
from holdfast.experts.supply import suite as suite_named
from holdfast.experts.supply import supply_of
from holdfast.learners import LEARNERS, Plan, configure, learner_for, suite_for
from holdfast.report.terminal import checks_table, show
from holdfast.runs.folder import RunFolder
from holdfast.runs.recorder import Screen
from holdfast.runs.run import Options, reopen, run
from holdfast.suites import SUITES

USAGE = """usage: holdfast COMMAND ...

  run        learn a suite's tasks one after another; again = resume
  evaluate   evaluate a run that was trained where no simulator is
  show       print a run's matrix, routes and certificate
  report     make a page of runs: one file, with figures and videos, that opens offline
  data       build, check or list recorded data
  expert     train or tune the expert of a task, and record or score it
  suites     what there is to learn
  learners   what there is to learn with

holdfast COMMAND --help tells more; holdfast run --suite S --learner L --help lists that learner's settings."""


@dataclass(frozen=True)
class Named:
    """A protocol by name."""

    name: str | None = None


@dataclass(frozen=True)
class Choice:
    """The names that settings follow from."""

    protocol: Named

    suite: str = "toy"
    learner: str = "affinity-l"
    preset: str = "paper"
    budget: str = "quick"


@dataclass(frozen=True)
class RunCommand:
    """Learn a suite's tasks one after another, evaluate and certify after each. The same command again resumes."""

    plan: Annotated[Plan, tyro.conf.arg(name="")]
    options: Annotated[Options, tyro.conf.arg(name="")]
    out: Path = Path("runs/demo")
    """The run folder."""
    device: str = "auto"
    """auto, cpu or cuda."""


@dataclass(frozen=True)
class EvaluateCommand:
    """Fill the matrix of a run that was trained with --no-evaluate."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run folder."""
    re_evaluate: bool = False
    """Play every episode again."""
    device: str = "auto"
    """auto, cpu or cuda."""


@dataclass(frozen=True)
class DataCommand:
    """Build the data of a suite, check it against the simulator, or list what there is on this machine."""

    what: Annotated[Literal["build", "check", "list"], tyro.conf.Positional]
    suite: Annotated[str, tyro.conf.Positional] = "panda3"
    """The suite."""
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


@dataclass(frozen=True)
class ReportCommand:
    """Make a page of runs: one file that opens offline, with all figures, and videos where weights are."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Run folders, or folders with runs in them; exported ones have no weights, so no videos."""
    out: Path = Path("report.html")
    """The page."""
    figures: Path | None = None
    """A folder for every figure as PNG, SVG and PDF."""
    videos: bool = True
    """Play every task again to film it; takes seconds a task."""


def run_command(arguments: Sequence[str]) -> None:
    """holdfast run"""
    known = [word for word in arguments if word not in ("-h", "--help")]
    choice, _ = tyro.cli(Choice, args=known, default=Choice(Named()), return_unknown_args=True, add_help=False)
    default = configure(choice.suite, choice.learner, choice.preset, choice.budget, protocol=choice.protocol.name)
    command = tyro.cli(
        RunCommand, prog="holdfast run", args=arguments, default=RunCommand(default, Options()), config=FLAGS
    )
    with Screen() as screen:
        suite = suite_for(command.plan, partial(show_data, screen))
        for task in suite.tasks:
            task.dataset  # noqa: B018  made here, where it can be watched, if it is not there yet
    run(suite, learner_for(command.plan, suite, command.device), command.out, command.options)
    if command.options.evaluate:
        show_run(command.out)
    else:
        print(f"trained, not evaluated: holdfast evaluate {command.out}")


def evaluate_command(arguments: Sequence[str]) -> None:
    """holdfast evaluate"""
    command = tyro.cli(EvaluateCommand, prog="holdfast evaluate", args=arguments, config=FLAGS)
    suite, learner = reopen(command.run, command.device)
    if learner.learned != suite.names:
        raise Mistake(f"{command.run} is not trained to its end: run its command again first")
    run(suite, learner, command.run, Options(re_evaluate=command.re_evaluate, tensorboard=False))
    show_run(command.run)


def data_command(arguments: Sequence[str]) -> None:
    """holdfast data"""
    command = tyro.cli(DataCommand, prog="holdfast data", args=arguments, config=FLAGS)
    if command.what == "list":
        for name, episodes, transitions in [*local_replays(), *local_datasets()]:
            print(f"{name:<40}{episodes:>9} episodes{transitions:>10} transitions")
        return
    suite = suite_named(command.suite, command.order, command.transitions, command.data)
    supply = supply_of(suite)
    with Screen() as screen:
        names = supply.build(suite, partial(show_data, screen), command.again)
    if command.what == "build":
        print("\n".join(names))
    else:
        Console().print(checks_table(supply.check(suite, command.replays)))


def show_data(screen: Screen, task: str, done: int, wanted: int) -> None:
    """Moves the bar of a task whose data is being made."""
    screen.show(f"data of {task}", done, wanted)


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


def show_run(path: Path) -> None:
    """Prints a run."""
    folder = RunFolder(path)
    matrix = folder.read_matrix()
    if matrix is None:
        raise Mistake(f"{path} has no results yet: holdfast evaluate {path}")
    show(Console(), folder, matrix)


def report_command(arguments: Sequence[str]) -> None:
    """holdfast report"""
    command = tyro.cli(ReportCommand, prog="holdfast report", args=arguments, config=FLAGS)
    if not command.runs:
        raise Mistake("a page is made of runs: holdfast report runs/... --out report.html")
    if find_spec("matplotlib") is None:
        raise Mistake("figures need matplotlib: pip install 'holdfast[report]'")
    from holdfast.report.page.compose import report

    written = report(command.runs, command.out, command.figures, command.videos)
    print(f"{written.page}: {written.size / 1e6:.2f} MB")
    if command.figures:
        print(f"{command.figures}: {len(written.figures)} files")


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


FLAGS = (tyro.conf.AvoidSubcommands,)
COMMANDS: dict[str, Callable[[Sequence[str]], None]] = {
    "run": run_command,
    "evaluate": evaluate_command,
    "show": show_command,
    "report": report_command,
    "data": data_command,
    "expert": expert_command,
    "suites": suites_command,
    "learners": learners_command,
}
AGAIN = {  # what to do after an interrupt, where the command does not simply go on
    "expert": "the same command begins anew; with --init, an Atari expert goes on from its last checkpoint",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command; a user's mistake is one sentence and exit code 2."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help"):
        print(USAGE)
        return
    try:
        if words[0] not in COMMANDS:
            raise Mistake(f"there is no command {words[0]!r}; there are {', '.join(COMMANDS)}")
        COMMANDS[words[0]](words[1:])
    except Mistake as mistake:
        print(f"holdfast: {mistake}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        print(f"holdfast: interrupted; {AGAIN.get(words[0], 'the same command goes on from here')}", file=sys.stderr)
        raise SystemExit(130) from None
