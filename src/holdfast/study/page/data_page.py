"""The page of a dataset: what the checks found, and pictures of the episodes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.data.action_layouts import ScaledActions
from holdfast.data.doctor import NOTHING, Finding, Level
from holdfast.data.files import write_bytes
from holdfast.data.raw_episodes import RawEpisodes
from holdfast.study.figures.recorded_data import (
    MOST,
    bounds_of,
    column_figures,
    columns_of,
    distribution,
    frames,
    is_drawable,
    traces,
)
from holdfast.study.overwriting import check_no_record
from holdfast.study.page.document import document
from holdfast.study.page.markup import Html, element, joined, paragraph
from holdfast.study.page.section import Section
from holdfast.study.page.story import counted

LEVELS: tuple[Level, ...] = ("problem", "warning", "note", "ok")  # the worst first


def write_data_page(raw: RawEpisodes, findings: Sequence[Finding], title: str, out: Path, env: Any = None) -> int:
    """Writes the page of a dataset; returns its size in bytes."""
    check_no_record(out)
    sections = [
        findings_section(findings),
        episodes_section(raw),
        observations_section(raw),
        actions_section(raw, bounds_of(raw, env)),
        examples_section(raw),
    ]
    extent = f"{counted(len(raw), 'episode')}, {counted(int(raw.lengths.sum()), 'step')}"
    head = ("Holdfast doctor", title, f"{extent}, {raw.environment}" if raw.environment else extent)
    bodies = [section.html() for section in sections]
    content = document(head, sections, bodies, "holdfast agent doctor").encode()
    write_bytes(out, content)
    return len(content)


def findings_section(findings: Sequence[Finding]) -> Section:
    """Every check, the worst first: what was found, what it means, what to do."""
    ordered = sorted(findings, key=lambda finding: LEVELS.index(finding.level))
    counts = {level: sum(finding.level == level for finding in findings) for level in LEVELS}
    said = ", ".join(f"{counted(count, level)}" for level, count in counts.items() if count and level != "ok")
    passed = f"{counts['ok']} of {len(findings)} checks found nothing to note"
    return Section(
        "findings",
        "Findings",
        joined(
            paragraph(f"{passed}; {said}." if said else f"{passed}."),
            element("ul", *(_finding(finding) for finding in ordered), class_="findings"),
        ),
    )


def _finding(finding: Finding) -> Html:
    advice = None if finding.advice == NOTHING else element("p", element("b", "What to do: "), finding.advice)
    return element(
        "li",
        element("h3", element("span", finding.level, class_="level"), f" {finding.name}"),
        element("p", finding.means),
        advice,
        class_=finding.level,
    )


def episodes_section(raw: RawEpisodes) -> Section:
    """How long episodes are, and what they earn."""
    drawings = [distribution("lengths", "Length", raw.lengths, "steps")]
    said = "How long the episodes are. No rewards were recorded, so they have no returns."
    if raw.rewards is not None:
        said = "How long the episodes are, and how much reward each of them earns in all."
        drawings += [distribution("returns", "Return", raw.returns, "return")] if is_drawable(raw.returns).any() else []
    return Section("episodes", "Episodes", paragraph(said), drawings)


def observations_section(raw: RawEpisodes) -> Section:
    """The values of every column of the observations."""
    columns = list(columns_of(raw, "observations"))
    said = "How often each value was recorded, column by column; a column that is a single bar never changes."
    if not columns:
        said = "The observations are pictures, which are shown below."
    return Section(
        "observations",
        "Observations",
        paragraph(said + left_out(len(columns))),
        list(column_figures(columns, "observations", "Observations", None)),
    )


def actions_section(raw: RawEpisodes, bounds: ScaledActions | None) -> Section:
    """The values of every column of the actions, and their bounds."""
    columns = list(columns_of(raw, "actions"))
    said = "How often each action was recorded."
    if bounds:
        said += " The lines are the bounds; where much is at a bound, the behaviour switches between extremes."
    return Section(
        "actions",
        "Actions",
        paragraph(said + left_out(len(columns))),
        list(column_figures(columns, "actions", "Actions", bounds)),
    )


def left_out(count: int) -> str:
    """How many columns are not drawn, in words."""
    return f" The first {MOST} of {count:,} columns are drawn." if count > MOST else ""


def examples_section(raw: RawEpisodes) -> Section:
    """A few episodes over time."""
    said = "The best, the median and the worst episode, by return."
    if raw.rewards is None:
        said = "The longest, the median and the shortest episode."
    return Section("examples", "Examples", paragraph(said), [*traces(raw), *frames(raw)])
