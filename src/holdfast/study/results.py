"""Results that are kept: exports runs without their weights, and makes tables of them.

python -m holdfast.study.results export runs/panda3 --out results/panda3
holdfast table results/panda3 --into docs/results/panda3.md
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from holdfast.data.files import read_bytes, write_bytes
from holdfast.data.printable import printable
from holdfast.errors import Mistake
from holdfast.study.export import export
from holdfast.study.export_rliable import rliable
from holdfast.study.overwriting import check_no_record
from holdfast.study.tables import Records, make, records
from holdfast.study.tables_formats import FORMATS
from holdfast.study.tables_screen import print_table


@dataclass(frozen=True)
class Export:
    """Copy what a table needs, no weights, of run folders or of all run folders under these."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders, or folders of run folders."""
    out: Path
    """Folder to copy to; each run keeps its name."""


@dataclass(frozen=True)
class TableCommand:
    """Print a table of runs, ours with intervals beside the published numbers; what is missing is said to be missing.

    Runs that differ in the seed alone are one row. Published numbers of other data, budget or protocol are marked.
    A folder that is not a run, or damaged, is left out, and a line on stderr says so.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUNS...")]
    """Run folders, folders of run folders, or exports of them, as results/panda3 is."""
    table: Literal["main", "tasks", "thresholds", "single", "aux"] = "main"
    """Rows of the table: settings of learners, their tasks, thresholds, tasks learned alone, or every run (aux)."""
    suite: str | None = None
    """Name of the suite, if there are runs of several."""
    paper: bool = False
    """Print only the publication's own rows, each filled or missing; by default all runs, and then those."""
    format: Literal["md", "tex", "csv", "rliable"] | None = None
    """Markdown, LaTeX, CSV with all digits, or JSON for rliable; by default a table in a terminal, else Markdown."""
    out: Path | None = None
    """File to write the table to, instead of printing it."""
    into: Path | None = None
    """Markdown page to put the table into, between its lines <!-- MARK: begin --> and <!-- MARK: end -->."""
    mark: str = "table"
    """The MARK of --into, for a page that has several tables."""


def found_by(command: TableCommand) -> Records:
    """The runs that are asked for; what is left out is said on stderr."""
    if not command.runs:
        raise Mistake("give run folders, as in: holdfast table runs/panda3")
    return records(*command.runs, suite=command.suite, skip=say_skipped)


def say_skipped(problem: str) -> None:
    """Says on stderr, in one line, why a folder is left out."""
    print(f"holdfast: skipped: {printable(problem)}", file=sys.stderr)


def put_table(command: TableCommand) -> None:
    """Prints what is asked for, or writes it where it is asked to."""
    if command.mark != TableCommand.mark and not command.into:
        raise Mistake("--mark says where in a page: give the page, --into PAGE")
    if command.into and (command.out or command.format not in (None, "md")):
        raise Mistake("--into fills a Markdown page: leave --out and --format out")
    for path in (command.into, command.out):
        if path:
            check_no_record(path)
    found = found_by(command)
    if command.format is None and not (command.into or command.out) and sys.stdout.isatty():
        print_table(make(command.table, found, command.paper))
        return
    content = table_text(command, found)
    if command.into:
        write_bytes(command.into, fill(_text(command.into), content, command.mark).encode())
    elif command.out:
        write_bytes(command.out, f"{content}\n".encode())
    else:
        print(content)


def table_text(command: TableCommand, found: Records) -> str:
    """What is asked for, as text."""
    if command.format == "rliable":
        return rliable(found)
    return FORMATS[command.format or "md"](make(command.table, found, command.paper))


def fill(page: str, content: str, mark: str = "table") -> str:
    """The page with this between its marks."""
    first, last = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    before, begin, rest = page.partition(first)
    _, end, after = rest.partition(last)
    if not (begin and end):
        raise Mistake(f"the page has no place for this table: write {first} and {last} into it, each on a line")
    return f"{before}{first}\n{content}\n{last}{after}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command; a user's mistake is one sentence and exit code 2."""
    commands = (
        Annotated[Export, tyro.conf.subcommand("export")] | Annotated[TableCommand, tyro.conf.subcommand("table")]
    )
    command: Export | TableCommand = tyro.cli(commands, prog="holdfast.study.results", args=arguments)
    try:
        if isinstance(command, Export):
            print("\n".join(printable(place) for place in export(command.runs, command.out)))
        else:
            put_table(command)
    except Mistake as mistake:
        print(f"holdfast: {mistake}", file=sys.stderr)
        raise SystemExit(2) from None


def _text(path: Path) -> str:
    if not path.is_file():
        raise Mistake(f"there is no page {path}")
    try:
        return read_bytes(path).decode()
    except UnicodeDecodeError as problem:
        raise Mistake(f"{path} is not a page of Markdown in UTF-8: {problem}") from None


if __name__ == "__main__":
    main()
