"""Where all GPU time of a trace went: the timeline, what the kernel time belongs to, how norms were found."""

from collections.abc import Iterable, Mapping

from normscope.analysis.upper_bound import AT_MOST
from normscope.escape import MISSING, html_text
from normscope.report.results import Report
from normscope.report.tables import (
    Cell,
    Column,
    Html,
    Row,
    count_of,
    name,
    number,
    paragraph,
    percent,
    table,
)
from normscope.trace.timeline import Timeline
from normscope.tracerun.coverage import NORM_GROUPS, TITLES, Coverage, Group, GroupName
from normscope.tracerun.found import BOUNDED, EVIDENCE, HOW_TO_ADD_ROWS, CutOffKernel, FiredRow

_MOST_NAMES = 20

# Which colour a group has in the bar, and what it means.
_MEANING: Mapping[GroupName, tuple[str, str]] = {
    "explicit": ("norm", "The normalization itself, of ops that are norms and of kernels called so."),
    "compiled_fused": (
        "fused",
        "A compiler put the norm and other work into one kernel: an upper bound of the norm's time.",
    ),
    "eager_decomposed": ("eager", "Several small kernels one after the other that together are one norm."),
    "unlinked": (
        "norm-lost",
        "The profiler saw them run and not start: no other figure of this report holds them.",
    ),
    "helper_copies": ("helper", "What norm ops do around the norm. It counts as time of the op."),
    "bookkeeping_adds": ("counter", "Additions of 1 to num_batches_tracked, a small kernel each."),
    "not_a_norm_layer": ("only-called", "The length of a vector and the like, or a norm of weights."),
    "other_ops": ("other", "Everything else that ops of the trace launched."),
    "other_graph_kernels": (
        "graph",
        "Replayed from a captured graph: the trace doesn't say which op each belongs to.",
    ),
    "other_kernels_without_op": (
        "lost",
        "No op of the trace launched them, and their names aren't those of norms.",
    ),
    "outside_window": ("outside", "Ran before or after the profiled window."),
}
_UNATTRIBUTED: tuple[GroupName, ...] = (
    "unlinked",
    "other_graph_kernels",
    "other_kernels_without_op",
    "outside_window",
)
_PARTS: Mapping[GroupName, str] = {
    "explicit": "by ops and kernel names",
    "compiled_fused": "inside compiled kernels (an upper bound)",
    "eager_decomposed": "written out in Python",
    "unlinked": "with their launch cut off",
}


def gpu_time_html(report: Report) -> Html:
    """Return the section on all GPU time; empty where the run doesn't come from a trace."""
    if report.trace is None:
        return Html("")
    summary = report.trace.summary
    covered = summary.coverage
    parts = [
        Html("<h2>All GPU time</h2>"),
        paragraph(attribution_sentence(covered)),
        _bar(covered),
        _coverage_table(covered),
        _found_html(summary.rows, covered),
        _cut_off_table(summary.cut_off),
        _timeline_table(summary.timeline),
        paragraph(
            "Kernel time is the sum over all kernels, so kernels that run at the same time count each. The "
            "timeline counts every moment once; exposed means while nothing was computed."
        ),
    ]
    return Html("\n".join(part for part in parts if part))


def attribution_sentence(covered: Coverage) -> str:
    """Return what share of the kernel time norms take, by how they were found, and what is left open."""
    if not covered.all_kernels_us:
        return "No kernel took any time."
    lost_us = covered.us(*_UNATTRIBUTED)
    lost = f"{share(covered, lost_us)} of kernel time could not be attributed to an op"
    rest = lost if lost_us else "every kernel was attributed to an op"
    return f"{_norm_share(covered)}; {rest}."


def _norm_share(covered: Coverage) -> str:
    norm_us = covered.us(*NORM_GROUPS)
    all_ms = number(covered.all_kernels_us / 1e3, 3)
    if not norm_us:
        return f"No norm was found in {all_ms} ms of kernel time"
    of_all = f"({number(norm_us / 1e3, 3)} of {all_ms} ms)"
    parts = [
        f"{share(covered, covered.us(name))} {found}" for name, found in _PARTS.items() if covered.us(name)
    ]
    if covered.unlinked.upper_bound_us:
        parts[-1] += f" (of it {share(covered, covered.unlinked.upper_bound_us)} an upper bound)"
    return f"Norms take {share(covered, norm_us)} of all kernel time {of_all}: {', '.join(parts)}"


def share(covered: Coverage, time_us: float) -> str:
    """Return a time as a share of all kernel time; a tiny one is not called none."""
    found = covered.percent(time_us)
    return "less than 0.1%" if found is not None and 0 < found < 0.05 else percent(found, 1)


def _bar(covered: Coverage) -> Html:
    if not covered.all_kernels_us:
        return Html("")
    pieces = "".join(
        f'<span class="{_colour(name)}" style="flex-grow:{group.us / covered.all_kernels_us:.6f}"></span>'
        for name, group in covered.groups
        if group.us > 0
    )
    shares = ", ".join(f"{_title(name, group)} {share(covered, group.us)}" for name, group in covered.groups)
    return Html(f'<div class="ns-stack" role="img" aria-label="{html_text(shares)}">{pieces}</div>')


def _colour(name: GroupName) -> str:
    return f"ns-part-{_MEANING[name][0]}"


def _title(name: GroupName, group: Group) -> str:
    if group.how is not None:
        return f"{TITLES[name]}: {group.how}"
    return f"{TITLES[name]}: {count_of(group.norms, 'norm')}" if group.norms is not None else TITLES[name]


def _coverage_table(covered: Coverage) -> Html:
    columns = (
        Column("Kernels"),
        Column("Count", numeric=True),
        Column("Time (ms)", numeric=True),
        Column("Kernel time (%)", numeric=True),
        Column("What they are"),
    )
    rows = [
        Row((_named(name, group), *_figures(covered, group.count, group.us), _meaning(name, group)))
        for name, group in covered.groups
    ]
    total = Row(
        (
            Html("<strong>All kernels</strong>"),
            *_figures(covered, covered.all_kernels, covered.all_kernels_us),
            "The sum of the rows above: each kernel is in one of them.",
        )
    )
    return table("What the kernel time belongs to", columns, [*rows, total])


def _meaning(name: GroupName, group: Group) -> str:
    meaning = _MEANING[name][1]
    if not group.upper_bound_us:
        return meaning
    return f"{meaning} {number(group.upper_bound_us / 1e3, 3)} ms lie in compiled kernels: an upper bound."


def _figures(covered: Coverage, count: int, time_us: float) -> tuple[str, str, str]:
    return f"{count:,}", number(time_us / 1e3, 3), number(covered.percent(time_us), 2)


def _named(name: GroupName, group: Group) -> Html:
    swatch = f'<span class="ns-swatch {_colour(name)}" aria-hidden="true"></span>'
    return Html(f"{swatch} {html_text(_title(name, group))}")


def _found_html(rows: tuple[FiredRow, ...], covered: Coverage) -> Html:
    """Return which rows of the catalog the norms were found by, and where rows can be added."""
    if not rows:
        return paragraph(HOW_TO_ADD_ROWS) if covered.all_kernels else Html("")
    columns = (
        Column("Row of the catalog"),
        Column("Library"),
        Column("Variant"),
        Column("Direction"),
        Column("Found by"),
        Column("Calls", numeric=True),
        Column("Time (ms)", numeric=True),
        Column("Evidence for the row"),
    )
    found = table("How the norms were found", columns, map(_found_row, rows))
    return Html(f"{found}\n{paragraph(HOW_TO_ADD_ROWS)}")


def _found_row(row: FiredRow) -> Row:
    evidence: Cell = EVIDENCE[row.evidence]
    if row.evidence == "unverified":
        evidence = Html(f"<strong>{html_text(evidence)}</strong>")
    return Row(
        (
            *(name(row.row), name(row.library), row.variant, row.direction, row.found),
            *(f"{row.calls:,}", number(row.us / 1e3, 3), evidence),
        )
    )


def _cut_off_table(kernels: tuple[CutOffKernel, ...]) -> Html:
    """Return the norm kernels whose launch was cut off; empty where there are none."""
    if not kernels:
        return Html("")
    columns = (
        Column("Kernel"),
        Column("Variant"),
        Column("Direction"),
        Column("Fused with it"),
        Column("Count", numeric=True),
        Column("Time (ms)", numeric=True),
    )
    caption = "Norm kernels whose launch was cut off, which no other figure holds"
    rows = [
        _cut_off_row(_narrow(kernel.name), kernel.variant, kernel.direction, _fused(kernel), [kernel])
        for kernel in kernels[:_MOST_NAMES]
    ]
    if more := kernels[_MOST_NAMES:]:
        what = f"{count_of(len(more), 'other kernel')}"
        bounded = BOUNDED if any(kernel.is_upper_bound for kernel in more) else MISSING
        rows.append(_cut_off_row(what, MISSING, MISSING, bounded, more))
    return table(caption, columns, rows)


def _fused(kernel: CutOffKernel) -> str:
    fused = ", ".join(kernel.fuses) or MISSING
    return f"{fused} ({BOUNDED})" if kernel.is_upper_bound else fused


def _narrow(text: str) -> Html:
    """Return a name that may break anywhere."""
    return Html(f'<div class="ns-operation">{name(text)}</div>')


def _cut_off_row(
    what: Cell, variant: str, direction: str, fused: str, kernels: Iterable[CutOffKernel]
) -> Row:
    own = list(kernels)
    count, time_us = sum(kernel.count for kernel in own), sum(kernel.us for kernel in own)
    time_text = number(time_us / 1e3, 3)
    if any(kernel.is_upper_bound for kernel in own):
        time_text = f"{AT_MOST}{time_text}"
    return Row((what, variant, direction, fused, f"{count:,}", time_text))


def _timeline_table(timeline: Timeline) -> Html:
    rows = [
        Row(
            (
                what,
                number(time_ms, 3),
                number(100 * time_ms / timeline.total_ms if timeline.total_ms else None),
            )
        )
        for what, time_ms in (
            ("Computing", timeline.computation_ms),
            ("Exposed communication", timeline.exposed_communication_ms),
            ("Exposed copying", timeline.exposed_memcpy_ms),
            ("Idle", timeline.idle_ms),
            ("Whole timeline", timeline.total_ms),
        )
    ]
    columns = (Column("GPU timeline"), Column("Time (ms)", numeric=True), Column("Share (%)", numeric=True))
    left_out = timeline.left_out_events
    note = (
        f", {count_of(left_out, 'event')} without a launch or outside the window left out" if left_out else ""
    )
    return table(
        f"The GPU timeline, from the first to the last of {count_of(timeline.counted_events, 'event')}{note}",
        columns,
        rows,
    )
