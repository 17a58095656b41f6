"""The gate: a comparison held against limits. Side 1 is the result, side 2 the baseline."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from normscope.compare.limits import CoverageLimits, Limits, OperationLimits, TimeLimits
from normscope.compare.measures import (
    MEASURES,
    NOT_SIGNIFICANT,
    NOT_TESTABLE,
    Measure,
    Measured,
    Operation,
    Subject,
    operations_of,
    parts_of,
    times_ms,
    without_time,
)
from normscope.compare.models import CallGroup, Comparison, Side
from normscope.compare.verdict import Check, Outcome, SideSummary, Verdict
from normscope.errors import UsageError
from normscope.escape import printable
from normscope.findings.wording import counted

ALL_NORMS = "all norms"
UNATTRIBUTED = ("unlinked", "other_graph_kernels", "other_kernels_without_op")
"""Groups of the coverage whose kernels no op explains: a norm among them is not seen as one."""

SPLIT_DIFFERENTLY = "only a part of an operation fits, and the other side doesn't split its calls that way"

_ORDER: tuple[Outcome, ...] = ("breached", "skipped", "passed")
_SAME = 1e-9  # a value that is the limit but for the last digits of the arithmetic is within it
_JOINED = " · "


def require_same_gpu(result: Side, baseline: Side) -> None:
    """Refuse a baseline of another GPU; one that isn't known can't be refused.

    Raises
    ------
    UsageError
        Both GPUs are known and differ.
    """
    if result.gpu and baseline.gpu and result.gpu != baseline.gpu:
        message = (
            f"the baseline is of another GPU ({baseline.gpu}) than the result ({result.gpu}); "
            "take a baseline of the same GPU, or give --allow-other-gpu"
        )
        raise UsageError(message)


def check(comparison: Comparison, limits: Limits) -> Verdict:
    """Hold a comparison against limits.

    Parameters
    ----------
    comparison
        Side 1 is the result, side 2 the baseline.
    limits
        What is allowed.

    Returns
    -------
    Verdict
        With one check for each limit and each thing it concerns, breaches first.
    """
    operations = operations_of(comparison)
    times = (comparison.first.end_to_end_ms, comparison.second.end_to_end_ms)
    everything = Subject(operations, times)
    time_ms, baseline_time_ms = times_ms(everything)
    checks = [
        *_time_checks("total", limits.total, ALL_NORMS, everything),
        *_variant_checks(limits, operations, times),
        *_operation_checks(limits, operations, times),
        *_coverage_checks(limits.coverage, operations, comparison),
    ]
    checks.sort(key=lambda each: _ORDER.index(each.outcome))
    return Verdict(
        outcome="breached" if checks and checks[0].outcome == "breached" else "within",
        result=_summary(comparison.first),
        baseline=_summary(comparison.second),
        time_ms=time_ms,
        baseline_time_ms=baseline_time_ms,
        scale=comparison.scale,
        normalized=comparison.normalized,
        notes=(*_unlimited(limits), *_notes(comparison, operations)),
        checks=tuple(checks),
    )


_Times = tuple[float | None, float | None]


def _variant_checks(limits: Limits, operations: Sequence[Operation], times: _Times) -> Iterator[Check]:
    for variant, wanted in limits.variant.items():
        members = [each for each in operations if each.groups[0].variant == variant]
        yield from _time_checks(f"variant.{variant}", wanted, variant, Subject(members, times))


def _operation_checks(limits: Limits, operations: Sequence[Operation], times: _Times) -> Iterator[Check]:
    for number, wanted in enumerate(limits.operation, start=1):
        table = f"operation.{number}"
        parts = parts_of(operations, wanted.fits)
        for part in parts:
            if part is None:
                yield from _skipped(table, wanted, SPLIT_DIFFERENTLY)
            else:
                yield from _time_checks(table, wanted, part, Subject((part,), times))
        if not parts:
            yield from _skipped(table, wanted, "no operation fits")


def _skipped(table: str, wanted: OperationLimits, reason: str) -> Iterator[Check]:
    for key, limit in wanted.given().items():
        yield Check(
            table=table,
            key=key,
            what=wanted.name,
            outcome="skipped",
            limit=limit,
            unit=MEASURES[key].unit,
            reason=reason,
        )


def _time_checks(table: str, limits: TimeLimits, what: str | Operation, subject: Subject) -> Iterator[Check]:
    name, where, before = (what, "", "") if isinstance(what, str) else _described(what)
    for key, limit in limits.given().items():
        measure = MEASURES[key]
        measured = measure.of(subject)
        outcome, reason = _judged(measure, measured, limit, subject if limits.only_if_significant else None)
        yield Check(
            table=table,
            key=key,
            what=name,
            baseline_what=before,
            where=where,
            outcome=outcome,
            limit=limit,
            value=_known(measured.value),
            unit=measure.unit,
            result=measured.result,
            baseline=measured.baseline,
            measured_in=measure.measured_in,
            reason=reason,
        )


def _judged(
    measure: Measure, measured: Measured, limit: float, tested: Subject | None
) -> tuple[Outcome, str]:
    """Return how a value compares to its limit; ``tested`` are the operations where noise is left out."""
    if measured.value is None:
        return "skipped", measured.reason
    if not _breaks(measure, measured.value, limit):
        return "passed", ""
    if tested is None or measure.of_certain is None:
        return "breached", measured.reason
    least, most = (_breaks(measure, each.value or 0.0, limit) for each in measure.of_certain(tested))
    if least:
        return "breached", measured.reason
    return ("skipped", NOT_TESTABLE) if most else ("passed", NOT_SIGNIFICANT)


def _breaks(measure: Measure, value: float, limit: float) -> bool:
    if math.isclose(value, limit, rel_tol=_SAME):
        return False
    return value > limit if measure.bound == "max" else value < limit


def _known(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _described(operation: Operation) -> tuple[str, str, str]:
    """Return an operation's name, what tells it from others, and the baseline's name where that differs."""
    own = operation.first or operation.second
    names = dict.fromkeys(group.name for group in operation.second)
    differs = operation.first and names and own[0].name not in names
    return own[0].name, _where(own), ", ".join(names) if differs else ""


def _where(groups: Sequence[CallGroup]) -> str:
    modules = list(dict.fromkeys(group.module for group in groups if group.module))
    more = f" and {len(modules) - 1:,} more" if len(modules) > 1 else ""
    arguments = (groups[0].arguments or "").replace("<br>", ", ")
    return _JOINED.join(
        filter(None, (groups[0].direction, arguments, f"{modules[0]}{more}" if modules else ""))
    )


def _coverage_checks(
    limits: CoverageLimits, operations: Sequence[Operation], comparison: Comparison
) -> Iterator[Check]:
    for each in operations:
        if not each.second:
            yield _one_sided(each, "allow_new", "not in the baseline", is_allowed=limits.allow_new)
    for each in operations:
        if not each.first:
            yield _one_sided(each, "allow_vanished", "not in the result", is_allowed=limits.allow_vanished)
    yield from _kinds(comparison, is_allowed=limits.allow_lost_coverage)
    yield from _unattributed(limits, comparison)


def _one_sided(operation: Operation, key: str, reason: str, *, is_allowed: bool) -> Check:
    name, where, _ = _described(operation)
    time_ms, baseline_ms = times_ms(Subject((operation,), (None, None)))
    return Check(
        table="coverage",
        key=key,
        what=name,
        where=where,
        outcome="passed" if is_allowed else "breached",
        result=time_ms,
        baseline=baseline_ms,
        measured_in="ms",
        reason=reason,
    )


def _kinds(comparison: Comparison, *, is_allowed: bool) -> Iterator[Check]:
    """Yield a check for each kind of norm in the baseline, which must still be found."""
    found = {_kind(group) for group in comparison.first.groups}
    wanted: Counter[tuple[str, str]] = Counter()
    for group in comparison.second.groups:
        wanted[_kind(group)] += group.count
    for (variant, direction), calls in wanted.items():
        is_lost = (variant, direction) not in found
        yield Check(
            table="coverage",
            key="allow_lost_coverage",
            what=variant,
            where=direction,
            outcome="breached" if is_lost and not is_allowed else "passed",
            reason=f"the baseline has {calls:,} calls, the result none" if is_lost else "",
        )


def _kind(group: CallGroup) -> tuple[str, str]:
    """Return variant and direction; one that isn't known is forward, as in pairing."""
    return group.variant, "backward" if group.direction == "backward" else "forward"


def _unattributed(limits: CoverageLimits, comparison: Comparison) -> Iterator[Check]:
    """Yield the checks of the share of kernel time that nothing explains."""
    result, baseline = _unattributed_percent(comparison.first), _unattributed_percent(comparison.second)
    growth = None if result is None or baseline is None else result - baseline
    rows = [("max_unattributed_percent", limits.max_unattributed_percent, result, "%")]
    if not limits.allow_lost_coverage:
        rows.append(
            ("max_unattributed_increase_percent", limits.max_unattributed_increase_percent, growth, "points")
        )
    for key, limit, value, unit in rows:
        if limit is not None:
            is_over = value is not None and value > limit and not math.isclose(value, limit, rel_tol=_SAME)
            yield Check(
                table="coverage",
                key=key,
                what="kernel time that nothing explains",
                outcome="skipped" if value is None else "breached" if is_over else "passed",
                limit=limit,
                value=value,
                unit="points" if unit == "points" else "%",
                result=result,
                baseline=baseline,
                measured_in="%",
                reason="the coverage isn't known" if value is None else "",
            )


def _unattributed_percent(side: Side) -> float | None:
    whole = sum(side.coverage_us.values())
    if not whole > 0:
        return None
    return _known(100.0 * sum(side.coverage_us.get(name, 0.0) for name in UNATTRIBUTED) / whole)


def _summary(side: Side) -> SideSummary:
    return SideSummary(
        label=printable(side.label),
        kind=side.kind,
        gpu=side.gpu,
        steps=side.steps,
        end_to_end_ms=side.end_to_end_ms,
        operations=len(side.groups),
        calls=sum(group.count for group in side.groups),
        norm_time_ms=_norm_time_ms(side),
    )


def _unlimited(limits: Limits) -> Iterator[str]:
    if not (limits.total.given() or limits.variant or limits.operation):
        yield "The limits set none on time, efficiency or impact: only [coverage] is checked."


def _norm_time_ms(side: Side) -> float | None:
    if not all(group.has_time for group in side.groups):
        return None
    return _known(sum(group.total_us for group in side.groups) / 1e3)


def _notes(comparison: Comparison, operations: Sequence[Operation]) -> Iterator[str]:
    """Yield what a reader of the figures must know."""
    result, baseline = comparison.first, comparison.second
    if comparison.normalized == "per step":
        yield (
            f"The result has {counted(result.steps, 'profiler step')} and the baseline {baseline.steps:,}: "
            f"the baseline's times are multiplied by {comparison.scale:.4g}.{_scaled(comparison, operations)}"
        )
    if comparison.normalized == "per call":
        yield (
            "All operations on both sides differ in their calls by one factor, as with a longer recording: "
            f"the baseline's times are those of as many calls.{_scaled(comparison, operations)}"
        )
    if not result.gpu or not baseline.gpu:
        yield "It isn't known whether both sides ran on the same GPU: the input doesn't tell."
    elif result.gpu != baseline.gpu:
        yield "The baseline is of another GPU than the result."
    yield from _unknown_times(operations)
    yield from _one_sided_notes(operations)
    yield _noise(comparison)


def _scaled(comparison: Comparison, operations: Sequence[Operation]) -> str:
    """Return the baseline's time before and after, where it is known."""
    recorded_ms = _norm_time_ms(comparison.second)
    _, scaled_ms = times_ms(Subject(operations, (None, None)))
    if recorded_ms is None or scaled_ms is None:
        return ""
    return f" All its norms take {recorded_ms:,.3f} ms as recorded, {scaled_ms:,.3f} ms so."


def _unknown_times(operations: Sequence[Operation]) -> Iterator[str]:
    sides: tuple[tuple[Literal[1, 2], str], ...] = ((1, "result"), (2, "baseline"))
    for side, where in sides:
        unknown = without_time(operations, side)
        if unknown:
            yield (
                f"The {where} doesn't tell the kernel time of {counted(unknown, 'operation')}: "
                "what concerns it is skipped, and so are the sums."
            )


def _one_sided_notes(operations: Sequence[Operation]) -> Iterator[str]:
    new = [each for each in operations if not each.second]
    vanished = [each for each in operations if not each.first]
    for place, (alone, where) in enumerate(((new, "result"), (vanished, "baseline"))):
        if alone:
            time_ms = times_ms(Subject(alone, (None, None)))[place]
            time = "of unknown time" if time_ms is None else f"of {time_ms:,.3f} ms together"
            yield f"{counted(len(alone), 'operation')} in the {where} alone, {time}."


def _noise(comparison: Comparison) -> str:
    tests = [pair.significance for pair in comparison.pairs if pair.significance is not None]
    if not tests:
        return (
            "Noise: no operation has enough calls, or a known spread, to tell a difference from the spread "
            "of its calls."
        )
    names = " or ".join(dict.fromkeys(each.test for each in tests))
    return (
        f"Noise: {counted(len(comparison.pairs), 'operation')} on both sides, {len(tests):,} tested, "
        f"{sum(each.is_real for each in tests):,} with a difference beyond the spread of the calls "
        f"({names}, p below 0.05 after Holm's adjustment, and at least a medium effect)."
    )
