"""Efficiency against size: how small and large calls compare."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from normscope.analysis.limit_phrases import byte_size, is_cache_resident
from normscope.analysis.models import CategoryMetrics, Operation
from normscope.analysis.size_effect import size_effect
from normscope.figures.chart import Cell, Chart
from normscope.figures.entries import (
    MAX_EFFICIENCY_PERCENT,
    UPPER_BOUND_HEADER,
    Entry,
    entries_of,
    identity_cells,
    is_comparative,
    on_log_axis,
    upper_bound_cells,
    upper_bound_note,
    why_above,
)
from normscope.figures.labels import counted, joined, percent
from normscope.figures.scatter import Point, draw_points, name_longest
from normscope.figures.style import (
    ALARM,
    AREA_NOTE,
    BLACK,
    GREY,
    anomaly_handle,
    grid,
    legend_below,
    log_axis,
    marker_handles,
    message_figure,
    new_figure,
    plain_settings,
    settle,
)
from normscope.findings.wording import sentence_case

NAME = "efficiency_by_bytes"
_BAND_TICKS = (0.0, 30.0, 60.0, 100.0)
_ABOVE_MARK: dict[str, Any] = {
    "xytext": (0, 11),
    "textcoords": "offset points",
    "ha": "center",
    "fontsize": 9,
    "color": ALARM,
    "annotation_clip": False,
}
_EDGE = 1.06  # a point off the axis stands so many times the limit up
_HEADER = (
    "label",
    "operation",
    "arguments",
    "variant",
    "direction",
    "category",
    "calls",
    "kernel time (ms)",
    "bytes moved per call (bytes)",
    "{efficiency}",
    "drawn as",
    *UPPER_BOUND_HEADER,
)


class _Wording(NamedTuple):
    """What one scope calls the efficiency, and where its axis ends.

    The sentences take sizes and percentages that are already written out.
    """

    axis: str
    one: str
    same_size: str
    small_differ: str
    no_difference: str
    limit: float


_STANDALONE = _Wording(
    axis="share of the roofline (%)",
    one="The one operation moves {size} per call and reaches {large} of the roofline",
    same_size="All calls move {size} and reach {large} of the roofline on average",
    small_differ="Calls below {size} reach {small} of the roofline, larger ones {large}",
    no_difference="Size makes little difference: {small} of the roofline below {size}, {large} from there on",
    limit=MAX_EFFICIENCY_PERCENT,
)
_COMPARATIVE = _Wording(
    axis="share of trace 1's time that trace 2 needs (%)",
    one="Trace 2 needs {large} of trace 1's time for the one operation, {size} per call",
    same_size="Trace 2 needs {large} of trace 1's time on average; all calls move {size}",
    small_differ="Trace 2 needs {small} of trace 1's time for calls below {size}, {large} for larger ones",
    no_difference="Trace 2 needs {small} of trace 1's time below {size} per call, {large} from there on",
    limit=200.0,
)


def efficiency_by_bytes(reports: Sequence[CategoryMetrics]) -> Chart:
    """Draw the efficiency of each operation over the bytes that one call moves.

    Parameters
    ----------
    reports
        The metrics of one run, forward and backward together.

    Returns
    -------
    Chart
        Efficiency in % of the roofline, or in the comparative scope 100 × trace 2 time ÷ trace 1 time,
        over bytes on a log axis; words where no operation has both.
    """
    entries = entries_of(reports)
    wording = _COMPARATIVE if is_comparative(reports) else _STANDALONE
    points = [point for entry in entries if (point := _point(entry, wording)) is not None]
    title = _title(points, wording)
    with plain_settings():
        if points:
            figure = _draw(title, points, wording, _notes(points, entries, wording))
        else:
            figure = message_figure(title, _why_nothing(entries))
    drawn = {point.entry.one_line: point for point in points}
    rows = tuple(_row(entry, drawn.get(entry.one_line)) for entry in entries)
    header = tuple(column.format(efficiency=wording.axis) for column in _HEADER)
    return Chart(NAME, title, _alt(title, points, entries, wording), figure, header, rows)


def _point(entry: Entry, wording: _Wording) -> Point | None:
    moved = on_log_axis(entry.operation.bytes_moved_per_call)
    value = entry.operation.efficiency.efficiency_percent
    if moved is None or value is None:
        return None
    if value <= wording.limit:
        return Point(entry, moved, value, entry.is_anomaly)
    return Point(entry, moved, _EDGE * wording.limit, entry.is_anomaly, f": {percent(value)}")


def _efficiency(point: Point) -> float:
    """Return the true efficiency in percent, wherever the point stands."""
    return point.entry.operation.efficiency.efficiency_percent or 0.0


def _why_nothing(entries: Sequence[Entry]) -> str:
    if not entries:
        return "The input holds no normalization operation."
    knows_bytes = any(entry.operation.bytes_moved_per_call for entry in entries)
    lacks_peak = all(entry.operation.efficiency.resolved_peak_hbm_bw is None for entry in entries)
    why = "the input has no performance model for them"
    if knows_bytes and lacks_peak:
        why = "the peak of the GPU isn't known"
    return (
        f"None of the {counted(len(entries), 'operation')} has both an efficiency and the bytes it moves: "
        f"{why}."
    )


def _title(points: Sequence[Point], wording: _Wording) -> str:
    """Compare the smaller half of the operations with the larger half; anomalies have no say."""
    if not points:
        return "There is no efficiency to show"
    sound = [point for point in points if not point.is_anomaly]
    if not sound:
        whose = "The one operation claims" if len(points) == 1 else f"All {len(points):,} operations claim"
        in_cache = all(is_cache_resident(point.entry.operation) for point in points)
        why = "the bytes of a call fit the last-level cache" if in_cache else "check peaks and byte counts"
        return f"{whose} more than 110% of the roofline: {why}"
    by_direction: dict[str, list[Operation]] = {}
    for point in sound:
        by_direction.setdefault(point.entry.operation.direction, []).append(point.entry.operation)
    if len(by_direction) == 1:
        return _sentence([point.entry.operation for point in sound], wording)
    # Forward and backward move other bytes for the same shape, so each is judged by itself.
    parts = [
        f"{direction}: {_lower_first(_sentence(operations, wording))}"
        for direction, operations in sorted(by_direction.items(), reverse=True)
    ]
    return sentence_case("; ".join(parts))


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


def _sentence(operations: Sequence[Operation], wording: _Wording) -> str:
    effect = size_effect(operations)
    if effect is None:
        return "There is no efficiency to show"
    if len(operations) == 1:
        sentence = wording.one
    elif effect.small_percent is None:
        sentence = wording.same_size
    else:
        sentence = wording.small_differ if effect.is_notable else wording.no_difference
    small = effect.large_percent if effect.small_percent is None else effect.small_percent
    return sentence.format(
        size=byte_size(effect.border_bytes), small=percent(small), large=percent(effect.large_percent)
    )


def _alt(title: str, points: Sequence[Point], entries: Sequence[Entry], wording: _Wording) -> str:
    if not points:
        return f"{title}: {_why_nothing(entries)}"
    first = points[0]
    who = f"{first.entry.one_line} ({first.entry.time_text}){first.entry.time_remark}"
    reached = percent(_efficiency(first))
    longest = f"The longest, {who}, moves {byte_size(first.x)} per call and stands at {reached}."
    return joined([f"{title}.", longest, *_notes(points, entries, wording)])


def _notes(points: Sequence[Point], entries: Sequence[Entry], wording: _Wording) -> list[str]:
    hollow = [point for point in points if point.is_anomaly]
    most = max(map(_efficiency, hollow), default=0.0)
    beyond = [_efficiency(point) for point in points if point.remark and not point.is_anomaly]
    missing = len(entries) - len(points)
    return [
        f"Hollow: {counted(len(hollow), 'operation')} above 110% (up to {percent(most)}), "
        f"{why_above([point.entry for point in hollow])}."
        if hollow
        else "",
        f"At the top edge: {counted(len(beyond), 'operation')} above {wording.limit:.0f}% "
        f"(up to {percent(max(beyond))})."
        if beyond
        else "",
        f"Not drawn: {counted(missing, 'operation')} without an efficiency or a byte count."
        if missing
        else "",
        upper_bound_note(point.entry for point in points),
    ]


def _draw(title: str, points: Sequence[Point], wording: _Wording, notes: Sequence[str]) -> Figure:
    figure = new_figure(title, 5.7)
    axes = figure.add_subplot()
    xs = [point.x for point in points]
    log_axis(axes.xaxis, (min(xs) / 2, max(xs) * 2), "bytes moved per call", byte_size)
    axes.set_ylabel(wording.axis)
    axes.set_ylim(0, max([103.0] + [1.03 * p.y for p in points]))
    grid(axes, "x")
    _draw_lines(axes, wording)
    draw_points(axes, points)
    for point in points:
        if point.remark:
            axes.annotate("▲", (point.x, point.y), **_ABOVE_MARK)
    handles = marker_handles(
        [p.entry.operation.variant for p in points], [p.entry.operation.direction for p in points]
    )
    hollow = [anomaly_handle("above 110%")] * any(point.is_anomaly for point in points)
    legend_below(figure, handles + hollow, [AREA_NOTE, *notes])
    name_longest(axes, points, 1.03)
    return settle(figure)


def _draw_lines(axes: Axes, wording: _Wording) -> None:
    axes.axhline(100, color=BLACK, linewidth=1.0, zorder=1)
    if wording is _STANDALONE:
        axes.set_yticks(_BAND_TICKS)
        for border in _BAND_TICKS[1:-1]:
            axes.axhline(border, color=GREY, linewidth=1.0, linestyle="--", zorder=1)


def _row(entry: Entry, point: Point | None) -> tuple[Cell, ...]:
    operation = entry.operation
    return (
        *identity_cells(entry),
        operation.count,
        entry.time_ms,
        operation.bytes_moved_per_call,
        operation.efficiency.efficiency_percent,
        "not drawn" if point is None else "hollow" if point.is_anomaly else "filled",
        *upper_bound_cells(entry),
    )
