"""A comparison as a reader takes it: what each pair says about trace 1, and what each side has alone.

Differences are told from trace 1, the one to improve: time 1 less time 2, in percent of time 2.
"""

from collections.abc import Callable, Hashable, Iterable
from functools import cached_property
from math import fsum
from typing import Literal, TypeVar

import msgspec

from normscope.analysis.models import Variant
from normscope.compare.models import CallGroup, Comparison, Pair

Key = TypeVar("Key", bound=Hashable)
Verdict = Literal["slower", "faster", "noise", "untested"]

_CALLS_TOLERANCE = 0.01  # of the calls of a pair: profiled steps may be cut off
_AS_LONG = 0.0005
_FIRST_ARGUMENT_END = "<br>"


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One pair with its groups.

    ``calls1`` and ``calls2`` are what the two times stand for; the latter is scaled as the time is.
    """

    pair: Pair
    first: tuple[CallGroup, ...]
    second: tuple[CallGroup, ...]
    calls1: float
    calls2: float

    @property
    def extra_us(self) -> float:
        """Time 1 less time 2: positive where trace 1 is slower."""
        return self.pair.time1_us - self.pair.time2_us

    @property
    def has_times(self) -> bool:
        """Whether the kernel time of all groups is known; else the two times say nothing."""
        return all(group.has_time for group in (*self.first, *self.second))

    @property
    def has_other_calls(self) -> bool:
        """Whether the sides call the operation a different number of times."""
        return abs(self.calls1 - self.calls2) > _CALLS_TOLERANCE * max(self.calls1, self.calls2)

    @property
    def is_real(self) -> bool:
        """Whether more than the spread of the calls is behind the difference.

        Either a test says so, and its effect points to where the sum of the times does, or the number of
        calls differs.
        """
        return self.has_times and bool(self.extra_us) and (self.is_real_by_test or self.is_real_by_calls)

    @property
    def is_real_by_test(self) -> bool:
        """Whether a test says so, and its effect points to where the sum of the times does."""
        test = self.pair.significance
        return test is not None and test.confirms(self.extra_us)

    @property
    def is_real_by_calls(self) -> bool:
        """Whether the side that calls the operation more often takes longer."""
        return self.has_other_calls and (self.calls1 - self.calls2) * self.extra_us > 0

    @property
    def verdict(self) -> Verdict:
        """What the pair says about trace 1."""
        if self.is_real:
            return "slower" if self.extra_us > 0 else "faster"
        return "untested" if self.pair.significance is None or not self.has_times else "noise"

    @property
    def changes(self) -> tuple[str, ...]:
        """What differs between the sides besides the time, and how far the pair is sure."""
        return tuple(_changes(self))

    @property
    def lead(self) -> CallGroup:
        """The group of side 1 with the most time."""
        return max(self.first, key=lambda group: group.total_us)

    @property
    def partner(self) -> CallGroup:
        """The group of side 2 with the most time."""
        return max(self.second, key=lambda group: group.total_us)


class Lone(msgspec.Struct, frozen=True, kw_only=True):
    """An operation of one side that has no partner; the time is scaled as the times of its side are."""

    side: Literal[1, 2]
    group: CallGroup
    time_us: float

    @property
    def extra_us(self) -> float:
        """What it adds to time 1 less time 2."""
        return self.time_us if self.side == 1 else -self.time_us


class Overview(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """All pairs, largest difference first, and all operations without a partner, longest first."""

    comparison: Comparison
    differences: tuple[Difference, ...]
    alone: tuple[Lone, ...]

    @cached_property
    def time1_us(self) -> float:
        """Normalization time of side 1."""
        return fsum(group.total_us for group in self.comparison.first.groups)

    @cached_property
    def time2_us(self) -> float:
        """Normalization time of side 2, scaled."""
        lone = (each.time_us for each in self.alone if each.side == 2)
        return fsum([*(each.pair.time2_us for each in self.differences), *lone])

    @property
    def recorded2_us(self) -> float:
        """Normalization time of side 2 as it was recorded."""
        return fsum(group.total_us for group in self.comparison.second.groups)

    def of(self, *verdicts: Verdict) -> tuple[Difference, ...]:
        """Return the pairs with one of these verdicts."""
        return tuple(each for each in self.differences if each.verdict in verdicts)


def overview(comparison: Comparison) -> Overview:
    """Return the pairs and what has no partner, each sorted by what it weighs."""
    differences = (_difference(comparison, pair) for pair in comparison.pairs)
    first, second = comparison.first.groups, comparison.second.groups
    alone = [
        *(Lone(side=1, group=first[i], time_us=first[i].total_us) for i in comparison.only_first),
        *(
            Lone(side=2, group=second[i], time_us=second[i].total_us * comparison.scale)
            for i in comparison.only_second
        ),
    ]
    return Overview(
        comparison=comparison,
        differences=tuple(sorted(differences, key=lambda each: -abs(each.extra_us))),
        alone=tuple(sorted(alone, key=lambda each: -each.time_us)),
    )


def _difference(comparison: Comparison, pair: Pair) -> Difference:
    first = tuple(comparison.first.groups[i] for i in pair.first)
    second = tuple(comparison.second.groups[i] for i in pair.second)
    calls1 = float(sum(group.count for group in first))
    calls2 = sum(group.count for group in second) * comparison.scale
    return Difference(pair=pair, first=first, second=second, calls1=calls1, calls2=calls2)


def _changes(difference: Difference) -> Iterable[str]:
    """Return phrases on what is not the same on both sides."""
    old, new = difference.lead, difference.partner
    if _is_loose(difference):
        yield f"paired by {difference.pair.paired_by} alone"
    if difference.has_other_calls:
        yield "number of calls"
    if old.name != new.name:
        yield "op"
    if old.arguments and new.arguments and old.arguments != new.arguments:
        yield "arguments"
    if old.kind != new.kind or old.found_by != new.found_by:
        yield "how it runs"
    if old.library != new.library:
        yield "library"
    if _kernels(difference.first) != _kernels(difference.second):
        yield "kernels"


def _is_loose(difference: Difference) -> bool:
    """Tell whether a pair has less in common than what is known of it."""
    modules = any(group.module for group in (*difference.first, *difference.second))
    return difference.pair.paired_by != ("module and arguments" if modules else "arguments")


def _kernels(groups: Iterable[CallGroup]) -> set[str]:
    return {kernel for group in groups for kernel in group.kernels}


def first_argument(group: CallGroup) -> str:
    """Return the shape and type of the first argument, empty where no arguments are known."""
    return (group.arguments or "").partition(_FIRST_ARGUMENT_END)[0]


def is_as_long(time1_us: float, time2_us: float) -> bool:
    """Tell whether two times agree to 0.05%."""
    return abs(time1_us - time2_us) <= _AS_LONG * max(time1_us, time2_us)


def shape_of(group: CallGroup) -> tuple[Variant, str]:
    """Return the variant and the first argument, or the op's name where arguments aren't known."""
    return group.variant, first_argument(group) or group.name


def times_by(found: Overview, key: Callable[[CallGroup], Key]) -> dict[Key, tuple[float, float]]:
    """Return the times of both sides, added up by what ``key`` says of a group."""
    sums: dict[Key, tuple[float, float]] = {}
    for group, time1_us, time2_us in _times(found):
        one, two = sums.get(key(group), (0.0, 0.0))
        sums[key(group)] = one + time1_us, two + time2_us
    return sums


def _times(found: Overview) -> Iterable[tuple[CallGroup, float, float]]:
    for each in found.differences:
        yield each.lead, each.pair.time1_us, each.pair.time2_us
    for lone in found.alone:
        yield lone.group, *((lone.time_us, 0.0) if lone.side == 1 else (0.0, lone.time_us))
