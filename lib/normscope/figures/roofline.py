"""The roofline: what each operation reaches, under what the hardware allows."""

from collections.abc import Sequence

from normscope.analysis.limit_phrases import is_cache_resident
from normscope.analysis.models import CategoryMetrics
from normscope.figures.chart import Cell, Chart
from normscope.figures.entries import (
    UPPER_BOUND_HEADER,
    Entry,
    entries_of,
    identity_cells,
    is_comparative,
    total_ms,
    upper_bound_cells,
    upper_bound_note,
    why_above,
)
from normscope.figures.labels import counted, joined, percent, plain_number, significant
from normscope.figures.roofline_axes import draw_roofline
from normscope.figures.roofs import (
    achieved_tflops,
    bandwidth_tbs,
    is_left_of_ridge,
    point_of,
    roof_of,
    roof_percent,
)
from normscope.figures.scatter import Point
from normscope.figures.style import message_figure, plain_settings

NAME = "roofline"
_BANDS = (
    (30.0, "runs below 30% of the roofline"),
    (60.0, "runs at 30–60% of the roofline"),
    (float("inf"), "runs at 60% or more of the roofline"),
)
_ABOVE = "claims more than the roofline allows: check peaks and byte counts"
_IN_CACHE = "runs above the roofline of memory: the bytes of a call fit the last-level cache"
_UNMODELED = "has no performance model, so no place here"
_HEADER = (
    "label",
    "operation",
    "arguments",
    "variant",
    "direction",
    "category",
    "kernel time (ms)",
    "arithmetic intensity (FLOP/byte)",
    "achieved (TFLOP/s)",
    "achieved (TB/s)",
    "memory peak (TB/s)",
    "compute peak (TFLOP/s)",
    "compute spec",
    "share of the roofline (%)",
    "drawn as",
    *UPPER_BOUND_HEADER,
)


def roofline(reports: Sequence[CategoryMetrics]) -> Chart:
    """Draw the achieved TFLOP/s of each operation over its FLOP/byte, under the roofs of the hardware.

    Parameters
    ----------
    reports
        The metrics of one run, forward and backward together.

    Returns
    -------
    Chart
        Log–log, or words where no operation has an intensity, a rate and a memory peak.
    """
    entries = entries_of(reports)
    points = [point for entry in entries if (point := point_of(entry)) is not None]
    comparative = is_comparative(reports)
    title = _title(points, entries, comparative)
    with plain_settings():
        figure = (
            draw_roofline(title, points, _notes(points, entries))
            if points
            else message_figure(title, _why_nothing(entries))
        )
    drawn = {point.entry.one_line: point for point in points}
    rows = tuple(_row(entry, drawn.get(entry.one_line)) for entry in entries)
    return Chart(NAME, title, _alt(title, points, entries), figure, _HEADER, rows)


def _why_nothing(entries: Sequence[Entry]) -> str:
    if not entries:
        return "The input holds no normalization operation."
    if all(roof_of(entry) is None for entry in entries):
        return "The memory peak of the GPU isn't known: the metadata file gives no peak_hbm_bw_tbs."
    return (
        f"None of the {counted(len(entries), 'operation')} has both an arithmetic intensity (FLOP/byte) and "
        "a rate (TFLOP/s or TB/s): the input has no performance model for them."
    )


def _title(points: Sequence[Point], entries: Sequence[Entry], comparative: bool) -> str:
    """Name the group that holds most of the time: an efficiency band, the anomalies or the unmodelled."""
    if not points:
        return "There is no roofline to draw"
    group_ms: dict[str, float] = {}
    for point in points:
        group = _group(point)
        group_ms[group] = group_ms.get(group, 0.0) + point.entry.weight_ms
    all_ms = total_ms(entries)
    group_ms[_UNMODELED] = all_ms - sum(group_ms.values())
    largest = max(group_ms, key=group_ms.__getitem__)
    share = 100 * group_ms[largest] / all_ms if all_ms else 0.0
    whose = "trace 1's" if comparative else "the"
    return f"{'All of' if share >= 99.999 else percent(share) + ' of'} {whose} normalization time {largest}"


def _group(point: Point) -> str:
    if point.is_anomaly:
        return _IN_CACHE if is_cache_resident(point.entry.operation) else _ABOVE
    return next(words for limit, words in _BANDS if roof_percent(point) < limit)


def _alt(title: str, points: Sequence[Point], entries: Sequence[Entry]) -> str:
    if not points:
        return f"{title}: {_why_nothing(entries)}"
    memory = sum(1 for p in points if is_left_of_ridge(p))
    first = points[0]
    longest = (
        f"The longest, {first.entry.one_line} ({first.entry.time_text}){first.entry.time_remark}, reaches "
        f"{plain_number(float(f'{first.y:.3g}'))} TFLOP/s at {plain_number(first.x)} FLOP/byte."
    )
    drawn = counted(len(points), "drawn operation")
    limited = f"{memory:,} of {drawn} left of the ridge, where memory is the limit."
    return joined([f"{title}.", limited, longest, *_notes(points, entries)])


def _notes(points: Sequence[Point], entries: Sequence[Entry]) -> list[str]:
    hollow = [point.entry for point in points if point.is_anomaly]
    missing = len(entries) - len(points)
    no_ceiling = all((roof := roof_of(p.entry)) is None or roof.compute_tflops is None for p in points)
    return [
        f"Hollow: {counted(len(hollow), 'operation')} above the roofline, {why_above(hollow)}."
        if hollow
        else "",
        f"Not drawn: {counted(missing, 'operation')} without a performance model." if missing else "",
        "The compute peak isn't known." if no_ceiling else "",
        upper_bound_note(point.entry for point in points),
    ]


def _row(entry: Entry, point: Point | None) -> tuple[Cell, ...]:
    operation, roof = entry.operation, roof_of(entry)
    efficiency = operation.efficiency
    return (
        *identity_cells(entry),
        entry.time_ms,
        efficiency.flops_per_byte,
        significant(achieved_tflops(entry)),
        significant(bandwidth_tbs(entry)),
        roof.memory_tbs if roof else None,
        roof.compute_tflops if roof else None,
        efficiency.compute_spec,
        significant(roof_percent(point)) if point else None,
        "not drawn" if point is None else "hollow" if point.is_anomaly else "filled",
        *upper_bound_cells(entry),
    )
