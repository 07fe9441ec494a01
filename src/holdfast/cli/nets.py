"""The command `holdfast nets`: lists the backbones."""

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import getdoc

from holdfast.cli.output import print_json, print_names
from holdfast.cli.parsing import parse_words
from holdfast.nets.backbone import net_config
from holdfast.registry import NETS
from holdfast.runs.options import Flag


@dataclass(frozen=True)
class NetsCommand:
    """List the backbones: networks that learners train."""

    json: Flag = False
    """Print the list as JSON."""


def nets_command(words: Sequence[str]) -> None:
    """Prints the name of each backbone and the first line of its settings' docstring."""
    command = parse_words(NetsCommand, "nets", words)
    about = {name: (getdoc(net_config(name)) or "").partition("\n")[0] for name in NETS}
    if command.json:
        print_json([{"name": name, "about": line} for name, line in about.items()])
    else:
        print_names(about.items())
