"""What each pair of operations takes in either trace: a dumbbell per pair, largest difference first."""

from collections.abc import Sequence

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from normscope.compare.answer import difference_words
from normscope.compare.differences import Difference, Overview, overview
from normscope.compare.models import Comparison
from normscope.figures.chart import Cell, Chart
from normscope.figures.labels import counted, duration, joined, plain_number, significant
from normscope.figures.pair_labels import PAIR_HEADER, pair_cells, pair_labels
from normscope.figures.sides import fitting_axis, mark, side_handles, write_beside
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

NAME = "comparison_operations"
MAX_PAIRS = 40
_HEADER = (
    *PAIR_HEADER,
    "paired by",
    "calls in trace 1",
    "calls in trace 2 (as recorded)",
    "trace 1 kernel time (ms)",
    "trace 2 kernel time (ms)",
    "trace 1 less trace 2 (ms)",
    "trace 1 against trace 2 (%)",
    "test",
    "p-value (Holm)",
    "effect size (positive: trace 1 slower)",
    "verdict on trace 1",
    "drawn",
)
_NOTES = {
    "hollow": "Hollow: no more than the spread of the calls explains, or too few calls for a test.",
    "per step": "Times of trace 2 are scaled to the steps of trace 1.",
    "per call": "Times of trace 2 are scaled to the calls of trace 1.",
}


def comparison_operations(comparison: Comparison, top_n: int = 20) -> Chart:
    """Draw the times of both sides of the ``top_n`` pairs that differ most.

    Parameters
    ----------
    comparison
        Two sides and their pairs.
    top_n
        How many pairs get a row, 1 to 40.

    Returns
    -------
    Chart
        Two marks per pair in ms, filled where the difference is real. Its data list every pair.
    """
    found = overview(comparison)
    labels = pair_labels(found.differences)
    amount = sum(1 for each in found.differences if each.pair.time1_us + each.pair.time2_us > 0)
    # Pairs without any time differ by nothing, so they come last.
    shown = found.differences[: min(amount, max(1, min(top_n, MAX_PAIRS)))]
    title = _title(found)
    with plain_settings():
        figure = _draw(title, found, shown, labels) if shown else message_figure(title, _why_nothing(found))
    rows = tuple(
        _row(label, each, place < len(shown))
        for place, (label, each) in enumerate(zip(labels, found.differences, strict=True))
    )
    return Chart(NAME, title, _alt(title, found, labels, len(shown)), figure, _HEADER, rows)


def _title(found: Overview) -> str:
    pairs = len(found.differences)
    slower, faster = len(found.of("slower")), len(found.of("faster"))
    noise, untested = len(found.of("noise")), len(found.of("untested"))
    if not pairs:
        return "No operation of one trace has a partner in the other"
    parts = [f"slower in {slower:,}"] * bool(slower) + [f"faster in {faster:,}"] * bool(faster)
    if parts:
        if pairs == 1:
            return f"Trace 1 is {'slower' if slower else 'faster'} in the one operation"
        parts[0] += f" of {counted(pairs, 'operation')}"
        rest = f"; {noise + untested:,} may be noise" if noise + untested else ""
        return f"Trace 1 is {', '.join(parts)}{rest}"
    if untested == pairs:
        longer = sum(each.extra_us > 0 for each in found.differences)
        return f"Trace 1 takes longer in {longer:,} of {counted(pairs, 'operation')}, tested in none"
    if pairs == 1:
        return "The one operation differs by no more than noise"
    return f"None of {counted(pairs, 'operation')} differs by more than noise"


def _why_nothing(found: Overview) -> str:
    if found.differences:
        return f"The {counted(len(found.differences), 'pair')} took no time in either trace."
    return (
        f"{counted(len(found.alone), 'operation')} without a partner." if found.alone else "There are none."
    )


def _alt(title: str, found: Overview, labels: Sequence[str], shown: int) -> str:
    if not shown:
        return f"{title}. {_why_nothing(found)}"
    first, label = found.differences[0], labels[0].replace("\n", " · ")
    pair = first.pair
    largest = (
        f"{'The largest difference is' if len(found.differences) > 1 else 'It is'} {label}: "
        f"{duration(pair.time1_us / 1e3)} in trace 1, {duration(pair.time2_us / 1e3)} in trace 2, "
        f"{difference_words(first)}."
    )
    return joined([f"{title}.", largest, _missing(len(found.differences) - shown)])


def _missing(number: int) -> str:
    return f"Not drawn: {counted(number, 'pair')} with smaller differences." if number > 0 else ""


def _draw(title: str, found: Overview, shown: Sequence[Difference], labels: Sequence[str]) -> Figure:
    figure = new_figure(title, 2.1 + 0.56 * len(shown))
    axes = figure.add_subplot()
    times_ms = [us / 1e3 for each in shown for us in (each.pair.time1_us, each.pair.time2_us)]
    fitting_axis(axes, times_ms, "kernel time (ms)", plain_number)
    for place, each in enumerate(shown):
        _draw_pair(axes, place, each)
    rows_axis(axes, labels[: len(shown)])
    is_hollow = any(not each.is_real for each in shown)
    notes = [
        _NOTES["hollow"] if is_hollow else "",
        _NOTES.get(found.comparison.normalized, ""),
        _missing(len(found.differences) - len(shown)),
    ]
    legend_below(figure, [*side_handles(found.comparison), *_line_handles(shown)], notes, columns=2)
    return settle(figure)


def _draw_pair(axes: Axes, place: int, difference: Difference) -> None:
    left = axes.get_xlim()[0] if axes.get_xscale() == "log" else 0.0
    ends = [max(us / 1e3, left) for us in (difference.pair.time1_us, difference.pair.time2_us)]
    real = difference.is_real
    axes.plot(ends, [place, place], color=BLACK if real else GREY, linewidth=2.6 if real else 1.0, zorder=2)
    for side, end in ((2, ends[1]), (1, ends[0])):
        axes.plot([end], [place], zorder=3, clip_on=False, **mark(side, filled=real))
    write_beside(axes, place, difference_words(difference), is_real=real)


def _line_handles(shown: Sequence[Difference]) -> list[Artist]:
    handles: list[Artist] = []
    if any(each.is_real for each in shown):
        handles.append(Line2D([], [], color=BLACK, linewidth=2.6, label="real difference"))
    if any(not each.is_real for each in shown):
        handles.append(Line2D([], [], color=GREY, linewidth=1.0, label="noise, or not tested"))
    return handles


def _row(label: str, difference: Difference, drawn: bool) -> tuple[Cell, ...]:
    pair, test = difference.pair, difference.pair.significance
    return (
        *pair_cells(label, difference),
        pair.paired_by,
        sum(group.count for group in difference.first),
        sum(group.count for group in difference.second),
        pair.time1_us / 1e3,
        pair.time2_us / 1e3,
        significant(difference.extra_us / 1e3),
        significant(100 * difference.extra_us / pair.time2_us) if pair.time2_us else None,
        *((test.test, test.p_value, -test.effect_size) if test else (None, None, None)),
        difference.verdict,
        "yes" if drawn else "no",
    )
