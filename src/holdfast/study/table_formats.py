"""A table as Markdown, LaTeX or CSV."""

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from holdfast.data.printable import printable
from holdfast.study.summary import Estimate
from holdfast.study.table_lines import TASK, TableLine, Value
from holdfast.study.tables import ResultTable


@dataclass(frozen=True)
class Style:
    """How a cell is written."""

    special: Mapping[str, str]  # characters that mean something, and how they are written instead
    published: str
    two: str  # a number and the one under it
    dash: str

    def text(self, words: str) -> str:
        """Text with special characters escaped, one by one, so that none is escaped twice."""
        return "".join(self.special.get(character, character) for character in printable(words))


MARKDOWN = Style(
    {"|": "\\|", "<": "&lt;", ">": "&gt;", "&": "&amp;", "*": "\\*", "_": "\\_", "`": "\\`"},
    "*published: {}*",
    "{}<br>{}",
    "-",
)
LATEX = Style(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        **{character: f"\\{character}" for character in "&%$#_{}"},
    },
    r"\emph{{published: {}}}",
    r"\shortstack[r]{{{}\\{}}}",
    "--",
)


def markdown(table: ResultTable) -> str:
    """Rows, then notes on how to read them and on the runs behind each."""
    rule = ["---", *("--:" for _ in table.columns[1:])]
    head = [MARKDOWN.text(column) for column in table.columns]
    lines = [f"| {' | '.join(row)} |" for row in [head, rule, *(row.cells for row in rows_of(table, MARKDOWN))]]
    return "\n".join([*lines, "", *(f"- {MARKDOWN.text(note)}" for note in notes_of(table))])


def latex(table: ResultTable) -> str:
    """A table environment; the document must load booktabs and graphicx."""
    rows = [" & ".join(row.cells) + r" \\" for row in rows_of(table, LATEX)]
    head = " & ".join(LATEX.text(column) for column in table.columns) + r" \\"
    return "\n".join(
        [
            r"% \usepackage{booktabs,graphicx}",
            r"\begin{table}[htbp]",
            r"\centering",
            rf"\caption{{{LATEX.text(table.title)}}}",
            r"\resizebox{\textwidth}{!}{%",
            rf"\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}",
            *(r"\toprule", head, r"\midrule", *rows, r"\bottomrule"),
            r"\end{tabular}}",
            r"\par\smallskip\raggedright\footnotesize",
            *(rf"{LATEX.text(note)}\par" for note in notes_of(table)),
            r"\end{table}",
        ]
    )


@dataclass(frozen=True)
class TextRow:
    """A row as text, with a cell for each column."""

    cells: list[str]
    published: bool = False


def rows_of(table: ResultTable, style: Style) -> Iterator[TextRow]:
    """Our rows; a published row follows the last of ours that it belongs to, or stands alone."""
    for line, following in zip(table.lines, [*table.lines[1:], None], strict=True):
        if line.values:
            yield TextRow([style.text(line.label), *(_cell(line, column, style) for column in table.columns[1:])])
        if line.published and not (following and _beside(line) == _beside(following)):
            mark = f" ({table.marks[line.differs]})" if line.differs else ""
            numbers = (_published(line, column, style) for column in table.columns[1:])
            yield TextRow([style.published.format(style.text(line.source)) + mark, *numbers], published=True)


def _beside(line: TableLine) -> tuple[object, ...]:
    return line.published, line.source, line.differs


def _cell(line: TableLine, column: str, style: Style) -> str:
    if column not in line.values:
        return style.dash if line.missing else ""
    shown = style.text(format_value(line.values[column]))
    return style.two.format(shown, style.text(format_share(line.rates[column]))) if column in line.rates else shown


def _published(line: TableLine, column: str, style: Style) -> str:
    if column == TASK and column in line.values:
        return style.text(format_value(line.values[column]))
    value = line.published.get(column, "")
    return format_number(value) if isinstance(value, float) else str(value)  # a whole number as it was printed


def notes_of(table: ResultTable) -> list[str]:
    """Notes on how numbers were computed, how the published ones differ, and the runs of each line."""
    ways = [f"({mark}) these runs differ from the published: {'; '.join(way)}." for way, mark in table.marks.items()]
    runs: dict[str, list[str]] = {}
    for line in table.lines:
        runs.setdefault(line.label, []).extend(run for run in line.runs if run not in runs.get(line.label, []))
    return [*table.notes, *ways, *(f"{label}: {', '.join(names)}" for label, names in runs.items() if names)]


FORMULA = ("=", "+", "-", "@")  # how a cell begins that a spreadsheet would compute
PARTS = ("", " low", " high", " success", " success low", " success high", " published")  # of a column


def comma_separated(table: ResultTable) -> str:
    """A line for each of ours, and each that is missing, with all digits; every number in a column of its own.

    No text of a record is a formula: where it begins as one, a quote stands before it.
    """
    found = [_flat(line) for line in table.lines]
    possible = [f"{name}{part}" for name in table.columns for part in PARTS]
    columns = [name for name in possible if any(name in cells for cells in found)]
    more = ("status", "published row", "published differs in", "runs", "how")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    header = ["learner", *columns, *more]
    writer.writerow(map(harmless, header))
    for line, cells in zip(table.lines, found, strict=True):
        status = "missing" if line.missing else "ours" if line.runs else "reference" if line.values else "published"
        rest = (status, line.source, "; ".join(line.differs), ", ".join(line.runs), " ".join(table.notes))
        row = {"learner": line.label, **cells, **dict(zip(more, rest, strict=True))}
        writer.writerow(harmless(row.get(name, "")) for name in header)
    return out.getvalue().removesuffix("\n")


def harmless(cell: object) -> object:
    """A cell that a spreadsheet shows literally; numbers stay numbers."""
    if not isinstance(cell, str):
        return cell
    text = printable(cell)
    return f"'{text}" if text.startswith(FORMULA) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _flat(line: TableLine) -> dict[str, object]:
    cells: dict[str, object] = {f"{name} published": value for name, value in line.published.items()}
    for suffix, values in (("", line.values), (" success", line.rates)):
        for name, value in values.items():
            ends = value.interval if isinstance(value, Estimate) else None
            cells[f"{name}{suffix}"] = value.value if isinstance(value, Estimate) else value
            cells |= dict(zip((f"{name}{suffix} low", f"{name}{suffix} high"), ends, strict=True)) if ends else {}
    return cells


def format_value(value: Value) -> str:
    """Text as it is, or a number with its interval; an interval [0, 0] is left out."""
    if isinstance(value, str):
        return value
    ends = " [{}, {}]".format(*map(format_number, value.interval)) if value.interval and any(value.interval) else ""
    return f"{format_number(value.value)}{ends}"


def format_number(value: float) -> str:
    """Three decimals, fewer for large numbers, two significant digits for tiny ones, and 0 for zero."""
    if abs(value) < 0.0005:
        return f"{value:.2g}"  # what is not zero does not look like it
    digits = 3 - sum(abs(value) >= bound for bound in (10, 100, 1000))
    return f"{value:.{digits}f}"


def format_share(found: Estimate) -> str:
    """A rate in per cent, with its interval if it has one."""
    ends = "" if found.interval is None else " [{:.3g}, {:.3g}]".format(*(100 * end for end in found.interval))
    return f"{100 * found.value:.3g} %{ends}"


FORMATS = {"md": markdown, "tex": latex, "csv": comma_separated}
