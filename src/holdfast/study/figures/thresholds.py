"""How many copies, and about how many bytes, other thresholds would have given."""

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from holdfast.agent.routes import far
from holdfast.study.export import is_drawable
from holdfast.study.figures.drawing import INK, SOFT, WIDTH, Drawing, canvas, decades, styled
from holdfast.study.figures.evaluated_run import EvaluatedRun
from holdfast.study.figures.study import Setting
from holdfast.study.what_if import Prediction, what_if

MEGABYTE = 1e6


def predictions_of(run: EvaluatedRun) -> list[Prediction]:
    """What other thresholds would have given; empty if all give the same, or if a figure cannot show them."""
    predictions = what_if(run.routes, run.matrix, run.record["config"])
    if len(predictions) < 2:
        return []
    shown = [own_threshold(run), *(one.least for one in predictions[1:])]
    return predictions if all(map(is_drawable, shown)) else []


def own_threshold(run: EvaluatedRun) -> float:
    """The threshold that a run was made with."""
    threshold: float = run.record["config"]["config"]["routing"]["threshold"]
    return threshold


def thresholds_figure(setting: Setting, run: EvaluatedRun) -> Drawing:
    """A step at every threshold at which one more task would share a copy; the line is the run's own threshold."""
    predictions, own = predictions_of(run), own_threshold(run)
    with styled():
        figure = canvas(WIDTH, 130)
        _steps(figure.subplots(), predictions, own)
    rows = [
        ["below" if one.least is None else far(one.least), str(one.copies), f"{one.bytes:,}"] for one in predictions
    ]
    told = ", ".join(f"{row[1]} {'below the next' if row[0] == 'below' else f'from {row[0]}'}" for row in rows)
    alt = f"Copies of {setting.label}, seed {run.seed}, that other thresholds would have given: {told}."
    return Drawing(f"thresholds-{setting.key}", setting.label, alt, figure, ["threshold from", "copies", "bytes"], rows)


def _steps(axes: Axes, predictions: list[Prediction], own: float) -> None:
    ends = [one.least for one in predictions if one.least is not None]
    shown = [*ends, own]
    positive = min(shown) > 0
    low = min(shown) / 2.5 if positive else min(shown) - 0.1 * (max(shown) - min(shown) or 1)
    high = max(shown) * 2.5 if positive else max(shown) + 0.1 * (max(shown) - min(shown) or 1)
    if positive:
        axes.set_xscale("log")
        decades(axes.xaxis, fine=max(shown) < 100 * min(shown))
    copies = [one.copies for one in predictions]
    axes.step([low, *ends, high], [*copies, copies[-1]], where="post", color=INK)
    axes.axvline(own, color=SOFT, lw=1.2, ls="--")
    axes.set_xlim(low, high)
    axes.set_ylim(0, max(copies) + 0.5)
    axes.set_yticks(range(0, max(copies) + 1, max(1, max(copies) // 5)))
    axes.set_xlabel("threshold; dashed: the run's own")
    axes.set_ylabel("copies")
    _megabytes(axes, predictions[0], predictions[-1])


def _megabytes(axes: Axes, most: Prediction, fewest: Prediction) -> None:
    """A second axis: bytes grow by the same number with every copy."""
    each = (most.bytes - fewest.bytes) / (most.copies - fewest.copies) / MEGABYTE
    rest = most.bytes / MEGABYTE - each * most.copies

    def to_megabytes(copies: ArrayLike) -> ArrayLike:
        return rest + each * np.asarray(copies)

    def to_copies(megabytes: ArrayLike) -> ArrayLike:
        return (np.asarray(megabytes) - rest) / each

    axes.secondary_yaxis("right", functions=(to_megabytes, to_copies)).set_ylabel("MB, predicted")
