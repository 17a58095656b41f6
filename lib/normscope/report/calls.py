"""The calls of each signature: how long they take, which stand out, and the norm apart from its helpers."""

from collections.abc import Sequence
from statistics import fmean

from normscope.analysis.call_times import CallTimes, norm_bandwidth_tbs
from normscope.escape import MISSING, html_text, shorten
from normscope.report.operations import MAX_ROWS, arguments, listed_operations, marked, operation_name
from normscope.report.results import LocatedOperation, Report, operation_anchor, operations_of
from normscope.report.tables import Cell, Column, Html, Row, count_of, folded, link, number, paragraph, table

_MODULE_WIDTH = 60
_MAX_MODULES = 50
_COLUMNS = (
    Column("Operation"),
    Column("Arguments"),
    Column("Calls", numeric=True),
    Column("Median (µs)", numeric=True),
    Column("Min (µs)", numeric=True),
    Column("Max (µs)", numeric=True),
    Column("First call ÷ median", numeric=True),
    Column("Outliers", numeric=True),
    Column("Recomputed", numeric=True),
    Column("Norm kernels per call (µs)", numeric=True),
    Column("Copies and casts per call (µs)", numeric=True),
    Column("Norm kernels alone (TB/s)", numeric=True),
    Column("Modules"),
)
HEADING = Html("<h2>Calls</h2>")
_EXPLANATION = (
    "Kernel time of every single call. The first call of a signature in the trace is judged against the "
    "median of all its calls. An outlier is a later call that takes longer than the median + 5 × the "
    "median absolute deviation, and at least 10% longer than the median; both need three calls or more. "
    "Recomputed calls are forward norms that ran again in the backward pass, as activation checkpointing "
    "makes them. Norm kernels alone are without the copies and casts that an op makes around them: their "
    "bandwidth is what the norm itself reaches."
)

Called = tuple[LocatedOperation, CallTimes]


def calls_of(report: Report) -> tuple[Called, ...]:
    """Return the operations whose calls are known, longest first."""
    if report.trace is None:
        return ()
    numbers = {metrics.category: place for place, metrics in enumerate(report.metrics, start=1)}
    by_anchor = {operation_anchor(numbers[c.category], c.operation_index): c for c in report.trace.calls}
    return tuple((each, by_anchor[each.anchor]) for each in operations_of(report) if each.anchor in by_anchor)


def calls_html(report: Report) -> Html:
    """Return the table of calls by signature and what its columns mean."""
    called = calls_of(report)[:MAX_ROWS]
    listed = frozenset(each.anchor for each in listed_operations(report))
    shown, rest = called[: report.top_n], called[report.top_n :]
    parts = [paragraph(_EXPLANATION), _table("Calls by signature, most kernel time first", shown, listed)]
    if rest:
        more = _table("Calls by signature, continued", rest, listed)
        parts.append(folded(count_of(len(rest), "more signature"), more))
    return Html('<div class="ns-calls">\n' + "\n".join(parts) + "\n</div>")


def _table(caption: str, called: Sequence[Called], listed: frozenset[str]) -> Html:
    return table(caption, _COLUMNS, [Row(_cells(each, calls, listed)) for each, calls in called], wide=True)


def _cells(each: LocatedOperation, calls: CallTimes, listed: frozenset[str]) -> tuple[Cell, ...]:
    operation = each.operation
    bandwidth = norm_bandwidth_tbs(calls, operation.bytes_moved_per_call)
    return (
        _operation(each, listed),
        arguments(operation),
        f"{len(calls.kernel_us):,}",
        marked(operation, number(calls.median_us, 1)),
        marked(operation, number(min(calls.kernel_us), 1)),
        marked(operation, number(max(calls.kernel_us), 1)),
        number(calls.first_factor),
        MISSING if calls.outlier_limit_us is None else f"{len(calls.outliers):,}",
        f"{sum(calls.is_recomputed):,}",
        marked(operation, number(fmean(calls.norm_us), 1)),
        number(fmean(calls.helper_us), 1),
        number(bandwidth),
        _modules(calls.modules),
    )


def _operation(each: LocatedOperation, listed: frozenset[str]) -> Html:
    """Return the operation's name, and a link to its row in the table of every operation."""
    more = (
        f'<span class="ns-sub">{link(each.anchor, "all its figures")}</span>' if each.anchor in listed else ""
    )
    return Html(f"{operation_name(each.operation)}{more}")


def _modules(paths: Sequence[str]) -> Html:
    """Return the innermost module of the first path; all paths are one click away."""
    distinct = [path for path in dict.fromkeys(paths) if path]
    if not distinct:
        return Html(MISSING)
    first = html_text(shorten(distinct[0].rpartition(" > ")[2], _MODULE_WIDTH))
    more = f" <small>+ {count_of(len(distinct) - 1, 'more', 'more')}</small>" if len(distinct) > 1 else ""
    full = "<br>".join(html_text(path) for path in distinct[:_MAX_MODULES])
    hidden = len(distinct) - _MAX_MODULES
    tail = f"<br>and {hidden:,} more in figures/call_times.csv" if hidden > 0 else ""
    return Html(
        f'<details class="ns-name"><summary>{first}{more}</summary><span>{full}{tail}</span></details>'
    )
