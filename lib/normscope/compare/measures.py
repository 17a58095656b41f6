"""What a limit is held against: the time, efficiency and impact of some operations of both sides."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import Literal, NamedTuple

from normscope.analysis.efficiency import ANOMALY_ABOVE_PERCENT
from normscope.analysis.impact import QUANTIFIED_FACTORS
from normscope.compare.models import CallGroup, Comparison, Significance
from normscope.compare.pairing import total_us
from normscope.compare.statistics import Difference, calls_of, difference, judged
from normscope.compare.verdict import Unit

NO_TIME = "a time isn't known"
NO_TIMES = "the time of {} isn't known"
NO_EFFICIENCY = "the efficiency isn't known"
NO_END_TO_END = "the end-to-end time isn't known"
NOT_IN_RESULT = "the result has none"
NOT_IN_BASELINE = "the baseline has none"
FROM_NOTHING = "the baseline takes no time"
NOT_TESTABLE = "above the limit, but the spread of the calls isn't known"
NOT_SIGNIFICANT = "above the limit, but not significant"

_SAME_TIME = 1e-8  # more than a baseline loses by rounding
_MID = QUANTIFIED_FACTORS[1]


class Operation(NamedTuple):
    """The same work on both sides; a side that lacks it has no groups. Side 2's time is scaled to side 1."""

    first: tuple[CallGroup, ...]
    second: tuple[CallGroup, ...]
    time1_us: float
    time2_us: float
    significance: Significance | None = None

    @property
    def groups(self) -> tuple[CallGroup, ...]:
        """The groups of both sides, the result's first."""
        return self.first + self.second

    @property
    def more_calls_us(self) -> float:
        """What the result's other number of calls adds, at the baseline's time of a call."""
        recorded_us = sum(group.total_us for group in self.second)
        calls = sum(group.count for group in self.second)
        if not calls or not recorded_us:
            return self.time1_us - self.time2_us
        return _increase(sum(group.count for group in self.first) * recorded_us / calls, self.time2_us)

    @property
    def certain_increase_us(self) -> float | None:
        """The increase that is no noise; None where that can't be told."""
        if not self.first or not self.second:
            return self.time1_us - self.time2_us
        if self.significance is None:
            return None
        slower_calls_us = self.time1_us - self.time2_us - self.more_calls_us
        is_sure = self.significance.confirms(slower_calls_us)
        return self.more_calls_us + slower_calls_us if is_sure else self.more_calls_us

    def within(self, fits: Callable[[CallGroup], bool]) -> "Operation | None":
        """Return the part whose groups fit on either side, without a test of its own.

        None where the sides split the same calls differently, so that a part of one has no partner.
        """
        fit1, fit2 = ([fits(group) for group in side] for side in (self.first, self.second))
        if (fit1 and all(fit1)) or (fit2 and all(fit2)):
            return self
        if not self.first or not self.second:
            chosen1, chosen2 = fit1, fit2
        elif len(fit1) == len(fit2):
            chosen1 = chosen2 = [one or other for one, other in zip(fit1, fit2, strict=True)]
        else:
            return None
        first, second = tuple(compress(self.first, chosen1)), tuple(compress(self.second, chosen2))
        if len(first) == len(self.first) and len(second) == len(self.second):
            return self
        return Operation(first, second, total_us(first), total_us(second) * self._scale)

    @property
    def _scale(self) -> float:
        """Factor on side 2's times."""
        recorded_us = total_us(self.second)
        return self.time2_us / recorded_us if recorded_us else 1.0


class Measured(NamedTuple):
    """What is held against a limit, and the quantity on both sides; ``reason`` says why the value is None."""

    value: float | None
    result: float | None = None
    baseline: float | None = None
    reason: str = ""


class Subject(NamedTuple):
    """Operations that a limit concerns together, and the two end-to-end times."""

    operations: Sequence[Operation]
    end_to_end_ms: tuple[float | None, float | None]


class Measure(NamedTuple):
    """How the value of a key is worked out."""

    unit: Unit
    measured_in: Unit
    bound: Literal["max", "min"]
    of: Callable[[Subject], Measured]
    of_certain: Callable[[Subject], Iterator[Measured]] | None = None


def operations_of(comparison: Comparison) -> tuple[Operation, ...]:
    """Return all operations: the pairs, then those of the result alone, then those of the baseline alone."""
    first, second = comparison.first.groups, comparison.second.groups
    paired = (
        Operation(
            tuple(first[place] for place in pair.first),
            tuple(second[place] for place in pair.second),
            pair.time1_us,
            pair.time2_us,
            pair.significance,
        )
        for pair in comparison.pairs
    )
    new = (
        Operation(groups, (), sum(group.total_us for group in groups), 0.0)
        for groups in _alike(first[place] for place in comparison.only_first)
    )
    vanished = (
        Operation((), groups, 0.0, sum(group.total_us for group in groups) * comparison.scale)
        for groups in _alike(second[place] for place in comparison.only_second)
    )
    return (*paired, *new, *vanished)


def parts_of(operations: Iterable[Operation], fits: Callable[[CallGroup], bool]) -> list[Operation | None]:
    """Return what fits of each operation of which anything does; None where that can't be told apart.

    A part of an operation is tested on its own calls, with regard to how many parts are.
    """
    members = [each for each in operations if any(map(fits, each.groups))]
    parts = [each.within(fits) for each in members]
    apart = [
        place
        for place, (part, whole) in enumerate(zip(parts, members, strict=True))
        if part is not None and part is not whole and whole.significance is not None
    ]
    tests = judged([_test(parts[place]) for place in apart])
    for place, test in zip(apart, tests, strict=True):
        part = parts[place]
        parts[place] = part and part._replace(significance=test)
    return parts


def _test(part: Operation | None) -> Difference | None:
    return part and difference(calls_of(part.first), calls_of(part.second))


def _alike(groups: Iterable[CallGroup]) -> Iterator[tuple[CallGroup, ...]]:
    """Yield the groups of one op with equal arguments together, whatever their modules, as in pairs."""
    found: dict[tuple[str | None, ...], list[CallGroup]] = {}
    for group in groups:
        key = (group.direction, group.variant, group.name, group.arguments)
        found.setdefault(key, []).append(group)
    return map(tuple, found.values())


def times_ms(subject: Subject) -> tuple[float | None, float | None]:
    """Return the time of both sides in ms; None for a side that isn't there, or whose time isn't known."""
    operations = subject.operations
    result = _finite(sum(each.time1_us for each in operations) / 1e3)
    baseline = _finite(sum(each.time2_us for each in operations) / 1e3)
    return (
        result if any(each.first for each in operations) and not without_time(operations, 1) else None,
        baseline if any(each.second for each in operations) and not without_time(operations, 2) else None,
    )


def without_time(operations: Iterable[Operation], side: Literal[1, 2]) -> int:
    """Return how many operations have no known time on a side."""
    sides = (each.first if side == 1 else each.second for each in operations)
    return sum(not all(group.has_time for group in groups) for groups in sides)


def _no_time(operations: Sequence[Operation]) -> str:
    unknown = max(without_time(operations, 1), without_time(operations, 2))
    if not unknown or len(operations) == 1:
        return NO_TIME
    return NO_TIMES.format(f"{unknown:,} operation{'' if unknown == 1 else 's'}")


def _time(subject: Subject) -> Measured:
    result, baseline = times_ms(subject)
    return Measured(result, result, baseline, "" if result is not None else _missing(subject))


def _missing(subject: Subject) -> str:
    return _no_time(subject.operations) if any(each.first for each in subject.operations) else NOT_IN_RESULT


def _increase_ms(subject: Subject) -> Measured:
    result, baseline = times_ms(subject)
    if baseline is None:
        known = any(each.second for each in subject.operations)
        return Measured(None, result, None, _no_time(subject.operations) if known else NOT_IN_BASELINE)
    if result is None and (reason := _missing(subject)) != NOT_IN_RESULT:
        return Measured(None, None, baseline, reason)
    return Measured(_increase(result or 0.0, baseline), result, baseline)


def _increase(now: float, before: float) -> float:
    return 0.0 if math.isclose(now, before, rel_tol=_SAME_TIME) else now - before


def _increase_percent(subject: Subject) -> Measured:
    return _as_percent(_increase_ms(subject))


def _as_percent(increase: Measured) -> Measured:
    """Turn an increase in ms into one in percent of the baseline; from nothing to something is infinite."""
    if increase.value is None or increase.baseline is None:
        return increase
    if increase.baseline > 0:
        return increase._replace(value=100.0 * increase.value / increase.baseline)
    return increase if increase.value <= 0 else increase._replace(value=math.inf, reason=FROM_NOTHING)


def _certain_increase_ms(subject: Subject) -> Iterator[Measured]:
    """Yield the least and the most that the increase can be without noise."""
    _, result, baseline, _ = _increase_ms(subject)
    known = [each.certain_increase_us for each in subject.operations]
    sure = sum(each for each in known if each is not None)
    open_us = [
        each.time1_us - each.time2_us for each in subject.operations if each.certain_increase_us is None
    ]
    for wanted in (min, max):
        yield Measured((sure + sum(wanted(each, 0.0) for each in open_us)) / 1e3, result, baseline)


def _certain_increase_percent(subject: Subject) -> Iterator[Measured]:
    return map(_as_percent, _certain_increase_ms(subject))


def _efficiency(subject: Subject) -> Measured:
    """Work out the efficiency of the whole: the mean over the operations, by their time."""
    result = _mean_efficiency(group for each in subject.operations for group in each.first)
    baseline = _mean_efficiency(group for each in subject.operations for group in each.second)
    return Measured(result, result, baseline, "" if result is not None else _why_no_efficiency(subject))


def _why_no_efficiency(subject: Subject) -> str:
    if without_time(subject.operations, 1):
        return _no_time(subject.operations)
    return NO_EFFICIENCY if any(each.first for each in subject.operations) else NOT_IN_RESULT


def _mean_efficiency(groups: Iterable[CallGroup]) -> float | None:
    known = _efficiencies_and_times(groups)
    time_us = sum(time for _, time in known)
    return _finite(sum(efficiency * time for efficiency, time in known) / time_us) if time_us > 0 else None


def _efficiencies_and_times(groups: Iterable[CallGroup]) -> list[tuple[float, float]]:
    """Return what is known of groups; nothing where a time isn't, as each would weigh by its share."""
    found = [(_believed(group), group.total_us, group.has_time) for group in groups]
    if not all(has_time for _, _, has_time in found):
        return []
    return [(percent, time_us) for percent, time_us, _ in found if percent is not None]


def _believed(group: CallGroup) -> float | None:
    """Return the efficiency of a group where it is known and no anomaly."""
    percent = group.efficiency_percent
    return percent if percent is not None and percent <= ANOMALY_ABOVE_PERCENT else None


def _impact(subject: Subject) -> Measured:
    sides = (
        [group for each in subject.operations for group in each.first],
        [group for each in subject.operations for group in each.second],
    )
    result, baseline = map(_impact_of, sides, subject.end_to_end_ms)
    if result is not None:
        return Measured(result, result, baseline)
    return Measured(
        None, None, baseline, _why_no_efficiency(subject) if subject.end_to_end_ms[0] else NO_END_TO_END
    )


def _impact_of(groups: Sequence[CallGroup], end_to_end_ms: float | None) -> float | None:
    """Return the summed impact score of the groups whose efficiency is known, as the metrics define it."""
    known = _efficiencies_and_times(groups)
    if not known or not end_to_end_ms:
        return None
    saved_us = sum(max(0.0, 1.0 - efficiency / 100.0) * time for efficiency, time in known)
    return _finite(_MID * saved_us / 1e3 / end_to_end_ms * 100.0)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


MEASURES: Mapping[str, Measure] = {
    "max_increase_percent": Measure("%", "ms", "max", _increase_percent, _certain_increase_percent),
    "max_increase_ms": Measure("ms", "ms", "max", _increase_ms, _certain_increase_ms),
    "max_time_ms": Measure("ms", "ms", "max", _time),
    "min_efficiency_percent": Measure("%", "%", "min", _efficiency),
    "max_impact_score": Measure("%", "%", "max", _impact),
}
"""The keys of :class:`~normscope.compare.limits.TimeLimits`, and what each is held against."""
