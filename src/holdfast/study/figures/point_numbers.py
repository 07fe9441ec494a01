"""Numbers or names beside points, placed where there is room."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.textpath import TextPath

from holdfast.study.figures.drawing import SOFT

SAME = 4.0  # points: what is nearer shares a label
MARK = np.array([4.5, 4.5])  # how far a mark reaches
LINE = 8.0  # height of a letter
STRIDE = 3.0  # between two places of a line that names stay away from

FAR = 12.0  # a label that is farther from its point gets a line to it
LEADER = {"arrowstyle": "-", "lw": 0.5, "color": SOFT, "shrinkA": 0, "shrinkB": 3}

Box = np.ndarray  # ((left, bottom), (right, top)), in points
Crowd = tuple[np.ndarray, list[int]]  # a place in points, and which points lie there


def number_points(axes: Axes, places: Sequence[tuple[float, float]]) -> None:
    """Numbers these points from 1; the figure must have been laid out."""
    name_points(axes, places, [str(number + 1) for number in range(len(places))])


def name_points(axes: Axes, places: Sequence[tuple[float, float]], names: Sequence[str]) -> None:
    """Writes names beside these points, off the lines of the axes if possible; the figure must have been laid out."""
    scale = 72 / axes.figure.dpi  # points a pixel
    room = axes.get_window_extent().get_points() * scale
    crowds = _crowds([axes.transData.transform(place) * scale for place in places])
    taken = [_box(middle - MARK, 2 * MARK) for middle, _ in crowds]
    drawn = [axes.transData.transform(line.get_xydata()) * scale for line in axes.get_lines()]
    lines = [box for corners in drawn for box in _along(corners)]
    texts = [", ".join(names[member] for member in members) for _, members in crowds]
    longest_first = sorted(zip(texts, crowds, strict=True), key=lambda crowd: -len(crowd[0]))
    for text, (middle, members) in longest_first:
        size = np.array([TextPath((0, 0), text, size=LINE).get_extents().width + 1, LINE])
        ways = [way for way in _around(size) if _within(_box(middle + way, size), room)]
        free = [way for way in ways if not _meets(_box(middle + way, size), taken)]
        # the first near one off all lines, otherwise the first near one
        offset = min(
            free,
            key=lambda way: (_gap(_box(way, size)) > FAR, _meets(_box(middle + way, size), lines)),
            default=np.array([6, -3]),
        )
        taken.append(_box(middle + offset, size))
        leader = LEADER if _gap(_box(offset, size)) > FAR else None
        label = axes.annotate(
            text, places[members[0]], tuple(offset), textcoords="offset points", fontsize=LINE, arrowprops=leader
        )
        label.set(in_layout=False, zorder=4)


def _crowds(points: Sequence[np.ndarray]) -> list[Crowd]:
    """Groups of points that lie on each other."""
    crowds: list[Crowd] = []
    for index, point in enumerate(points):
        near = next((members for middle, members in crowds if np.hypot(*(point - middle)) < SAME), None)
        if near is None:
            crowds.append((point, [index]))
        else:
            near.append(index)
    return crowds


def _around(size: np.ndarray) -> list[np.ndarray]:
    """Possible offsets of a label from its point: right, left, above, below, then farther out."""
    width, height = size
    ways = []
    for far in (1.0, 1.6, 2.4, 3.5):
        left, right, above, below = -6 * far - width, 6 * far, 7 * far, -7 * far - height
        ways += [(right, -3), (left, -3), (-width / 2, above), (-width / 2, below)]
        ways += [(right - 1, above - 3), (right - 1, below + 3), (left + 1, above - 3), (left + 1, below + 3)]
        ways += [(-width, above), (-width, below)]  # at the right edge
    return [np.array(way) for way in ways]


def _along(corners: np.ndarray) -> list[Box]:
    """Small boxes along a line through these corners, in points."""
    boxes = []
    for start, end in pairwise(corners):
        shares = np.linspace(0, 1, 2 + int(np.hypot(*(end - start)) / STRIDE))
        boxes += [_box(start + share * (end - start) - 0.5, np.ones(2)) for share in shares]
    return boxes


def _box(corner: np.ndarray, size: np.ndarray) -> Box:
    return np.stack([corner, corner + size])


def _gap(box: Box) -> float:
    """How far a box is from the origin."""
    return float(np.hypot(*np.maximum(np.maximum(box[0], -box[1]), 0)))


def _within(box: Box, room: Box) -> bool:
    return bool((room[0] <= box[0]).all() and (box[1] <= room[1]).all())


def _meets(box: Box, others: Sequence[Box]) -> bool:
    return any((box[0] < other[1]).all() and (other[0] < box[1]).all() for other in others)
