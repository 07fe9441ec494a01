"""The command `holdfast learners`: lists the learners."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.cli.output import print_json, print_names
from holdfast.cli.parsing import parse_words
from holdfast.learners.learner import learner_spec
from holdfast.registry import LEARNERS
from holdfast.runs.options import Flag


@dataclass(frozen=True)
class LearnersCommand:
    """List the learners: methods that learn tasks one after another."""

    json: Flag = False
    """Print the list as JSON."""


def learners_command(words: Sequence[str]) -> None:
    """Prints the name of each learner and what it does."""
    command = parse_words(LearnersCommand, "learners", words)
    about = {name: learner_spec(name).about for name in LEARNERS}
    if command.json:
        print_json([{"name": name, "about": line} for name, line in about.items()])
    else:
        print_names(about.items())
