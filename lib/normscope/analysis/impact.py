"""What each operation could save, and the groups of operations that share a cause."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import UNSET

from normscope.analysis.models import CategoryFinding, EstimateMethod, ImpactEstimate, Kind, Operation, Scope

QUANTIFIED_FACTORS = (0.75, 0.875, 1.0)
MIN_ESTIMATE = 0.01
HEURISTIC_LOW, HEURISTIC_MID, HEURISTIC_HIGH = 0.15, 0.30, 0.45
MIN_FINDING = 0.5
UNMODELED = "unmodeled"
UNKNOWN_BAND = "unknown"
UNKNOWN_LIBRARY = "Unknown"
BANDS: tuple[tuple[float, str], ...] = ((30.0, "0-30"), (60.0, "30-60"))
TOP_BAND = "60-100"
COMPARATIVE_BAND = "all"


def estimate_impacts(
    operations: Sequence[Operation], category: str, scope: Scope, end_to_end_ms: float | None
) -> tuple[ImpactEstimate, ...]:
    """Return the impact estimates of a category, largest first.

    A quantified estimate is the share of end-to-end time that closing the gap to 100 % efficiency would save:
    high = max(0, 1 - efficiency/100) × time ÷ end-to-end time × 100. Where efficiency is not known or not to
    be believed, the estimate is heuristic: 15, 30 and 45 % of the operation's share of end-to-end time.
    """
    if end_to_end_ms is None:
        return ()
    estimates = (_estimate(i, op, category, scope, end_to_end_ms) for i, op in enumerate(operations))
    return tuple(sorted(filter(None, estimates), key=lambda e: -e.impact_score))


def _estimate(
    index: int, op: Operation, category: str, scope: Scope, end_to_end_ms: float
) -> ImpactEstimate | None:
    if op.fusion_flagged is True or op.time_ms <= 0:
        return None
    efficiency = op.efficiency
    if efficiency.efficiency_percent is None or efficiency.is_anomaly:
        return _heuristic(index, op, category) if scope == "standalone" else None
    gap = max(0.0, 1.0 - efficiency.efficiency_percent / 100.0)
    # In this order of operations, so that the last digit rounds as the reference's does.
    low, mid, high = (gap * factor * op.time_ms / end_to_end_ms * 100.0 for factor in QUANTIFIED_FACTORS)
    if high < MIN_ESTIMATE:
        return None
    return ImpactEstimate(
        operation=op.name,
        category=category,
        type="kernel_tuning",
        estimate_method="quantified",
        impact_score=round(mid, 2),
        impact_score_low=round(low, 2),
        impact_score_high=round(high, 2),
        efficiency_pct=efficiency.efficiency_percent,
        bound_type=efficiency.bound_type,
        library=op.library,
        time_ms=op.time_ms,
        variant=op.variant,
        kind=op.kind,
        operation_index=index,
    )


def _heuristic(index: int, op: Operation, category: str) -> ImpactEstimate | None:
    share = op.percent_of_total
    if not share or share <= 0:
        return None
    return ImpactEstimate(
        operation=op.name,
        category=category,
        type="unmodeled_significant",
        estimate_method="heuristic",
        impact_score=round(share * HEURISTIC_MID, 2),
        impact_score_low=round(share * HEURISTIC_LOW, 2),
        impact_score_high=round(share * HEURISTIC_HIGH, 2),
        efficiency_pct=None,
        bound_type=None,
        library=op.library,
        time_ms=op.time_ms,
        percent_of_total=share,
        variant=op.variant,
        kind=op.kind,
        operation_index=index,
    )


def group_findings(estimates: Iterable[ImpactEstimate], scope: Scope) -> tuple[CategoryFinding, ...]:
    """Return the findings: estimates grouped by cause, those under 0.5 dropped, ranked by impact."""
    groups: dict[_Cause, list[ImpactEstimate]] = {}
    for estimate in estimates:
        groups.setdefault(_cause(estimate, scope), []).append(estimate)
    totals = {cause: _total(m.impact_score for m in members) for cause, members in groups.items()}
    ranked = sorted((c for c in groups if totals[c] >= MIN_FINDING), key=lambda c: -totals[c])
    return tuple(_finding(cause, groups[cause], rank) for rank, cause in enumerate(ranked, start=1))


def efficiency_band(percent: float | None) -> str:
    """Return the efficiency band of a percentage: ``0-30``, ``30-60``, ``60-100`` or ``unknown``."""
    if percent is None:
        return UNKNOWN_BAND
    return next((name for upper, name in BANDS if percent < upper), TOP_BAND)


class _Cause(NamedTuple):
    """What the members of a finding have in common; ``key`` is a library, or a heuristic one's operation.

    The contract groups by all but ``kind``, which is ``norm`` for every row of TraceLens.
    """

    method: EstimateMethod
    bound_type: str
    key: str
    band: str
    kind: Kind


def _cause(estimate: ImpactEstimate, scope: Scope) -> _Cause:
    if estimate.estimate_method == "heuristic":
        return _Cause("heuristic", UNMODELED, estimate.operation, UNKNOWN_BAND, estimate.kind)
    band = COMPARATIVE_BAND if scope == "comparative" else efficiency_band(estimate.efficiency_pct)
    bound_type, library = estimate.bound_type or "unknown", estimate.library or UNKNOWN_LIBRARY
    return _Cause("quantified", bound_type, library, band, estimate.kind)


def _finding(cause: _Cause, members: list[ImpactEstimate], rank: int) -> CategoryFinding:
    shares = [m.percent_of_total for m in members if m.percent_of_total is not UNSET]
    return CategoryFinding(
        bound_type=cause.bound_type,
        library=next((m.library for m in members if m.library), UNKNOWN_LIBRARY),
        eff_bucket=cause.band,
        estimate_method=cause.method,
        impact_score=_total(m.impact_score for m in members),
        impact_score_low=_total(m.impact_score_low for m in members),
        impact_score_high=_total(m.impact_score_high for m in members),
        percent_of_total=_total(shares) if cause.method == "heuristic" else UNSET,
        member_count=len(members),
        members=tuple(members),
        rank=rank,
        kind=cause.kind,
    )


def _total(values: Iterable[float]) -> float:
    return round(sum(values), 2)
