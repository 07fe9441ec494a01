"""HTML in which no text can become markup: everything that is not made here is escaped."""

import re
from collections.abc import Sequence
from html import escape
from itertools import zip_longest

from holdfast.data.printable import printable
from holdfast.study.figures.drawing import Drawing

VOID = {"meta", "br"}
NUMBER = re.compile(r"[\N{MINUS SIGN}-]?\d")


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


Child = str | None  # Html is taken as it is, other text is escaped, none is nothing


def element(name: str, *children: Child, **attributes: str | bool | None) -> Html:
    """One element; `class_` is class, other underscores are hyphens, true is an attribute without a value."""
    said = [_attribute(key, value) for key, value in attributes.items() if value not in (None, False)]
    start = f"<{' '.join([name, *said])}>"
    return Html(start if name in VOID else f"{start}{joined(*children)}</{name}>")


def _attribute(key: str, value: str | bool | None) -> str:
    name = key.rstrip("_").replace("_", "-")
    return name if value is True else f'{name}="{escape(printable(str(value)))}"'


def joined(*children: Child) -> Html:
    """Several pieces of HTML as one."""
    return Html("".join(child if isinstance(child, Html) else escape(printable(child)) for child in children if child))


def paragraph(*children: Child) -> Html:
    """A paragraph."""
    return element("p", *children)


def listed(items: Sequence[Child]) -> Html:
    """A list of points."""
    return element("ul", *(element("li", item) for item in items))


def table(columns: Sequence[str], rows: Sequence[Sequence[Child]], caption: str, sortable: bool = False) -> Html:
    """A table that scrolls if it is too wide; columns of numbers are aligned right."""
    numeric = [all(NUMBER.match(cell) for cell in column if cell) for column in zip_longest(*rows, fillvalue="")]
    classes = ["number" if right else None for right in numeric] or [None] * len(columns)
    head = [element("th", name, scope="col", class_=kind) for name, kind in zip(columns, classes, strict=True)]
    body = [
        element(
            "tr",
            element("th", row[0], scope="row"),
            *(element("td", cell, class_=kind) for cell, kind in zip(row[1:], classes[1:], strict=True)),
        )
        for row in rows
    ]
    content = element(
        "table",
        element("caption", caption, class_="unseen"),
        element("thead", element("tr", *head)),
        element("tbody", *body),
        class_="sortable" if sortable else None,
    )
    return element("div", content, class_="scroll", tabindex="0", role="group", aria_label=caption)


def more(title: str, about: str, *content: Child) -> Html:
    """Content that can be unfolded."""
    return element("details", element("summary", title, element("span", f" ({about})", class_="unseen")), *content)


def figure(drawing: Drawing) -> Html:
    """A drawing with its title, its alternative text, and its numbers to unfold."""
    inner, (width, height) = drawing.embedded()
    picture = element(
        "svg",
        Html(inner),
        viewBox=f"0 0 {width:g} {height:g}",
        style=f"max-width:{width:g}pt",
        role="img",
        aria_label=drawing.alt,
    )
    numbers = more("Numbers", drawing.title, table(drawing.columns, drawing.rows, f"{drawing.title}: numbers"))
    return element("figure", element("figcaption", drawing.title), picture, numbers, id=f"figure-{drawing.name}")
