"""The key figures of a report: what the first screen says, as numbers."""

from collections.abc import Sequence
from math import fsum

import msgspec

from normscope.analysis.models import CategoryMetrics
from normscope.analysis.upper_bound import sum_words
from normscope.report.results import LocatedOperation, Report, analyzed, findings_of, operations_of


class Bandwidth(msgspec.Struct, frozen=True):
    """Memory bandwidth in TB/s, and the share in % of the time that is measured.

    ``peak_tbs`` is None where the peak isn't known.
    """

    achieved_tbs: float
    peak_tbs: float | None
    covered_percent: float


class Gain(msgspec.Struct, frozen=True):
    """What all findings together could save, in % of GPU time."""

    low: float
    middle: float
    high: float
    findings: int


class KeyFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of the first screen; ``None`` where the input does not tell.

    ``upper_bound`` says which part of the time is an upper bound, empty for none.
    """

    time_ms: float
    upper_bound: str
    trace2_time_ms: float | None
    end_to_end_ms: float | None
    share_percent: float | None
    calls: int
    signatures: int
    bandwidth: Bandwidth | None
    has_efficiency: bool
    gain: Gain | None


def key_figures(report: Report) -> KeyFigures:
    """Return the key figures over all categories of ``report``.

    The achieved bandwidth is the time-weighted mean of the operations' own, anomalies left out: all bytes
    over all time.
    """
    categories = analyzed(report)
    operations = operations_of(report)
    end_to_end_ms = next((m.hardware.end_to_end_ms for m in categories if m.hardware.end_to_end_ms), None)
    return KeyFigures(
        time_ms=_time_ms(report),
        upper_bound=sum_words(each.operation for each in operations),
        trace2_time_ms=_trace2_time(operations),
        end_to_end_ms=end_to_end_ms,
        share_percent=sum(m.percent_of_compute for m in categories) if end_to_end_ms else None,
        calls=sum(each.operation.count for each in operations),
        signatures=len(operations),
        bandwidth=_bandwidth(operations, categories),
        has_efficiency=any(each.operation.efficiency.efficiency_percent is not None for each in operations),
        gain=_gain(report) if end_to_end_ms else None,
    )


def lacks_peak(figures: KeyFigures) -> bool:
    """Tell whether bandwidth was measured but can't be judged, because the peak of the GPU isn't known."""
    return figures.bandwidth is not None and figures.bandwidth.peak_tbs is None and not figures.has_efficiency


def rests_on_guesses(report: Report, figures: KeyFigures) -> bool:
    """Tell whether there are findings, but the efficiency of no operation is known to back them."""
    return bool(findings_of(report)) and not figures.has_efficiency


def rests_on_zeros(report: Report) -> bool:
    """Tell whether every finding is about operations measured at 0% of the roofline, which can't be."""
    members = [member for each in findings_of(report) for member in each.finding.members]
    return (
        report.comparison_scope == "standalone"
        and bool(members)
        and all(member.efficiency_pct == 0 for member in members)
    )


def _time_ms(report: Report) -> float:
    """Return the time of all categories, in the comparative scope as exactly as the operations have it."""
    if report.comparison_scope == "comparative":
        return fsum(each.operation.own_us for each in operations_of(report)) / 1e3
    return sum(metrics.total_time_ms for metrics in analyzed(report))


def _trace2_time(operations: Sequence[LocatedOperation]) -> float | None:
    known = [us for each in operations if (us := each.operation.trace2_us) is not None]
    return fsum(known) / 1e3 if known and len(known) == len(operations) else None


def _bandwidth(
    operations: Sequence[LocatedOperation], categories: Sequence[CategoryMetrics]
) -> Bandwidth | None:
    peak_tbs = next((m.hardware.peak_hbm_bw_tbs for m in categories if m.hardware.peak_hbm_bw_tbs), None)
    measured = [
        (each.operation.efficiency.tb_s_achieved, each.operation.time_ms)
        for each in operations
        if each.operation.efficiency.tb_s_achieved is not None and not each.operation.efficiency.is_anomaly
    ]
    measured_ms = sum(time_ms for _, time_ms in measured)
    if measured_ms <= 0:
        return None
    all_ms = sum(each.operation.time_ms for each in operations)
    achieved_tbs = sum(tbs * time_ms for tbs, time_ms in measured) / measured_ms
    return Bandwidth(achieved_tbs, peak_tbs, 100 * measured_ms / all_ms)


def _gain(report: Report) -> Gain:
    findings = [located.finding for located in findings_of(report)]
    return Gain(
        sum(f.impact_score_low for f in findings),
        sum(f.impact_score for f in findings),
        sum(f.impact_score_high for f in findings),
        len(findings),
    )
