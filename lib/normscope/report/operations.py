"""The table of every operation, and the full kernel names it refers to."""

from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import UNSET

from normscope.analysis.limit_phrases import attainable, attainable_percent, is_cache_resident, limit_phrases
from normscope.analysis.models import Operation, Scope
from normscope.analysis.upper_bound import bounded, fused_words, upper_bound_words
from normscope.escape import MISSING, html_text, shorten
from normscope.report.results import LocatedOperation, Report, operations_of
from normscope.report.tables import (
    Cell,
    Column,
    Html,
    Row,
    count_of,
    folded,
    link,
    name,
    number,
    paragraph,
    percent,
    table,
)

MAX_ROWS = 500
_KERNEL_WIDTH = 48
_PART_BREAK = "<br>"
_CAPTURED = "shapes from the capture"
_UNVERIFIED = "unverified: told by a rule that no trace and no source code has confirmed"

KernelNumbers = Mapping[str, int]
EFFICIENCY_TITLES: dict[Scope, str] = {
    "standalone": "Efficiency (% of roofline)",
    "comparative": "Trace 2 time (% of trace 1)",
}
BOTH: tuple[Scope, ...] = ("standalone", "comparative")


class _Field(msgspec.Struct, frozen=True):
    """One column of the table: how its cells are made, its scopes, and whether only traces have it."""

    column: Column
    cell: Callable[[LocatedOperation, KernelNumbers], Cell]
    scopes: tuple[Scope, ...] = BOTH
    of_traces: bool = False


def operation_name(operation: Operation) -> Html:
    """Return the operation's name and below it what it is, what its time holds and whose its shapes are."""
    kind = ", ".join(filter(None, (operation.variant, operation.direction, fused_words(operation))))
    captured = "" if operation.shapes_from is UNSET else _below(f"{_CAPTURED} {operation.shapes_from}")
    unverified = _below(_UNVERIFIED) if operation.evidence == "unverified" else ""
    return Html(
        f'<div class="ns-operation">{name(operation.name)}{_below(kind)}{_upper_bound(operation)}'
        f"{captured}{unverified}</div>"
    )


def _upper_bound(operation: Operation) -> str:
    words = upper_bound_words(operation)
    return _below(words, ", ".join(operation.fused_with)) if words else ""


def _below(text: str, title: str = "") -> str:
    """Return a small line of its own; the title is shown where a pointer rests on it."""
    more = f' title="{html_text(title)}"' if title else ""
    return f'<span class="ns-sub"{more}>{html_text(text)}</span>'


def arguments(operation: Operation) -> Html:
    """Return the first argument's shape and type; the others are one click away."""
    if operation.args is UNSET:
        return Html(MISSING)
    first, _, rest = operation.args.partition(_PART_BREAK)
    if not rest:
        return name(first)
    others = "<br>".join(html_text(part) for part in rest.split(_PART_BREAK))
    more = count_of(len(rest.split(_PART_BREAK)), "more", "more")
    return Html(
        f'<details class="ns-name"><summary>{html_text(shorten(first, _KERNEL_WIDTH))}'
        f" <small>+ {more}</small></summary><span>{html_text(first)}<br>{others}</span></details>"
    )


def efficiency(operation: Operation) -> Html:
    """Return the efficiency in percent, with the attainable share; an anomaly never looks like success."""
    value = operation.efficiency.efficiency_percent
    if value is None:
        return Html(MISSING)
    if operation.efficiency.is_anomaly:
        why = _below("in the last-level cache, no error") if is_cache_resident(operation) else ""
        return Html(f'<span class="ns-flag">anomaly</span> {percent(value)}{why}')
    width = f"{min(max(value, 0.0), 100.0):.0f}%"
    most = attainable_percent(operation)
    beside = "" if most is None else _below(f"attainable {attainable(most)}")
    return Html(f'<span class="ns-bar" style="--share:{width}">{percent(value)}</span>{beside}')


def _bounds(operation: Operation) -> Html:
    """Return what bounds the operation as a list of phrases."""
    phrases = limit_phrases(operation)
    items = "".join(f"<li>{html_text(phrase)}</li>" for phrase in phrases)
    return Html(f'<ul class="ns-bounds">{items}</ul>' if phrases else MISSING)


def kernel_parts(operation: Operation) -> tuple[str, ...]:
    """Return the full names of the operation's kernels, without the counting prefix of the metrics."""
    parts = operation.kernel_name.split(_PART_BREAK)
    if len(parts) == 1:
        return tuple(part for part in parts if part)
    return tuple(part.removeprefix(f"Kernel {place}: ") for place, part in enumerate(parts, start=1))


def _kernels(located: LocatedOperation, numbers: KernelNumbers) -> Html:
    links = [
        link(f"kernel-{numbers[part]}", shorten(part, _KERNEL_WIDTH))
        for part in kernel_parts(located.operation)
    ]
    return Html(("<br>".join(links) or MISSING) + _main_kernel(located.operation))


def _main_kernel(operation: Operation) -> str:
    if operation.main_kernel is UNSET or operation.main_kernel_percent is UNSET:
        return ""
    share = percent(operation.main_kernel_percent, 0)
    return _below(f"{share} of the time: {shorten(operation.main_kernel, _KERNEL_WIDTH)}")


def _notes(operation: Operation) -> Html:
    notes = []
    if operation.efficiency_warning is not UNSET:
        notes.append(operation.efficiency_warning)
    if operation.high_variance is True:
        spread = "" if operation.cov is UNSET else f", std/mean {number(operation.cov, 3)}"
        notes.append(f"high variance{spread}")
    if operation.fusion_flagged is True:
        candidate = "" if operation.fusion_candidate_name is UNSET else f": {operation.fusion_candidate_name}"
        notes.append(f"left to the fusion analysis{candidate}")
    return Html("<br>".join(html_text(shorten(note, 300)) for note in notes) or MISSING)


def marked(operation: Operation, text: str) -> str:
    """Return a time of an operation, or its share, with the mark of an upper bound where it is one."""
    return text if text == MISSING else bounded(operation, text)


def time_ms(operation: Operation) -> str:
    """Return the kernel time of all calls in ms."""
    return marked(operation, number(operation.time_ms, 3))


def _calls(operation: Operation) -> str:
    if operation.count_trace2 is UNSET:
        return f"{operation.count:,}"
    return f"{operation.count:,} / {operation.count_trace2:,}"


def _known(value: float | msgspec.UnsetType, decimals: int) -> str:
    return MISSING if value is UNSET else number(value, decimals)


_FIELDS = (
    _Field(Column("Operation"), lambda each, _: operation_name(each.operation)),
    _Field(Column("Arguments"), lambda each, _: arguments(each.operation)),
    _Field(Column("Calls", numeric=True), lambda each, _: _calls(each.operation)),
    _Field(Column("Time (ms)", numeric=True), lambda each, _: time_ms(each.operation)),
    _Field(
        Column("Trace 2 time (ms)", numeric=True),
        lambda each, _: _known(each.operation.t2_time_ms, 3),
        ("comparative",),
    ),
    _Field(
        Column("Difference (ms)", numeric=True),
        lambda each, _: _known(each.operation.difference_ms, 3),
        ("comparative",),
    ),
    _Field(
        Column("GPU time (%)", numeric=True),
        lambda each, _: marked(each.operation, number(each.operation.percent_of_total)),
    ),
    _Field(
        Column(EFFICIENCY_TITLES["standalone"], numeric=True),
        lambda each, _: efficiency(each.operation),
        ("standalone",),
    ),
    _Field(
        Column(EFFICIENCY_TITLES["comparative"], numeric=True),
        lambda each, _: percent(each.operation.efficiency.efficiency_percent),
        ("comparative",),
    ),
    _Field(
        Column("Achieved (TB/s)", numeric=True),
        lambda each, _: number(each.operation.efficiency.tb_s_achieved),
    ),
    _Field(
        Column("Mean per call (µs)", numeric=True),
        lambda each, _: marked(each.operation, number(each.operation.kernel_time_mean_us, 1)),
    ),
    _Field(
        Column("FLOP/byte", numeric=True), lambda each, _: number(each.operation.efficiency.flops_per_byte)
    ),
    _Field(Column("Bound"), lambda each, _: each.operation.efficiency.bound_type or MISSING),
    _Field(Column("What bounds it"), lambda each, _: _bounds(each.operation), of_traces=True),
    _Field(Column("Library"), lambda each, _: each.operation.library or MISSING),
    _Field(Column("Notes"), lambda each, _: _notes(each.operation)),
    _Field(Column("Kernels"), _kernels),
    _Field(Column("Launched from"), lambda each, _: name(each.operation.launcher_path)),
)


def listed_operations(report: Report) -> tuple[LocatedOperation, ...]:
    """Return the operations that have a row in the report, longest first."""
    return operations_of(report)[:MAX_ROWS]


def operations_html(report: Report) -> Html:
    """Return the table of every operation, longest first.

    The first ``top_n`` rows are shown, those up to :data:`MAX_ROWS` are folded, and what lies beyond is only
    counted: the metrics file has it all.
    """
    listed = listed_operations(report)
    if not listed:
        return paragraph("There are no operations to list.")
    numbers = _number_kernels(listed)
    shown, rest = listed[: report.top_n], listed[report.top_n :]
    parts = [_table(f"Operations by time, longest first: {_range(1, len(shown))}", shown, report, numbers)]
    if rest:
        caption = f"Operations by time, continued: {_range(len(shown) + 1, len(listed))}"
        parts.append(
            folded(f"{count_of(len(rest), 'more operation')}", _table(caption, rest, report, numbers))
        )
    omitted = len(operations_of(report)) - len(listed)
    if omitted:
        parts.append(_omitted(omitted))
    parts.append(_glossary(numbers))
    return Html("\n".join(parts))


def _range(first: int, last: int) -> str:
    return f"{first} to {last}" if last > first else str(first)


def _omitted(amount: int) -> Html:
    return paragraph(f"{count_of(amount, 'more operation')} not listed here; metrics.json has every one.")


def _table(
    caption: str, operations: Sequence[LocatedOperation], report: Report, numbers: KernelNumbers
) -> Html:
    is_traced = any(located.operation.found_by is not UNSET for located in operations)
    fields = [
        field
        for field in _FIELDS
        if report.comparison_scope in field.scopes and (is_traced or not field.of_traces)
    ]
    rows = [
        Row(tuple(field.cell(located, numbers) for field in fields), located.anchor) for located in operations
    ]
    return table(caption, [field.column for field in fields], rows, wide=True)


def _number_kernels(operations: Sequence[LocatedOperation]) -> KernelNumbers:
    parts = dict.fromkeys(part for located in operations for part in kernel_parts(located.operation))
    return {part: place for place, part in enumerate(parts, start=1)}


def _glossary(numbers: KernelNumbers) -> Html:
    """Return the full kernel names, each once: a name of thousands of characters fits no table cell."""
    if not numbers:
        return Html("")
    items = "\n".join(
        f'<li id="kernel-{place}"><code>{html_text(part)}</code></li>' for part, place in numbers.items()
    )
    return folded(
        f"{count_of(len(numbers), 'kernel name')} in full", Html(f'<ol class="ns-kernels">\n{items}\n</ol>')
    )
