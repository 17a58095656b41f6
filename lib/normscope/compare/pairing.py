"""Which operations of two sides do the same work, and how their times differ."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import get_args

import msgspec

from normscope.compare.models import CallGroup, Comparison, Pair, PairedBy, Side, Significance
from normscope.compare.statistics import Difference, calls_of, difference, judged

Key = tuple[str, ...]
KeyOf = Callable[[CallGroup], Key | None]
Fits = Callable[[CallGroup], bool]
Groups = Sequence[CallGroup]
Places = tuple[int, ...]

_RATIO_TOLERANCE = 0.2
"""Of the ratio of calls: so far the end-to-end times of a longer recording may be from it."""
_LOOSENESS = {how: place for place, how in enumerate(get_args(PairedBy))}


class _Match(msgspec.Struct, frozen=True):
    """Groups that were found to belong together in one pass."""

    paired_by: PairedBy
    first: Places
    second: Places


class _Scaling(msgspec.Struct, frozen=True):
    """How often each side repeats its work: profiler steps, or 1 each where a side doesn't mark them."""

    steps1: int
    steps2: int
    are_known: bool


def compare_sides(first: Side, second: Side) -> Comparison:
    """Pair the norm operations of two sides.

    Groups of calls are paired in passes, each on what the passes before left: by module and arguments, module
    and shape of the input, arguments, shape, module; at last, where a side knows neither module nor
    arguments, by kernels and by variant. Direction and variant are always the same, so the op's name may
    differ.

    Parameters
    ----------
    first
        The side to improve.
    second
        The target.

    Returns
    -------
    Comparison
        Every group of a side is in exactly one pair, or listed as without a partner.
    """
    scaling = _scaling(first, second)
    matches = _matches(first.groups, second.groups, scaling)
    merged = sorted(_merged(matches, first.groups, second.groups), key=lambda match: match.first)
    sides = [
        ([first.groups[i] for i in match.first], [second.groups[i] for i in match.second]) for match in merged
    ]
    ratio = 1.0 if scaling.are_known else _common_ratio(first, second, sides)
    worth = judged(
        [_difference(match, own, other) for match, (own, other) in zip(merged, sides, strict=True)]
    )
    paired1 = {place for match in merged for place in match.first}
    paired2 = {place for match in merged for place in match.second}
    scale = scaling.steps1 / scaling.steps2 if scaling.are_known else ratio
    return Comparison(
        first=first,
        second=second,
        scale=scale,
        normalized="as recorded" if scale == 1 else "per step" if scaling.are_known else "per call",
        pairs=tuple(
            _pair(match, *groups, scale, significance)
            for match, groups, significance in zip(merged, sides, worth, strict=True)
        ),
        only_first=tuple(i for i in range(len(first.groups)) if i not in paired1),
        only_second=tuple(i for i in range(len(second.groups)) if i not in paired2),
    )


def _scaling(first: Side, second: Side) -> _Scaling:
    are_known = first.steps > 0 and second.steps > 0
    return _Scaling(first.steps, second.steps, True) if are_known else _Scaling(1, 1, False)


def _common_ratio(first: Side, second: Side, sides: Sequence[tuple[Groups, Groups]]) -> float:
    """Return how many times as often side 1 calls everything, as a longer recording does; else 1.

    One ratio for all pairs is needed, and an end-to-end time that goes with it where both are known: norms
    that are called twice in the same work are slower, not recorded for longer.
    """
    ratios = {(_calls(own) / _calls(other)) for own, other in sides if _calls(other)}
    if len(ratios) != 1:
        return 1.0
    (ratio,) = ratios
    whole1, whole2 = first.end_to_end_ms, second.end_to_end_ms
    if whole1 and whole2 and not abs(whole1 / whole2 / ratio - 1) <= _RATIO_TOLERANCE:
        return 1.0
    return ratio


def _kind_of_norm(group: CallGroup) -> Key:
    """Return what has to be equal in a pair; a direction that isn't known counts as forward at first."""
    return ("backward" if group.direction == "backward" else "forward", group.variant)


def _variant_alone(group: CallGroup) -> Key:
    return (group.variant,)


def _lacks_direction(group: CallGroup) -> bool:
    return group.direction == "unknown"


def first_shape(arguments: str | None) -> str | None:
    """Return the shape and type of the first argument that is a tensor.

    Examples
    --------
    >>> first_shape("(8,768) bf16<br>(768,) bf16")
    '(8,768) bf16'
    """
    parts = (arguments or "").split("<br>")
    return next((part for part in parts if part.startswith("(") and not part.startswith("()")), None)


def _told(*parts: str | None) -> Key | None:
    known = tuple(part for part in parts if part)
    return known if len(known) == len(parts) else None


_KEYS: tuple[tuple[PairedBy, KeyOf], ...] = (
    ("module and arguments", lambda group: _told(group.module, group.arguments)),
    ("module and shape", lambda group: _told(group.module, first_shape(group.arguments))),
    ("arguments", lambda group: _told(group.arguments)),
    ("shape", lambda group: _told(first_shape(group.arguments))),
    ("module", lambda group: _told(group.module)),
)
_KEYS_OF_BARE: tuple[tuple[PairedBy, KeyOf], ...] = (
    ("kernels", lambda group: group.kernels or (group.name,)),
    ("variant", lambda _: ()),
)


def _is_bare(group: CallGroup) -> bool:
    return not (group.module or group.arguments)


def _is_placed(group: CallGroup) -> bool:
    return not _is_bare(group)


def _any(_: CallGroup) -> bool:
    return True


_PASSES: tuple[tuple[PairedBy, KeyOf, Fits, Fits, Callable[[CallGroup], Key]], ...] = (
    *((how, key, _any, _any, _kind_of_norm) for how, key in _KEYS),
    *(
        (how, key, *fits, _variant_alone)
        for how, key in _KEYS
        for fits in ((_lacks_direction, _any), (_any, _lacks_direction))
    ),
    *(
        (how, key, *fits, _kind_of_norm)
        for how, key in _KEYS_OF_BARE
        for fits in ((_is_bare, _is_bare), (_is_bare, _is_placed), (_is_placed, _is_bare))
    ),
)


def _matches(first: Groups, second: Groups, scaling: _Scaling) -> Iterator[_Match]:
    """Yield what belongs together, the closest likeness first."""
    left1, left2 = _in_order(first), _in_order(second)
    for paired_by, key_of, fits1, fits2, kind_of in _PASSES:
        found1 = _by_key(first, filter(lambda i: fits1(first[i]), left1), key_of, kind_of)
        found2 = _by_key(second, filter(lambda i: fits2(second[i]), left2), key_of, kind_of)
        matches = [
            _Match(paired_by, *places)
            for key in found1
            if key in found2
            for places in _together(found1[key], found2[key], first, second, scaling)
        ]
        yield from matches
        gone1 = {place for match in matches for place in match.first}
        gone2 = {place for match in matches for place in match.second}
        left1 = [place for place in left1 if place not in gone1]
        left2 = [place for place in left2 if place not in gone2]


def _in_order(groups: Groups) -> list[int]:
    return sorted(range(len(groups)), key=lambda place: groups[place].order)


def _by_key(
    groups: Groups, places: Iterable[int], key_of: KeyOf, kind_of: Callable[[CallGroup], Key]
) -> dict[Key, list[int]]:
    found: dict[Key, list[int]] = {}
    for place in places:
        key = key_of(groups[place])
        if key is not None:
            found.setdefault((*kind_of(groups[place]), *key), []).append(place)
    return found


def _together(
    places1: list[int], places2: list[int], first: Groups, second: Groups, scaling: _Scaling
) -> Iterator[tuple[Places, Places]]:
    """Yield groups with equal keys: one by one in order as long as their calls agree, else all at once.

    One by one, what one side has more of has no partner. All at once is for sides that split the same calls
    differently, as when one knows the modules and the other doesn't.
    """
    pairs = list(zip(places1, places2, strict=False))
    agree = all(first[i].count * scaling.steps2 == second[j].count * scaling.steps1 for i, j in pairs)
    if agree or len(places1) == len(places2):
        yield from (((i,), (j,)) for i, j in pairs)
    else:
        yield tuple(places1), tuple(places2)


def _merged(matches: Iterable[_Match], first: Groups, second: Groups) -> Iterator[_Match]:
    """Yield one match for all groups of the same two ops with the same arguments, of one partner each."""
    alike: dict[object, list[_Match]] = {}
    for match in matches:
        if len(match.first) != len(match.second):
            yield match
            continue
        ops1 = frozenset(_op(first[place]) for place in match.first)
        ops2 = frozenset(_op(second[place]) for place in match.second)
        kinds = _kind_of_norm(first[match.first[0]]), _kind_of_norm(second[match.second[0]])
        alike.setdefault((kinds, ops1, ops2), []).append(match)
    for group in alike.values():
        ordered = sorted(group, key=lambda match: first[match.first[0]].order)
        yield _Match(
            paired_by=max((match.paired_by for match in group), key=_LOOSENESS.__getitem__),
            first=tuple(place for match in ordered for place in match.first),
            second=tuple(place for match in ordered for place in match.second),
        )


def _op(group: CallGroup) -> object:
    """Return what tells an op from others; without arguments any two groups may do different work."""
    work = group.arguments or (group.module, group.order)
    return group.name, group.library, group.kind, work


def _pair(match: _Match, own: Groups, other: Groups, scale: float, significance: Significance | None) -> Pair:
    return Pair(
        first=match.first,
        second=match.second,
        paired_by=match.paired_by,
        time1_us=total_us(own),
        time2_us=total_us(other) * scale,
        significance=significance,
    )


def _calls(groups: Groups) -> int:
    return sum(group.count for group in groups)


def total_us(groups: Iterable[CallGroup]) -> float:
    """Return the kernel time of groups; a time that is no number counts as none."""
    return math.fsum(group.total_us for group in groups if math.isfinite(group.total_us))


def _difference(match: _Match, own: Groups, other: Groups) -> Difference | None:
    """Return what a test says, where a call of both sides may be the same work: by variant alone it isn't.

    Nor is there anything to test where a time isn't known.
    """
    if match.paired_by == "variant" or not all(group.has_time for group in (*own, *other)):
        return None
    return difference(calls_of(own), calls_of(other))
