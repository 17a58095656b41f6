"""The drawing of the roofline: log–log axes, roofs, points."""

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from normscope.figures.labels import name_label, plain_number
from normscope.figures.roofs import roof_of
from normscope.figures.scatter import Point, draw_points, name_longest
from normscope.figures.style import (
    AREA_NOTE,
    BLACK,
    GREY,
    anomaly_handle,
    grid,
    legend_below,
    log_axis,
    marker_handles,
    new_figure,
    settle,
)

_FURTHEST_COLUMN = 0.5
_ABOVE_LINE = 1.15
_ROOF: dict[str, Any] = {"color": BLACK, "linewidth": 1.8, "zorder": 2}


def draw_roofline(title: str, points: Sequence[Point], notes: Sequence[str]) -> Figure:
    """Draw the points, at least one, under the roofs of their peaks."""
    figure = new_figure(title, 6.0)
    axes = figure.add_subplot()
    _set_axes(axes, points)
    grid(axes, "both")
    _draw_roofs(axes, points)
    draw_points(axes, points)
    handles = marker_handles(
        [p.entry.operation.variant for p in points], [p.entry.operation.direction for p in points]
    )
    hollow = [anomaly_handle("above the roofline")] * any(point.is_anomaly for point in points)
    legend_below(figure, handles + hollow, [AREA_NOTE, *notes])
    name_longest(axes, points, *_room_for_names(axes, points))
    return settle(figure)


def _ceilings(points: Sequence[Point]) -> dict[float, list[str]]:
    """Return each compute peak in use, in TFLOP/s, with the names of its compute specs."""
    ceilings: dict[float, set[str]] = {}
    for point in points:
        roof = roof_of(point.entry)
        if roof and roof.compute_tflops:
            spec = point.entry.operation.efficiency.compute_spec
            ceilings.setdefault(roof.compute_tflops, set()).update([spec] if spec else [])
    return {peak: sorted(ceilings[peak]) for peak in sorted(ceilings)}


def _memory_peaks(points: Sequence[Point]) -> list[float]:
    return sorted({roof.memory_tbs for point in points if (roof := roof_of(point.entry))})


def _set_axes(axes: Axes, points: Sequence[Point]) -> None:
    ceilings, memory_peaks = _ceilings(points), _memory_peaks(points)
    ridges = [peak / memory for peak in ceilings for memory in memory_peaks]
    right = max([point.x for point in points] + ridges)
    roofs = list(ceilings) or [max(memory_peaks) * right]
    xs, ys = [point.x for point in points], [point.y for point in points]
    log_axis(axes.xaxis, (min(xs) / 4, right * 16), "arithmetic intensity (FLOP/byte)", plain_number)
    log_axis(axes.yaxis, (min(ys) / 4, 3 * max(ys + roofs)), "achieved (TFLOP/s)", plain_number)


def _draw_roofs(axes: Axes, points: Sequence[Point]) -> None:
    left, right = axes.get_xlim()
    ceilings, memory_peaks = _ceilings(points), _memory_peaks(points)
    for memory in memory_peaks:
        end = max(ceilings) / memory if ceilings else right
        axes.plot([left, end], [left * memory, end * memory], **_ROOF)
        for peak in ceilings:
            ridge = peak / memory
            axes.plot([ridge, ridge], [axes.get_ylim()[0], peak], color=GREY, linewidth=0.9, linestyle=":")
    for peak, specs in ceilings.items():
        ridges = [peak / memory for memory in reversed(memory_peaks)]
        axes.plot([ridges[0], right], [peak, peak], **_ROOF)
        _label_ceiling(axes, (right, peak), specs, ridges, is_top=peak == max(ceilings))
    _label_slope(axes, memory_peaks[-1])


def _label_ceiling(
    axes: Axes, end: tuple[float, float], specs: Sequence[str], ridges: Sequence[float], *, is_top: bool
) -> None:
    """Write above the top ceiling and below any other, so that two that lie close don't collide."""
    spec = f", {name_label(specs[0], 24)}" if specs else ""
    more = f" +{len(specs) - 1}" if len(specs) > 1 else ""
    ridge = ", ".join(f"{ridge:.3g}" for ridge in ridges)
    axes.annotate(
        f"{plain_number(end[1])} TFLOP/s{spec}{more}\nridge {ridge} FLOP/byte", end, fontsize=10,
        xytext=(0, 4 if is_top else -5), textcoords="offset points", ha="right",
        va="bottom" if is_top else "top",
    )  # fmt: skip


def _label_slope(axes: Axes, memory: float) -> None:
    x = axes.get_xlim()[0] * 1.2
    y = _ABOVE_LINE * memory * x
    axes.text(
        x, y, f"memory peak {plain_number(memory)} TB/s", fontsize=10, va="bottom", rotation_mode="anchor",
        rotation=math.degrees(math.atan(y / x)), transform_rotates_text=True, clip_on=True, in_layout=False,
    )  # fmt: skip


def _room_for_names(axes: Axes, points: Sequence[Point]) -> tuple[float, float]:
    """Return where the names start and how high they may go, as fractions of the axes.

    They stand right of the points and, as long as no point is above the roof, under it; where there is no
    room they stand outside the axes.
    """
    to_axes = axes.transData + axes.transAxes.inverted()
    column = 0.07 + max(float(to_axes.transform((point.x, point.y))[0]) for point in points)
    if column > _FURTHEST_COLUMN:
        return 1.02, 1.0
    if any(point.is_anomaly for point in points):
        return column, 1.0
    left_end = float((axes.transAxes + axes.transData.inverted()).transform((column, 0.0))[0])
    roof = _memory_peaks(points)[0] * left_end
    return column, float(to_axes.transform((left_end, roof))[1]) - 0.02
