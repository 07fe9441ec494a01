"""What commands print."""

import json
import sys
from collections.abc import Iterable
from shutil import get_terminal_size
from textwrap import fill
from typing import Any

from rich.console import Console

from holdfast.data.printable import printable

INDENT = 16  # columns before the description of a name, unless another number is given


class Output(Console):
    """Standard output; if nobody reads it any more, `cli.main` handles that."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def print_lines(text: str) -> None:
    """Prints lines that may contain names from files and folders."""
    print("\n".join(map(printable, text.split("\n"))))


def print_names(about: Iterable[tuple[str, str]], indent: int = INDENT) -> None:
    """Prints names with their descriptions, wrapped to the width of a terminal."""
    width = get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    for name, line in about:
        begin = f"{printable(name):<{indent}}"
        print(fill(printable(line), width, initial_indent=begin, subsequent_indent=" " * indent))


def print_json(record: Any) -> None:
    """Prints plain data; JSON escapes control characters."""
    print(json.dumps(record, indent=1))


def warn_skipped(problem: str) -> None:
    """Prints to stderr why a folder is left out."""
    print(f"holdfast: skipped: {printable(problem)}", file=sys.stderr)
