"""Composes the page from run folders, and saves its figures."""

import hashlib
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from holdfast.agent.progress import Screen
from holdfast.data.files import write_bytes
from holdfast.errors import Mistake
from holdfast.study.figures.study import Study, read_study
from holdfast.study.groups import Skip, refuse
from holdfast.study.overwriting import check_no_record
from holdfast.study.page.markup import Html, element, joined
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
from holdfast.study.page.section import Section
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
    content = page(found, sections, [*bodies, sections[-1].html()]).encode()
    if len(content) > LIMIT:
        raise Mistake(f"the page would be {len(content) / 1e6:.1f} MB, over {LIMIT / 1e6:.0f}: give fewer runs")
    write_bytes(out, content)
    drawings = [drawing for section in sections for drawing in section.drawings] if figures else []
    return Written(out, len(content), [place for drawing in drawings for place in drawing.save(figures or out.parent)])


def extent(found: Study) -> str:
    """The numbers of tasks, settings and runs."""
    runs = sum(len(setting.runs) for setting in found.settings)
    return f"{counted(len(found.tasks), 'task')}, {counted(len(found.settings), 'setting')}, {counted(runs, 'run')}"


def page(found: Study, sections: Sequence[Section], bodies: Sequence[Html]) -> str:
    """The whole document; its security policy lets nothing be loaded, and runs no script but its own."""
    title = f"Holdfast: {found.suite}"
    style, script = (
        Html(files(__package__).joinpath(name).read_text(encoding="utf-8")) for name in ("page.css", "page.js")
    )
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:; script-src 'sha256-{digest}'"
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name_="color-scheme", content="light dark"),
        element("title", title),
        element("style", style),
    )
    links = [element("li", element("a", section.title, href=f"#{section.key}")) for section in sections]
    body = element(
        "body",
        element("a", "To the results", href="#main", class_="skip"),
        element(
            "header",
            element("p", "Holdfast report", class_="kicker"),
            element("h1", found.suite),
            element("p", extent(found), class_="kicker"),
        ),
        element("nav", element("ul", *links), aria_label="Contents"),
        element("main", *bodies, id="main", tabindex="-1"),
        element("footer", element("p", "Made by holdfast report. One file, nothing is loaded from elsewhere.")),
        element("script", script),
    )
    return f"<!doctype html>\n{element('html', joined(head, body), lang='en')}\n"
