"""A table in a terminal: as many columns side by side as fit, the others below."""

from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.data.printable import printable
from holdfast.study.table_formats import Style, TextRow, notes_of, rows_of
from holdfast.study.tables import ResultTable

SCREEN = Style({}, "published: {}", "{}\n{}", "-")
LABEL = 34  # the widest that the first column may be
GAP = 3  # between two columns


def print_table(table: ResultTable, console: Console | None = None) -> None:
    """Prints a table, an interval under its number, and the notes below."""
    console = console or Console()
    rows = [TextRow([row.cells[0], *map(_stacked, row.cells[1:])], row.published) for row in rows_of(table, SCREEN)]
    widths = [_width([heading, *(row.cells[at] for row in rows)]) for at, heading in enumerate(table.columns)]
    widths[0] = min(widths[0], LABEL)
    console.print(Text(printable(table.title), style="bold"))
    for columns in column_blocks(widths, console.width):
        block_table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for at in columns:
            block_table.add_column(
                Text(printable(table.columns[at])), justify="right" if at else "left", overflow="fold"
            )
        for row in rows:
            if row.published and not any(row.cells[at] for at in columns[1:]):
                continue
            block_table.add_row(*(Text(row.cells[at]) for at in columns), style="dim" if row.published else "")
        console.print(block_table, "")
    for note in notes_of(table):
        console.print(Text(printable(note)))


def _stacked(cell: str) -> str:
    """The cell with the interval of its number on a line of its own."""
    first, *rest = cell.split("\n")
    return "\n".join([first.replace(" [", "\n["), *rest])


def _width(cells: Sequence[str]) -> int:
    return max(len(line) for cell in cells for line in cell.split("\n"))


def column_blocks(widths: Sequence[int], room: int) -> Iterator[list[int]]:
    """Columns in blocks that fit the width; the first column is in every block."""
    block = [0]
    for at in range(1, len(widths)):
        if len(block) > 1 and sum(widths[column] + GAP for column in (*block, at)) - GAP > room:
            yield block
            block = [0]
        block.append(at)
    yield block
