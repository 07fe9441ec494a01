"""The command `holdfast table`: prints tables of runs beside the published numbers."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from holdfast.cli.output import warn_skipped
from holdfast.cli.parsing import parse_words
from holdfast.data.files import read_bytes, write_bytes
from holdfast.errors import Mistake
from holdfast.study.export_rliable import rliable
from holdfast.study.overwriting import check_no_record
from holdfast.study.table_formats import FORMATS
from holdfast.study.table_terminal import print_table
from holdfast.study.tables import Records, compared, make_table, read_records


@dataclass(frozen=True)
class TableCommand:
    """Print a table of runs, ours with intervals beside the published numbers; missing runs are listed as missing.

    Runs that differ only in the seed are one row. Published numbers of other data, budget or protocol are marked.
    Folders that are damaged or not runs are left out, and a line on stderr names each.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUNS...")]
    """Run folders, folders of run folders, or exports of them, such as results/panda3."""
    table: Literal["main", "success", "tasks", "thresholds", "single", "routes", "aux"] | None = None
    """Rows: learners (main; success: Continual World's), tasks, thresholds, tasks alone, routes, runs (aux)."""
    stages: int | None = None
    """Number of tasks to stop at: runs stand as they were after so many, those of cw20 after 10 as runs of cw10."""
    suite: str | None = None
    """Name of the suite, if there are runs of several."""
    against: tuple[Path, ...] | None = None
    """Run folders of one setting that every row is compared with, seed by seed and start by start."""
    paper: bool = False
    """Print only the publication's own rows, each filled or missing; by default all runs, and then those."""
    ours: bool = False
    """Print only these runs, without published numbers."""
    format: Literal["md", "tex", "csv", "rliable"] | None = None
    """Markdown, LaTeX, CSV with all digits, or JSON for rliable; by default a table in a terminal, else Markdown."""
    out: Path | None = None
    """File to write the table to, instead of printing it."""
    into: Path | None = None
    """Markdown page to put the table into, between its lines <!-- MARK: begin --> and <!-- MARK: end -->."""
    mark: str = "table"
    """The MARK of --into, for a page that has several tables."""


def table_command(words: Sequence[str]) -> None:
    """Prints the table that is asked for, or writes it to a file."""
    command = parse_words(TableCommand, "table", words)
    _check_destination(command)
    if not command.runs:
        raise Mistake("a table needs run folders: holdfast table runs/panda3")
    if command.against == ():
        raise Mistake("--against needs run folders: holdfast table runs/panda3 --against runs/panda3/single-s*")
    if command.stages is not None and command.stages < 1:
        raise Mistake(f"--stages must be at least 1, got {command.stages}")
    if command.paper and command.ours:
        raise Mistake("--paper prints published rows alone, and --ours none of them: leave one of them out")
    found = read_records(*command.runs, suite=command.suite, skip=warn_skipped, stages=command.stages)
    if command.against:
        other = read_records(*command.against, suite=found.suite, skip=warn_skipped, stages=command.stages)
        found = compared(found, other)
    if command.format is None and not (command.into or command.out) and sys.stdout.isatty():
        print_table(make_table(command.table, found, command.paper, command.ours))
        return
    content = _content(command, found)
    if command.into:
        write_bytes(command.into, fill_page(_page(command.into), content, command.mark).encode())
    elif command.out:
        write_bytes(command.out, f"{content}\n".encode())
    else:
        print(content)


def _check_destination(command: TableCommand) -> None:
    """Raises if the flags that say where to write contradict each other, or name a part of a run folder."""
    if command.mark != TableCommand.mark and not command.into:
        raise Mistake("--mark names a place in a page: name the page with --into PAGE")
    if command.into and (command.out or command.format not in (None, "md")):
        raise Mistake("--into fills a Markdown page: leave out --out and --format")
    for path in (command.into, command.out):
        if path:
            check_no_record(path)


def _content(command: TableCommand, found: Records) -> str:
    """The table as text."""
    if command.format == "rliable":
        return rliable(found)
    return FORMATS[command.format or "md"](make_table(command.table, found, command.paper, command.ours))


def fill_page(page: str, content: str, mark: str = "table") -> str:
    """The page with this content between its marks."""
    first, last = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    before, begin, rest = page.partition(first)
    _, end, after = rest.partition(last)
    if not (begin and end):
        raise Mistake(f"the page has no place for this table: write {first} and {last} into it, each on a line")
    return f"{before}{first}\n{content}\n{last}{after}"


def _page(path: Path) -> str:
    if not path.is_file():
        raise Mistake(f"there is no page {path}")
    try:
        return read_bytes(path).decode()
    except UnicodeDecodeError as problem:
        raise Mistake(f"{path} is not a Markdown page in UTF-8: {problem}") from None
