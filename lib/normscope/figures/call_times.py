"""How the calls of each signature differ: one mark per call, first calls and outliers told apart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from normscope.analysis.call_times import LEAST_CALLS, CallTimes
from normscope.analysis.models import CategoryMetrics
from normscope.figures.chart import Cell, Chart
from normscope.figures.entries import (
    UPPER_BOUND_HEADER,
    Entry,
    entries_of,
    on_log_axis,
    upper_bound_cells,
    upper_bound_note,
)
from normscope.figures.labels import counted, duration, joined, plain_number
from normscope.figures.style import (
    ALARM,
    BLACK,
    VARIANTS,
    legend_below,
    log_axis,
    message_figure,
    new_figure,
    plain_settings,
    rows_axis,
    settle,
)

NAME = "call_times"
MAX_ROWS = 12
_MOST_MARKS = 400  # of usual calls in a row; first calls and outliers are always drawn
_BAND = 0.32
_HEADER = (
    "label",
    "operation",
    "arguments",
    "category",
    "call",
    "profiler step",
    "kernel time (µs)",
    "norm kernel time (µs)",
    "copies and casts (µs)",
    "recomputed",
    "module",
    "median of the signature (µs)",
    "kind",
    *UPPER_BOUND_HEADER,
)
_NOTE = (
    "One mark per call; the calls of a row in their order, from its top to its bottom. Outlier: longer than "
    "the median + 5 × the median absolute deviation, and at least 10% longer than the median."
)


@dataclass(frozen=True, slots=True)
class _Row:
    """One signature: its label and its calls."""

    entry: Entry
    calls: CallTimes

    @property
    def is_compared(self) -> bool:
        """Whether there are calls enough to tell a usual time."""
        return len(self.calls.kernel_us) >= LEAST_CALLS


def call_times(
    reports: Sequence[CategoryMetrics], calls: Sequence[CallTimes], top_n: int = MAX_ROWS
) -> Chart:
    """Draw the kernel time of every call of the ``top_n`` longest signatures.

    Parameters
    ----------
    reports
        The metrics of one run, forward and backward together.
    calls
        The calls of its operations.
    top_n
        How many signatures get a row, 1 to 12.

    Returns
    -------
    Chart
        Marks in µs on a logarithmic axis, or words where there is no call. Its data list every call of every
        signature.
    """
    by_place = {(each.category, each.operation_index): each for each in calls}
    rows = [
        _Row(entry, by_place[entry.category, entry.index])
        for entry in entries_of(reports)
        if (entry.category, entry.index) in by_place
    ]
    shown = [row for row in rows if any(map(on_log_axis, row.calls.kernel_us))]
    shown = _selected(shown, max(1, min(top_n, MAX_ROWS)))
    title = _title(shown)
    with plain_settings():
        figure = (
            _draw(title, shown) if shown else message_figure(title, "No call of a normalization is known.")
        )
    data = tuple(line for row in rows for line in _lines(row))
    return Chart(NAME, title, _alt(title, rows, shown), figure, _HEADER, data)


def _selected(rows: Sequence[_Row], amount: int) -> list[_Row]:
    """Return the longest rows, the last one replaced by that of the slowest first call if it isn't shown."""
    shown = list(rows[:amount])
    slowest = _slowest_first(rows)
    return shown if slowest is None or slowest in shown else [*shown[:-1], slowest]


def _slowest_first(rows: Sequence[_Row]) -> _Row | None:
    """Return the row whose first call is slow and loses the most time against its median."""
    slow = [row for row in rows if row.is_compared and row.calls.has_slow_first_call]
    return max(slow, key=lambda row: row.calls.kernel_us[0] - row.calls.median_us, default=None)


def _title(rows: Sequence[_Row]) -> str:
    compared = [row for row in rows if row.is_compared]
    if not compared:
        return "No signature has calls enough to compare them" if rows else "There are no calls to show"
    slowest = _slowest_first(compared)
    if slowest is not None:
        factor = f"{slowest.calls.first_factor:.2g}"
        return f"The first call of {slowest.entry.label} takes {factor} times its median"
    outliers = sum(len(row.calls.outliers) for row in compared)
    total = sum(len(row.calls.kernel_us) for row in compared)
    if outliers:
        verb = "takes" if outliers == 1 else "take"
        return f"{outliers:,} of {total:,} calls {verb} clearly longer than the median of their signature"
    return "No call stands out from the others of its signature"


def _alt(title: str, rows: Sequence[_Row], shown: Sequence[_Row]) -> str:
    if not rows:
        return f"{title}."
    hidden = len(rows) - len(shown)
    drawn = f"Kernel time per call of {counted(len(shown), 'signature')}."
    lead = rows[0]
    usual = (
        f"The one with the most time, {lead.entry.one_line}, takes {duration(lead.calls.median_us / 1e3)} in "
        f"the median, {duration(min(lead.calls.kernel_us) / 1e3)} at least and "
        f"{duration(max(lead.calls.kernel_us) / 1e3)} at most{lead.entry.time_remark}."
    )
    missing = f"{counted(hidden, 'signature')} not drawn." if hidden else ""
    return joined([f"{title}.", drawn, usual, missing])


def _draw(title: str, rows: Sequence[_Row]) -> Figure:
    figure = new_figure(title, 2.2 + 0.58 * len(rows))
    axes = figure.add_subplot()
    for place, row in enumerate(rows):
        _draw_row(axes, place, row)
    labels = [f"{row.entry.label}\n{row.entry.detail}{row.entry.mark}" for row in rows]
    rows_axis(axes, labels)
    times = [time for row in rows for time in row.calls.kernel_us if on_log_axis(time)]
    log_axis(axes.xaxis, (min(times) / 1.15, max(times) * 1.15), "kernel time of a call (µs)", plain_number)
    legend_below(figure, _handles(rows), [_NOTE, upper_bound_note(row.entry for row in rows)], columns=4)
    return settle(figure)


def _draw_row(axes: Axes, place: int, row: _Row) -> None:
    times, outliers = row.calls.kernel_us, row.calls.outliers
    heights = _heights(place, len(times))
    special = {0, *outliers}
    usual = [i for i in range(len(times)) if i not in special]
    usual = usual[:: max(1, -(-len(usual) // _MOST_MARKS))]
    colour = VARIANTS[row.entry.operation.variant].colour
    axes.vlines(row.calls.median_us, place - 0.4, place + 0.4, color=BLACK, linewidth=1.4)
    for indexes, style in (
        (usual, {"marker": "o", "markersize": 4, "color": colour, "alpha": 0.6, "markeredgewidth": 0}),
        (outliers, _OUTLIER),
        ([0], _FIRST),
    ):
        x = [times[i] for i in indexes if on_log_axis(times[i])]
        y = [heights[i] for i in indexes if on_log_axis(times[i])]
        axes.plot(x, y, linestyle="", **style)  # type: ignore[arg-type]  # a marker's style


def _heights(place: int, count: int) -> list[float]:
    """Return where the calls of a row lie between its top and its bottom, in their order."""
    if count == 1:
        return [float(place)]
    return [place - _BAND + 2 * _BAND * i / (count - 1) for i in range(count)]


_FIRST: Mapping[str, object] = {
    "marker": "D", "markersize": 7, "markerfacecolor": "white", "markeredgecolor": BLACK,
    "markeredgewidth": 1.6,
}  # fmt: skip
_OUTLIER: Mapping[str, object] = {"marker": "x", "markersize": 6, "color": ALARM, "markeredgewidth": 1.6}


def _handles(rows: Sequence[_Row]) -> list[Artist]:
    handles: list[Artist] = [
        _handle("first call in the trace", _FIRST),
        Line2D(
            [], [], color=BLACK, linestyle="", marker="|", markersize=13, markeredgewidth=1.4, label="median"
        ),
    ]
    if any(row.calls.outliers for row in rows):
        handles.insert(1, _handle("outlier", _OUTLIER))
    variants = dict.fromkeys(row.entry.operation.variant for row in rows)
    return handles + [
        Line2D([], [], linestyle="", marker="o", markersize=6, color=VARIANTS[name].colour, label=name)
        for name in variants
    ]


def _handle(label: str, style: Mapping[str, object]) -> Artist:
    return Line2D([], [], linestyle="", label=label, **style)  # type: ignore[arg-type]  # a marker's style


def _lines(row: _Row) -> list[tuple[Cell, ...]]:
    entry, calls = row.entry, row.calls
    arguments = entry.operation.args if isinstance(entry.operation.args, str) else None
    outliers = set(calls.outliers)
    times = zip(calls.kernel_us, calls.norm_us, calls.helper_us, strict=True)
    columns = zip(calls.steps, times, calls.is_recomputed, calls.modules, strict=True)
    return [
        (
            *(entry.one_line, entry.operation.name, arguments, entry.category, number + 1, step or None),
            *(*call_times_us, "yes" if recomputed else "no", module or None, calls.median_us),
            "first call" if number == 0 else "outlier" if number in outliers else "usual",
            *upper_bound_cells(entry),
        )
        for number, (step, call_times_us, recomputed, module) in enumerate(columns)
    ]
