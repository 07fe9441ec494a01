"""The command `holdfast suites`: lists the suites."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.cli.output import print_json, print_names
from holdfast.cli.parsing import parse_words
from holdfast.registry import SUITES
from holdfast.runs.options import Flag
from holdfast.tasks.suite import suite_spec


@dataclass(frozen=True)
class SuitesCommand:
    """List the suites: sequences of tasks to learn."""

    json: Flag = False
    """Print the list as JSON, with the tasks of each suite."""


def suites_command(words: Sequence[str]) -> None:
    """Prints the name of each suite and what it is."""
    command = parse_words(SuitesCommand, "suites", words)
    specs = [suite_spec(name) for name in SUITES]
    if command.json:
        print_json([{"name": spec.name, "about": spec.about, "tasks": spec.order} for spec in specs])
    else:
        print_names((spec.name, spec.about) for spec in specs)
