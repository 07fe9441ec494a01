"""What each command of the command line does."""

import json
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shutil import get_terminal_size
from textwrap import fill
from typing import Annotated, Any, Literal, TypeVar

import tyro
from rich.console import Console

from holdfast.cli.completion import Shell, Words, script, words_of
from holdfast.data.minari import local_datasets
from holdfast.data.printable import printable
from holdfast.data.validation import check_paths
from holdfast.errors import Mistake
from holdfast.learners.registry import LEARNERS
from holdfast.registry import SUITES
from holdfast.runs.command import FLAGS, RunCommand, carry_out, default_command, parse, show_data
from holdfast.runs.folder import RunFolder
from holdfast.runs.forecast import forecast
from holdfast.runs.options import Flag, Options
from holdfast.runs.progress import Screen
from holdfast.runs.run import reopen, run
from holdfast.study.page.command import ReportCommand, put_page
from holdfast.study.results import TableCommand, put_table
from holdfast.study.sweep import Result, table
from holdfast.study.sweep_command import SweepCommand, sweep
from holdfast.study.terminal import checks_table, show, summary
from holdfast.tasks.recorded import Local
from holdfast.tasks.suite import Experts, suite_spec

Command = TypeVar("Command")


class Output(Console):
    """Standard output; that nobody reads it any more is seen to by `cli.main`."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


@dataclass(frozen=True)
class EvaluateCommand:
    """Evaluate a run that was trained with --no-evaluate, and print its results."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The run folder."""
    re_evaluate: Flag = False
    """Play every episode again, even if there is a result."""
    cache: Path | None = None
    """Folder of finished evaluations that runs share: one that was done before, to the bit, is not done again."""
    device: str = "auto"
    """Device to evaluate on: auto, cpu or cuda."""
    quiet: Flag = False
    """Print nothing unless something is wrong."""


@dataclass(frozen=True)
class DataCommand:
    """Build the data of a suite, check it against the simulator, or list the data on this machine."""

    what: Annotated[Literal["build", "check", "list"], tyro.conf.Positional]
    """build: make the data that is missing. check: the same, then replay episodes. list: print what is there."""
    suite: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[SUITE]")] = None
    """Name of the suite; by default panda3, or with `list` all suites."""
    transitions: int | None = None
    """Transitions per task; by default the suite's amount."""
    data: str | None = None
    """Name of the data, for a suite that has several (atari5: expert-10, expert-100, minari)."""
    order: tuple[str, ...] = ()
    """Names of the tasks; by default all of the suite."""
    rebuild: Flag = False
    """Build the data again even if it is on this machine."""
    replays: int = 50
    """Episodes per task that a check replays."""
    json: Flag = False
    """Print the list as JSON."""
    quiet: Flag = False
    """Show no progress."""


@dataclass(frozen=True)
class ShowCommand:
    """Print a run's results, routes and certificate; while it is under way, how far it is."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The run folder."""
    verify: Flag = False
    """Compute the fingerprints of all tasks again from the weights, and compare them with the certificates."""
    json: Flag = False
    """Print everything as JSON."""


@dataclass(frozen=True)
class SuitesCommand:
    """List the suites: what there is to learn."""

    json: Flag = False
    """Print the list as JSON, with the tasks of each suite."""


@dataclass(frozen=True)
class LearnersCommand:
    """List the learners: what there is to learn with."""

    json: Flag = False
    """Print the list as JSON."""


@dataclass(frozen=True)
class CompletionCommand:
    """Print a script that completes commands, flags and names in a shell.

    In bash: eval "$(holdfast completion bash)". In zsh: eval "$(holdfast completion zsh)".
    In fish: holdfast completion fish | source.
    """

    shell: Annotated[Shell, tyro.conf.Positional]
    """The shell that the script is for."""


def run_command(arguments: Sequence[str]) -> None:
    """holdfast run"""
    command = parse(arguments, default_command(arguments))
    if command.dry:
        print_lines(forecast(command))
    elif carry_out(command) and not command.options.quiet:
        show_run(command.out, recomputed=True)


def evaluate_command(arguments: Sequence[str]) -> None:
    """holdfast evaluate"""
    command = parsed(EvaluateCommand, "evaluate", arguments)
    suite, learner = reopen(command.run, command.device)
    if learner.learned != suite.names:
        raise Mistake(f"{command.run} is not trained to its end: {RunFolder(command.run).how_to_go_on()}")
    options = Options(re_evaluate=command.re_evaluate, cache=command.cache, quiet=command.quiet, tensorboard=False)
    run(suite, learner, command.run, options)
    if not command.quiet:
        show_run(command.run, recomputed=True)


def sweep_command(arguments: Sequence[str]) -> None:
    """holdfast sweep"""
    command = parsed(SweepCommand, "sweep", arguments)
    done = sweep(command)
    if command.dry:
        print_lines("\n".join(shlex.join(["holdfast", *job.words]) for job in done.jobs))
        return
    failed = sum(result.state == "failed" for result in done.results)
    if command.json:
        print_json([as_record(result) for result in done.results])
    elif failed or not command.quiet:
        Output().print(table(done.results))
        print_lines(f"{len(done.jobs) - failed} of {len(done.jobs)} runs are in {done.out}")
    if failed:
        raise SystemExit(1)


def as_record(result: Result) -> dict[str, Any]:
    """How a run of a sweep ended, as plain data."""
    ended = {"state": result.state, "seconds": result.seconds, "reason": result.reason, "log": str(result.log)}
    return {"run": result.job.name, "folder": str(result.job.path), **ended}


def data_command(arguments: Sequence[str]) -> None:
    """holdfast data"""
    command = parsed(DataCommand, "data", arguments)
    if command.what == "list":
        list_data(command)
        return
    if command.replays < 1:
        raise Mistake(f"a check replays at least one episode of each task, got --replays {command.replays}")
    suite = suite_spec(command.suite or "panda3").suite(command.order, command.transitions, command.data)
    recorded = suite.spec.recorded_data()
    if command.what == "check" and not command.quiet:
        print(f"building the data of {suite.name} that is missing, then checking it", file=sys.stderr)
    with Screen(command.quiet) as screen:
        names = recorded.build(suite, partial(show_data, screen), command.rebuild)
    if command.what == "build":
        print_lines("\n".join(names))
    else:
        Output().print(checks_table(recorded.check(suite, command.replays)))


def list_data(command: DataCommand) -> None:
    """Prints the data on this machine, of one suite or of all."""
    found = suite_spec(command.suite).recorded_data().local() if command.suite else local_data()
    if command.json:
        print_json([dict(zip(("name", "episodes", "transitions"), one, strict=True)) for one in found])
        return
    if not found:
        print("no recorded data is on this machine: holdfast data build SUITE makes it, and so does a run")
    for name, episodes, transitions in found:
        print_lines(f"{name:<40}{episodes:>9} episodes{transitions:>10} transitions")


def local_data() -> list[Local]:
    """All data on this machine: what suites recorded, and other Minari datasets."""
    recorded = [spec.recorded for spec in map(suite_spec, SUITES) if spec.recorded]
    found = [one for data in recorded for one in data.local()]
    return list(dict.fromkeys([*found, *local_datasets()]))


def expert_command(arguments: Sequence[str]) -> None:
    """holdfast expert"""
    task, *settings = arguments or ["--help"]
    known = experts()
    tasks = ", ".join(task for one in known.values() for task in one.tasks)
    if task in ("-h", "--help"):
        print(f"usage: holdfast expert TASK ...\n\ntasks: {tasks}\n\nholdfast expert TASK --help tells more.")
        return
    folder, _, name = task.partition("/")
    if folder not in known or not name:
        raise Mistake(f"there is no expert of {task!r}; there are {tasks}")
    known[folder].make(name, settings, partial(print, flush=True))


def experts() -> dict[str, Experts]:
    """The experts that can be made, by the first part of their tasks' names."""
    found = [spec.experts for spec in map(suite_spec, SUITES) if spec.experts]
    return {one.folder: one for one in found}


def show_command(arguments: Sequence[str]) -> None:
    """holdfast show"""
    command = parsed(ShowCommand, "show", arguments)
    if command.verify:
        reopen(command.run, "cpu")
    if command.json:
        print_json(summary(RunFolder(command.run), command.verify))
    else:
        show_run(command.run, command.verify)


def show_run(path: Path, recomputed: bool) -> None:
    """Prints a run; `recomputed` says that its fingerprints were compared with its weights."""
    show(Output(), RunFolder(path), recomputed)


def table_command(arguments: Sequence[str]) -> None:
    """holdfast table"""
    put_table(parsed(TableCommand, "table", arguments))


def report_command(arguments: Sequence[str]) -> None:
    """holdfast report"""
    put_page(parsed(ReportCommand, "report", arguments))


def suites_command(arguments: Sequence[str]) -> None:
    """holdfast suites"""
    specs = [suite_spec(name) for name in SUITES]
    if parsed(SuitesCommand, "suites", arguments).json:
        print_json([{"name": spec.name, "about": spec.about, "tasks": spec.order} for spec in specs])
    else:
        print_names({spec.name: spec.about for spec in specs})


def learners_command(arguments: Sequence[str]) -> None:
    """holdfast learners"""
    about = {name: entry.about for name, entry in LEARNERS.items()}
    if parsed(LearnersCommand, "learners", arguments).json:
        print_json([{"name": name, "about": line} for name, line in about.items()])
    else:
        print_names(about)


def completion_command(arguments: Sequence[str]) -> None:
    """holdfast completion"""
    shell = parsed(CompletionCommand, "completion", arguments).shell
    tasks = [task for one in experts().values() for task in one.tasks if " " not in task]
    words = {name: words_of(SETTINGS[name]) if name in SETTINGS else Words({}, tasks) for name in COMMANDS}
    print(script(shell, words))


def parsed(kind: type[Command], name: str, arguments: Sequence[str]) -> Command:
    """The command that these words say; where they say nothing, prints why and raises SystemExit."""
    command = tyro.cli(kind, prog=f"holdfast {name}", args=arguments, config=FLAGS)
    check_paths(command)
    return command


def print_lines(text: str) -> None:
    """Prints lines that hold names from files and folders."""
    print("\n".join(map(printable, text.split("\n"))))


def print_names(about: dict[str, str]) -> None:
    """Prints names, each with what it stands for; in a terminal, as wide as it is."""
    width = get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    for name, line in about.items():
        print(fill(line, width, initial_indent=f"{name:<16}", subsequent_indent=" " * 16))


def print_json(record: Any) -> None:
    """Prints plain data; JSON writes control characters out by itself."""
    print(json.dumps(record, indent=1))


SETTINGS = {  # of each command; an expert's depend on its task
    "run": RunCommand,
    "evaluate": EvaluateCommand,
    "show": ShowCommand,
    "sweep": SweepCommand,
    "table": TableCommand,
    "report": ReportCommand,
    "data": DataCommand,
    "suites": SuitesCommand,
    "learners": LearnersCommand,
    "completion": CompletionCommand,
}
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
    "completion": completion_command,
}
