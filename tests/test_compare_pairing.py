"""Pairs by hand, and what has to hold for any two sides."""

import math
import random
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normscope.compare.models import CallGroup, Comparison, Side
from normscope.compare.pairing import compare_sides, first_shape
from pairing_inputs import ARGUMENTS, X, group, noisy, side, sizes, without_times

TIMES = st.lists(st.one_of(st.just(0.0), st.floats(0.1, 1e5)), min_size=1, max_size=6)
GROUPS = st.builds(
    lambda times, changes: group(*times, changes=changes),
    TIMES,
    st.fixed_dictionaries(
        {
            "direction": st.sampled_from(["forward", "backward", "unknown"]),
            "variant": st.sampled_from(["LayerNorm", "RMSNorm"]),
            "name": st.sampled_from(["aten::layer_norm", "aten::native_layer_norm", "fused_norm"]),
            "module": st.sampled_from(["", "Net_0 > LayerNorm_0", "Net_0 > LayerNorm_1"]),
            "arguments": st.sampled_from([None, ARGUMENTS, f"{X}<br>(1,) fp32", "(4,4) fp32"]),
            "kernels": st.sampled_from([(), ("a_kernel",), ("a_kernel", "b_kernel")]),
        }
    ),
)
SIDES = st.builds(
    lambda groups, steps: side(*groups, steps=steps), st.lists(GROUPS, max_size=12), st.integers(0, 4)
)


def partners(comparison: Comparison) -> set[tuple[frozenset[int], frozenset[int]]]:
    return {(frozenset(pair.first), frozenset(pair.second)) for pair in comparison.pairs}


@given(SIDES)
def test_a_side_against_itself_pairs_fully_with_no_difference(any_side: Side) -> None:
    found = compare_sides(any_side, any_side)
    assert found.only_first == found.only_second == ()
    assert found.scale == 1
    assert found.normalized == "as recorded"
    for pair in found.pairs:
        assert pair.first == pair.second
        assert pair.delta_us == 0
        assert pair.significance is None or not pair.significance.is_real


@given(SIDES, SIDES)
def test_b_against_a_mirrors_a_against_b(first: Side, second: Side) -> None:
    there, back = compare_sides(first, second), compare_sides(second, first)
    assert partners(back) == {(own, other) for other, own in partners(there)}
    assert (back.only_first, back.only_second) == (there.only_second, there.only_first)
    assert back.normalized == there.normalized
    assert back.scale == pytest.approx(1 / there.scale)
    mirrored = {frozenset(pair.second): pair for pair in back.pairs}
    for pair in there.pairs:
        other = mirrored[frozenset(pair.first)]
        calls = [sum(s.groups[i].count for i in p) for s, p in ((first, pair.first), (second, pair.second))]
        factor = calls[0] / calls[1] if there.normalized == "per call" else there.scale
        assert pair.paired_by == other.paired_by
        assert other.delta_us * factor == pytest.approx(-pair.delta_us, abs=1e-6)
        if pair.significance and other.significance:
            assert pair.significance.effect_size == pytest.approx(-other.significance.effect_size)
            assert pair.significance.p_value == pytest.approx(other.significance.p_value)
            assert pair.significance.is_real == other.significance.is_real


@given(SIDES, SIDES)
def test_every_group_is_in_one_pair_or_alone_and_the_totals_add_up(first: Side, second: Side) -> None:
    found = compare_sides(first, second)
    own = [i for pair in found.pairs for i in pair.first]
    other = [i for pair in found.pairs for i in pair.second]
    assert sorted([*own, *found.only_first]) == list(range(len(first.groups)))
    assert sorted([*other, *found.only_second]) == list(range(len(second.groups)))
    alone = sum(first.groups[i].total_us for i in found.only_first)
    total = sum(each.total_us for each in first.groups)
    assert sum(pair.time1_us for pair in found.pairs) + alone == pytest.approx(total)
    if found.normalized != "per call":
        alone = sum(second.groups[i].total_us for i in found.only_second) * found.scale
        total = sum(each.total_us for each in second.groups) * found.scale
        assert sum(pair.time2_us for pair in found.pairs) + alone == pytest.approx(total)


@given(SIDES, st.randoms(use_true_random=False))
def test_the_order_in_which_groups_are_listed_changes_nothing(any_side: Side, rng: random.Random) -> None:
    places = list(range(len(any_side.groups)))
    rng.shuffle(places)
    shuffled = msgspec.structs.replace(any_side, groups=tuple(any_side.groups[i] for i in places))
    found = compare_sides(any_side, shuffled)
    assert found.only_first == found.only_second == ()
    assert all(pair.delta_us == pytest.approx(0) for pair in found.pairs)


def test_sides_without_any_norm_have_no_pair() -> None:
    assert compare_sides(side(), side()).pairs == ()


def layers(count: int, time_us: float = 10.0, **changes: object) -> list[CallGroup]:
    return [group(time_us, time_us, module=f"Net_0 > Norm_{i}", changes=changes) for i in range(count)]


def test_an_op_by_another_name_pairs_by_its_module_and_arguments() -> None:
    found = compare_sides(side(*layers(3)), side(*layers(3, name="miopen_layer_norm", library="MIOpen")))
    assert sizes(found.pairs) == [(3, 3)]
    assert found.pairs[0].paired_by == "module and arguments"


def test_renamed_modules_pair_by_their_arguments_in_order() -> None:
    renamed = [group(20.0, 20.0, module=f"Other_0 > Norm_{i}") for i in range(3)]
    found = compare_sides(side(*layers(3)), side(*renamed))
    assert [(pair.first, pair.second, pair.paired_by) for pair in found.pairs] == [
        ((0, 1, 2), (0, 1, 2), "arguments")
    ]


def test_other_arguments_for_the_same_input_pair_by_its_shape() -> None:
    other = layers(2, name="fused_layer_norm", arguments=f"{X}<br>() Scalar")
    assert [p.paired_by for p in compare_sides(side(*layers(2)), side(*other)).pairs] == ["module and shape"]
    elsewhere = [msgspec.structs.replace(each, module=f"Compiled_{i}") for i, each in enumerate(other)]
    assert [p.paired_by for p in compare_sides(side(*layers(2)), side(*elsewhere)).pairs] == ["shape"]


def test_another_batch_size_pairs_by_the_module() -> None:
    other = layers(2, arguments="(16,768) bf16<br>(768,) bf16")
    assert [p.paired_by for p in compare_sides(side(*layers(2)), side(*other)).pairs] == ["module"]


def test_forward_does_not_pair_with_backward_nor_one_variant_with_another() -> None:
    for change in ({"direction": "backward"}, {"variant": "RMSNorm"}):
        found = compare_sides(side(group(1.0)), side(group(1.0, changes=change)))
        assert (found.pairs, found.only_first, found.only_second) == ((), (0,), (0,))


def test_a_direction_that_is_not_known_is_forward_where_it_can_be() -> None:
    unknown = side(group(1.0, direction="unknown"))
    both = side(group(1.0, direction="backward"), group(1.0))
    (only,) = compare_sides(unknown, both).pairs
    assert (only.first, only.second) == ((0,), (1,))


def test_modules_on_one_side_only_pair_all_at_once() -> None:
    whole = group(*[12.0] * 6, module="")
    found = compare_sides(side(*layers(3)), side(whole))
    assert [(pair.first, pair.second, pair.paired_by) for pair in found.pairs] == [
        ((0, 1, 2), (0,), "arguments")
    ]
    assert (found.pairs[0].time1_us, found.pairs[0].time2_us) == (60.0, 72.0)


def test_a_missing_layer_is_listed_on_the_side_that_has_it() -> None:
    found = compare_sides(side(*layers(4)), side(*layers(4)[:3]))
    assert (found.only_first, found.only_second) == ((3,), ())
    assert found.pairs[0].delta_us == 0


def test_an_added_layer_among_renamed_ones_is_listed_too() -> None:
    renamed = [group(10.0, 10.0, module=f"Other_0 > Norm_{i}") for i in range(4)]
    found = compare_sides(side(*layers(3)), side(*renamed))
    assert (found.only_first, found.only_second) == ((), (3,))


def test_doubled_calls_cost_twice_where_steps_are_known_and_a_longer_recording_the_same() -> None:
    once, twice = group(10.0, 11.0), group(10.0, 11.0, 10.0, 11.0)
    found = compare_sides(side(once, steps=2), side(twice, steps=2))
    assert (found.normalized, found.pairs[0].time2_us) == ("as recorded", 42.0)
    found = compare_sides(side(once), side(twice))
    assert (found.normalized, found.pairs[0].time2_us, found.scale) == ("per call", 21.0, 0.5)


def test_without_steps_calls_that_double_in_one_operation_alone_cost_twice() -> None:
    other = group(10.0, 11.0, arguments="(2,4) bf16", module="Net_0 > LayerNorm_1")
    once, twice = group(10.0, 11.0), group(10.0, 11.0, 10.0, 11.0)
    found = compare_sides(side(once, other), side(twice, other))
    assert (found.normalized, found.scale) == ("as recorded", 1.0)
    assert [pair.time2_us for pair in found.pairs] == [42.0, 21.0]


def test_without_steps_an_end_to_end_time_that_stays_tells_doubled_calls_from_a_longer_recording() -> None:
    once, twice = side(group(10.0, 11.0)), side(group(10.0, 11.0, 10.0, 11.0))

    def lasting(of: Side, end_to_end_ms: float) -> Side:
        return msgspec.structs.replace(of, end_to_end_ms=end_to_end_ms)

    assert compare_sides(lasting(once, 1.0), lasting(twice, 1.02)).pairs[0].time2_us == 42.0
    assert compare_sides(lasting(once, 1.0), lasting(twice, 2.0)).pairs[0].time2_us == 21.0


def test_different_numbers_of_steps_are_scaled() -> None:
    found = compare_sides(side(group(10.0, 10.0, 10.0), steps=3), side(group(12.0), steps=1))
    assert (found.normalized, found.scale) == ("per step", 3.0)
    assert (found.pairs[0].time1_us, found.pairs[0].time2_us) == (30.0, 36.0)


def test_a_layer_more_in_a_run_of_fewer_steps_is_no_other_way_to_split_the_calls() -> None:
    own = [group(*[10.0] * 6, module=f"A_{i}") for i in range(2)]
    other = [group(*[10.0] * 2, module=f"B_{i}") for i in range(3)]
    found = compare_sides(side(*own, steps=3), side(*other, steps=1))
    assert found.only_second == (2,)
    assert found.pairs[0].delta_us == 0


def test_kernels_without_module_and_arguments_pair_by_their_names_then_by_variant() -> None:
    bare = {"module": "", "arguments": None}
    own = side(group(1.0, changes=bare), group(2.0, changes=bare, kernels=("old_kernel",)))
    other = side(group(3.0, changes=bare, kernels=("new_kernel",)), group(4.0, changes=bare))
    found = compare_sides(own, other)
    assert [(pair.first, pair.second, pair.paired_by) for pair in found.pairs] == [
        ((0,), (1,), "kernels"),
        ((1,), (0,), "variant"),
    ]


def test_a_side_without_module_and_arguments_pairs_with_one_that_has_them() -> None:
    bare = group(*[9.0] * 6, module="", arguments=None, kernels=())
    found = compare_sides(side(*layers(3)), side(bare))
    assert [(p.first, p.second, p.paired_by) for p in found.pairs] == [((0, 1, 2), (0,), "variant")]
    assert found.pairs[0].significance is None


def test_what_has_other_arguments_and_another_module_has_no_partner() -> None:
    other = group(1.0, module="Elsewhere", arguments="(4,4) fp32")
    found = compare_sides(side(group(1.0)), side(other))
    assert (found.only_first, found.only_second) == ((0,), (0,))


def test_times_that_are_no_numbers_count_as_none() -> None:
    broken = group(1.0, math.nan, 3.0, total_us=math.nan, mean_us=math.nan)
    found = compare_sides(side(broken), side(group(1.0, 2.0, 3.0)))
    assert found.pairs[0].time1_us == 0.0
    assert found.pairs[0].time2_us == 6.0


def test_calls_that_take_no_time_are_equal() -> None:
    none = side(group(0.0, 0.0, 0.0, 0.0))
    (pair,) = compare_sides(none, none).pairs
    assert pair.significance is not None
    assert (pair.significance.p_value, pair.significance.is_real) == (1.0, False)


def test_the_shape_of_the_input_is_that_of_the_first_tensor() -> None:
    assert first_shape("() ScalarList<br>(2,3) fp32<br>(3,) fp32") == "(2,3) fp32"
    assert first_shape("() Scalar") is None
    assert first_shape(None) is None


SHAPES = 50


def two_runs(seed: int, factor: float, calls: int) -> tuple[Side, Side]:
    """Return runs of fifty shapes with 5 % of noise; the second takes ``factor`` as long in shape 17."""
    rng = random.Random(seed)

    def run(slowed: float) -> Side:
        means = [10.0 + shape for shape in range(SHAPES)]
        means[17] *= slowed
        return side(
            *(
                group(*noisy(rng, mean, calls), module=f"Norm_{i}", arguments=f"({i + 1},768) bf16")
                for i, mean in enumerate(means)
            ),
            steps=1,
        )

    return run(1.0), run(factor)


def real_shapes(comparison: Comparison) -> list[int]:
    return [pair.first[0] for pair in comparison.pairs if pair.significance and pair.significance.is_real]


@pytest.mark.parametrize("seed", range(20))
def test_ten_percent_in_one_shape_of_fifty_is_found_and_one_percent_is_not_called(seed: int) -> None:
    assert real_shapes(compare_sides(*two_runs(seed, 1.1, 100))) == [17]
    assert real_shapes(compare_sides(*two_runs(seed, 1 / 1.1, 100))) == [17]
    assert real_shapes(compare_sides(*two_runs(seed, 1.01, 100))) == []


def test_the_same_is_found_against_a_baseline_without_the_times_of_calls() -> None:
    for seed in range(10):
        first, second = two_runs(seed, 1.1, 100)
        found = compare_sides(without_times(first), second)
        assert real_shapes(found) == [17]
        assert {pair.significance.test for pair in found.pairs if pair.significance} == {"Welch t"}


def test_ten_percent_is_found_among_twenty_calls_of_each_shape_nearly_always() -> None:
    # Means two deviations apart: U is 92 % of 400, 4.5 of its deviations from the middle; Holm asks for 3.3.
    found = sum(17 in real_shapes(compare_sides(*two_runs(seed, 1.1, 20))) for seed in range(30))
    assert found >= 26


def test_false_alarms_among_few_calls_are_as_rare_as_the_test_says() -> None:
    # Holm keeps the chance of any alarm among the fifty at 5 %: of 100 runs 12 or more would be 1 in 200.
    alarms = sum(bool(real_shapes(compare_sides(*two_runs(seed, 1.0, 8)))) for seed in range(100))
    assert alarms < 12


def test_modules_together_tell_what_none_of_them_could_alone() -> None:
    rng = random.Random(1)

    def run(mean_us: float) -> Sequence[CallGroup]:
        return [group(rng.gauss(mean_us, 0.5), module=f"Norm_{i}") for i in range(12)]

    (pair,) = compare_sides(side(*run(10.0)), side(*run(12.0))).pairs
    assert sizes([pair]) == [(12, 12)]
    assert pair.significance is not None
    assert pair.significance.is_real


def test_a_side_that_knows_no_direction_pairs_its_backward_calls_too() -> None:
    names = ("rms_forward", "rms_backward")
    undirected = side(*(group(5.0, 5.0, name=name, direction="unknown") for name in names))
    directed = side(
        *(group(4.0, 4.0, name=n, direction=d) for n, d in zip(names, ("forward", "backward"), strict=True))
    )
    for first, second in ((undirected, directed), (directed, undirected)):
        found = compare_sides(first, second)
        assert [(pair.first, pair.second) for pair in found.pairs] == [((0,), (0,)), ((1,), (1,))]
        assert (found.only_first, found.only_second) == ((), ())
    backward = side(group(4.0, 4.0, direction="backward"))
    assert compare_sides(side(group(5.0, 5.0)), backward).pairs == ()
