"""How the words after a command's name become its settings."""

from collections.abc import Sequence
from inspect import getdoc
from typing import Any, TypeVar

import tyro

from holdfast.data.validation import check_paths

Command = TypeVar("Command")
CONFIG = (tyro.conf.AvoidSubcommands, tyro.conf.DisallowNone)
PLUGIN = "Every command also takes --plugin FILE.py, which adds the suites, learners and backbones of a Python file."


def parse_words(kind: type[Command], name: str, words: Sequence[str], default: Command | None = None) -> Command:
    """The settings in these words; if the words are wrong or ask for help, prints a text and raises SystemExit."""
    usual: dict[str, Any] = {} if default is None else {"default": default}
    about = f"{getdoc(kind)}\n\n{PLUGIN}"
    settings = tyro.cli(kind, prog=f"holdfast {name}", description=about, args=words, config=CONFIG, **usual)
    check_paths(settings)
    return settings
