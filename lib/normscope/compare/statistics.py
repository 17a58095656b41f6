"""Whether two sets of call times differ by more than their spread explains: two tests, their effect sizes.

Mann-Whitney's U needs no assumption about how the times are spread, so it is used wherever the time of each
call is known. Where only mean and deviation are left, as in a baseline, it is Welch's t-test. Importing a
statistics library would take longer than a whole comparison.
"""

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby

import msgspec

from normscope.compare.models import CallGroup, Significance, Test

LEAST_CALLS_RANKED = 4
"""With three calls a side the smallest p-value of the rank test is 0.1, so it could find nothing."""
LEAST_CALLS_SUMMED = 2
SIGNIFICANT_BELOW = 0.05
MEDIUM_CLIFFS_DELTA = 0.33
MEDIUM_HEDGES_G = 0.5
LARGEST_EFFECT = 100.0
"""Means this many deviations apart are simply far apart; without any spread the quotient is infinite."""
_MOST_EXACT_PRODUCT = 400  # 20 calls against 20: beyond, the normal approximation is good to the third digit
_TINY = 1e-300
_ENOUGH = 1e-15
_MOST_TERMS = 10_000


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of one side: every time, or only what is left of them; ``std`` is the sample's."""

    count: int
    mean_us: float
    std_us: float | None
    times_us: tuple[float, ...] = ()


class Difference(msgspec.Struct, frozen=True):
    """What a test says of one pair, before the number of pairs is taken into account."""

    test: Test
    p_value: float
    effect_size: float


def sample_of(times_us: Sequence[float]) -> Sample:
    """Return the sample that some times are; times that are no numbers are left out."""
    times = tuple(time for time in times_us if math.isfinite(time))
    if not times:
        return Sample(count=0, mean_us=0.0, std_us=None)
    mean = math.fsum(times) / len(times)
    squares = math.fsum((time - mean) ** 2 for time in times)
    std = math.sqrt(squares / (len(times) - 1)) if len(times) > 1 else None
    return Sample(count=len(times), mean_us=mean, std_us=std, times_us=times)


def calls_of(groups: Iterable[CallGroup]) -> Sample:
    """Return the sample that the calls of groups make together; figures that are no numbers count as none."""
    return pooled([_sample(group) for group in groups])


def _sample(group: CallGroup) -> Sample:
    if group.times_us:
        return sample_of(group.times_us)
    mean_us = group.mean_us if math.isfinite(group.mean_us) else 0.0
    std_us = group.std_us if group.std_us is not None and math.isfinite(group.std_us) else None
    return Sample(count=group.count, mean_us=mean_us, std_us=std_us)


def pooled(samples: Sequence[Sample]) -> Sample:
    """Return the sample that several make together.

    The deviation follows from the sum of squares within the samples and between their means; it isn't known
    where one of several calls lacks its own.
    """
    if all(sample.times_us for sample in samples):
        return sample_of([time for sample in samples for time in sample.times_us])
    count = sum(sample.count for sample in samples)
    if not count:
        return Sample(count=0, mean_us=0.0, std_us=None)
    mean = math.fsum(sample.count * sample.mean_us for sample in samples) / count
    squares = [_squares_around(sample, mean) for sample in samples]
    known = [value for value in squares if value is not None]
    is_known = count > 1 and len(known) == len(squares)
    return Sample(
        count=count, mean_us=mean, std_us=math.sqrt(math.fsum(known) / (count - 1)) if is_known else None
    )


def _squares_around(sample: Sample, mean_us: float) -> float | None:
    between = sample.count * (sample.mean_us - mean_us) ** 2
    if sample.count < LEAST_CALLS_SUMMED:
        return between
    return None if sample.std_us is None else between + (sample.count - 1) * sample.std_us**2


def difference(first: Sample, second: Sample) -> Difference | None:
    """Return what the test that fits says; None where no spread is known.

    The effect is positive where the second sample takes longer.
    """
    if min(len(first.times_us), len(second.times_us)) >= LEAST_CALLS_RANKED:
        return Difference("Mann-Whitney U", *mann_whitney(first.times_us, second.times_us))
    if first.std_us is None or second.std_us is None:
        return None
    return Difference("Welch t", *welch(first, second))


def judged(differences: Sequence[Difference | None]) -> list[Significance | None]:
    """Return what each difference is worth, given how many were looked at."""
    tested = [found for found in differences if found is not None]
    adjusted = iter(holm([found.p_value for found in tested]))
    return [None if found is None else _judged(found, next(adjusted)) for found in differences]


def _judged(found: Difference, p_value: float) -> Significance:
    least = MEDIUM_CLIFFS_DELTA if found.test == "Mann-Whitney U" else MEDIUM_HEDGES_G
    return Significance(
        test=found.test,
        p_value=p_value,
        effect_size=found.effect_size,
        is_real=p_value < SIGNIFICANT_BELOW and abs(found.effect_size) >= least,
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted so that all of them together are wrong no more often than stated.

    Notes
    -----
    S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6
    (1979): the k-th smallest of m is multiplied by m - k + 1, and none is below a smaller one's.
    """
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted


def mann_whitney(first: Sequence[float], second: Sequence[float]) -> tuple[float, float]:
    """Return the two-sided p-value of the Mann-Whitney U test, and Cliff's delta.

    Notes
    -----
    H. B. Mann and D. R. Whitney, "On a test of whether one of two random variables is stochastically larger
    than the other", Annals of Mathematical Statistics 18 (1947). Exact for small samples without ties, else
    by the normal approximation with the correction for ties and for continuity. N. Cliff, "Dominance
    statistics", Psychological Bulletin 114 (1993): delta = 2·U ÷ (n₁·n₂) - 1, which is the share of pairs in
    which the second is larger less the share in which it is smaller.
    """
    n1, n2 = len(first), len(second)
    ranks_of_second, tie_sizes = _ranked(first, second)
    u = ranks_of_second - n2 * (n2 + 1) / 2
    has_ties = any(size > 1 for size in tie_sizes)
    is_exact = n1 * n2 <= _MOST_EXACT_PRODUCT and not has_ties
    p_value = _exact_p(round(u), n1, n2) if is_exact else _normal_p(u, n1, n2, tie_sizes)
    return p_value, 2 * u / (n1 * n2) - 1


def _ranked(first: Sequence[float], second: Sequence[float]) -> tuple[float, list[int]]:
    """Return the sum of the ranks of ``second`` among all values, and how many values are equal each time."""
    values = sorted([(value, 0) for value in first] + [(value, 1) for value in second])
    total, before = 0.0, 0
    tie_sizes = []
    for _, equal in groupby(values, key=lambda each: each[0]):
        sides = [side for _, side in equal]
        total += sum(sides) * (before + (len(sides) + 1) / 2)
        before += len(sides)
        tie_sizes.append(len(sides))
    return total, tie_sizes


def _exact_p(u: int, n1: int, n2: int) -> float:
    counts = _arrangements(min(n1, n2), max(n1, n2))
    extreme = max(u, n1 * n2 - u)
    return min(1.0, 2 * sum(counts[extreme:]) / sum(counts))


@lru_cache(maxsize=128)
def _arrangements(n1: int, n2: int) -> tuple[int, ...]:
    """Return in how many of the equally likely orders U takes each value from 0 to n₁·n₂.

    They are the coefficients of the Gaussian binomial: the product of (1 - q^(n₂+i)) ÷ (1 - q^i), i to n₁.
    """
    counts = [1] + [0] * (n1 * n2)
    for i in range(1, n1 + 1):
        for u in range(n1 * n2, n2 + i - 1, -1):
            counts[u] -= counts[u - n2 - i]
        for u in range(i, n1 * n2 + 1):
            counts[u] += counts[u - i]
    return tuple(counts)


def _normal_p(u: float, n1: int, n2: int, tie_sizes: Sequence[int]) -> float:
    n = n1 + n2
    ties = sum(size**3 - size for size in tie_sizes) / (n * (n - 1))
    variance = n1 * n2 / 12 * (n + 1 - ties)
    if variance <= 0:  # every value is the same
        return 1.0
    z = (abs(u - n1 * n2 / 2) - 0.5) / math.sqrt(variance)
    return min(1.0, math.erfc(z / math.sqrt(2)))


def welch(first: Sample, second: Sample) -> tuple[float, float]:
    """Return the two-sided p-value of Welch's t-test, and Hedges' g.

    Notes
    -----
    B. L. Welch, "The generalization of 'Student's' problem when several different population variances are
    involved", Biometrika 34 (1947). L. V. Hedges, "Distribution theory for Glass's estimator of effect size
    and related estimators", Journal of Educational Statistics 6 (1981): the difference of the means over the
    pooled deviation, times 1 - 3 ÷ (4·(n₁ + n₂ - 2) - 1).
    """
    gap = second.mean_us - first.mean_us
    variance1, variance2 = (first.std_us or 0.0) ** 2, (second.std_us or 0.0) ** 2
    freedom1, freedom2 = first.count - 1, second.count - 1
    share1, share2 = variance1 / first.count, variance2 / second.count
    squares = share1**2 / freedom1 + share2**2 / freedom2
    if squares <= 0:  # no spread at all: either equal, or further apart than any spread explains
        return (1.0, 0.0) if gap == 0 else (0.0, math.copysign(LARGEST_EFFECT, gap))
    p_value = student_p(gap / math.sqrt(share1 + share2), (share1 + share2) ** 2 / squares)
    freedom = freedom1 + freedom2
    deviation = math.sqrt((freedom1 * variance1 + freedom2 * variance2) / freedom)
    effect = gap / deviation * (1 - 3 / (4 * freedom - 1))
    return p_value, max(-LARGEST_EFFECT, min(LARGEST_EFFECT, effect))


def student_p(t: float, freedom: float) -> float:
    """Return the two-sided p-value of a value of Student's t distribution.

    Notes
    -----
    The regularized incomplete beta function of x = f ÷ (f + t²) with a = f ÷ 2 and b = ½, f being the degrees
    of freedom: NIST Digital Library of Mathematical Functions, §8.17, by its continued fraction 8.17.22.
    """
    a, b = freedom / 2, 0.5
    x, rest = freedom / (freedom + t * t), t * t / (freedom + t * t)  # 1 - x would lose its digits
    if x <= 0 or rest <= 0:
        return 0.0 if x <= 0 else 1.0
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    front = math.exp(a * math.log(x) + b * math.log(rest) - log_beta)
    if x < (a + 1) / (a + b + 2):  # where the fraction converges quickly; else by symmetry
        return min(1.0, front * _beta_fraction(a, b, x) / a)
    return max(0.0, 1 - front * _beta_fraction(b, a, rest) / b)


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction of the incomplete beta function, by Lentz's method."""
    c, d = 1.0, 1 / _not_zero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _MOST_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _not_zero(1 + term * d)
            c = _not_zero(1 + term / c)
            value *= c * d
        if abs(c * d - 1) < _ENOUGH:
            break
    return value


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
