"""The head of a findings file: what the category costs, and patterns that concern it as a whole.

The patterns only speak about what the metrics already hold; they never add or drop a finding.
"""

from collections.abc import Callable, Sequence

from msgspec import UNSET

from normscope.analysis import columns as c
from normscope.analysis.models import CategoryMetrics, Operation, Variant, exceeds_end_to_end
from normscope.analysis.upper_bound import sum_words
from normscope.escape import markdown
from normscope.findings.conditions import fits_cache
from normscope.findings.layout import channels_last, rank
from normscope.findings.phrases import direction_word, op_words
from normscope.findings.subject import trace2_us
from normscope.findings.wording import (
    counted,
    duration,
    listed,
    plural,
    sentence_case,
    significant,
    span,
    verb,
)

CNN_SHARE_PERCENT = (10.0, 50.0)
_IMAGE_RANK = 4  # batch, channels and two or more dimensions of space
_COSTLIEST = 3
HEADING = "## Overview"
NO_FINDINGS = "No group of operations reaches an impact score of 0.5, so there is nothing to recommend."


def render(metrics: CategoryMetrics) -> str:
    """Return the overview section."""
    lines = [say(metrics) for applies, say in _ROWS if applies(metrics)]
    return "\n".join([HEADING, "", *(f"- {line}" for line in lines)])


def _has_operations(metrics: CategoryMetrics) -> bool:
    return bool(metrics.operations)


def _total(metrics: CategoryMetrics) -> str:
    share = (
        f", {significant(float(metrics.percent_of_compute))}% of end-to-end GPU time"
        if metrics.hardware.end_to_end_ms
        else "; the end-to-end time is not known"
    )
    return (
        f"{sentence_case(plural(len(metrics.operations), 'signature'))} of normalization"
        f"{direction_word(metrics.direction)} {verb(len(metrics.operations), 'take')} "
        f"{duration(metrics.total_time_ms * 1e3)} in {counted(metrics.operation_count, 'call')}{share}"
        f"{_bounded_part(metrics)}."
    )


def _bounded_part(metrics: CategoryMetrics) -> str:
    part = sum_words(metrics.operations)
    return f"; of which {part}" if part else ""


def _takes_too_long(metrics: CategoryMetrics) -> bool:
    return exceeds_end_to_end(metrics.total_time_ms, metrics.hardware.end_to_end_ms)


def _too_long(metrics: CategoryMetrics) -> str:
    end_to_end_us = (metrics.hardware.end_to_end_ms or 0.0) * 1e3
    return (
        f"That is more than the end-to-end time of {duration(end_to_end_us)}, "
        "which can't be where kernels run one after the other: check the end-to-end time in the metadata "
        "before trusting any share."
    )


def _costliest(metrics: CategoryMetrics) -> str:
    longest = sorted(metrics.operations, key=lambda op: -op.time_ms)[:_COSTLIEST]
    return (
        "Without the end-to-end time no impact can be estimated, so there are no recommendations. "
        f"The costliest {'is' if len(longest) == 1 else 'are'} "
        f"{listed([_cost(op, metrics) for op in longest])}."
    )


def _cost(op: Operation, metrics: CategoryMetrics) -> str:
    shape = f" {markdown(op.args.partition('<br>')[0])}" if isinstance(op.args, str) else ""
    percent = op.efficiency.efficiency_percent
    reached = "efficiency not known" if percent is None else f"{significant(percent)}% of roofline"
    if metrics.comparison_scope == "comparative":
        reached = "in trace 1"
    return f"{op_words(op)}{shape} ({duration(op.own_us)}, {reached})"


def variant_times_ms(metrics: CategoryMetrics) -> dict[Variant, float]:
    """Return the kernel time of each variant in milliseconds, longest first."""
    times: dict[Variant, float] = {}
    for op in metrics.operations:
        times[op.variant] = times.get(op.variant, 0.0) + op.time_ms
    return dict(sorted(times.items(), key=lambda item: -item[1]))


def _is_mixed(metrics: CategoryMetrics) -> bool:
    return len(variant_times_ms(metrics)) > 1 and metrics.total_time_ms > 0


def _mixture(metrics: CategoryMetrics) -> str:
    parts = [
        f"{'variant not named' if variant == 'Other' else variant} "
        f"{significant(time_ms / metrics.total_time_ms * 100)}%{_details(metrics, variant)}"
        for variant, time_ms in variant_times_ms(metrics).items()
    ]
    return f"By variant, of the time in this category: {listed(parts)}."


def _details(metrics: CategoryMetrics, variant: Variant) -> str:
    """Return in brackets what goes with the share of a variant: that it is an upper bound, its efficiency."""
    is_bounded = any(op.is_upper_bound for op in metrics.operations if op.variant == variant)
    parts = ["upper bound"] * is_bounded + _efficiencies(metrics, variant)
    return f" ({', '.join(parts)})" if parts else ""


def _efficiencies(metrics: CategoryMetrics, variant: Variant) -> list[str]:
    percents = sorted(
        op.efficiency.efficiency_percent
        for op in metrics.operations
        if op.variant == variant
        and op.efficiency.efficiency_percent is not None
        and not op.efficiency.is_anomaly
    )
    if not percents or metrics.comparison_scope == "comparative":
        return []
    return [f"at {span(percents[0], percents[-1], '%')} of roofline"]


def convolutional(categories: Sequence[CategoryMetrics]) -> str | None:
    """Return what BatchNorm's share of a convolutional network's time suggests, ``None`` where it does not.

    Parameters
    ----------
    categories
        The categories that are judged together, such as forward and backward of a run.
    """
    operations = [
        op
        for metrics in categories
        if metrics.comparison_scope == "standalone"
        for op in metrics.operations
        if op.variant == "BatchNorm" and (rank(op) or 0) >= _IMAGE_RANK
    ]
    end_to_end_ms = next((m.hardware.end_to_end_ms for m in categories if m.hardware.end_to_end_ms), None)
    share = sum(op.time_ms for op in operations) / end_to_end_ms * 100 if end_to_end_ms else 0.0
    low, high = CNN_SHARE_PERCENT
    if not low <= share <= high:
        return None
    head = (
        f"BatchNorm takes {significant(share, 3)}% of end-to-end GPU time, as in many convolutional networks"
    )
    call = channels_last(max(operations, key=lambda op: op.time_ms))
    if call is not None:
        return f"{head}; channels-last layout ({call}) and the BatchNorm kernel itself are the two levers."
    return f"{head}; the BatchNorm kernel itself is the lever."


def _has_trace2(metrics: CategoryMetrics) -> bool:
    return metrics.comparison_scope == "comparative" and bool(_against_trace2_us(metrics))


def _against_trace2_us(metrics: CategoryMetrics) -> list[tuple[float, float]]:
    """Return the times in trace 1 and trace 2 of the operations that both have."""
    times = ((op.own_us, trace2_us(op)) for op in metrics.operations)
    return [(own, other) for own, other in times if other]


def _trace2(metrics: CategoryMetrics) -> str:
    pairs = _against_trace2_us(metrics)
    who = "They" if len(pairs) == len(metrics.operations) > 1 else "It"
    if len(pairs) != len(metrics.operations):
        who = f"{sentence_case(plural(len(pairs), 'signature'))} with a counterpart in trace 2"
    own, other = sum(own for own, _ in pairs), sum(other for _, other in pairs)
    takes = f"{who} {verb(len(pairs), 'take')} {duration(own)} in trace 1 and {duration(other)} in trace 2"
    if metrics.trace2_scaled_to is not UNSET:
        takes += f", which is scaled to {markdown(metrics.trace2_scaled_to)}"
    if own == other:
        return f"{takes}."
    compared = ("less", "faster") if own < other else ("more", "slower")
    return (
        f"{takes}, {duration(abs(own - other))} {compared[0]}: trace 1 is "
        f"{significant(abs(own - other) / other * 100)}% {compared[1]}, in % of trace 2's time."
    )


def _alone(metrics: CategoryMetrics) -> list[Operation]:
    """Return what trace 2 has no counterpart of, none where the table doesn't compare."""
    missing = metrics.data_quality.missing_columns
    if metrics.comparison_scope != "comparative" or {c.TIME_TRACE2, c.DELTA}.issubset(missing):
        return []
    return [op for op in metrics.operations if trace2_us(op) is None]


def _only_trace1(metrics: CategoryMetrics) -> str:
    alone = _alone(metrics)
    time_us, calls = sum(op.own_us for op in alone), sum(op.count for op in alone)
    return (
        f"{sentence_case(plural(len(alone), 'signature'))} {verb(len(alone), 'lack')} a counterpart in "
        f"trace 2: {duration(time_us)} in {counted(calls, 'call')} that can't be compared."
    )


def _zeros(metrics: CategoryMetrics) -> list[Operation]:
    if metrics.comparison_scope == "comparative":
        return []
    return [op for op in metrics.operations if op.time_ms and op.efficiency.efficiency_percent == 0]


def _zero(metrics: CategoryMetrics) -> str:
    zeros = _zeros(metrics)
    names = dict.fromkeys(op_words(op) for op in zeros)
    return (
        f"{sentence_case(plural(len(zeros), 'signature'))} of {listed(list(names)[:3])} measured at 0% of "
        "roofline, which can't be: verify the measurement."
    )


def _anomalies(metrics: CategoryMetrics) -> str:
    return _above_roofline(_anomalous(metrics, cached=False), "which can't be: verify the measurement")


def _cached(metrics: CategoryMetrics) -> str:
    return _above_roofline(
        _anomalous(metrics, cached=True), "which is no error: their data fit the last-level cache"
    )


def _anomalous(metrics: CategoryMetrics, *, cached: bool) -> list[Operation]:
    """Return the operations above 110% of roofline whose data fit the last-level cache, or don't."""
    operations = (metrics.operations[i] for i in metrics.data_quality.anomalies)
    return [op for op in operations if fits_cache(op) == cached]


def _above_roofline(operations: list[Operation], what: str) -> str:
    names = list(dict.fromkeys(op_words(op) for op in operations))
    return (
        f"{sentence_case(plural(len(operations), 'signature'))} of {listed(names[:3])} measured above "
        f"110% of roofline, {what}."
    )


def _variance(metrics: CategoryMetrics) -> str:
    count = len(metrics.data_quality.high_variance)
    return (
        f"The calls of {plural(count, 'signature')} vary by more than their mean, "
        "so their average hides fast and slow calls."
    )


def _missing(metrics: CategoryMetrics) -> str:
    columns = metrics.data_quality.missing_columns
    return f"The ops table lacks {plural(len(columns), 'column')}: {listed([f'`{c}`' for c in columns])}."


_Row = tuple[Callable[[CategoryMetrics], bool], Callable[[CategoryMetrics], str]]

_ROWS: tuple[_Row, ...] = (
    (_has_operations, _total),
    (_takes_too_long, _too_long),
    (_has_trace2, _trace2),
    (lambda m: bool(_alone(m)), _only_trace1),
    (lambda m: not m.operations, lambda _: "No normalization operations found in trace."),
    (_is_mixed, _mixture),
    (lambda m: convolutional([m]) is not None, lambda m: convolutional([m]) or ""),
    (lambda m: bool(_zeros(m)), _zero),
    (lambda m: bool(_anomalous(m, cached=False)), _anomalies),
    (lambda m: bool(_anomalous(m, cached=True)), _cached),
    (lambda m: bool(m.data_quality.high_variance), _variance),
    (lambda m: bool(m.data_quality.missing_columns), _missing),
    (lambda m: bool(m.operations) and not m.hardware.end_to_end_ms, _costliest),
    (
        lambda m: bool(m.operations and m.hardware.end_to_end_ms) and not m.category_findings,
        lambda _: NO_FINDINGS,
    ),
)
