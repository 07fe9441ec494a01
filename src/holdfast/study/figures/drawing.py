"""A figure of a report: its style, its alternative text, and the numbers behind it."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator

from holdfast.data.files import write_bytes
from holdfast.data.printable import printable
from holdfast.study.table_formats import format_number

POINT = 1 / 72  # inches
WIDTH = 280  # points of a figure that a phone shows at full size
INK, SOFT, FAINT, PAPER = "#1b1f23", "#5d666f", "#d3d9de", "#fdfdfc"
TASKS = ("#0072b2", "#d55e00", "#009e73", "#b8578f", "#b07a00", "#3d9bd1")  # after Okabe and Ito, fit for lines
MARKERS = "osD^vP"
THEMED = {INK: "--ink", SOFT: "--soft", FAINT: "--faint", PAPER: "--card"} | {
    colour: f"--task-{index}" for index, colour in enumerate(TASKS)
}  # colours that a page may replace, for instance in the dark
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text
    "pdf.fonttype": 42,
    "text.parse_math": False,  # a name is a name
    "axes.unicode_minus": True,
    "font.size": 8.5,
    "font.family": "sans-serif",
    "text.color": INK,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": SOFT,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
}
KEPT = LinearSegmentedColormap.from_list("kept", ("#f2efe9", "#8fc1dc", "#0f6ea3"))  # lightness tells it without hue
LOST = LinearSegmentedColormap.from_list("lost", ("#1f7fb8", "#efc9a4", "#c04f00"))
FORMATS = ("png", "svg", "pdf")
COLOUR = re.compile("|".join(THEMED), re.IGNORECASE)
HEAD = re.compile(r'<svg [^>]*viewBox="0 0 (?P<width>[\d.]+) (?P<height>[\d.]+)"[^>]*>')
LINES = 3  # of a name in a figure
WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])|[^A-Za-z0-9]+")


@dataclass(frozen=True)
class Drawing:
    """One figure."""

    name: str  # of its files
    title: str
    alt: str  # what it shows, for whoever does not see it
    figure: Figure
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]  # the numbers behind it

    def bytes(self, form: str) -> bytes:
        """The figure as a file of this format."""
        plain = {"png": {}, "svg": {"Date": None, "Creator": None, "Format": None, "Type": None}, "pdf": {}}
        content = BytesIO()
        with styled(self.name):
            self.figure.savefig(content, format=form, dpi=200, transparent=form != "png", metadata=plain[form])
        return content.getvalue()

    def save(self, folder: Path) -> list[Path]:
        """Writes it in every format for papers."""
        places = [folder / f"{self.name}.{form}" for form in FORMATS]
        for place, form in zip(places, FORMATS, strict=True):
            write_bytes(place, self.bytes(form))
        return places

    def embedded(self) -> tuple[str, tuple[float, float]]:
        """The content of the figure's SVG element, and its size in points.

        Colours of the theme become the page's own; ids get the figure's name, so that two figures do not share one.
        """
        text = self.bytes("svg").decode()
        head = HEAD.search(text)
        assert head, "matplotlib writes a view box"
        inner = text[head.end() : text.rindex("</svg>")]
        inner = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{self.name}-", inner)
        inner = COLOUR.sub(lambda found: f"var({THEMED[found[0].lower()]})", inner)
        return inner, (float(head["width"]), float(head["height"]))


@contextmanager
def styled(salt: str = "") -> Iterator[None]:
    """The style of all figures, which are equal at every call."""
    with mpl.rc_context({**STYLE, "svg.hashsalt": salt or "holdfast"}):
        yield


def canvas(width: float, height: float) -> Figure:
    """An empty figure of this size, in points."""
    return Figure(figsize=(width * POINT, height * POINT), layout="constrained")


def colour_of(tasks: Sequence[str], task: str) -> str:
    """The colour that a task has in every figure."""
    return TASKS[tasks.index(task) % len(TASKS)]


def marker_of(tasks: Sequence[str], task: str) -> str:
    """The marker that a task has in every figure, so that colour is not the only distinction."""
    return MARKERS[tasks.index(task) % len(MARKERS)]


def typeset(value: float | None) -> str:
    """A number with a typographic minus sign; empty for None."""
    return "" if value is None else format_number(value).replace("-", "\N{MINUS SIGN}")


def wrapped_name(name: str, width: int = 10) -> str:
    """A name wrapped between its words, and shortened if it is long."""
    lines = [""]
    for word in WORD.findall(printable(name)):
        if lines[-1] and len(lines[-1]) + len(word) > width:
            lines.append("")
        lines[-1] += word
    short = [line if len(line) <= width + 2 else f"{line[:width]}…" for line in lines]
    return "\n".join(short if len(short) <= LINES else [*short[: LINES - 1], "…"])


def decades(axis: Axis, fine: bool = False) -> None:
    """A logarithmic axis with plain numbers."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 3, 5) if fine else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_locator(LogLocator(subs=()))


def bare(axes: Axes) -> None:
    """No frame and no ticks."""
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
