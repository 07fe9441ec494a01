"""Composes the page from run folders, and saves its figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.agent.progress import Screen
from holdfast.data.files import write_bytes
from holdfast.errors import Mistake
from holdfast.study.figures.study import Study, read_study
from holdfast.study.groups import Skip, refuse
from holdfast.study.overwriting import check_no_record
from holdfast.study.page.document import document
from holdfast.study.page.network_sections import (
    capacity_section,
    certificate_section,
    routing_section,
    shared_weights_section,
)
from holdfast.study.page.provenance_section import provenance_section
from holdfast.study.page.result_sections import (
    curves_section,
    final_section,
    loss_section,
    matrix_section,
    success_section,
    summary_section,
    trade_off_section,
)
from holdfast.study.page.story import counted
from holdfast.study.page.video_section import film_runs, video_section
from holdfast.study.tables import default_kind

LIMIT = 8_000_000  # bytes of a page that still opens at once, and can be sent
ROOM = 7_500_000  # of these, for all but what closes the page
SECTIONS = (
    *(summary_section, final_section, success_section, trade_off_section, matrix_section, curves_section, loss_section),
    *(routing_section, shared_weights_section, capacity_section, certificate_section),
)


@dataclass(frozen=True)
class Written:
    """The files that were written."""

    page: Path
    size: int
    figures: Sequence[Path]


def report(
    runs: Sequence[Path], out: Path, figures: Path | None = None, videos: bool = True, *, skip: Skip = refuse
) -> Written:
    """Writes the page of these runs, and if asked for, every figure of it as PNG, SVG and PDF.

    `skip` is told of every folder that is no run of ours, or damaged.
    """
    if out.is_dir():
        raise Mistake(f"{out} is a folder: give the page a name, such as {out / 'report.html'}")
    for path in (out, figures):
        if path:
            check_no_record(path)
    found = read_study(runs, skip)
    left_out = [
        *([trade_off_section] if len(found.settings) == 1 else []),
        *([success_section] if default_kind(found.suite) != "success" else []),
    ]
    sections = [make(found) for make in SECTIONS if make not in left_out]
    bodies = [section.html() for section in sections]
    if videos:
        room = ROOM - sum(len(body.encode()) for body in bodies)
        with Screen() as screen:
            sections.append(video_section(film_runs(found, screen), room))
        bodies.append(sections[-1].html())
    sections.append(provenance_section(found))
    head = ("Holdfast report", found.suite, extent(found))
    content = document(head, sections, [*bodies, sections[-1].html()], "holdfast report").encode()
    if len(content) > LIMIT:
        raise Mistake(f"the page would be {len(content) / 1e6:.1f} MB, over {LIMIT / 1e6:.0f}: give fewer runs")
    write_bytes(out, content)
    drawings = [drawing for section in sections for drawing in section.drawings] if figures else []
    return Written(out, len(content), [place for drawing in drawings for place in drawing.save(figures or out.parent)])


def extent(found: Study) -> str:
    """The numbers of tasks, settings and runs."""
    runs = sum(len(setting.runs) for setting in found.settings)
    return f"{counted(len(found.tasks), 'task')}, {counted(len(found.settings), 'setting')}, {counted(runs, 'run')}"
