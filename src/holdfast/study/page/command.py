"""The settings of `holdfast report`, and what it does with them."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import tyro

from holdfast.data.printable import printable
from holdfast.errors import Mistake
from holdfast.study.results import say_skipped


@dataclass(frozen=True)
class ReportCommand:
    """Make a page of runs: one file that opens offline, with all figures, and videos where weights are.

    A folder that is not a run, or damaged, is left out, and a line on stderr says so.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUNS...")]
    """Run folders, or folders of run folders; exported ones have no weights, and so no videos."""
    out: Path = Path("report.html")
    """File that the page is written to."""
    figures: Path | None = None
    """Folder to write every figure to, as PNG, SVG and PDF."""
    videos: bool = True
    """Play every task again to film it, which takes seconds per task."""


def put_page(command: ReportCommand) -> None:
    """Writes the page and the figures that are asked for."""
    if not command.runs:
        raise Mistake("a page is made of runs: holdfast report runs/... --out report.html")
    if find_spec("matplotlib") is None:
        raise Mistake("figures need matplotlib: pip install 'holdfast[report]'")
    from holdfast.study.page.compose import report

    written = report(command.runs, command.out, command.figures, command.videos, skip=say_skipped)
    print(f"{printable(written.page)}: {written.size / 1e6:.2f} MB")
    if command.figures:
        print(f"{printable(command.figures)}: {len(written.figures)} files")
