"""The tests of differences against hand calculations, brute force, closed forms and published software.

Figures said to be SciPy's were computed with SciPy 1.17.1.
"""

import math
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normscope.compare.statistics import (
    Sample,
    difference,
    holm,
    judged,
    mann_whitney,
    pooled,
    sample_of,
    student_p,
    welch,
)

TIMES = st.lists(st.floats(0, 1e6), min_size=1, max_size=30)


def test_four_calls_that_are_all_slower_are_the_rarest_two_of_seventy_orders() -> None:
    p_value, effect = mann_whitney([1, 2, 3, 4], [5, 6, 7, 8])
    assert p_value == pytest.approx(2 / 70)
    assert effect == 1.0


def test_all_faster_has_the_opposite_effect() -> None:
    assert mann_whitney([5, 6, 7, 8], [1, 2, 3, 4]) == pytest.approx((2 / 70, -1.0))


def test_cliffs_delta_counts_the_pairs_in_which_the_second_is_larger() -> None:
    # Of the six pairs the second is larger in (1,2) (1,4) (3,4), smaller in (3,2) (5,2) (5,4).
    assert mann_whitney([1, 3, 5], [2, 4])[1] == 0.0
    # Larger in (1,2) (1,2), equal in (2,2) (2,2): half of the four pairs.
    assert mann_whitney([1, 2], [2, 2])[1] == 0.5


def test_ties_are_corrected_for() -> None:
    assert mann_whitney([1, 2, 2, 3, 4], [2, 3, 5, 5, 6])[0] == pytest.approx(
        0.11049202405566802,  # SciPy's
        rel=1e-12,
    )


def test_equal_values_differ_by_nothing() -> None:
    assert mann_whitney([3.0] * 6, [3.0] * 6) == (1.0, 0.0)


def brute_force_p(first: list[int], second: list[int]) -> float:
    """The share of all ways to deal the values out in which U is as far from its mean as here, or further."""
    values = first + second

    def distance(chosen: set[int]) -> float:
        ranks = sum(sorted(values).index(values[place]) + 1 for place in chosen)
        u = ranks - len(second) * (len(second) + 1) / 2
        return abs(u - len(first) * len(second) / 2)

    here = distance(set(range(len(first), len(values))))
    deals = [distance(set(deal)) for deal in combinations(range(len(values)), len(second))]
    return sum(far >= here for far in deals) / len(deals)


@given(st.permutations(list(range(9))), st.integers(2, 7))
def test_small_samples_without_ties_are_exact(values: list[int], split: int) -> None:
    first, second = values[:split], values[split:]
    assert mann_whitney(first, second)[0] == pytest.approx(brute_force_p(first, second))


@given(TIMES, TIMES)
def test_the_rank_test_is_symmetric(first: list[float], second: list[float]) -> None:
    there, back = mann_whitney(first, second), mann_whitney(second, first)
    assert there[0] == pytest.approx(back[0])
    assert there[1] == pytest.approx(-back[1])
    assert 0 <= there[0] <= 1
    assert -1 <= there[1] <= 1


@pytest.mark.parametrize("t", [0.0, 0.01, 0.5, 1.0, 2.5, 12.0, 4000.0])
def test_students_t_with_one_two_and_four_degrees_of_freedom_has_closed_forms(t: float) -> None:
    theta = math.atan(t / 2)
    assert student_p(t, 1) == pytest.approx(1 - 2 / math.pi * math.atan(t), rel=1e-9, abs=1e-15)
    assert student_p(t, 2) == pytest.approx(1 - t / math.sqrt(2 + t * t), rel=1e-6, abs=1e-15)
    assert student_p(t, 4) == pytest.approx(
        1 - math.sin(theta) * (1 + math.cos(theta) ** 2 / 2), rel=1e-6, abs=1e-13
    )


def test_students_t_with_many_degrees_of_freedom_is_the_normal_distribution() -> None:
    assert student_p(1.959964, 1e9) == pytest.approx(0.05, rel=1e-5)


def test_students_t_with_broken_degrees_of_freedom() -> None:
    assert student_p(2.0, 4.5) == pytest.approx(0.10825790718112499, rel=1e-12)  # SciPy's


def test_welch_by_hand_and_by_scipy() -> None:
    p_value, effect = welch(sample_of([1, 2, 3, 4]), sample_of([2, 4, 6, 9]))
    assert p_value == pytest.approx(0.16470207962805658, rel=1e-12)  # SciPy's
    # Means 2.5 and 5.25, variances 5/3 and 107/12, pooled 127/24; times 1 - 3/(4·6 - 1) = 20/23.
    assert effect == pytest.approx(2.75 / math.sqrt(127 / 24) * 20 / 23)


def test_hedges_g_by_hand() -> None:
    # Means one apart, deviations of one: 1 × (1 - 3/15).
    assert welch(sample_of([1, 2, 3]), sample_of([2, 3, 4]))[1] == pytest.approx(0.8)


def test_means_without_any_spread_are_equal_or_as_far_apart_as_can_be() -> None:
    flat, higher = Sample(count=9, mean_us=5.0, std_us=0.0), Sample(count=9, mean_us=5.1, std_us=0.0)
    assert welch(flat, flat) == (1.0, 0.0)
    assert welch(flat, higher) == (0.0, 100.0)
    assert welch(higher, flat) == (0.0, -100.0)


def test_holm_multiplies_by_how_many_are_left_and_keeps_the_order() -> None:
    # 0.005·4, 0.01·3, 0.03·2, and 0.04·1 not below the one before.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(TIMES.filter(lambda times: len(times) > 1), min_size=1, max_size=5))
def test_pooled_moments_are_those_of_all_times_together(parts: list[list[float]]) -> None:
    together = sample_of([time for part in parts for time in part])
    found = pooled([Sample(count=s.count, mean_us=s.mean_us, std_us=s.std_us) for s in map(sample_of, parts)])
    assert found.count == together.count
    assert found.mean_us == pytest.approx(together.mean_us)
    assert found.std_us == pytest.approx(together.std_us, rel=1e-6, abs=1e-6)


def test_the_spread_is_not_known_where_a_part_lacks_its_own() -> None:
    known, unknown = sample_of([1.0, 2.0]), Sample(count=3, mean_us=1.0, std_us=None)
    assert pooled([known, unknown]).std_us is None


def test_times_that_are_no_numbers_are_left_out() -> None:
    assert sample_of([1.0, math.nan, 3.0, math.inf]) == sample_of([1.0, 3.0])
    assert sample_of([math.nan]).count == 0


@pytest.mark.parametrize(
    ("first", "second", "test"),
    [
        ([1, 2, 3, 4], [1, 2, 3, 4], "Mann-Whitney U"),
        ([1, 2, 3], [1, 2, 3, 4], "Welch t"),
        ([1, 2], [1, 2], "Welch t"),
        ([1], [1, 2, 3, 4], None),
    ],
)
def test_the_test_depends_on_how_many_calls_there_are(
    first: list[float], second: list[float], test: str | None
) -> None:
    found = difference(sample_of(first), sample_of(second))
    assert (found and found.test) == test


def test_a_small_effect_is_not_real_however_sure_it_is() -> None:
    # Of 10,000 pairs 6,000 and more: Cliff's delta about 0.2.
    first = [float(i) for i in range(1000)]
    second = [i + 100.5 for i in range(1000)]
    (found,) = judged([difference(sample_of(first), sample_of(second))])
    assert found is not None
    assert found.p_value < 1e-6
    assert 0.15 < found.effect_size < 0.33
    assert not found.is_real


def test_a_large_effect_is_not_real_where_many_were_looked_at() -> None:
    one = difference(sample_of([1, 2, 3, 4]), sample_of([5, 6, 7, 8]))
    assert [s and s.is_real for s in judged([one])] == [True]
    first, untested, last = judged([one, None, one])
    assert untested is None
    for found in (first, last):
        assert found is not None
        assert found.p_value == pytest.approx(4 / 70)
        assert not found.is_real
