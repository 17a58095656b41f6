"""Where the time goes: one bar per operation, longest first."""

from collections.abc import Sequence

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from normscope.analysis.models import CategoryMetrics
from normscope.analysis.upper_bound import AT_MOST
from normscope.figures.chart import Cell, Chart
from normscope.figures.entries import (
    UPPER_BOUND_HEADER,
    Entry,
    end_to_end_ms,
    entries_of,
    identity_cells,
    is_comparative,
    total_ms,
    upper_bound_cells,
    upper_bound_note,
    upper_bound_sum,
)
from normscope.figures.labels import counted, duration, joined, percent
from normscope.figures.style import (
    BLACK,
    PALE,
    VARIANTS,
    bar_handles,
    legend_below,
    line_handle,
    message_figure,
    new_figure,
    plain_settings,
    rows_axis,
    settle,
)

NAME = "time_by_operation"
MAX_BARS = 60  # more would be taller than a reader scrolls; the rest is summed, as any rest is
_HEADER = (
    "label",
    "operation",
    "arguments",
    "variant",
    "direction",
    "category",
    "calls",
    "kernel time (ms)",
    "share of normalization time (%)",
    "share of end-to-end time (%)",
    "trace 2 kernel time (ms)",
    "drawn as",
    *UPPER_BOUND_HEADER,
)


def time_by_operation(reports: Sequence[CategoryMetrics], top_n: int = 10) -> Chart:
    """Draw the kernel time of the ``top_n`` longest operations, and of all others as one bar.

    Parameters
    ----------
    reports
        The metrics of one run, forward and backward together.
    top_n
        How many operations get a bar of their own, 1 to 60.

    Returns
    -------
    Chart
        Bars in ms. Its data list every operation.
    """
    entries = entries_of(reports)
    timed = [entry for entry in entries if entry.weight_ms > 0]
    shown = timed[: max(1, min(top_n, MAX_BARS))]
    end_to_end = end_to_end_ms(reports)
    all_ms = sum(report.total_time_ms for report in reports)
    title = _title(timed, all_ms, len(entries), end_to_end, comparative=is_comparative(reports))
    with plain_settings():
        figure = _draw(title, timed, shown, end_to_end, len(entries)) if timed else _nothing(title, entries)
    # The timed entries come first and the shown ones first of all, so that a place tells how one is drawn.
    drawn = ["bar of its own"] * len(shown) + ["others"] * (len(timed) - len(shown))
    drawn += ["not drawn"] * (len(entries) - len(timed))
    total = total_ms(timed)
    rows = tuple(_row(entry, total, how) for entry, how in zip(entries, drawn, strict=True))
    return Chart(NAME, title, _alt(title, timed, len(entries)), figure, _HEADER, rows)


def _nothing(title: str, entries: Sequence[Entry]) -> Figure:
    if entries:
        return message_figure(
            title, f"The input gives no kernel time for its {counted(len(entries), 'operation')}."
        )
    return message_figure(title, "The input holds no normalization operation.")


def _title(
    timed: Sequence[Entry], all_ms: float, count: int, end_to_end: float | None, *, comparative: bool
) -> str:
    """Say who takes the time; ``all_ms`` is the categories' own sum, as everywhere in the report."""
    if not timed:
        return "There is no normalization time to show"
    share = f", {percent(100 * all_ms / end_to_end)} of end-to-end time" if end_to_end else ""
    amount = f"({_mark(timed)}{duration(all_ms)}{' in trace 1' if comparative else ''}{share})"
    if count == 1:
        return f"One operation takes all the normalization time {amount}"
    few = _fewest_for_half(timed)
    who = "One" if few == 1 else f"{few:,}"
    verb = "takes" if few == 1 else "take"
    part = percent(100 * total_ms(timed[:few]) / total_ms(timed))
    return f"{who} of {count:,} operations {verb} {part} of the normalization time {amount}"


def _fewest_for_half(timed: Sequence[Entry]) -> int:
    half, so_far = total_ms(timed) / 2, 0.0
    for number, entry in enumerate(timed, 1):
        so_far += entry.weight_ms
        if so_far >= half:
            return number
    return len(timed)


def _alt(title: str, timed: Sequence[Entry], count: int) -> str:
    if not timed:
        return f"{title}."
    first = timed[0]
    subject = "The longest is" if len(timed) > 1 else "It is"
    longest = f"{subject} {first.one_line} with {first.time_text}{first.time_remark}."
    return joined([f"{title}.", upper_bound_sum(timed), longest, _missing(count - len(timed))])


def _missing(number: int) -> str:
    return f"Not drawn: {counted(number, 'operation')} without a time or below 1 µs." if number else ""


def _draw(
    title: str, timed: Sequence[Entry], shown: Sequence[Entry], end_to_end: float | None, count: int
) -> Figure:
    others = timed[len(shown) :]
    bars = len(shown) + bool(others)
    figure = new_figure(title, 2.0 + 0.52 * bars)
    axes = figure.add_subplot()
    for place, entry in enumerate(shown):
        style = VARIANTS[entry.operation.variant]
        axes.barh(
            place, entry.weight_ms, color=style.colour, hatch=style.hatch, edgecolor="white", linewidth=0
        )
    labels = [f"{entry.label}\n{entry.detail}" for entry in shown]
    if others:
        labels.append("1 other" if len(others) == 1 else f"{len(others):,} others")
        axes.barh(len(shown), total_ms(others), color=PALE, edgecolor=BLACK, linewidth=0.8)
    trace_2 = _draw_trace_2(axes, shown)
    _write_values(axes, [*shown, *([others] if others else [])], end_to_end)
    rows_axis(axes, labels)
    axes.set_xlabel("kernel time (ms)")
    beside = "Beside each bar: kernel time and its share of end-to-end time." if end_to_end else ""
    handles = bar_handles(entry.operation.variant for entry in shown) + trace_2
    notes = [beside, upper_bound_note(timed), upper_bound_sum(timed), _missing(count - len(timed))]
    legend_below(figure, handles, notes)
    return settle(figure)


def _write_values(axes: Axes, bars: Sequence[Entry | Sequence[Entry]], end_to_end: float | None) -> None:
    ends = []
    for place, bar in enumerate(bars):
        value = bar.weight_ms if isinstance(bar, Entry) else total_ms(bar)
        share = f" · {percent(100 * value / end_to_end)}" if end_to_end else ""
        ends.append(max(value, (_trace_2_ms(bar) or 0.0) if isinstance(bar, Entry) else 0.0))
        axes.annotate(
            f"{_mark(bar)}{duration(value)}{share}", (ends[-1], place), xytext=(6, 0),
            textcoords="offset points", va="center", fontsize=11,
        )  # fmt: skip
    axes.set_xlim(0, 1.35 * max(ends))


def _mark(bar: Entry | Sequence[Entry]) -> str:
    """Return the mark of an upper bound, for a bar that holds one."""
    entries = [bar] if isinstance(bar, Entry) else bar
    return AT_MOST if any(entry.operation.is_upper_bound for entry in entries) else ""


def _trace_2_ms(entry: Entry) -> float | None:
    value = entry.operation.t2_time_ms
    return value if isinstance(value, int | float) else None


def _draw_trace_2(axes: Axes, shown: Sequence[Entry]) -> list[Artist]:
    known = [(place, ms) for place, entry in enumerate(shown) if (ms := _trace_2_ms(entry)) is not None]
    if not known:
        return []
    for place, ms in known:
        axes.plot([ms, ms], [place - 0.4, place + 0.4], color=BLACK, linewidth=2.5)
    return [line_handle("trace 2")]


def _row(entry: Entry, total: float, drawn: str) -> tuple[Cell, ...]:
    operation = entry.operation
    return (
        *identity_cells(entry),
        operation.count,
        entry.time_ms,
        round(100 * entry.weight_ms / total, 2) if total and entry.time_ms is not None else None,
        operation.percent_of_total,
        _trace_2_ms(entry),
        drawn,
        *upper_bound_cells(entry),
    )
