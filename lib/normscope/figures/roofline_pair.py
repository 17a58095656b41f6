"""Both rooflines in one figure: what each side reaches of memory bandwidth, each under its own roof.

A norm moves few FLOP per byte, so memory is its roof: the peak bandwidth of the device it ran on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from normscope.analysis.limit_phrases import byte_size
from normscope.compare.models import CallGroup, Comparison, Side
from normscope.figures.chart import Cell, Chart
from normscope.figures.entries import on_log_axis
from normscope.figures.labels import counted, joined, percent, plain_number, significant
from normscope.figures.sides import SIDE_COLOURS, SIDE_MARKERS, side_handles
from normscope.figures.style import (
    AREA_NOTE,
    GREY,
    grid,
    legend_below,
    log_axis,
    message_figure,
    new_figure,
    plain_settings,
    settle,
)

NAME = "comparison_roofline"
_SMALLEST_AREA, _LARGEST_AREA = 36.0, 380.0
_MOST_LINKS = 200
_MOST_VECTOR_POINTS = 2000
_HEADER = (
    "trace",
    "operation",
    "arguments",
    "module",
    "variant",
    "direction",
    "calls",
    "kernel time (ms)",
    "bytes moved per call (bytes)",
    "achieved (TB/s)",
    "memory peak (TB/s)",
    "share of the memory peak (%)",
    "drawn",
)


@dataclass(frozen=True, slots=True)
class _Point:
    """Calls of one side that are alike but for their modules: places in its groups, bytes and TB/s."""

    side: int
    places: tuple[int, ...]
    count: int
    total_us: float
    moved: float
    tbs: float


def comparison_roofline(comparison: Comparison) -> Chart:
    """Draw the achieved bandwidth of every operation of both sides over the bytes that a call moves.

    Parameters
    ----------
    comparison
        Two sides and their pairs.

    Returns
    -------
    Chart
        Log–log, with the peak bandwidth of each side as its roof and the pairs joined; words where no
        operation has a byte count.
    """
    points = [*_points(1, comparison.first), *_points(2, comparison.second)]
    title = _title(comparison, points)
    groups = len(comparison.first.groups) + len(comparison.second.groups)
    hidden = groups - sum(len(point.places) for point in points)
    with plain_settings():
        if points:
            figure = _draw(title, comparison, points, hidden)
        else:
            figure = message_figure(title, "No operation of either trace has a count of the bytes it moves.")
    rows = tuple(_row(number, side, group) for number, side in _numbered(comparison) for group in side.groups)
    return Chart(NAME, title, _alt(title, comparison, points, hidden), figure, _HEADER, rows)


def _numbered(comparison: Comparison) -> tuple[tuple[int, Side], ...]:
    return (1, comparison.first), (2, comparison.second)


def _bandwidth_tbs(group: CallGroup) -> float | None:
    if not group.bytes_moved_per_call or not group.mean_us:
        return None
    return on_log_axis(group.bytes_moved_per_call / group.mean_us / 1e6)


def _points(number: int, side: Side) -> list[_Point]:
    alike: dict[tuple[object, ...], list[int]] = {}
    for place, group in enumerate(side.groups):
        if on_log_axis(group.bytes_moved_per_call) is not None and _bandwidth_tbs(group) is not None:
            key = group.name, group.arguments, group.direction, group.variant, group.bytes_moved_per_call
            alike.setdefault(key, []).append(place)
    return [_point(number, side, places) for places in alike.values()]


def _point(number: int, side: Side, places: Sequence[int]) -> _Point:
    groups = [side.groups[place] for place in places]
    count, moved = sum(group.count for group in groups), groups[0].bytes_moved_per_call or 0.0
    mean_us = sum(group.mean_us * group.count for group in groups) / count
    return _Point(
        side=number,
        places=tuple(places),
        count=count,
        total_us=sum(group.total_us for group in groups),
        moved=moved,
        tbs=moved / mean_us / 1e6,
    )


def _reached_tbs(points: Sequence[_Point], side: int) -> float | None:
    """Return all bytes over all time of a side."""
    own = [point for point in points if point.side == side]
    us = sum(point.moved * point.count / point.tbs / 1e6 for point in own)
    return sum(point.moved * point.count for point in own) / us / 1e6 if us else None


def _title(comparison: Comparison, points: Sequence[_Point]) -> str:
    if not points:
        return "There is no roofline to draw"
    one, two = (_reached_tbs(points, side) for side in (1, 2))
    if one is None or two is None:
        known, value = (1, one) if two is None else (2, two)
        return f"Trace {known} reaches {_tbs(value)}; of trace {3 - known} no bandwidth is known"
    peaks = comparison.first.peak_bandwidth_tbs, comparison.second.peak_bandwidth_tbs
    if not peaks[0] or not peaks[1]:
        return f"Trace 1 reaches {_tbs(one)} of memory bandwidth, trace 2 {_tbs(two)}"
    shares = percent(100 * one / peaks[0]), percent(100 * two / peaks[1])
    return f"Trace 1 reaches {shares[0]} of its peak memory bandwidth, trace 2 {shares[1]}"


def _tbs(value: float | None) -> str:
    return f"{plain_number(float(f'{value or 0.0:.3g}'))} TB/s"


def _alt(title: str, comparison: Comparison, points: Sequence[_Point], hidden: int) -> str:
    if not points:
        return f"{title}: no operation of either trace has a count of the bytes it moves."
    sums = [
        f"trace {side} {_tbs(reached)}{_of_peak(one.peak_bandwidth_tbs)}"
        for side, one in _numbered(comparison)
        if (reached := _reached_tbs(points, side)) is not None
    ]
    return joined([f"{title}.", f"All bytes over all time: {', '.join(sums)}.", _missing(hidden)])


def _of_peak(peak_tbs: float | None) -> str:
    return f" of {_tbs(peak_tbs)}" if peak_tbs else ", peak not known"


def _missing(hidden: int) -> str:
    return f"Not drawn: {counted(hidden, 'operation')} without a byte count or a time." if hidden else ""


def _draw(title: str, comparison: Comparison, points: Sequence[_Point], hidden: int) -> Figure:
    figure = new_figure(title, 5.6)
    axes = figure.add_subplot()
    peaks = {n: side.peak_bandwidth_tbs for n, side in _numbered(comparison) if side.peak_bandwidth_tbs}
    xs, ys = [point.moved for point in points], [point.tbs for point in points]
    log_axis(axes.xaxis, (min(xs) / 2, max(xs) * 2), "bytes moved per call", byte_size)
    highest = max([*ys, *peaks.values()])
    log_axis(axes.yaxis, (min([*ys, *peaks.values()]) / 2, highest * 2), "achieved (TB/s)", plain_number)
    grid(axes, "both")
    _draw_roofs(axes, peaks)
    _draw_links(axes, comparison, points)
    _draw_points(axes, points)
    notes = [
        AREA_NOTE,
        "A line joins the two sides of a pair." if comparison.pairs else "",
        "" if len(peaks) == 2 else "The peak of the GPU isn't known for " + _without_peak(peaks) + ".",
        _missing(hidden),
    ]
    roofs: list[Artist] = [
        Line2D([], [], color=SIDE_COLOURS[n], linestyle=_ROOF[n], linewidth=2, label=f"peak of trace {n}")
        for n in peaks
    ]
    legend_below(figure, [*side_handles(comparison, filled=(1,)), *roofs], notes, columns=2)
    return settle(figure)


_ROOF: dict[int, Literal["-", "--"]] = {1: "-", 2: "--"}


def _without_peak(peaks: dict[int, float]) -> str:
    return " and ".join(f"trace {side}" for side in (1, 2) if side not in peaks)


def _draw_roofs(axes: Axes, peaks: dict[int, float]) -> None:
    left = axes.get_xlim()[0]
    higher = max(peaks.values(), default=0.0)
    for side, peak in sorted(peaks.items()):
        axes.axhline(peak, color=SIDE_COLOURS[side], linestyle=_ROOF[side], linewidth=2.0, zorder=1)
    for peak in sorted(set(peaks.values())):
        whose = " and ".join(f"{side}" for side, own in sorted(peaks.items()) if own == peak)
        axes.annotate(
            f"peak {plain_number(peak)} TB/s, trace {whose}", (left, peak), fontsize=10,
            xytext=(4, 4 if peak == higher else -5), textcoords="offset points",
            va="bottom" if peak == higher else "top",
        )  # fmt: skip


def _draw_links(axes: Axes, comparison: Comparison, points: Sequence[_Point]) -> None:
    """Join the sides of the pairs with most time."""
    placed = {(point.side, place): point for point in points for place in point.places}
    longest = sorted(comparison.pairs, key=lambda pair: -max(pair.time1_us, pair.time2_us))
    places = (place for pair in longest for place in zip(pair.first, pair.second, strict=False))
    ends = dict.fromkeys((placed.get((1, first)), placed.get((2, second))) for first, second in places)
    for one, two in islice(ends, _MOST_LINKS):
        if one and two:
            axes.plot([one.moved, two.moved], [one.tbs, two.tbs], color=GREY, linewidth=1.0, zorder=2)


def _draw_points(axes: Axes, points: Sequence[_Point]) -> None:
    longest = max(point.total_us for point in points) or 1.0
    for side in (1, 2):
        own = sorted((p for p in points if p.side == side), key=lambda p: -p.total_us)
        axes.scatter(
            [point.moved for point in own],
            [point.tbs for point in own],
            s=[_SMALLEST_AREA + (_LARGEST_AREA - _SMALLEST_AREA) * point.total_us / longest for point in own],
            marker=SIDE_MARKERS[side],
            facecolor=SIDE_COLOURS[side] if side == 1 else "none",  # else it would hide its partner
            edgecolor="white" if side == 1 else SIDE_COLOURS[side],
            linewidth=0.8 if side == 1 else 1.8,
            rasterized=len(points) > _MOST_VECTOR_POINTS,
            zorder=3,
        )


def _row(number: int, side: Side, group: CallGroup) -> tuple[Cell, ...]:
    tbs, peak = _bandwidth_tbs(group), side.peak_bandwidth_tbs
    return (
        number,
        group.name,
        group.arguments,
        group.module or None,
        group.variant,
        group.direction,
        group.count,
        group.total_us / 1e3,
        group.bytes_moved_per_call,
        significant(tbs),
        peak,
        significant(100 * tbs / peak) if tbs and peak else None,
        "yes" if tbs and on_log_axis(group.bytes_moved_per_call) else "no",
    )
