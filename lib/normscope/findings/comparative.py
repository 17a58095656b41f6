"""The sentences of a finding in the comparative scope: trace 1 is to be improved, trace 2 is the target."""

from msgspec import UNSET

from normscope.analysis.models import Operation
from normscope.findings.phrases import (
    Prose,
    Sentence,
    always,
    backend,
    first,
    grouped,
    lead_shape,
    of_gpu_time,
    saving,
    source,
    start_with,
    what,
    what_capital,
    where,
)
from normscope.findings.standalone import REDUCTION_NOT_VISIBLE
from normscope.findings.subject import Subject
from normscope.findings.wording import duration, number_word, plural, sentence_case, significant, span

_EVEN_SPREAD = 1.5  # slow-downs within this factor of each other count as alike


def _title(s: Subject) -> str:
    return f"{what_capital(s)} {_slower(s)} than in trace 2"


def _insight(s: Subject) -> str:
    verb = "takes" if len(s.operations) == 1 else "take"
    shapes = f"{sentence_case(number_word(len(s.operations)))} {what(s)} shape{_s(len(s.operations))}"
    return (
        f"{shapes} {verb} {duration(s.time_us)} in trace 1{of_gpu_time(s)} "
        f"{duration(s.gap_us)} more than in trace 2 ({_slower(s)})."
    )


def _action(s: Subject) -> str:
    return first(ACTIONS, s) + start_with(s)


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def _slower(s: Subject) -> str:
    """Return the slow-down in percent of trace 2's time."""
    target_us = s.time_us - s.gap_us
    if s.gap_us <= 0 or target_us <= 0:
        return "slower"
    return f"{significant(s.gap_us / target_us * 100)}% slower"


def _slowdown_percent(op: Operation) -> float | None:
    share = op.efficiency.efficiency_percent
    return (100.0 / share - 1.0) * 100.0 if share else None


def _slowdowns(s: Subject) -> list[float]:
    return sorted(p for p in map(_slowdown_percent, s.operations) if p is not None)


def _is_even(s: Subject) -> bool:
    slowdowns = _slowdowns(s)
    return len(slowdowns) > 1 and slowdowns[-1] <= _EVEN_SPREAD * slowdowns[0]


def _is_uneven(s: Subject) -> bool:
    return len(_slowdowns(s)) > 1 and not _is_even(s)


def _knows_trace2_time(s: Subject) -> bool:
    return s.lead.t2_time_ms is not UNSET and s.lead.t2_time_ms > 0


def _knows_other_count(s: Subject) -> bool:
    return s.lead.count_trace2 is not UNSET and s.lead.count_trace2 != s.lead.count


def _knows_same_count(s: Subject) -> bool:
    return s.lead.count_trace2 is not UNSET and s.lead.count_trace2 == s.lead.count


ACTIONS = (
    Sentence(
        _knows_other_count,
        lambda s: (
            f"First find why trace 1 makes {s.lead.count:,} calls and trace 2 {s.lead.count_trace2:,}: "
            "different work can't be compared call by call."
        ),
    ),
    Sentence(
        _is_even,
        lambda s: (
            f"Give trace 1 the implementation that trace 2 uses for {what(s)}: all shapes lose alike, "
            "so one change of kernel, library version or layout should reach them all."
        ),
    ),
    Sentence(
        _is_uneven,
        lambda s: (
            f"Compare the kernels that both traces select for the shapes that lose most in {what(s)}, "
            "before changing the library as a whole."
        ),
    ),
    Sentence(
        always,
        lambda s: (
            f"Compare the kernel, library version and memory layout that both traces use for {what(s)}, "
            "and take over what trace 2 does."
        ),
    ),
)

IDENTIFICATION = (
    Sentence(always, lambda s: f"{grouped(s)}: {_bound_words(s)} in trace 1, {backend(s)}."),
    Sentence(lambda s: bool(s.modules), where),
    Sentence(
        always,
        lambda s: source(s, "operations[].library", "operations[].difference_ms", "operations[].efficiency"),
    ),
)


def _bound_words(s: Subject) -> str:
    known = s.finding.bound_type in ("memory", "compute")
    return f"{s.finding.bound_type}-bound" if known else "bound type not known"


def _against_trace2(s: Subject) -> str:
    trace2_ms = 0.0 if s.lead.t2_time_ms is UNSET else s.lead.t2_time_ms
    return (
        f"The costliest shape, {lead_shape(s)}, takes {duration(s.lead.time_ms * 1e3)} in trace 1 "
        f"and {duration(trace2_ms * 1e3)} in trace 2."
    )


REASONS = (
    Sentence(_knows_trace2_time, _against_trace2),
    Sentence(
        lambda s: not _knows_trace2_time(s),
        lambda s: f"The costliest shape, {lead_shape(s)}, takes {duration(s.lead.time_ms * 1e3)} in trace 1.",
    ),
    Sentence(
        _knows_same_count,
        lambda s: f"Both traces call it {plural(s.lead.count, 'time')}, so the calls themselves are slower.",
    ),
    Sentence(
        _knows_other_count,
        lambda s: (
            f"Trace 1 calls it {plural(s.lead.count, 'time')} and trace 2 {s.lead.count_trace2:,}, "
            "so part of the gap is the number of calls."
        ),
    ),
    Sentence(
        _is_even,
        lambda s: (
            f"Every shape loses about the same, {_slowdown_span(s)} slower, "
            "which points at the implementation and not at one shape."
        ),
    ),
    Sentence(
        _is_uneven,
        lambda s: (
            f"The shapes lose unevenly, {_slowdown_span(s)} slower, "
            "which points at the kernels of single shapes."
        ),
    ),
    Sentence(
        lambda s: bool(s.capped),
        lambda s: (
            f"For {plural(len(s.capped), 'shape')} trace 2 is faster than trace 1's own roofline allows; "
            "the estimate stops at that roofline."
        ),
    ),
    Sentence(always, lambda _: REDUCTION_NOT_VISIBLE),
)


def _slowdown_span(s: Subject) -> str:
    slowdowns = _slowdowns(s)
    return span(slowdowns[0], slowdowns[-1], "%")


RESOLUTIONS = (
    Sentence(
        always,
        lambda s: (
            f"Trace 2 does the same work in {duration(max(0.0, s.time_us - s.gap_us))}: what it leaves out, "
            "whether launches, passes over memory or a slower kernel, is what trace 1 can leave out."
        ),
    ),
    Sentence(
        lambda s: bool(s.saving_us),
        lambda s: f"Closing 75 to 100% of the gap is worth {saving(s)} of trace 1.",
    ),
)

COMPARATIVE = Prose(
    title=_title,
    insight=_insight,
    action=_action,
    identification=IDENTIFICATION,
    reasoning=REASONS,
    resolution=RESOLUTIONS,
)
