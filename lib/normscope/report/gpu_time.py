"""Where all GPU time of a trace went: the timeline, and what the kernel time belongs to."""

from collections.abc import Sequence

from normscope.escape import html_text
from normscope.report.results import Report
from normscope.report.tables import Column, Html, Row, count_of, number, paragraph, percent, table
from normscope.trace.timeline import Timeline
from normscope.tracerun import coverage as c
from normscope.tracerun.coverage import Coverage, Group

NOT_KNOWN = "their time is shown, their efficiency is not known"

# Which colour a group has in the bar, and what it means.
_MEANING = {
    c.NORM: ("norm", "The normalization itself. The figures of this report are about these."),
    c.HELPER: ("helper", "What norm ops do around it. It counts as time of the op, and is shown apart."),
    c.NORM_UNMODELED: (
        "maybe",
        "Called a norm, but launched by an op whose bytes aren't known, such as a compiled or a custom one.",
    ),
    c.OTHER_OPS: ("other", "Everything else that ops of the trace launched."),
    c.NORM_WITHOUT_OP: ("maybe-lost", "Called a norm, but no op of the trace launched them."),
    c.GRAPH: ("lost", "Replayed from a captured graph: the trace doesn't say which op each belongs to."),
    c.WITHOUT_OP: ("lost", "No op of the trace launched them, and their names aren't those of norms."),
    c.OUTSIDE: ("lost", "Ran before or after the profiled window."),
}
_UNATTRIBUTED = (c.NORM_WITHOUT_OP, c.GRAPH, c.WITHOUT_OP, c.OUTSIDE)


def gpu_time_html(report: Report) -> Html:
    """Return the section on all GPU time; empty where the run doesn't come from a trace."""
    if report.trace is None:
        return Html("")
    summary = report.trace.summary
    covered = summary.coverage
    parts = [
        Html("<h2>All GPU time</h2>"),
        *map(paragraph, attribution_sentences(covered)),
        _bar(covered),
        _coverage_table(covered),
        _timeline_table(summary.timeline),
        paragraph(
            "Kernel time is the sum over all kernels, so kernels that run at the same time count each. The "
            "timeline counts every moment once; exposed means while nothing was computed."
        ),
    ]
    return Html("\n".join(parts))


def attribution_sentences(covered: Coverage) -> list[str]:
    """Return what share of the kernel time the figures are about, and what they leave out."""
    if not covered.total_us:
        return ["No kernel took any time."]
    norm_us = _time_us(covered.groups, (c.NORM, c.HELPER))
    lost_us = _time_us(covered.groups, _UNATTRIBUTED)
    all_ms = number(covered.total_us / 1e3, 3)
    norm = f"No op known as a norm launched a kernel, of {all_ms} ms of kernel time"
    if norm_us:
        norm = f"Norm ops take {_share(norm_us, covered)} of all kernel time"
        norm += f" ({number(norm_us / 1e3, 3)} of {all_ms} ms)"
    lost = f"{_share(lost_us, covered)} could not be attributed to any op"
    first = f"{norm}; {lost if lost_us else 'every kernel was attributed to an op'}."
    return [first, *named_only_sentences(covered)]


def named_only_sentences(covered: Coverage) -> list[str]:
    """Return one sentence for each kind of kernel that is a norm by its name alone."""
    return [
        f"{_share(group.time_us, covered)} of kernel time lies in {group.what}: {NOT_KNOWN}."
        for group in covered.groups
        if group.what in (c.NORM_UNMODELED, c.NORM_WITHOUT_OP) and group.time_us
    ]


def named_only(covered: Coverage) -> tuple[Group, ...]:
    """Return the groups of kernels that are norms by their name alone."""
    return tuple(g for g in covered.groups if g.what in (c.NORM_UNMODELED, c.NORM_WITHOUT_OP))


def share_percent(time_us: float, covered: Coverage) -> float | None:
    """Return a share of all kernel time in percent."""
    return 100 * time_us / covered.total_us if covered.total_us else None


def _share(time_us: float, covered: Coverage) -> str:
    share = share_percent(time_us, covered)
    return "less than 0.1%" if share is not None and 0 < share < 0.05 else percent(share, 1)


def _time_us(groups: Sequence[Group], wanted: Sequence[str]) -> float:
    return sum(group.time_us for group in groups if group.what in wanted)


def _bar(covered: Coverage) -> Html:
    pieces = "".join(
        f'<span class="{_colour(g)}" style="flex-grow:{g.time_us / covered.total_us:.6f}"></span>'
        for g in covered.groups
        if g.time_us > 0
    )
    shares = ", ".join(f"{g.what} {_share(g.time_us, covered)}" for g in covered.groups)
    return Html(f'<div class="ns-stack" role="img" aria-label="{html_text(shares)}">{pieces}</div>')


def _colour(group: Group) -> str:
    return f"ns-part-{_MEANING[group.what][0]}"


def _coverage_table(covered: Coverage) -> Html:
    columns = (
        Column("Kernels"),
        Column("Count", numeric=True),
        Column("Time (ms)", numeric=True),
        Column("Kernel time (%)", numeric=True),
        Column("What they are"),
    )
    rows = [
        Row(
            (
                _named(g),
                f"{g.count:,}",
                number(g.time_us / 1e3, 3),
                _percent(g.time_us, covered),
                _MEANING[g.what][1],
            )
        )
        for g in covered.groups
    ]
    total = (
        "all kernels",
        f"{covered.total_count:,}",
        number(covered.total_us / 1e3, 3),
        _percent(covered.total_us, covered),
    )
    return table("What the kernel time belongs to", columns, [*rows, Row((*total, ""))])


def _percent(time_us: float, covered: Coverage) -> str:
    return number(share_percent(time_us, covered), 2)


def _named(group: Group) -> Html:
    swatch = f'<span class="ns-swatch {_colour(group)}" aria-hidden="true"></span>'
    return Html(f"{swatch} {html_text(group.what)}")


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
