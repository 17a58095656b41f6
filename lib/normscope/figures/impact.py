"""What each finding could save, with the range of the estimate."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from msgspec import UNSET

from normscope.analysis.models import CategoryFinding, CategoryMetrics, Operation
from normscope.analysis.upper_bound import MARK, fused_with, upper_bound_words
from normscope.figures.chart import Cell, Chart
from normscope.figures.entries import NAMED_IN_NOTE, UPPER_BOUND_HEADER, is_comparative
from normscope.figures.labels import (
    counted,
    drawable,
    joined,
    name_label,
    number_duplicates,
    percent,
    percent_range,
)
from normscope.figures.style import (
    BLACK,
    PALE,
    legend_below,
    line_handle,
    message_figure,
    new_figure,
    plain_settings,
    rows_axis,
    settle,
)

NAME = "impact"
MAX_BARS = 60
_QUANTIFIED = "#0072b2"
_HEURISTIC = "#e69f00"
_HATCH = "///"
_LEAST_IMPACT = "0.5%"
_NO_BAND = ("all", "unknown")
_HEADER = (
    "label",
    "rank",
    "category",
    "direction",
    "bound",
    "library",
    "efficiency band (%)",
    "estimate method",
    "operations",
    "members",
    "impact score (% of end-to-end time)",
    "impact score, low (% of end-to-end time)",
    "impact score, high (% of end-to-end time)",
    *UPPER_BOUND_HEADER,
)


@dataclass(frozen=True, slots=True)
class _Bar:
    """One bar: its text and the estimate in % of end-to-end time."""

    label: str
    low: float
    mid: float
    high: float
    is_heuristic: bool = False
    is_upper_bound: bool = False
    is_rest: bool = False


def impact(reports: Sequence[CategoryMetrics], top_n: int = 10) -> Chart:
    """Draw the impact score of the ``top_n`` largest findings with their ranges, and the rest as one bar.

    Parameters
    ----------
    reports
        The metrics of one run, forward and backward together.
    top_n
        How many findings get a bar of their own, 1 to 60.

    Returns
    -------
    Chart
        Bars in % of end-to-end time, or words where there is no finding. Its data list every finding.
    """
    pairs = sorted(
        ((report, finding) for report in reports for finding in report.category_findings),
        key=lambda pair: -pair[1].impact_score,
    )
    labels = _labels(reports, pairs)
    operations = [_operations(*pair) for pair in pairs]
    bars = [_bar(*parts) for parts in zip(labels, (finding for _, finding in pairs), operations, strict=True)]
    title = _title(bars, reports)
    note = _upper_bound_note([operation for members in operations for operation in members])
    with plain_settings():
        shown = _with_rest(bars, max(1, min(top_n, MAX_BARS)))
        figure = (
            _draw(title, shown, _lacking(reports), note)
            if bars
            else message_figure(title, _why_nothing(reports))
        )
    rows = tuple(
        (*_row(bar.label, *pair), *_upper_bound_cells(members))
        for bar, pair, members in zip(bars, pairs, operations, strict=True)
    )
    return Chart(NAME, title, _alt(title, bars, reports, note), figure, _HEADER, rows)


def _operations(report: CategoryMetrics, finding: CategoryFinding) -> list[Operation]:
    return [report.operations[member.operation_index] for member in finding.members]


def _upper_bound_note(operations: Sequence[Operation]) -> str:
    words = drawable(upper_bound_words(*operations, named=NAMED_IN_NOTE))
    return f"({MARK}) gain of kernels whose time is an {words}; the data name all." if words else ""


def _upper_bound_cells(operations: Sequence[Operation]) -> tuple[str | None, ...]:
    """Return the cells of ``UPPER_BOUND_HEADER`` of a finding; empty where the input doesn't tell."""
    if all(operation.found_by is UNSET for operation in operations):
        return None, None
    is_marked = any(operation.is_upper_bound for operation in operations)
    return "yes" if is_marked else "no", "; ".join(fused_with(operations)) or None


def _bar(label: str, finding: CategoryFinding, operations: Sequence[Operation]) -> _Bar:
    return _Bar(
        label,
        finding.impact_score_low,
        finding.impact_score,
        finding.impact_score_high,
        finding.estimate_method == "heuristic",
        any(operation.is_upper_bound for operation in operations),
    )


def _labels(
    reports: Sequence[CategoryMetrics], pairs: Sequence[tuple[CategoryMetrics, CategoryFinding]]
) -> tuple[str, ...]:
    shared = Counter(report.direction for report in reports)
    return number_duplicates([_label(r, f, is_alone=shared[r.direction] == 1) for r, f in pairs])


def _label(report: CategoryMetrics, finding: CategoryFinding, *, is_alone: bool) -> str:
    known = report.direction != "unknown"
    where = report.direction if known and is_alone else name_label(report.category, 20)
    rank = f"{where} P{finding.rank}"
    if finding.estimate_method == "heuristic":
        operation = finding.members[0].operation if finding.members else finding.bound_type
        lacking = "no model" if report.hardware.peak_hbm_bw_tbs else "no peak"
        return f"{rank} · {lacking}\n{name_label(operation)}"
    library = "unknown library" if finding.library == "Unknown" else name_label(finding.library, 20)
    band = name_label(finding.eff_bucket.replace("-", "–"), 12)
    at_band = f", at {band}% of roofline" if finding.eff_bucket not in _NO_BAND else ""
    return f"{rank} · {name_label(finding.bound_type, 12)}-bound\n{library}{at_band}"


def _with_rest(bars: Sequence[_Bar], top_n: int) -> list[_Bar]:
    shown, rest = list(bars[:top_n]), bars[top_n:]
    if not rest:
        return shown
    low, mid, high = (
        sum(bar.low for bar in rest),
        sum(bar.mid for bar in rest),
        sum(bar.high for bar in rest),
    )
    return [
        *shown,
        _Bar(
            counted(len(rest), "other finding"),
            low,
            mid,
            high,
            is_upper_bound=any(bar.is_upper_bound for bar in rest),
            is_rest=True,
        ),
    ]


def _title(bars: Sequence[_Bar], reports: Sequence[CategoryMetrics]) -> str:
    if not bars:
        known = any(report.operations and report.hardware.end_to_end_ms for report in reports)
        nothing = f"No group of operations would save {_LEAST_IMPACT} of end-to-end time"
        return nothing if known else "There is no impact to show"
    amount = percent_range(sum(bar.low for bar in bars), sum(bar.high for bar in bars))
    if is_comparative(reports):
        return f"Matching trace 2 would save {amount} of trace 1's end-to-end time"
    verb = "is worth" if len(bars) == 1 else "are together worth"
    return f"{counted(len(bars), 'finding')} {verb} {amount} of end-to-end time"


def _why_nothing(reports: Sequence[CategoryMetrics]) -> str:
    if not any(report.operations for report in reports):
        return "The input holds no normalization operation."
    if not any(report.hardware.end_to_end_ms for report in reports):
        return "The end-to-end time isn't known, so that no share of it can be estimated."
    estimates = [estimate.impact_score for report in reports for estimate in report.impact_estimates]
    if not estimates:
        return "No operation has anything to save that can be estimated."
    return (
        f"Operations are grouped by their cause, and a group is a finding from {_LEAST_IMPACT} on. "
        f"The largest estimate of a single operation is {percent(max(estimates))}."
    )


def _alt(title: str, bars: Sequence[_Bar], reports: Sequence[CategoryMetrics], upper_bound: str) -> str:
    if not bars:
        return f"{title}. {_why_nothing(reports)}"
    first = bars[0]
    largest = (
        f"The largest is {first.label.replace(chr(10), ', ')}: {percent(first.mid)}{_mark(first)}, "
        f"between {percent(first.low)} and {percent(first.high)}."
    )
    guessed = sum(1 for bar in bars if bar.is_heuristic)
    note = f"{counted(guessed, 'estimate')} without {_lacking(reports)}, from the share of time alone."
    return joined([f"{title}.", largest, note if guessed else "", upper_bound])


def _lacking(reports: Sequence[CategoryMetrics]) -> str:
    """Return what the heuristic estimates lack."""
    known = any(report.hardware.peak_hbm_bw_tbs for report in reports)
    return "a performance model" if known else "the peak of the GPU"


def _draw(title: str, bars: Sequence[_Bar], lacking: str, note: str) -> Figure:
    figure = new_figure(title, 2.1 + 0.55 * len(bars))
    axes = figure.add_subplot()
    for place, bar in enumerate(bars):
        colour = PALE if bar.is_rest else _HEURISTIC if bar.is_heuristic else _QUANTIFIED
        axes.barh(
            place, bar.mid, height=0.62, color=colour, hatch=_HATCH if bar.is_heuristic else "",
            edgecolor="white", linewidth=0,
        )  # fmt: skip
    mids = [bar.mid for bar in bars]
    spans = [[max(0.0, b.mid - b.low) for b in bars], [max(0.0, b.high - b.mid) for b in bars]]
    axes.errorbar(mids, range(len(bars)), xerr=spans, fmt="none", ecolor=BLACK, elinewidth=1.6, capsize=5)
    _write_values(axes, bars)
    rows_axis(axes, [bar.label for bar in bars])
    axes.set_xlabel("impact score (% of end-to-end time)")
    legend_below(figure, _handles(bars, lacking), [note], columns=1)
    return settle(figure)


def _mark(bar: _Bar) -> str:
    return f" ({MARK})" if bar.is_upper_bound else ""


def _write_values(axes: Axes, bars: Sequence[_Bar]) -> None:
    for place, bar in enumerate(bars):
        axes.annotate(
            f"{percent(bar.mid)}{_mark(bar)}",
            (bar.high, place),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            fontsize=11,
        )
    axes.set_xlim(0, 1.15 * max(bar.high for bar in bars) or 1.0)


def _handles(bars: Sequence[_Bar], lacking: str) -> list[Artist]:
    handles: list[Artist] = []
    if any(not bar.is_heuristic and not bar.is_rest for bar in bars):
        handles.append(Patch(facecolor=_QUANTIFIED, label="from the measured efficiency"))
    if any(bar.is_heuristic for bar in bars):
        label = f"estimate without {lacking}: 15–45% of the operation's share"
        handles.append(Patch(facecolor=_HEURISTIC, edgecolor="white", hatch=_HATCH * 2, label=label))
    return [*handles, line_handle("low to high estimate")]


def _row(label: str, report: CategoryMetrics, finding: CategoryFinding) -> tuple[Cell, ...]:
    return (
        label.replace("\n", ", "),
        finding.rank,
        report.category,
        report.direction,
        finding.bound_type,
        finding.library,
        finding.eff_bucket,
        finding.estimate_method,
        finding.member_count,
        "; ".join(member.operation for member in finding.members),
        finding.impact_score,
        finding.impact_score_low,
        finding.impact_score_high,
    )
