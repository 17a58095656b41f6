"""A comparison in sentences, the answer first."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import get_args

import msgspec

from normscope.analysis.models import Direction, Variant
from normscope.compare.models import CallGroup, Comparison, Pair, PairedBy, Side
from normscope.compare.pairing import first_shape, total_us
from normscope.findings.wording import counted, duration, listed, plural, shown, significant

_ENOUGH_PERCENT = 90.0
_MOST_CARRIERS = 5
_MOST_SHOWN = 5
_LEAST_TOLD = 0.0005  # of the longer time: a smaller difference reads as none


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """An operation of either side or of both, and its time on each; side 2's as the comparison scales it."""

    group: CallGroup
    time1_us: float
    time2_us: float

    @property
    def gap_us(self) -> float:
        """Side 1 less side 2: positive where trace 1 is slower."""
        return self.time1_us - self.time2_us


def comparison_lines(comparison: Comparison) -> Iterator[str]:
    """Yield what a comparison says, a line each: the answer, where it comes from, and what it is worth."""
    yield answer(comparison)
    yield from _by_variant(comparison)
    yield from _one_sided(comparison)
    yield from _worth(comparison)
    yield from _conditions(comparison)


def changes(comparison: Comparison) -> list[Change]:
    """Return every pair, and every group without a partner as one that the other side does in no time."""
    first, second = comparison.first.groups, comparison.second.groups
    paired = [
        Change(group=first[pair.first[0]], time1_us=pair.time1_us, time2_us=pair.time2_us)
        for pair in comparison.pairs
    ]
    lost = [
        Change(group=first[place], time1_us=total_us([first[place]]), time2_us=0.0)
        for place in comparison.only_first
    ]
    added = [
        Change(group=second[place], time1_us=0.0, time2_us=total_us([second[place]]) * comparison.scale)
        for place in comparison.only_second
    ]
    return [*paired, *lost, *added]


def answer(comparison: Comparison) -> str:
    """Return the one sentence that a reader wants first."""
    found = changes(comparison)
    variants = {change.group.variant for change in found}
    what = variants.pop() if len(variants) == 1 and "Other" not in variants else "normalization"
    time1_us, time2_us = _times(found)
    gap_us = time1_us - time2_us
    if abs(gap_us) <= _LEAST_TOLD * max(time1_us, time2_us):
        return f"Both traces spend {duration(time1_us)} in {what}."
    carried = _carried(found, gap_us)
    much = f"{duration(abs(gap_us))} {'more' if gap_us > 0 else 'less'}"
    return f"Trace 1 spends {much} in {what}{_percent(time1_us, time2_us)}{carried}."


def _times(found: Iterable[Change]) -> tuple[float, float]:
    times = [(change.time1_us, change.time2_us) for change in found]
    return sum(own for own, _ in times), sum(other for _, other in times)


def _percent(time1_us: float, time2_us: float) -> str:
    """Return how much slower or faster trace 1 is, in % of trace 2's time."""
    gap = time1_us - time2_us
    if time2_us <= 0 or abs(gap) <= _LEAST_TOLD * time2_us:
        return ""
    return f" ({significant(100 * abs(gap) / time2_us)}% {'slower' if gap > 0 else 'faster'})"


def _carried(found: Sequence[Change], gap_us: float) -> str:
    """Return how few operations make up most of the difference, where there are others."""
    sign = 1 if gap_us > 0 else -1
    parts = sorted((sign * change.gap_us for change in found), reverse=True)
    carried, count = 0.0, 0
    while count < len(parts) and carried < _ENOUGH_PERCENT / 100 * abs(gap_us):
        carried += parts[count]
        count += 1
    if count == len(found) or count > _MOST_CARRIERS:
        return ""
    noun = "shape" if all(change.group.arguments for change in found) else "operation"
    share = min(100.0, 100 * carried / abs(gap_us))
    carry = "carries" if count == 1 else "carry"
    return f"; {plural(count, noun)} {carry} {'all' if share >= 99.5 else f'{share:.0f}%'} of it"


def _by_variant(comparison: Comparison) -> Iterator[str]:
    found: dict[tuple[Variant, Direction], list[Change]] = {}
    for change in changes(comparison):
        direction: Direction = "backward" if change.group.direction == "backward" else "forward"
        found.setdefault((change.group.variant, direction), []).append(change)
    calls1, calls2 = _calls(comparison.first), _calls(comparison.second)
    for (variant, direction), members in sorted(found.items(), key=lambda each: -_times(each[1])[0]):
        own, other = _times(members)
        calls = f"{calls1.get((variant, direction), 0):,} and {calls2.get((variant, direction), 0):,} calls"
        yield (
            f"{variant} {direction}: {duration(own)} in trace 1, {duration(other)} in trace 2"
            f"{_percent(own, other)}, {calls}."
        )


def _calls(side: Side) -> Mapping[tuple[Variant, Direction], int]:
    counts: dict[tuple[Variant, Direction], int] = {}
    for group in side.groups:
        direction: Direction = "backward" if group.direction == "backward" else "forward"
        counts[group.variant, direction] = counts.get((group.variant, direction), 0) + group.count
    return counts


def _one_sided(comparison: Comparison) -> Iterator[str]:
    sides = ((comparison.first, comparison.only_first), (comparison.second, comparison.only_second))
    for number, (side, places) in enumerate(sides, start=1):
        alike: dict[str, list[CallGroup]] = {}
        for place in places:
            alike.setdefault(operation_name(side.groups[place]), []).append(side.groups[place])
        ordered = sorted(alike.items(), key=lambda each: -total_us(each[1]))
        if ordered:
            whole = duration(total_us(side.groups[place] for place in places))
            yield f"Only in trace {number}, {whole} as recorded:"
            yield from _indented([_described(name, groups) for name, groups in ordered])


def _indented(parts: Sequence[str]) -> list[str]:
    return [f"  {part}" for part in shown(parts, _MOST_SHOWN)]


def _described(name: str, groups: Sequence[CallGroup]) -> str:
    calls = counted(sum(group.count for group in groups), "call")
    return f"{name}: {calls}, {duration(total_us(groups))}"


def operation_name(group: CallGroup) -> str:
    """Return an operation by its name and the shape of its input."""
    shape = first_shape(group.arguments)
    return f"{group.name} {shape}" if shape else group.name


def _worth(comparison: Comparison) -> Iterator[str]:
    """Yield which differences exceed the noise, by what test, and which don't or can't be told."""
    tested = [(pair, pair.significance) for pair in comparison.pairs if pair.significance is not None]
    real = [pair for pair, significance in tested if significance.is_real]
    quiet = [pair for pair, significance in tested if not significance.is_real]
    unknown = [pair for pair in comparison.pairs if pair.significance is None]
    if real:
        tests = listed(sorted({significance.test for _, significance in tested}))
        yield f"More than the spread of the calls explains ({tests}, Holm's p < 0.05, effect not small):"
        yield from _indented([_difference(pair, comparison) for pair in _largest_first(real)])
    if quiet:
        yield f"Within the noise of the calls: {_apart(quiet)}."
    if unknown:
        yield f"Not to be told from noise, for too few calls or unlike work: {_apart(unknown)}."


def _apart(pairs: Sequence[Pair]) -> str:
    gap_us = sum(abs(pair.delta_us) for pair in pairs)
    return f"{counted(len(pairs), 'operation')}, {duration(gap_us)} apart"


def _largest_first(pairs: Iterable[Pair]) -> list[Pair]:
    return sorted(pairs, key=lambda pair: -abs(pair.delta_us))


def _difference(pair: Pair, comparison: Comparison) -> str:
    name = operation_name(comparison.first.groups[pair.first[0]])
    times = f"{duration(pair.time1_us)} against {duration(pair.time2_us)}"
    return f"{name}: {times}{_percent(pair.time1_us, pair.time2_us)}"


def _conditions(comparison: Comparison) -> Iterator[str]:
    first, second = comparison.first, comparison.second
    if comparison.normalized == "per step":
        yield (
            f"Compared per step: trace 1 has {counted(first.steps, 'step')}, trace 2 {second.steps:,}; "
            "trace 2's times are scaled to as many."
        )
    if comparison.normalized == "per call":
        yield (
            "Compared per call: the numbers of calls differ and not both sides mark steps; trace 2's times "
            "are scaled to as many calls."
        )
    if first.gpu and second.gpu and first.gpu != second.gpu:
        yield f"The GPUs differ: trace 1 ran on {first.gpu}, trace 2 on {second.gpu}."
    loose = Counter(pair.paired_by for pair in comparison.pairs)
    for how in get_args(PairedBy)[1:]:
        if loose[how]:
            yield f"Paired by {how} alone: {counted(loose[how], 'operation')}."
