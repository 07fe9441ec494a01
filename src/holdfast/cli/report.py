"""The command `holdfast report`: makes a page of runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import tyro

from holdfast.cli.output import warn_skipped
from holdfast.cli.parsing import parse_words
from holdfast.data.printable import printable
from holdfast.errors import Mistake


@dataclass(frozen=True)
class ReportCommand:
    """Make a page of runs: one file that opens offline, with all figures, and videos if the runs have weights.

    Folders that are damaged or not runs are left out, and a line on stderr names each.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUNS...")]
    """Run folders, or folders of run folders; exported ones have no weights, and so no videos."""
    out: Path = Path("report.html")
    """File that the page is written to."""
    figures: Path | None = None
    """Folder to write every figure to, as PNG, SVG and PDF."""
    videos: bool = True
    """Play every task again to film it, which takes seconds per task."""


def report_command(words: Sequence[str]) -> None:
    """Writes the page, and the figures if they are asked for."""
    command = parse_words(ReportCommand, "report", words)
    if not command.runs:
        raise Mistake("a page needs runs: holdfast report runs/... --out report.html")
    if find_spec("matplotlib") is None:
        raise Mistake("figures need matplotlib: pip install 'holdfast[report]'")
    from holdfast.study.page.compose import report

    written = report(command.runs, command.out, command.figures, command.videos, skip=warn_skipped)
    print(f"{printable(written.page)}: {written.size / 1e6:.2f} MB")
    if command.figures:
        print(f"{printable(command.figures)}: {len(written.figures)} files")
