"""What a comparison comes to, in plain sentences: the headline, and a table of what is known by topic.

The texts hold names as the input has them: whoever shows them escapes them.
"""

from collections.abc import Callable, Iterator, Sequence
from math import fsum

from normscope.analysis.models import exceeds_end_to_end
from normscope.compare.differences import Difference, Lone, Overview, overview, shape_of, times_by
from normscope.compare.models import CallGroup, Comparison, Side, Significance
from normscope.compare.words import MINUS, change_words, each_name, operation_words
from normscope.findings.wording import (
    counted,
    duration,
    listed,
    plural,
    sentence_case,
    shown,
    significant,
    verb,
)

_CARRIES = 0.9  # of the added time: so many shapes are named
_DOMINATES = 0.9
_FEW = 5
_ABOUT_EQUAL = 0.005
_MOVES_NAMED = 3
_NORMALIZED = {
    "as recorded": "",
    "per step": "Times of trace 2 are scaled to the {steps1} of trace 1; it has {steps2}",
    "per call": "Trace 1 calls everything {scale} times as often as trace 2, as a longer recording does, so "
    "times of trace 2 are scaled to its calls",
}


def headline(comparison: Comparison) -> str:
    """Return the answer as one sentence without a full stop: how much, where, and whether it is real."""
    unknown = _without_time(comparison)
    if unknown:
        return f"Not to be compared as a whole: the time of {counted(unknown, 'operation')} isn't known"
    return _headline(overview(comparison))


def totals(comparison: Comparison) -> str:
    """Return what both sides spend, and how they were made comparable, in a sentence or two."""
    unknown = _without_time(comparison)
    known = "These sums hold only the times that are known. " if unknown else ""
    return known + _totals(overview(comparison))


def sentences(comparison: Comparison) -> tuple[tuple[str, str], ...]:
    """Return what is known besides, as topics with a sentence or two each; those without any are left out."""
    found = overview(comparison)
    told = ((topic, tell(found)) for topic, tell in _TOPICS)
    return tuple((topic, text) for topic, text in told if text)


def _without_time(comparison: Comparison) -> int:
    """Count the operations of both sides whose time isn't known."""
    return sum(not group.has_time for side in (comparison.first, comparison.second) for group in side.groups)


def spoken(comparison: Comparison) -> Iterator[str]:
    """Yield all of it a line each, the headline first, as the command line prints it."""
    yield f"{headline(comparison)}."
    yield totals(comparison)
    for topic, text in sentences(comparison):
        yield f"{topic}: {text}"


def _headline(found: Overview) -> str:
    first, second = found.comparison.first, found.comparison.second
    if first.groups and second.groups:
        return _compared(found)
    if not first.groups and not second.groups:
        return "Neither trace holds a normalization"
    number, us = (1, found.time1_us) if first.groups else (2, found.time2_us)
    return f"Only trace {number} holds normalization, {duration(us)}"


def _compared(found: Overview) -> str:
    where, time1_us, time2_us = _subject(found)
    if not time2_us:
        return f"Trace 1 spends {duration(time1_us)} in {where}, trace 2 no time at all"
    both = f"{where} takes {duration(time1_us)} in trace 1 and {duration(time2_us)} in trace 2"
    change = _change(where, time1_us, time2_us)
    extra_us, real_us = time1_us - time2_us, _real_us(found)
    is_equal = abs(extra_us) <= _ABOUT_EQUAL * time2_us
    if real_us is None and not found.of("untested"):
        return f"No difference beyond the noise: {both}"
    if real_us is None:
        return f"As fast: {both}" if is_equal else f"{change}, real or not: no test applies"
    if is_equal:
        return f"As fast in sum: {both}; {_parts(found)}"
    if real_us * extra_us < 0:
        return f"{change}, but by noise; for real, {_parts(found)}"
    return f"{change}; {_carriers(found, where, slower=extra_us > 0)}"


def _real_us(found: Overview) -> float | None:
    """Return the sum of what is no noise, None where nothing is."""
    real = [each.extra_us for each in found.of("slower", "faster")]
    real += [each.extra_us for each in found.alone]
    return fsum(real) if real else None


def _subject(found: Overview) -> tuple[str, float, float]:
    """Return what the headline is about and its times: a variant that makes up the difference, or all."""
    times = times_by(found, lambda group: group.variant)
    added = {variant: abs(time1_us - time2_us) for variant, (time1_us, time2_us) in times.items()}
    variant = max(added, key=added.__getitem__)
    is_sole = len(times) == 1 or added[variant] > _DOMINATES * fsum(added.values())
    if is_sole and variant != "Other":
        return variant, *times[variant]
    return "normalization", found.time1_us, found.time2_us


def _change(where: str, time1_us: float, time2_us: float) -> str:
    more = "more" if time1_us >= time2_us else "less"
    extra = duration(abs(time1_us - time2_us))
    return f"Trace 1 spends {extra} {more} in {where}, {change_words(time1_us, time2_us)}"


def _parts(found: Overview) -> str:
    parts = [
        f"{plural(len(members), 'operation')} {'is' if len(members) == 1 else 'are'} {verdict} in trace 1"
        for verdict, members in (("slower", found.of("slower")), ("faster", found.of("faster")))
        if members
    ]
    if found.alone:
        parts.append(f"{plural(len(found.alone), 'operation')} without a partner")
    return listed(parts)


def _carriers(found: Overview, where: str, *, slower: bool) -> str:
    """Say how few shapes carry the difference; of all that goes its way, where others go against it."""
    sign = 1.0 if slower else -1.0
    by_shape = times_by(found, shape_of)
    times = {key: own for key, own in by_shape.items() if key[0] == where} or by_shape
    extra = [sign * (time1_us - time2_us) for time1_us, time2_us in times.values()]
    same = sorted((us for us in extra if us > 0), reverse=True)
    gross_us, so_far, few = fsum(same), 0.0, 0
    for us in same:
        so_far, few = so_far + us, few + 1
        if so_far >= _CARRIES * gross_us:
            break
    noun = "shape" if all(group.arguments for group in _groups(found)) else "operation"
    what = "it" if len(same) == len(extra) else f"what is {'slower' if slower else 'faster'}"
    if len(times) == 1:
        return f"all in one {noun}"
    if few > _FEW and few > len(times) / 2:
        return f"spread over {counted(len(same), noun)}"
    share = 100 * so_far / gross_us if gross_us else 100.0
    part = "all" if share >= 99.5 else f"{share:.0f}%"
    return f"{few:,} of {counted(len(times), noun)} {'carries' if few == 1 else 'carry'} {part} of {what}"


def _groups(found: Overview) -> Sequence[CallGroup]:
    return (*found.comparison.first.groups, *found.comparison.second.groups)


def _totals(found: Overview) -> str:
    comparison = found.comparison
    one, two = comparison.first, comparison.second
    is_scaled = comparison.scale != 1
    text = (
        f"Trace 1 spends {duration(found.time1_us)}{_share(one, found.time1_us)} in normalization, trace 2 "
        f"{duration(found.recorded2_us)}{_share(two, found.recorded2_us)}"
        f"{f', {duration(found.time2_us)} when scaled' if is_scaled else ''}: trace 1 is "
        f"{change_words(found.time1_us, found.time2_us)}."
    )
    if not one.groups or not two.groups:
        text = text.partition(": trace 1 is")[0] + "."
    scaled = _NORMALIZED[comparison.normalized].format(
        steps1=counted(one.steps, "step"),
        steps2=counted(two.steps, "step"),
        scale=significant(comparison.scale, 3),
    )
    return f"{text} {scaled}." if scaled else text


def _share(side: Side, time_us: float) -> str:
    if not side.end_to_end_ms or exceeds_end_to_end(time_us / 1e3, side.end_to_end_ms):
        return ""
    return f" ({significant(time_us / 10 / side.end_to_end_ms)}% of its GPU time)"


def _real(found: Overview) -> str:
    real = found.of("slower", "faster")
    if not found.differences:
        return ""
    if not real:
        return "No pair differs by more than the spread of its calls explains." if found.of("noise") else ""
    sums = [
        f"{verdict}{_in(members, real)} ({sign}{duration(abs(_extra(members)))})"
        for verdict, sign, members in (
            ("slower", "+", found.of("slower")),
            ("faster", MINUS, found.of("faster")),
        )
        if members
    ]
    largest = real[0]
    proof = _proof(largest)
    return (
        f"{_of_pairs(real, found)} {verb(len(real), 'differ')} for real: trace 1 is {listed(sums)}. "
        f"{'It is' if len(real) == 1 else 'The largest is'} {operation_words(largest.lead)}: "
        f"{difference_words(largest)} ({proof})."
    )


def _proof(difference: Difference) -> str:
    """Return what makes a difference real: the test where it says so, else the number of calls."""
    test = difference.pair.significance
    if difference.is_real_by_test and test is not None:
        return proof_words(test)
    return f"{difference.calls1:,.0f} calls against {difference.calls2:,.0f}"


def _in(members: Sequence[Difference], real: Sequence[Difference]) -> str:
    return f" in {len(members):,}" if len(real) > 1 else ""


def _of_pairs(members: Sequence[Difference], found: Overview) -> str:
    if len(found.differences) == 1:
        return "The one pair"
    return f"{len(members):,} of {counted(len(found.differences), 'pair')}"


def _extra(members: Sequence[Difference]) -> float:
    return fsum(each.extra_us for each in members)


def difference_words(difference: Difference) -> str:
    """Return how much longer trace 1 takes, such as ``+0.4 ms, 27% slower``."""
    pair = difference.pair
    if not difference.extra_us:
        return "as long"
    sign = "+" if difference.extra_us > 0 else MINUS
    return f"{sign}{duration(abs(difference.extra_us))}, {change_words(pair.time1_us, pair.time2_us)}"


def verdict_words(difference: Difference) -> str:
    """Return whether a difference is real, in a word or two."""
    test = difference.pair.significance
    if difference.is_real:
        return "real" if difference.is_real_by_test else "other number of calls"
    if test is None:
        return "not tested"
    return "calls and sum disagree" if test.is_real and difference.extra_us else "noise"


EFFECT_NAMES = {"Mann-Whitney U": "Cliff's delta", "Welch t": "Hedges' g"}


def proof_words(test: Significance) -> str:
    """Return a test's name with its p-value and its effect, positive where trace 1 is slower."""
    return f"{test.test}, {p_words(test.p_value)}, {EFFECT_NAMES[test.test]} {-test.effect_size:+z.2f}"


def p_words(p_value: float) -> str:
    """Return a p-value with two digits; a tiny one as a bound."""
    return "p < 0.0001" if p_value < 1e-4 else f"p = {p_value:.2g}"


def _noise(found: Overview) -> str:
    noise, untested = found.of("noise"), found.of("untested")
    texts = []
    if noise:
        texts.append(
            f"{_of_pairs(noise, found)} {verb(len(noise), 'differ')} by no more than the spread of the "
            f"calls explains, {duration(abs(_extra(noise)))} in sum."
        )
    if untested:
        texts.append(
            f"{_of_pairs(untested, found)} can't be tested: too few calls, no spread known, or nothing in "
            f"common but the variant. The difference is {duration(abs(_extra(untested)))} in sum, "
            "real or not."
        )
    return " ".join(texts)


def _alone(found: Overview) -> str:
    sides = [(number, [each for each in found.alone if each.side == number]) for number in (1, 2)]
    parts = [
        f"{plural(len(members), 'operation')} in trace {number} only ({duration(_time(members))}, the "
        f"longest {operation_words(members[0].group)})"
        for number, members in sides
        if members
    ]
    return f"{sentence_case(listed(parts))}." if parts else ""


def _time(members: Sequence[Lone]) -> float:
    return fsum(each.time_us for each in members)


def _changed(found: Overview) -> str:
    counts: dict[str, int] = {}
    for each in found.differences:
        for change in each.changes:
            counts[change] = counts.get(change, 0) + 1
    if not counts:
        return ""
    pairs = len(found.differences)
    of_all = f" of {counted(pairs, 'pair')}" if pairs > 1 else ""
    parts = [
        f"{what} in {count:,}{of_all}" if of_all else what
        for what, count in sorted(counts.items(), key=lambda item: -item[1])
    ]
    return f"Besides the time: {listed(parts)}."


def _libraries(found: Overview) -> str:
    moves: dict[tuple[str, str], int] = {}
    for each in found.differences:
        old, new = each.lead.library, each.partner.library
        if old and new and old != new:
            moves[old, new] = moves.get((old, new), 0) + 1
    parts = [
        f"{each_name(old)} became {each_name(new)} in {plural(count, 'pair')}"
        for (old, new), count in sorted(moves.items(), key=lambda item: -item[1])
    ]
    return f"From trace 1 to trace 2, {listed(shown(parts, _MOVES_NAMED))}." if parts else ""


def _hardware(found: Overview) -> str:
    one, two = found.comparison.first, found.comparison.second
    if one.gpu and one.gpu == two.gpu:
        return f"Both ran on {each_name(one.gpu)}."
    known = [(number, side) for number, side in ((1, one), (2, two)) if side.gpu]
    if not known:
        return "The GPU of neither trace is known, so a difference may be one of hardware."
    ran = listed([f"trace {number} ran on {each_name(side.gpu or '')}" for number, side in known])
    if len(known) == 1:
        return f"{sentence_case(ran)}; the GPU of trace {3 - known[0][0]} isn't known."
    peaks = ""
    if one.peak_bandwidth_tbs and two.peak_bandwidth_tbs:
        ratio = significant(one.peak_bandwidth_tbs / two.peak_bandwidth_tbs)
        peaks = (
            f" Their peak memory bandwidths are {significant(one.peak_bandwidth_tbs)} and "
            f"{significant(two.peak_bandwidth_tbs)} TB/s, a ratio of {ratio}."
        )
    return f"{sentence_case(ran)}: other hardware, so times differ without any change of code.{peaks}"


_TOPICS: tuple[tuple[str, Callable[[Overview], str]], ...] = (
    ("Real differences", _real),
    ("Noise", _noise),
    ("Without a partner", _alone),
    ("What else differs", _changed),
    ("Library", _libraries),
    ("GPU", _hardware),
)
