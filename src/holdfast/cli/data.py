"""The command `holdfast data`: builds, checks and lists recorded data."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import tyro
from rich.table import Table
from rich.text import Text

from holdfast.agent.progress import Screen
from holdfast.cli.output import Output, print_json, print_lines
from holdfast.cli.parsing import parse_words
from holdfast.data.minari import local_datasets
from holdfast.data.printable import printable
from holdfast.errors import Mistake
from holdfast.registry import SUITES
from holdfast.runs.options import Flag
from holdfast.runs.spec import show_data_progress
from holdfast.tasks.data_choice import DataChoice
from holdfast.tasks.data_reports import DataCheck, Local
from holdfast.tasks.suite import suite_spec


@dataclass(frozen=True)
class DataCommand:
    """Build the data of a suite, check it against the simulator, or list the data on this machine."""

    what: Annotated[Literal["build", "check", "list"], tyro.conf.Positional]
    """build: make the data that is missing. check: the same, then replay episodes. list: print what is there."""
    suite: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[SUITE]")] = None
    """Name of the suite; by default panda3, or with `list` all suites."""
    transitions: int | None = None
    """Transitions per task; by default the suite's amount."""
    demonstrations: int | None = None
    """Demonstrations per task, for a suite that counts its data in recorded episodes (cw10, cw20, mt50)."""
    data: str | None = None
    """Name of the data, for a suite that has several (atari5: expert-10, expert-100, minari)."""
    order: tuple[str, ...] = ()
    """Names of the tasks; by default all tasks of the suite."""
    rebuild: Flag = False
    """Build the data again even if it is on this machine."""
    replays: int = 50
    """Episodes per task that a check replays."""
    json: Flag = False
    """Print the list as JSON."""
    quiet: Flag = False
    """Show no progress."""


def data_command(words: Sequence[str]) -> None:
    """Builds, checks or lists data."""
    command = parse_words(DataCommand, "data", words)
    if command.what == "list":
        _list(command)
        return
    if command.replays < 1:
        raise Mistake(f"a check replays at least one episode of each task, got --replays {command.replays}")
    choice = DataChoice(transitions=command.transitions, demonstrations=command.demonstrations, data=command.data)
    suite = suite_spec(command.suite or "panda3").suite(command.order, choice)
    recorded = suite.spec.recorded_data()
    if command.what == "check" and not command.quiet:
        print(f"building the data of {suite.name} that is missing, then checking it", file=sys.stderr)
    with Screen(command.quiet) as screen:
        names = recorded.build(suite, partial(show_data_progress, screen), command.rebuild)
    if command.what == "build":
        print_lines("\n".join(names))
    else:
        Output().print(checks_table(recorded.check(suite, command.replays)))


def _list(command: DataCommand) -> None:
    """Prints the data on this machine, of one suite or of all suites."""
    found = suite_spec(command.suite).recorded_data().local() if command.suite else _all_local()
    if command.json:
        print_json([dict(zip(("name", "episodes", "transitions"), one, strict=True)) for one in found])
        return
    if not found:
        print("there is no recorded data on this machine: holdfast data build SUITE makes it, and so does a run")
    for name, episodes, transitions in found:
        print_lines(f"{name:<40}{episodes:>9} episodes{transitions:>10} transitions")


def _all_local() -> list[Local]:
    """All data on this machine: what suites recorded, and other Minari datasets."""
    recorded = [spec.recorded for spec in map(suite_spec, SUITES) if spec.recorded]
    found = [one for data in recorded for one in data.local()]
    return list(dict.fromkeys([*found, *local_datasets()]))


def checks_table(checks: Sequence[DataCheck]) -> Table:
    """The result of a check: returns, duplicate episodes, the range of actions covered, episodes replayed."""
    table = Table(title="recorded data; every replayed episode was exactly as recorded")
    for name in ("task", "episodes", "mean", "worst", "twice", "range", "replayed"):
        table.add_column(name, justify="left" if name == "task" else "right", no_wrap=True)
    for check in checks:
        returns = (f"{check.mean:.3f}", f"{check.least:.2f}")
        rest = (str(check.duplicates), f"{check.coverage:.0%}", str(check.replayed))
        table.add_row(Text(printable(check.task)), str(check.episodes), *returns, *rest)
    return table
