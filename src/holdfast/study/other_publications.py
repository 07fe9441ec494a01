"""Tables of other publications about a suite, which stand in blocks below our rows."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from holdfast.study.table_lines import TableLine


@cache
def other_publications() -> list[dict[str, Any]]:
    """Each publication: its name, its source, in what our runs differ, and its rows by suite."""
    return json.loads(Path(__file__).with_name("other_publications.json").read_text(encoding="utf-8"))


def sources(suite: str) -> str:
    """Where the publications about a suite are found, in words."""
    about = [found for found in other_publications() if suite in found["rows"]]
    return ", ".join(f"{found['name']} is {found['source']}" for found in about)


def other_lines(suite: str) -> list[TableLine]:
    """The published rows about a suite, publication by publication."""
    return [
        TableLine(
            f"{publication['name']}: {method}",
            {},
            published={column: str(number) for column, number in numbers.items()},  # with the digits that were printed
            source=f"{method}, in {publication['name']}",
            differs=tuple(publication["differs"]),
        )
        for publication in other_publications()
        for method, numbers in publication["rows"].get(suite, {}).items()
    ]
