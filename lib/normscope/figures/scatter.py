"""Points that stand for operations: their marks, and names beside the longest ones."""

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from matplotlib.axes import Axes

from normscope.figures.entries import Entry
from normscope.figures.style import ALARM, DIRECTIONS, GREY, VARIANTS

NAMED_POINTS = 4
_SMALLEST_AREA = 45.0
_LARGEST_AREA = 420.0
_MOST_VECTOR_POINTS = 2000
_LINE_HEIGHT = 0.115


class Point(NamedTuple):
    """One operation at its place in a figure, in the units of the axes.

    ``remark`` follows its name, such as the true value of a point that stands at the edge of the axis.
    """

    entry: Entry
    x: float
    y: float
    is_anomaly: bool
    remark: str = ""


def draw_points(axes: Axes, points: Sequence[Point]) -> None:
    """Draw the points, their area in proportion to the time; anomalies are hollow."""
    longest_ms = max(point.entry.weight_ms for point in points) or 1.0
    alike = defaultdict(list)
    for point in sorted(points, key=lambda p: -p.entry.weight_ms):  # small ones on top
        operation = point.entry.operation
        alike[operation.variant, operation.direction, point.is_anomaly].append(point)
    for (variant, direction, is_anomaly), group in alike.items():
        outline = DIRECTIONS[direction]
        axes.scatter(
            [point.x for point in group],
            [point.y for point in group],
            s=[_area(point.entry.weight_ms / longest_ms) for point in group],
            marker=VARIANTS[variant].marker,
            facecolor="white" if is_anomaly else VARIANTS[variant].colour,
            edgecolor=ALARM if is_anomaly else outline.edge,
            linewidth=1.8 if is_anomaly else outline.width,
            clip_on=False,
            rasterized=len(points) > _MOST_VECTOR_POINTS,
            zorder=3,
        )


def _area(share: float) -> float:
    return _SMALLEST_AREA + (_LARGEST_AREA - _SMALLEST_AREA) * share


def name_longest(axes: Axes, points: Sequence[Point], column: float, top: float = 1.0) -> None:
    """Write the names of the longest operations in a column, each with a line to its point.

    Parameters
    ----------
    axes
        With its limits and scales set.
    points
        All that are drawn.
    column
        Where the column starts, as a fraction of the axes' width.
    top
        How high it may reach, as a fraction of the axes' height.
    """
    named = sorted(points, key=lambda p: -p.entry.weight_ms)[:NAMED_POINTS]
    to_axes = axes.transData + axes.transAxes.inverted()
    named.sort(key=lambda p: (-p.y, -p.x))
    wanted = [float(to_axes.transform((point.x, point.y))[1]) for point in named]
    for point, height in zip(named, spread(wanted, _LINE_HEIGHT, top), strict=True):
        entry = point.entry
        axes.annotate(
            f"{entry.label}\n{entry.detail}, {entry.time_text}{point.remark}",
            xy=(point.x, point.y),
            xytext=(column, height),
            textcoords="axes fraction",
            fontsize=10,
            linespacing=1.1,
            va="center",
            arrowprops={
                "arrowstyle": "-",
                "color": GREY,
                "linewidth": 0.7,
                "relpos": (0, 0.5),
                "shrinkA": 2,
                "shrinkB": 3,
            },
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
            zorder=2,
        )


def spread(heights: Sequence[float], gap: float, top: float = 1.0) -> list[float]:
    """Return descending heights moved apart to at least ``gap``, as little as need be, from 0 to ``top``.

    Examples
    --------
    >>> spread([0.9, 0.5, 0.5], 0.2)
    [0.9, 0.6, 0.4]
    """
    blocks: list[list[float]] = []  # neighbours that touch, each spread about its mean
    for height in heights:
        blocks.append([height])
        while len(blocks) > 1 and _too_close(blocks[-2], blocks[-1], gap):
            touching = blocks.pop()
            blocks[-1] += touching
    placed = [fmean(b) + gap * ((len(b) - 1) / 2 - place) for b in blocks for place in range(len(b))]
    last = len(placed) - 1
    below_top = [min(height, top - gap * (place + 0.5)) for place, height in enumerate(placed)]
    return [max(height, gap * (last - place + 0.5)) for place, height in enumerate(below_top)]


def _too_close(upper: Sequence[float], lower: Sequence[float], gap: float) -> bool:
    return fmean(upper) - fmean(lower) < gap * (len(upper) + len(lower)) / 2
