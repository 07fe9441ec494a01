"""Results that are kept: exports runs without their weights, and makes a page's table of them.

python -m holdfast.report.results export runs/panda3 --out results/panda3
python -m holdfast.report.results table results/panda3 --into docs/results/panda3.md
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from holdfast.errors import Mistake
from holdfast.report.comparison import table
from holdfast.report.export import export
from holdfast.runs.files import write_bytes

BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"


@dataclass(frozen=True)
class Export:
    """Copy what a table needs, no weights, of run folders or of all run folders under these."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    out: Path
    """Where to; each run keeps its name."""


@dataclass(frozen=True)
class Table:
    """Print the table of all runs under a folder, or fill it into a page."""

    folder: tyro.conf.Positional[Path]
    into: Path | None = None
    """A Markdown page; what stands between its marks of the table is replaced."""


def fill(page: str, content: str) -> str:
    """The page with this between its marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise Mistake(f"the page has no place for a table: write {BEGIN} and {END} into it, each on a line")
    return f"{before}{BEGIN}\n{content}\n{END}{after}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command; a user's mistake is one sentence and exit code 2."""
    commands = Annotated[Export, tyro.conf.subcommand("export")] | Annotated[Table, tyro.conf.subcommand("table")]
    command: Export | Table = tyro.cli(commands, prog="holdfast.report.results", args=arguments)
    try:
        if isinstance(command, Export):
            print("\n".join(str(place) for place in export(command.runs, command.out)))
        elif command.into is None:
            print(table(command.folder))
        else:
            page = fill(_text(command.into), table(command.folder))
            write_bytes(command.into, page.encode())
    except Mistake as mistake:
        print(f"holdfast: {mistake}", file=sys.stderr)
        raise SystemExit(2) from None


def _text(path: Path) -> str:
    if not path.is_file():
        raise Mistake(f"there is no page {path}")
    return path.read_text(encoding="utf-8")


if __name__ == "__main__":
    main()
