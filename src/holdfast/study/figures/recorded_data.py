"""Figures of recorded episodes: lengths, returns, the values of every column, and a few episodes over time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from holdfast.data.action_layouts import ScaledActions
from holdfast.data.doctor import AT_BOUNDS, histogram_of
from holdfast.data.raw_episodes import RawEpisodes
from holdfast.errors import Mistake
from holdfast.study.figures.drawing import FAINT, SOFT, TASKS, WIDTH, Drawing, bare, canvas, styled, typeset

ACROSS, DOWN = 3, 4  # panels of a figure of columns
MOST = 2 * ACROSS * DOWN  # columns of observations, and of actions, that are drawn
TRACED = 2 * ACROSS  # columns that are drawn over time
FRAMES = 4  # of an episode that are shown
PICTURE = 16  # pixels: what has so many in both directions is shown as a picture
LARGEST = 1e30  # number that a figure can show
FEW = 12  # different integers that get a bar each


@dataclass(frozen=True)
class Column:
    """One number that was recorded at every step."""

    name: str
    values: np.ndarray  # (N,)

    @property
    def drawable(self) -> np.ndarray:
        """The values that a figure can show."""
        return self.values[is_drawable(self.values)].astype(np.float64)


def is_drawable(values: np.ndarray) -> np.ndarray:
    """Which values a figure can show: not NaN, not infinite, not too large."""
    return np.abs(values.astype(np.float64)) <= LARGEST


def columns_of(raw: RawEpisodes, kind: str) -> Iterator[Column]:
    """The columns of all `observations` or `actions`; those of pictures are left out."""
    for name, array in raw.numbers():
        if name.split(".")[0] == kind and not is_picture(array):
            flat = array.reshape(len(array), -1)
            places = [""] if array.ndim == 1 else [f"[{index}]" for index in range(flat.shape[1])]
            yield from (Column(f"{name}{place}", flat[:, at]) for at, place in enumerate(places))


def is_picture(array: np.ndarray) -> bool:
    """Whether the rows of an array are pictures."""
    sizes = sorted(array.shape[1:])[-2:]
    return array.dtype == np.uint8 and array.ndim in (3, 4) and min(sizes) >= PICTURE


def distribution(key: str, title: str, values: np.ndarray, of: str) -> Drawing:
    """A histogram of one number of each episode."""
    drawable = Column(title, values).drawable
    with styled():
        figure = canvas(WIDTH, 130)
        axes: Axes = figure.subplots()
        histogram(axes, drawable)
        axes.set_xlabel(of)
        axes.set_ylabel("episodes")
        axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    least, middle, most = (typeset(float(value)) for value in np.quantile(drawable, (0, 0.5, 1)))
    alt = f"{title} of {len(values):,} episodes: from {least} to {most}, median {middle}."
    rows = [[name, typeset(float(np.quantile(drawable, at)))] for name, at in QUANTILES.items()]
    return Drawing(key, title, alt, figure, ["", of], rows)


QUANTILES = {"least": 0.0, "lower quartile": 0.25, "median": 0.5, "upper quartile": 0.75, "most": 1.0}


def histogram(axes: Axes, values: np.ndarray) -> None:
    """Bars: one for each value if these are a few integers, otherwise one for each of some ranges."""
    different = np.unique(values)
    if len(different) == 1 or (len(different) <= FEW and (different == np.round(different)).all()):
        counts = [int((values == value).sum()) for value in different]
        axes.bar(np.arange(len(different)), counts, width=0.8, color=TASKS[0], lw=0)
        axes.set_xticks(np.arange(len(different)), [f"{value:g}" for value in different])
        axes.set_xlim(-1, len(different))
        return
    found = histogram_of(values)
    edges = np.array(found["edges"])
    axes.bar(edges[:-1], found["counts"], width=np.diff(edges), align="edge", color=TASKS[0], lw=0)
    axes.locator_params(axis="x", nbins=3)


def column_figures(columns: Sequence[Column], key: str, title: str, layout: ScaledActions | None) -> Iterator[Drawing]:
    """Histograms of columns, a few in each figure; bounds of actions are lines."""
    shown = columns[:MOST]
    for first in range(0, len(shown), ACROSS * DOWN):
        part = shown[first : first + ACROSS * DOWN]
        more = f", {first + 1} to {first + len(part)}" if len(shown) > ACROSS * DOWN else ""
        with styled():
            figure = canvas(WIDTH, 20 + 62 * -(-len(part) // ACROSS))
            panels = figure.subplots(-(-len(part) // ACROSS), ACROSS, squeeze=False).flat
            for axes in panels[len(part) :]:
                axes.set_visible(False)
            for at, column in enumerate(part):
                _column(panels[at], column, first + at, layout)
        rows = [_row(column, first + at, layout) for at, column in enumerate(part)]
        alt = f"{title}{more}: " + "; ".join(f"{row[0]} from {row[1]} to {row[3]}" for row in rows)
        names = ["column", "least", "mean", "most", *(["at a bound"] if layout else [])]
        yield Drawing(f"{key}-{first}", f"{title}{more}", alt, figure, names, rows)


def _column(axes: Axes, column: Column, index: int, layout: ScaledActions | None) -> None:
    at = f" {at_bound(column, index, layout):.0%} at a bound" if layout else ""
    axes.set_title(f"{short(column.name)}{at}", fontsize=7, color=SOFT, pad=3)
    axes.tick_params(labelsize=6.5)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    if len(column.drawable):
        histogram(axes, column.drawable)
    if layout:
        for bound in (layout.low[index], layout.high[index]):
            axes.axvline(bound, color=TASKS[1], lw=1)


def _row(column: Column, index: int, layout: ScaledActions | None) -> list[str]:
    values = column.drawable
    known = (
        [typeset(float(found)) for found in (values.min(), values.mean(), values.max())] if len(values) else [""] * 3
    )
    return [column.name, *known, *([f"{at_bound(column, index, layout):.1%}"] if layout else [])]


def at_bound(column: Column, index: int, layout: ScaledActions) -> float:
    """The share of a column's values that are at one of its bounds."""
    half = float(layout.half[index])
    near = np.abs(column.drawable - layout.middle[index]) >= half * (1 - AT_BOUNDS)
    return float(near.mean()) if half > 0 and len(near) else 0.0


def bounds_of(raw: RawEpisodes, env: Any = None) -> ScaledActions | None:
    """The bounds of continuous actions: those of an environment, else the declared ones, else the extreme values."""
    try:
        layout = raw.layout([], env).actions
    except Mistake:
        return None
    return layout if isinstance(layout, ScaledActions) else None


def short(name: str) -> str:
    """A column's name without the word that all have in common, cut at its beginning if it is long."""
    name = name.removeprefix("observations").removeprefix("actions").lstrip("./") or name
    return name if len(name) <= 18 else f"…{name[-17:]}"


def chosen_episodes(raw: RawEpisodes) -> dict[str, int]:
    """The best, a middle and the worst episode; without rewards the longest, a middle and the shortest."""
    rewarded = raw.rewards is not None and bool(np.isfinite(raw.returns).all())
    order = np.argsort(raw.returns if rewarded else raw.lengths, kind="stable")
    words = ("best", "median", "worst") if rewarded else ("longest", "median", "shortest")
    places = dict(zip(words, (order[-1], order[len(order) // 2], order[0]), strict=True))
    return {word: int(place) for at, (word, place) in enumerate(places.items()) if at < len(order)}


def traces(raw: RawEpisodes) -> Iterator[Drawing]:
    """A few columns over the steps of the chosen episodes."""
    columns = [*list(columns_of(raw, "observations"))[: TRACED - 1], *list(columns_of(raw, "actions"))[:1]]
    episodes = chosen_episodes(raw)
    for number, column in enumerate(columns):
        with styled():
            figure = canvas(WIDTH, 140)
            axes: Axes = figure.subplots()
            axes.grid(axis="y", color=FAINT, lw=0.5)
            for at, (word, episode) in enumerate(episodes.items()):
                values = column.values[steps_of(raw, episode)]
                axes.plot(
                    np.where(is_drawable(values), values, np.nan), color=TASKS[at], lw=1.1, label=f"{word} ({episode})"
                )
            axes.set_xlabel("step")
            figure.legend(loc="outside upper center", ncols=len(episodes), fontsize=7.5, borderpad=0)
        alt = (
            f"{column.name} over the steps of episodes {', '.join(f'{at} ({word})' for word, at in episodes.items())}."
        )
        yield Drawing(
            f"trace-{number}", column.name, alt, figure, EXAMPLE, [_example(raw, *one) for one in episodes.items()]
        )


def frames(raw: RawEpisodes) -> Iterator[Drawing]:
    """A few frames of the chosen episodes, for every part of the observations that is a picture."""
    pictures = [(name, array) for name, array in raw.numbers() if is_picture(array)]
    for number, (name, array) in enumerate(pictures):
        for word, episode in chosen_episodes(raw).items():
            shown = array[steps_of(raw, episode)]
            steps = np.unique(np.linspace(0, len(shown) - 1, FRAMES).astype(int))
            with styled():
                figure = canvas(WIDTH, 80)
                for axes, step in zip(figure.subplots(1, len(steps), squeeze=False).flat, steps, strict=True):
                    axes.imshow(as_picture(shown[step]), cmap="gray", vmin=0, vmax=255)
                    axes.set_title(f"step {step}", fontsize=7, color=SOFT)
                    axes.set_xticks([])
                    axes.set_yticks([])
                    bare(axes)
            title = f"{name}, {word} episode ({episode})"
            alt = f"Frames of {title} at steps {', '.join(map(str, steps))}."
            yield Drawing(f"frames-{number}-{word}", title, alt, figure, EXAMPLE, [_example(raw, word, episode)])


def steps_of(raw: RawEpisodes, episode: int) -> slice:
    """The rows of an episode."""
    start = int(raw.starts[episode])
    return slice(start, start + int(raw.lengths[episode]))


EXAMPLE = ("episode", "number", "steps", "return")


def _example(raw: RawEpisodes, word: str, episode: int) -> list[str]:
    return [word, str(episode), f"{raw.lengths[episode]:,}", typeset(float(raw.returns[episode]))]


def as_picture(frame: np.ndarray) -> np.ndarray:
    """A frame as it is drawn: (H, W) in grey, or (H, W, 3); of stacked grey frames the last."""
    if frame.ndim == 3 and frame.shape[0] < min(frame.shape[1:]):
        frame = np.moveaxis(frame, 0, -1)
    if frame.ndim == 3 and frame.shape[-1] != 3:
        frame = frame[..., -1]
    return frame
