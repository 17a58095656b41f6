"""The noise: how the calls of each pair spread, trace 1 above trace 2, as shares of trace 2's median."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from normscope.compare.answer import difference_words, p_words, verdict_words
from normscope.compare.differences import Difference, overview
from normscope.compare.models import CallGroup, Comparison
from normscope.figures.chart import Cell, Chart
from normscope.figures.labels import counted, duration, joined, plain_number, significant
from normscope.figures.pair_labels import PAIR_HEADER, pair_cells, pair_labels
from normscope.figures.sides import SIDE_COLOURS, SIDE_MARKERS, side_handles, write_beside
from normscope.figures.style import (
    BLACK,
    GREY,
    legend_below,
    message_figure,
    new_figure,
    plain_settings,
    rows_axis,
    settle,
)

NAME = "comparison_calls"
MAX_PAIRS = 10
_MOST_MARKS = 300  # of a side in a row
_BAND = 0.16
_MIDDLE = {1: -0.22, 2: 0.22}
_LEAST_SPAN = 10.0  # percentage points that the axis shows at least
_WIDEST_PERCENT = 1000.0
_HEADER = (*PAIR_HEADER, "trace", "call", "kernel time (µs)", "share of trace 2's median (%)")
_NOTE = "One mark per call, in order from top to bottom; thick: median, box: the middle half of the calls."


@dataclass(frozen=True, slots=True)
class _Row:
    """One pair: its label and the times of its calls, by side."""

    label: str
    difference: Difference
    times_us: dict[int, tuple[float, ...]]

    @property
    def unit_us(self) -> float:
        """What counts as 100%."""
        return median(self.times_us[2])

    def percents(self, side: int) -> list[float]:
        """Return the times as shares of trace 2's median."""
        return [100 * us / self.unit_us for us in self.times_us[side]]


def comparison_calls(comparison: Comparison, top_n: int = MAX_PAIRS) -> Chart:
    """Draw the time of every call of the ``top_n`` pairs that take longest.

    Parameters
    ----------
    comparison
        Two sides and their pairs.
    top_n
        How many pairs get a row, 1 to 10.

    Returns
    -------
    Chart
        A mark per call, or words where the calls of no pair are known on both sides. Its data list every
        call of every such pair.
    """
    found = overview(comparison)
    labels = pair_labels(found.differences)
    rows = [
        _Row(label, each, {1: _times(each.first), 2: _times(each.second)})
        for label, each in zip(labels, found.differences, strict=True)
    ]
    known = [row for row in rows if row.times_us[1] and row.times_us[2] and row.unit_us > 0]
    known.sort(key=lambda row: -(row.difference.pair.time1_us + row.difference.pair.time2_us))
    shown = known[: max(1, min(top_n, MAX_PAIRS))]
    title = _title(shown)
    with plain_settings():
        figure = _draw(title, comparison, shown) if shown else message_figure(title, _WHY_NOTHING)
    lines = tuple(line for row in known for line in _lines(row))
    return Chart(NAME, title, _alt(title, shown, len(known)), figure, _HEADER, lines)


_WHY_NOTHING = "The time of each call is known on both sides for no pair; only traces tell it."


def _times(groups: Sequence[CallGroup]) -> tuple[float, ...]:
    """Return the times of all calls; none where those of a group aren't known."""
    return tuple(us for group in groups for us in group.times_us) if all(g.times_us for g in groups) else ()


def _title(rows: Sequence[_Row]) -> str:
    if not rows:
        return "The spread of the calls isn't known"
    real = sum(row.difference.is_real for row in rows)
    if len(rows) == 1:
        return f"The one pair differs by {'more' if real else 'no more'} than noise"
    if real == len(rows):
        return f"All {real:,} of the costliest pairs differ by more than noise"
    verb = "differ" if real > 1 else "differs"
    return f"{f'{real:,}' if real else 'None'} of the {len(rows):,} costliest pairs {verb} by more than noise"


def _alt(title: str, rows: Sequence[_Row], known: int) -> str:
    if not rows:
        return f"{title}: {_WHY_NOTHING}"
    lead = rows[0]
    middles = [f"{duration(median(lead.times_us[side]) / 1e3)} in trace {side}" for side in (1, 2)]
    usual = (
        f"The costliest, {lead.label.replace(chr(10), ' · ')}, takes {' and '.join(middles)} in the median"
    )
    return joined([f"{title}.", f"{usual}, {_verdict(lead.difference)}.", _missing(known - len(rows))])


def _missing(number: int) -> str:
    return f"Not drawn: {counted(number, 'pair')} that take less time." if number else ""


def _verdict(difference: Difference) -> str:
    test = difference.pair.significance
    told = verdict_words(difference)
    return f"{told}, {p_words(test.p_value)}" if test else told


def _draw(title: str, comparison: Comparison, rows: Sequence[_Row]) -> Figure:
    figure = new_figure(title, 2.2 + 0.78 * len(rows))
    axes = figure.add_subplot()
    low, high = _limits(rows)
    axes.set_xlim(low, high)
    axes.axvline(100, color=GREY, linewidth=1.0, linestyle="--", zorder=1)
    beyond = 0
    for place, row in enumerate(rows):
        for side in (1, 2):
            beyond += _draw_side(axes, place, row.percents(side), side, (low, high))
        words = f"{difference_words(row.difference)}\n{_verdict(row.difference)}"
        write_beside(axes, place, words, is_real=row.difference.is_real)
    rows_axis(axes, [row.label for row in rows])
    axes.set_xlabel("time of a call (% of trace 2's median)")
    axes.xaxis.set_major_formatter(lambda value, _: plain_number(value))
    edge = f"At an edge: {counted(beyond, 'call')} beyond it." if beyond else ""
    legend_below(figure, _handles(comparison), [_NOTE, edge], columns=2)
    return settle(figure)


def _limits(rows: Sequence[_Row]) -> tuple[float, float]:
    """Return the ends of the axis: all but the farthest calls of each row, at least a little around 100."""
    inner = [100.0]
    for row in rows:
        for side in (1, 2):
            values = row.percents(side)
            ends = quantiles(values, n=50, method="inclusive") if len(values) > 1 else values
            inner += [median(values), ends[0], ends[-1]]
    low, high = min(inner), min(max(inner), _WIDEST_PERCENT)
    margin = max(0.08 * (high - low), (_LEAST_SPAN - (high - low)) / 2, 1.0)
    return max(0.0, low - margin), high + margin


def _draw_side(
    axes: Axes, place: int, values: Sequence[float], side: int, limits: tuple[float, float]
) -> int:
    """Draw the calls of one side of a pair, and return how many lie beyond the axis."""
    middle = place + _MIDDLE[side]
    colour = SIDE_COLOURS[side]
    chosen = range(0, len(values), max(1, -(-len(values) // _MOST_MARKS)))
    span = max(1, len(values) - 1)
    heights = [middle - _BAND + 2 * _BAND * i / span if len(values) > 1 else middle for i in chosen]
    low, high = limits
    held = [min(max(values[i], low), high) for i in chosen]
    axes.plot(
        held, heights, linestyle="", marker=SIDE_MARKERS[side], markersize=3.2, color=colour,
        alpha=0.5, markeredgewidth=0, clip_on=False,
    )  # fmt: skip
    centre = min(max(median(values), low), high)
    axes.vlines(centre, middle - 0.2, middle + 0.2, color=BLACK, linewidth=2.4, zorder=4)
    if len(values) >= 4:
        lower, _, upper = quantiles(values, n=4, method="inclusive")
        ends = [min(max(end, low), high) for end in (lower, upper)]
        axes.barh(
            middle, ends[1] - ends[0], left=ends[0], height=0.4, facecolor="none", edgecolor=BLACK,
            linewidth=0.9, zorder=3,
        )  # fmt: skip
    return sum(not low <= value <= high for value in values)


def _handles(comparison: Comparison) -> list[Artist]:
    middle = Line2D(
        [], [], color=BLACK, linestyle="", marker="|", markersize=13, markeredgewidth=2.4, label="median"
    )
    return [*side_handles(comparison), middle]


def _lines(row: _Row) -> list[tuple[Cell, ...]]:
    return [
        (*pair_cells(row.label, row.difference), side, number, us, significant(100 * us / row.unit_us))
        for side in (1, 2)
        for number, us in enumerate(row.times_us[side], 1)
    ]
