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
    of_gpu_time,
    op_words,
    saving,
    shapes_of,
    source,
    start_with,
    the_costliest,
    what,
    what_capital,
    where,
)
from normscope.findings.standalone import REDUCTION_NOT_VISIBLE
from normscope.findings.subject import Subject, trace2_us
from normscope.findings.wording import counted, duration, plural, significant, span, verb

_EVEN_SPREAD = 1.5  # slow-downs within this factor of each other count as alike


def _title(s: Subject) -> str:
    if _lacks_counterpart(s):
        return f"{what_capital(s)} without a counterpart in trace 2"
    calls, other = _calls(s)
    more = f", in {calls:,} calls against {other:,}" if _differs_in_calls(s) and calls != other else ""
    return f"{what_capital(s)} {_slower(s)} than in trace 2{more}"


def _insight(s: Subject) -> str:
    takes = f"{shapes_of(s)} {verb(len(s.shapes), 'take')} {duration(s.time_us)} in trace 1{of_gpu_time(s)}"
    if _lacks_counterpart(s):
        return f"{takes.removesuffix(',')}, and trace 2 has no counterpart: its time there is zero."
    return f"{takes} {duration(s.gap_us)} more than in trace 2 ({_slower(s)})."


def _action(s: Subject) -> str:
    return first(ACTIONS, s) + start_with(s)


def _slower(s: Subject) -> str:
    """Return the slow-down in percent of trace 2's time."""
    target_us = s.time_us - s.gap_us
    if s.gap_us <= 0 or target_us <= 0:
        return "slower"
    return f"{significant(s.gap_us / target_us * 100)}% slower"


def _slowdowns(s: Subject) -> list[float]:
    """Return each signature's slow-down in percent of trace 2's time, where that is known."""
    pairs = zip(s.operations, s.gaps_us, strict=True)
    targets = [(gap_us, op.own_us - gap_us) for op, gap_us in pairs]
    return sorted(gap_us / target_us * 100 for gap_us, target_us in targets if target_us > 0)


def _is_even(s: Subject) -> bool:
    slowdowns = _slowdowns(s)
    return (
        _is_alike(s)
        and len(s.shapes) > 1
        and bool(slowdowns)
        and slowdowns[-1] <= _EVEN_SPREAD * slowdowns[0]
    )


def _is_uneven(s: Subject) -> bool:
    return _is_alike(s) and len(s.shapes) > 1 and bool(_slowdowns(s)) and not _is_even(s)


def _is_alike(s: Subject) -> bool:
    """Tell whether trace 2 has every operation, and as far as is known in as many calls."""
    return not _differs_in_calls(s) and not _absent(s)


def _absent(s: Subject) -> list[Operation]:
    """Return the operations for which trace 2 has no kernel time."""
    return [op for op, other_us in zip(s.operations, s.trace2_us, strict=True) if other_us == 0]


def _lacks_counterpart(s: Subject) -> bool:
    return len(_absent(s)) == len(s.operations)


def _lacks_some(s: Subject) -> bool:
    return bool(_absent(s)) and not _lacks_counterpart(s)


def _differs_in_calls(s: Subject) -> bool:
    return any(op.count_trace2 is not UNSET and op.count_trace2 != op.count for op in s.operations)


def _knows_every_count(s: Subject) -> bool:
    return all(op.count_trace2 is not UNSET for op in s.operations)


def _calls(s: Subject) -> tuple[int, int]:
    """Return the calls of both traces, as far as both are known."""
    pairs = [(op.count, op.count_trace2) for op in s.operations if op.count_trace2 is not UNSET]
    return sum(own for own, _ in pairs), sum(other for _, other in pairs)


def _extra_calls(s: Subject) -> tuple[int, float]:
    """Return the calls that only trace 1 makes, and what they cost at its own time per call."""
    count, time_us = 0, 0.0
    for op in s.operations:
        if op.count_trace2 is not UNSET and op.count > op.count_trace2:
            extra = op.count - op.count_trace2
            count, time_us = count + extra, time_us + extra * op.own_us / op.count
    return count, time_us


def _other_count(s: Subject) -> Operation | None:
    """Return the costliest signature that both traces run, each in another number of calls."""
    return next(
        (
            op
            for op, other_us in zip(s.operations, s.trace2_us, strict=True)
            if other_us and op.count and op.count_trace2 is not UNSET
            if op.count_trace2 not in {0, op.count}
        ),
        None,
    )


def _against_per_call(s: Subject) -> str:
    op = _other_count(s)
    if op is None or op.count_trace2 is UNSET:
        return ""
    call_us, other_us = op.own_us / op.count, (trace2_us(op) or 0.0) / op.count_trace2
    change = (call_us - other_us) / other_us * 100
    return (
        f"Trace 1 makes {counted(op.count, 'call')} of {op_words(op)} "
        f"and trace 2 makes {op.count_trace2:,}: per call {duration(call_us)} against {duration(other_us)}, "
        f"so each call is {significant(abs(change))}% {'slower' if change > 0 else 'faster'} in trace 1."
    )


ACTIONS = (
    Sentence(
        _lacks_counterpart,
        lambda s: (
            f"First find what trace 2 runs in place of {what(s)}: it has no kernel time for these calls, "
            "so there is nothing to compare with."
        ),
    ),
    Sentence(
        _differs_in_calls,
        lambda s: (
            f"First find why the traces differ in calls of {what(s)}, "
            f"{_calls(s)[0]:,} in trace 1 and {_calls(s)[1]:,} in trace 2: "
            "different work can't be compared by its total time."
        ),
    ),
    Sentence(
        _is_even,
        lambda s: (
            f"Give trace 1 the implementation that trace 2 uses for {what(s)}: all shapes lose alike, "
            "so compare kernel, library version and layout as a whole."
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


def _lead_trace2_us(s: Subject) -> float | None:
    times = list(map(trace2_us, s.shapes[0].operations))
    return None if None in times else sum(time for time in times if time is not None)


def _knows_lead_in_trace2(s: Subject) -> bool:
    return bool(_lead_trace2_us(s))


REASONS = (
    Sentence(
        _knows_lead_in_trace2,
        lambda s: (
            f"{the_costliest(s)} takes {duration(s.shapes[0].time_us)} in trace 1 "
            f"and {duration(_lead_trace2_us(s) or 0)} in trace 2."
        ),
    ),
    Sentence(
        lambda s: not _knows_lead_in_trace2(s),
        lambda s: f"{the_costliest(s)} takes {duration(s.shapes[0].time_us)} in trace 1.",
    ),
    Sentence(
        lambda s: _is_alike(s) and _knows_every_count(s),
        lambda s: (
            f"Both traces make {counted(s.calls, 'call')}, so the calls themselves are slower in trace 1."
        ),
    ),
    Sentence(lambda s: _other_count(s) is not None, _against_per_call),
    Sentence(
        _lacks_some,
        lambda s: (
            f"For {plural(len(_absent(s)), 'signature')} trace 2 has no counterpart: its time there is zero."
        ),
    ),
    Sentence(
        _is_even,
        lambda s: (
            f"The signatures lose about the same, {_slowdown_span(s)} slower, "
            "which points at the implementation and not at one shape."
        ),
    ),
    Sentence(
        _is_uneven,
        lambda s: (
            f"The signatures lose unevenly, {_slowdown_span(s)} slower, "
            "which points at the kernels of single shapes."
        ),
    ),
    Sentence(
        lambda s: bool(s.capped) and _lacks_counterpart(s),
        lambda s: f"The estimate stops at trace 1's own roofline{_counted_gap(s)}.",
    ),
    Sentence(
        lambda s: bool(s.capped) and not _lacks_counterpart(s),
        lambda s: (
            f"For {plural(len(s.capped), 'signature')} trace 2 is faster than trace 1's own roofline allows; "
            f"the estimate stops at that roofline{_counted_gap(s)}."
        ),
    ),
    Sentence(always, lambda _: REDUCTION_NOT_VISIBLE),
)


def _counted_gap(s: Subject) -> str:
    if s.saving_us is None:
        return ""
    return f", so it counts at most {duration(s.saving_us[1])} of the {duration(s.gap_us)} gap"


def _slowdown_span(s: Subject) -> str:
    slowdowns = _slowdowns(s)
    return span(slowdowns[0], slowdowns[-1], "%")


RESOLUTIONS = (
    Sentence(
        _lacks_counterpart,
        lambda s: (
            f"If trace 1 can do without these {counted(s.calls, 'call')} as trace 2 does, "
            f"their {counted(s.calls, 'launch', 'launches')} and {duration(s.time_us)} go away."
        ),
    ),
    Sentence(
        lambda s: bool(_extra_calls(s)[0]) and not _lacks_counterpart(s),
        lambda s: (
            f"The {counted(_extra_calls(s)[0], 'call')} that only trace 1 makes "
            f"{verb(_extra_calls(s)[0], 'take')} {duration(_extra_calls(s)[1])} at its own time per call."
        ),
    ),
    Sentence(
        lambda s: _is_alike(s) and s.time_us > s.gap_us > 0,
        lambda s: (
            f"With trace 2's kernels the same calls would take {duration(s.time_us - s.gap_us)} "
            f"instead of {duration(s.time_us)}: no call goes away, each gets shorter."
        ),
    ),
    Sentence(
        lambda s: bool(s.saving_us),
        lambda s: (
            f"Closing 75 to 100% of the gap{' down to the roofline' if s.capped else ''} "
            f"is worth {saving(s)} of trace 1."
        ),
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
