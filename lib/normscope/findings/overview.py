"""The head of a findings file: what the category costs, and patterns that concern it as a whole.

The patterns only speak about what the metrics already hold; they never add or drop a finding.
"""

from collections.abc import Callable

from normscope.analysis.models import CategoryMetrics, Variant
from normscope.findings.phrases import direction_word, op_name
from normscope.findings.standalone import CHANNELS_LAST
from normscope.findings.wording import duration, listed, plural, sentence_case, significant, span

CNN_SHARE_PERCENT = (10.0, 50.0)
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
        f"{direction_word(metrics.direction)} take {duration(metrics.total_time_ms * 1e3)} in "
        f"{metrics.operation_count:,} calls{share}."
    )


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
        f"{significant(time_ms / metrics.total_time_ms * 100)}%{_efficiencies(metrics, variant)}"
        for variant, time_ms in variant_times_ms(metrics).items()
    ]
    return f"By variant, of the time in this category: {listed(parts)}."


def _efficiencies(metrics: CategoryMetrics, variant: Variant) -> str:
    percents = sorted(
        op.efficiency.efficiency_percent
        for op in metrics.operations
        if op.variant == variant
        and op.efficiency.efficiency_percent is not None
        and not op.efficiency.is_anomaly
    )
    if not percents or metrics.comparison_scope == "comparative":
        return ""
    return f" (at {span(percents[0], percents[-1], '%')} of roofline)"


def _batch_norm_percent(metrics: CategoryMetrics) -> float:
    return sum(op.percent_of_total or 0.0 for op in metrics.operations if op.variant == "BatchNorm")


def _is_cnn(metrics: CategoryMetrics) -> bool:
    low, high = CNN_SHARE_PERCENT
    return low <= _batch_norm_percent(metrics) <= high


def _cnn(metrics: CategoryMetrics) -> str:
    return (
        f"BatchNorm takes {significant(_batch_norm_percent(metrics))}% of end-to-end GPU time, as in many "
        f"convolutional networks; channels-last layout ({CHANNELS_LAST}) and the BatchNorm kernel itself "
        "are the two levers."
    )


def _anomalies(metrics: CategoryMetrics) -> str:
    indexes = metrics.data_quality.anomalies
    names = dict.fromkeys(op_name(metrics.operations[i].name) for i in indexes)
    return (
        f"{sentence_case(plural(len(indexes), 'signature'))} of {listed(list(names)[:3])} measured above "
        "110% of roofline, which can't be: verify the measurement."
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
    (lambda m: not m.operations, lambda _: "No normalization operations found in trace."),
    (_is_mixed, _mixture),
    (_is_cnn, _cnn),
    (lambda m: bool(m.data_quality.anomalies), _anomalies),
    (lambda m: bool(m.data_quality.high_variance), _variance),
    (lambda m: bool(m.data_quality.missing_columns), _missing),
    (lambda m: bool(m.operations) and not m.category_findings, lambda _: NO_FINDINGS),
)
