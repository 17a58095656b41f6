"""The gate: every limit at its edge, what can't be told is skipped, and nothing slips through."""

import html
import math
from random import Random
from statistics import stdev

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate_inputs import NOISE, REAL, compared, group, judged, only, renamed, side
from normscope.compare.baseline import decode_baseline, encode_baseline
from normscope.compare.differences import overview
from normscope.compare.gate import SPLIT_DIFFERENTLY, check, require_same_gpu
from normscope.compare.gate_output import junit_xml, markdown_summary, text_lines
from normscope.compare.limits import Limits, OperationLimits, TimeLimits
from normscope.compare.measures import (
    FROM_NOTHING,
    NO_EFFICIENCY,
    NO_END_TO_END,
    NO_TIME,
    NO_TIMES,
    NOT_IN_BASELINE,
    NOT_IN_RESULT,
    NOT_SIGNIFICANT,
    NOT_TESTABLE,
)
from normscope.compare.models import CallGroup, Pair, Side
from normscope.compare.pairing import compare_sides
from normscope.errors import UsageError

SLOWER = compared(side(group(1100.0)), side(group(1000.0)))  # 1.1 ms after 1.0 ms


@pytest.mark.parametrize(
    ("limit", "outcome"),
    [
        ("max_increase_percent = 10", "passed"),  # exactly 10 % is within 10 %
        ("max_increase_percent = 9.99", "breached"),
        ("max_increase_percent = 0", "breached"),
        ("max_increase_ms = 0.1", "passed"),
        ("max_increase_ms = 0.0999", "breached"),
        ("max_time_ms = 1.1", "passed"),
        ("max_time_ms = 1.0999", "breached"),
        ("max_time_ms = 0", "breached"),
    ],
)
@pytest.mark.parametrize("table", ["[total]", "[variant.LayerNorm]", '[[operation]]\nname = "*layer_norm"'])
def test_a_limit_on_time_holds_at_its_edge_in_every_table(table: str, limit: str, outcome: str) -> None:
    verdict = judged(SLOWER, f"{table}\n{limit}")
    found = only(verdict, limit.partition(" ")[0])
    assert found.outcome == outcome
    assert (found.result, found.baseline, found.measured_in) == (1.1, 1.0, "ms")
    assert verdict.outcome == ("breached" if outcome == "breached" else "within")


def test_a_check_tells_limit_value_and_both_sides() -> None:
    found = only(judged(SLOWER, "[total]\nmax_increase_percent = 5"), "max_increase_percent")
    assert (found.table, found.what, found.limit, found.unit) == ("total", "all norms", 5.0, "%")
    assert found.value == pytest.approx(10.0)


def test_what_is_faster_has_a_negative_increase() -> None:
    verdict = judged(compared(side(group(900.0)), side(group(1000.0))), "[total]\nmax_increase_percent = 0")
    found = only(verdict, "max_increase_percent")
    assert found.outcome == "passed"
    assert found.value == pytest.approx(-10.0)


def test_the_total_adds_up_pairs_and_what_has_no_partner() -> None:
    # 1 + 2 ms after 1 ms: the second operation is new
    verdict = judged(
        compared(side(group(1000.0), group(2000.0)), side(group(1000.0))), "[total]\nmax_increase_percent = 1"
    )
    found = only(verdict, "max_increase_percent")
    assert (found.result, found.baseline) == (3.0, 1.0)
    assert found.value == pytest.approx(200.0)
    # 1 ms after 1 + 3 ms
    verdict = judged(
        compared(side(group(1000.0)), side(group(1000.0), group(3000.0))), "[total]\nmax_increase_ms = 1"
    )
    assert only(verdict, "max_increase_ms").value == pytest.approx(-3.0)


def test_the_baseline_is_scaled_to_the_steps_of_the_result() -> None:
    # 2 ms in 1 step after 6 ms in 3 steps is no increase; 1 ms of the baseline's unpaired 3 ms remains
    comparison = compared(
        side(group(2000.0, 10), steps=1), side(group(6000.0, 30), group(3000.0), steps=3), scale=1 / 3
    )
    found = only(judged(comparison, "[total]\nmax_increase_ms = 0"), "max_increase_ms")
    assert found.result == 2.0
    assert found.baseline == pytest.approx(3.0)
    verdict = judged(comparison, "")
    assert verdict.baseline_time_ms == pytest.approx(3.0)
    assert any("multiplied by 0.3333" in note for note in verdict.notes)


def test_a_variant_is_held_apart_from_others() -> None:
    rms = {"variant": "RMSNorm", "name": "aten::rms_norm"}
    comparison = compared(
        side(group(1000.0), group(1500.0, **rms)), side(group(1000.0), group(1000.0, **rms))
    )
    text = "[variant.LayerNorm]\nmax_increase_percent = 0\n[variant.RMSNorm]\nmax_increase_percent = 40"
    verdict = judged(comparison, text)
    outcomes = {each.table: each.outcome for each in verdict.checks if each.key == "max_increase_percent"}
    assert outcomes == {"variant.LayerNorm": "passed", "variant.RMSNorm": "breached"}


def test_each_operation_that_fits_is_held_on_its_own() -> None:
    other = {"name": "aten::rms_norm", "variant": "RMSNorm"}
    comparison = compared(
        side(group(1000.0), group(1000.0, **other), group(500.0, direction="backward")),
        side(group(1000.0), group(1000.0, **other), group(400.0, direction="backward")),
    )
    text = '[[operation]]\nname = "aten::*layer_norm*"\nmax_increase_percent = 20'
    found = [each for each in judged(comparison, text).checks if each.table == "operation.1"]
    assert [(each.where.split(" · ")[0], each.outcome) for each in found] == [
        ("backward", "breached"),
        ("forward", "passed"),
    ]


@pytest.mark.parametrize(
    ("filters", "fits"),
    [
        ('name = "aten::native_layer_norm"', True),
        ('name = "aten::native_layer"', False),
        ('name = "ATEN::*"', False),
        ('name = "*"\ndirection = "forward"', True),
        ('name = "*"\ndirection = "backward"', False),
        ('name = "*"\nvariant = "LayerNorm"', True),
        ('name = "*"\nvariant = "RMSNorm"', False),
        ('name = "*"\nmodule = "* > Norm_1"', True),
        ('name = "*"\nmodule = "Norm_1"', False),
        ('name = "*"\narguments = "(4096,1024)*"', True),
        ('name = "*"\narguments = "(8,*"', False),
    ],
)
def test_filters_choose_the_operations(filters: str, fits: bool) -> None:
    verdict = judged(SLOWER, f"[[operation]]\n{filters}\nmax_time_ms = 1")
    found = only(verdict, "max_time_ms")
    assert found.outcome == ("breached" if fits else "skipped")
    assert found.reason == ("" if fits else "no operation fits")


def test_an_operation_of_another_name_is_found_by_either() -> None:
    comparison = compared(side(group(1100.0, name="fused_norm")), side(group(1000.0)))
    for name in ("fused_norm", "aten::native_layer_norm"):
        verdict = judged(comparison, f'[[operation]]\nname = "{name}"\nmax_increase_percent = 5')
        found = only(verdict, "max_increase_percent")
        assert (found.outcome, found.what, found.baseline_what) == (
            "breached",
            "fused_norm",
            "aten::native_layer_norm",
        )


# Efficiency and impact.


def test_the_efficiency_of_several_operations_is_their_mean_by_time() -> None:
    # (3 ms * 20 % + 1 ms * 60 %) / 4 ms = 30 %; what isn't known, and an anomaly, is left out
    groups = (
        group(3000.0, efficiency_percent=20.0),
        group(1000.0, efficiency_percent=60.0),
        group(9000.0),
        group(9000.0, efficiency_percent=110.5),
    )
    comparison = compared(side(*groups), side(*groups))
    for limit, outcome in ((30, "passed"), (30.1, "breached")):
        found = only(
            judged(comparison, f"[total]\nmin_efficiency_percent = {limit}"), "min_efficiency_percent"
        )
        assert found.outcome == outcome
        assert found.value == pytest.approx(30.0)
        assert found.baseline == pytest.approx(30.0)


def test_the_impact_score_is_that_of_the_metrics() -> None:
    # 87.5 % of the gap: 0.875 * (1 - 0.2) * 1 ms / 10 ms = 7 %; of the second 0.875 * 0.4 * 0.5 / 10 = 1.75 %
    groups = (group(1000.0, efficiency_percent=20.0), group(500.0, efficiency_percent=60.0))
    comparison = compared(side(*groups), side(*groups))
    found = only(judged(comparison, "[total]\nmax_impact_score = 8"), "max_impact_score")
    assert found.outcome == "breached"
    assert found.value == pytest.approx(8.75)
    assert (
        only(judged(comparison, "[total]\nmax_impact_score = 8.75"), "max_impact_score").outcome == "passed"
    )


def test_what_is_not_known_is_skipped_with_a_reason() -> None:
    text = "[total]\nmin_efficiency_percent = 40\nmax_impact_score = 1"
    verdict = judged(SLOWER, text)
    assert [(each.key, each.outcome, each.reason) for each in verdict.checks[:2]] == [
        ("min_efficiency_percent", "skipped", NO_EFFICIENCY),
        ("max_impact_score", "skipped", NO_EFFICIENCY),
    ]
    known = side(group(efficiency_percent=20.0), end_to_end_ms=None)
    assert only(judged(compared(known, known), text), "max_impact_score").reason == NO_END_TO_END


# Significance.


@pytest.mark.parametrize(
    ("test", "outcome", "reason"),
    [(REAL, "breached", ""), (NOISE, "passed", NOT_SIGNIFICANT), (None, "skipped", NOT_TESTABLE)],
)
@pytest.mark.parametrize("table", ["[total]", "[variant.LayerNorm]", '[[operation]]\nname = "*"'])
def test_an_increase_that_is_noise_is_no_breach_where_only_real_ones_count(
    table: str, test: None, outcome: str, reason: str
) -> None:
    comparison = compared(side(group(1100.0)), side(group(1000.0)), [test])
    text = f"{table}\nmax_increase_percent = 5"
    assert only(judged(comparison, text), "max_increase_percent").outcome == "breached"
    found = only(judged(comparison, f"{text}\nonly_if_significant = true"), "max_increase_percent")
    assert (found.outcome, found.reason) == (outcome, reason)


@pytest.mark.parametrize("test", [REAL, NOISE, None])
def test_an_increase_within_its_limit_needs_no_test(test: None) -> None:
    comparison = compared(side(group(1100.0)), side(group(1000.0)), [test])
    text = "[total]\nmax_increase_percent = 10\nonly_if_significant = true"
    assert only(judged(comparison, text), "max_increase_percent").outcome == "passed"


def test_of_a_sum_only_the_real_differences_count() -> None:
    # +0.2 ms is real, +0.5 ms is noise: 10 % and 35 % of 2 ms
    comparison = compared(
        side(group(1200.0), group(1500.0)), side(group(1000.0), group(1000.0)), [REAL, NOISE]
    )
    for limit, outcome in ((9, "breached"), (10, "passed")):
        text = f"[total]\nmax_increase_percent = {limit}\nonly_if_significant = true"
        assert only(judged(comparison, text), "max_increase_percent").outcome == outcome


def test_of_a_sum_what_can_not_be_tested_decides_only_where_it_must() -> None:
    first, second = side(group(1200.0), group(1500.0)), side(group(1000.0), group(1000.0))
    text = "[total]\nmax_increase_percent = {}\nonly_if_significant = true"
    comparison = compared(first, second, [REAL, None])
    outcomes = [
        only(judged(comparison, text.format(limit)), "max_increase_percent").outcome for limit in (9, 20, 35)
    ]
    assert outcomes == ["breached", "skipped", "passed"]


def test_doubled_calls_are_no_noise() -> None:
    # 20 calls of 100 µs after 10 of 100 µs: a call takes as long as before
    comparison = compared(side(group(2000.0, 20)), side(group(1000.0, 10)), [NOISE])
    text = "[total]\nmax_increase_percent = {}\nonly_if_significant = true"
    assert only(judged(comparison, text.format(99)), "max_increase_percent").outcome == "breached"
    assert only(judged(comparison, text.format(100)), "max_increase_percent").outcome == "passed"


def test_more_steps_are_no_more_calls() -> None:
    # 33 calls in 3 steps after 10 in 1: a tenth more calls a step
    comparison = compared(
        side(group(3300.0, 33), steps=3), side(group(1000.0, 10), steps=1), [NOISE], scale=3.0
    )
    text = "[total]\nmax_increase_percent = {}\nonly_if_significant = true"
    assert only(judged(comparison, text.format(9)), "max_increase_percent").outcome == "breached"
    assert only(judged(comparison, text.format(10)), "max_increase_percent").outcome == "passed"


def test_the_noise_statement_counts_tests_and_real_differences() -> None:
    groups = (group(), group(), group())
    verdict = judged(compared(side(*groups), side(*groups), [REAL, NOISE]), "")
    assert "Noise: 3 operations on both sides, 2 tested, 1 with a difference beyond" in verdict.notes[-1]
    assert "no operation has enough calls" in judged(compared(side(*groups), side(*groups)), "").notes[-1]


# New, vanished and lost.


def test_a_new_operation_is_a_breach_unless_allowed() -> None:
    comparison = compared(side(group(), group(2500.0, name="new_norm")), side(group()))
    found = only(judged(comparison, ""), "allow_new")
    assert (found.outcome, found.what, found.result, found.baseline) == ("breached", "new_norm", 2.5, None)
    verdict = judged(comparison, "[coverage]\nallow_new = true")
    assert (verdict.outcome, only(verdict, "allow_new").outcome) == ("within", "passed")


def test_a_new_operation_in_several_modules_is_one() -> None:
    new = [group(500.0, 5, name="new", module=module) for module in ("A", "B", "C")]
    other = group(250.0, name="new", arguments="(8,8) f32")
    verdict = judged(compared(side(group(), *new, other), side(group())), "")
    found = verdict.of("breached")
    assert [each.result for each in found] == [1.5, 0.25]
    assert found[0].where == "forward · (4096,1024) bf16, (1024,) bf16 · A and 2 more"


def test_a_vanished_operation_is_told_and_a_breach_only_if_the_limits_say_so() -> None:
    comparison = compared(side(group()), side(group(), group(2500.0, name="old_norm")))
    verdict = judged(comparison, "")
    found = only(verdict, "allow_vanished")
    assert (verdict.outcome, found.what, found.baseline) == ("within", "old_norm", 2.5)
    assert judged(comparison, "[coverage]\nallow_vanished = false").outcome == "breached"


def test_the_notes_tell_what_is_on_one_side_alone() -> None:
    # the baseline has twice the steps, so that 3 ms of it are 1.5 ms
    first = side(group(), group(250.0, name="new"), group(500.0, name="newer"), steps=1)
    verdict = judged(compared(first, side(group(), steps=2), scale=0.5), "")
    assert "2 operations in the result alone, of 0.750 ms together." in verdict.notes
    old = side(group(), group(3000.0, name="old"), steps=2)
    verdict = judged(compared(side(group(), steps=1), old, scale=0.5), "")
    assert "1 operation in the baseline alone, of 1.500 ms together." in verdict.notes


def test_an_operation_of_one_side_has_no_increase_to_speak_of() -> None:
    text = '[[operation]]\nname = "x"\nmax_increase_percent = 1\nmax_time_ms = 1'
    new = judged(compared(side(group(), group(2000.0, name="x")), side(group())), text)
    assert only(new, "max_increase_percent").reason == NOT_IN_BASELINE
    assert only(new, "max_time_ms").outcome == "breached"
    old = judged(compared(side(group()), side(group(), group(name="x"))), text)
    assert only(old, "max_increase_percent").value == pytest.approx(-100.0)
    assert only(old, "max_time_ms").reason == NOT_IN_RESULT


def test_a_kind_of_norm_that_is_no_longer_found_is_lost_coverage() -> None:
    comparison = compared(side(group()), side(group(), group(1000.0, 7, direction="backward")))
    verdict = judged(comparison, "")
    (found,) = verdict.of("breached")
    assert (found.key, found.what, found.where) == ("allow_lost_coverage", "LayerNorm", "backward")
    assert found.reason == "the baseline has 7 calls, the result none"
    assert judged(comparison, "[coverage]\nallow_lost_coverage = true").outcome == "within"


def test_a_direction_that_is_not_known_is_forward_as_in_pairing() -> None:
    comparison = compared(side(group()), side(group(direction="unknown")))
    assert judged(comparison, "").outcome == "within"


def shares(result: dict[str, float], baseline: dict[str, float], text: str) -> dict[str, str]:
    verdict = judged(compared(side(group(), coverage_us=result), side(group(), coverage_us=baseline)), text)
    return {each.key: each.outcome for each in verdict.checks if "unattributed" in each.key}


def test_a_growing_share_that_nothing_explains_is_lost_coverage() -> None:
    # 5 % of 1000 µs after 3 %: two points
    baseline = {"explicit": 970.0, "other_kernels_without_op": 30.0}
    result = {
        "explicit": 950.0,
        "other_kernels_without_op": 20.0,
        "other_graph_kernels": 20.0,
        "unlinked": 10.0,
    }
    growth = "max_unattributed_increase_percent"
    assert shares(result, baseline, "") == {growth: "breached"}
    assert shares(result, baseline, f"[coverage]\n{growth} = 2") == {growth: "passed"}
    assert shares(result, baseline, f"[coverage]\n{growth} = 1.99") == {growth: "breached"}
    assert shares(result, baseline, "[coverage]\nallow_lost_coverage = true") == {}
    assert shares(baseline, result, "") == {growth: "passed"}
    most = "max_unattributed_percent"
    assert shares(baseline, baseline, f"[coverage]\n{most} = 3")[most] == "passed"
    assert shares(baseline, baseline, f"[coverage]\n{most} = 2.9")[most] == "breached"
    assert shares({}, baseline, f"[coverage]\n{most} = 2.9") == {most: "skipped", growth: "skipped"}
    assert shares(result, {"explicit": 0.0}, "") == {growth: "skipped"}


# GPUs, zero and NaN.


def test_a_baseline_of_another_gpu_is_refused() -> None:
    with pytest.raises(
        UsageError, match=r"another GPU \(GPU B\) than the result \(GPU A\).*--allow-other-gpu"
    ):
        require_same_gpu(side(), side(gpu="GPU B"))
    require_same_gpu(side(), side())
    for first, second in (("GPU A", None), (None, "GPU A"), (None, None)):
        require_same_gpu(side(gpu=first), side(gpu=second))


def test_a_verdict_says_so_where_the_gpus_differ_or_are_not_known() -> None:
    other = judged(compared(side(group()), side(group(), gpu="GPU B")), "")
    assert "The baseline is of another GPU than the result." in other.notes
    unknown = judged(compared(side(group()), side(group(), gpu=None)), "")
    assert any(note.startswith("It isn't known") for note in unknown.notes)
    same = judged(SLOWER, "")
    assert not any("GPU" in note for note in same.notes)


def test_from_nothing_to_something_is_beyond_any_percentage() -> None:
    text = "[total]\nmax_increase_percent = 1000000\nmax_increase_ms = 1"
    verdict = judged(compared(side(group(1000.0)), side(group(0.0))), text)
    found = only(verdict, "max_increase_percent")
    assert (found.outcome, found.value, found.reason) == ("breached", None, FROM_NOTHING)
    assert only(verdict, "max_increase_ms").outcome == "passed"
    nothing = judged(compared(side(group(0.0)), side(group(0.0))), text)
    assert only(nothing, "max_increase_percent").value == 0.0
    assert nothing.outcome == "within"


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("which", [0, 1])
def test_a_time_that_is_no_number_is_skipped(bad: float, which: int) -> None:
    sides = [side(group(1000.0)), side(group(1000.0))]
    sides[which] = side(group(bad))
    text = "[total]\nmax_increase_percent = 1\nmax_increase_ms = 1\nonly_if_significant = true"
    verdict = judged(compared(sides[0], sides[1]), text)
    assert {only(verdict, key).reason for key in ("max_increase_percent", "max_increase_ms")} == {NO_TIME}
    assert verdict.outcome == "within"


def test_two_empty_sides_have_nothing_to_check() -> None:
    verdict = judged(compared(side(), side()), "[total]\nmax_increase_percent = 0")
    assert verdict.outcome == "within"
    assert only(verdict, "max_increase_percent").outcome == "skipped"


def test_breaches_come_first_then_what_was_skipped() -> None:
    text = "[total]\nmax_time_ms = 9\nmin_efficiency_percent = 9\nmax_increase_percent = 1"
    outcomes = [each.outcome for each in judged(SLOWER, text).checks]
    assert set(outcomes) == {"breached", "skipped", "passed"}
    assert outcomes == sorted(outcomes, key=["breached", "skipped", "passed"].index)


# The whole way, from the times of calls.


def with_noise(slower_percent: float, seed: int) -> Side:
    """Return 50 shapes with 40 calls each of 100 µs, of 5 % noise; the calls of shape 17 are slower."""
    random = Random(seed)
    made = []
    for shape in range(50):
        mean_us = 100.0 * (1 + slower_percent / 100 if shape == 17 else 1)
        times_us = tuple(random.gauss(mean_us, 5.0) for _ in range(40))
        changes = {"arguments": f"({shape + 1},1024) bf16", "module": "", "order": shape}
        made.append(group(sum(times_us), 40, times_us=times_us, std_us=stdev(times_us), **changes))
    return side(*made)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("is_file", [False, True])
def test_ten_percent_in_one_shape_of_fifty_is_found_and_one_percent_is_not(seed: int, is_file: bool) -> None:
    text = '[[operation]]\nname = "*"\nmax_increase_percent = 0\nonly_if_significant = true'
    before = with_noise(0, 1000 + seed)
    if is_file:  # without the times of calls, so by another test
        before = decode_baseline(encode_baseline(before), "norms.json")
    for percent, expected in ((10, ["forward · (18,1024) bf16"]), (1, [])):
        verdict = judged(compare_sides(with_noise(percent, seed), before), text)
        assert [each.where for each in verdict.of("breached")] == expected


def test_a_norm_that_is_permuted_renamed_or_of_another_kernel_is_the_same() -> None:
    names = [f"aten::norm_{place}" for place in range(4)]
    made = [group(100.0, name=name, arguments=f"({place + 1},8) f32") for place, name in enumerate(names)]
    other = [renamed(each, name="fused", kernels=("k",), order=i) for i, each in enumerate(reversed(made))]
    text = '[[operation]]\nname = "*"\nmax_increase_percent = 0'
    assert judged(compare_sides(side(*made), side(*other)), text).outcome == "within"


# A part of an operation.


def modules(slow: int = -1, calls: int = 12) -> Side:
    """Return 25 modules with calls of 99 to 101 µs by turns; the module ``slow`` takes twice that."""
    made = []
    for place in range(25):
        times_us = tuple((99.0 + number % 3) * (2 if place == slow else 1) for number in range(calls))
        changes = {"module": f"Net_0 > L_{place}", "order": place, "std_us": stdev(times_us)}
        made.append(group(sum(times_us), calls, times_us=times_us, **changes))
    return side(*made)


@pytest.mark.parametrize("is_significant", [False, True])
@pytest.mark.parametrize("is_file", [False, True])
def test_a_module_is_held_on_its_own_though_its_operation_is_called_in_others(
    is_significant: bool, is_file: bool
) -> None:
    before = decode_baseline(encode_baseline(modules()), "norms.json") if is_file else modules()
    comparison = compare_sides(modules(slow=3), before)
    assert len(comparison.pairs) == 1
    text = f"only_if_significant = {str(is_significant).lower()}\n"
    slow = f'[[operation]]\nname = "*"\nmodule = "*L_3"\nmax_increase_percent = 20\n{text}'
    other = f'[[operation]]\nname = "*"\nmodule = "*L_4"\nmax_increase_percent = 1\n{text}'
    verdict = judged(comparison, slow + other)
    found = {each.table: each for each in verdict.checks if each.key == "max_increase_percent"}
    assert (found["operation.1"].outcome, found["operation.2"].outcome) == ("breached", "passed")
    # 12 calls of 100 µs in the mean
    assert found["operation.1"].value == pytest.approx(100.0)
    assert (found["operation.1"].result, found["operation.1"].baseline) == pytest.approx((2.4, 1.2))
    assert found["operation.2"].value == pytest.approx(0.0)
    assert found["operation.1"].where.endswith(" · Net_0 > L_3")


def test_a_part_is_tested_on_its_own_calls() -> None:
    # L_0 has become slower for real, L_1 has one call of 100 µs more among 20 as before: the whole is unsure.
    slow, fast = (tuple(start + 2.0 * number for number in range(20)) for start in (200, 100))
    now, before = ((95.0, 105.1) * 9 + (95.0, 205.1), (95.1, 105.0) * 10)
    first, second = (
        side(
            group(sum(changed), 20, times_us=changed, module="L_0"),
            group(sum(same), 20, times_us=same, module="L_1", order=1),
        )
        for changed, same in ((slow, now), (fast, before))
    )
    comparison = compare_sides(first, second)
    (test,) = (pair.significance for pair in comparison.pairs)
    assert test is not None
    assert not test.is_real
    text = '[[operation]]\nname = "*"\nmodule = "{}"\nmax_increase_percent = 1\nonly_if_significant = true'
    found = only(judged(comparison, text.format("L_1")), "max_increase_percent")
    assert (found.outcome, found.reason) == ("passed", NOT_SIGNIFICANT)
    assert only(judged(comparison, text.format("L_0")), "max_increase_percent").outcome == "breached"


def test_a_part_of_a_scaled_operation_is_scaled_as_it_is() -> None:
    # 3 steps of 100 µs after 1 step of 80 µs in L_1: 240 µs
    first = side(group(300.0, 3, module="L_0"), group(300.0, 3, module="L_1", order=1), steps=3)
    second = side(group(100.0, 1, module="L_0"), group(80.0, 1, module="L_1", order=1), steps=1)
    text = '[[operation]]\nname = "*"\nmodule = "L_1"\nmax_increase_percent = 20'
    found = only(judged(compare_sides(first, second), text), "max_increase_percent")
    assert (found.result, found.baseline, found.value) == pytest.approx((0.3, 0.24, 25.0))


def test_a_module_that_the_other_side_does_not_tell_apart_is_skipped() -> None:
    first = side(*(group(100.0, 1, module=f"L_{place}", order=place) for place in range(3)))
    comparison = compare_sides(first, side(group(300.0, 3, module="")))
    text = '[[operation]]\nname = "*"\nmodule = "{}"\nmax_increase_percent = 20'
    found = only(judged(comparison, text.format("L_1")), "max_increase_percent")
    assert (found.outcome, found.reason) == ("skipped", SPLIT_DIFFERENTLY)
    assert only(judged(comparison, text.format("L_?")), "max_increase_percent").outcome == "passed"


def test_a_module_of_a_new_operation_is_held_on_its_own() -> None:
    new = [group(1000.0, name="new", module=module) for module in ("A", "B")]
    text = '[[operation]]\nname = "new"\nmodule = "A"\nmax_time_ms = 1'
    found = only(judged(compared(side(group(), *new), side(group())), text), "max_time_ms")
    assert (found.outcome, found.result) == ("passed", 1.0)


# An outlier, and other numbers of calls.


def test_one_outlier_is_no_increase_where_all_other_calls_are_faster() -> None:
    # 29 calls of 96 to 96.28 µs and one of 700 µs, after 30 of 100 to 100.29 µs: 16 % more in sum
    now = (*(96.0 + number / 100 for number in range(29)), 700.0)
    before = tuple(100.0 + number / 100 for number in range(30))
    comparison = compare_sides(
        side(group(sum(now), 30, times_us=now)), side(group(sum(before), 30, times_us=before))
    )
    (pair,) = comparison.pairs
    assert pair.significance is not None
    assert pair.significance.is_real
    assert pair.time1_us > 1.15 * pair.time2_us
    assert [each.verdict for each in overview(comparison).differences] == ["noise"]
    for table in ("[total]", '[[operation]]\nname = "*"'):
        text = f"{table}\nmax_increase_percent = 5"
        assert only(judged(comparison, text), "max_increase_percent").outcome == "breached"
        found = only(judged(comparison, f"{text}\nonly_if_significant = true"), "max_increase_percent")
        assert (found.outcome, found.reason) == ("passed", NOT_SIGNIFICANT)


def test_more_calls_that_are_each_faster_add_what_they_add() -> None:
    # 20 calls of 90 µs after 10 of 100 µs: 1.8 ms after 1 ms
    faster = msgspec.structs.replace(REAL, effect_size=0.9)
    comparison = compared(side(group(1800.0, 20)), side(group(1000.0, 10)), [faster])
    text = "[total]\nmax_increase_percent = {}\nonly_if_significant = true"
    assert only(judged(comparison, text.format(79)), "max_increase_percent").outcome == "breached"
    assert only(judged(comparison, text.format(80)), "max_increase_percent").outcome == "passed"


# A time that the input doesn't tell.


def test_a_time_that_is_not_told_is_never_a_gain() -> None:
    unknown = group(0.0, has_time=False, efficiency_percent=50.0)
    small = {"name": "aten::rms_norm", "variant": "RMSNorm", "efficiency_percent": 50.0}
    limits = "\n".join(
        (
            "max_increase_percent = 10\nmax_increase_ms = 1\nmax_time_ms = 100",
            "min_efficiency_percent = 1\nmax_impact_score = 99",
        )
    )
    text = f'[total]\n{limits}\n[[operation]]\nname = "*"\n{limits}\n[variant.RMSNorm]\n{limits}'
    verdict = judged(
        compared(
            side(unknown, group(100.0, **small)),
            side(group(9000.0, efficiency_percent=50.0), group(100.0, **small)),
        ),
        text,
    )
    in_table = {
        table: {
            (each.outcome, each.reason)
            for each in verdict.checks
            if each.table == table and each.what != "aten::rms_norm"
        }
        for table in ("total", "operation.1", "variant.RMSNorm")
    }
    assert in_table == {
        "total": {("skipped", NO_TIMES.format("1 operation"))},
        "operation.1": {("skipped", NO_TIME)},
        "variant.RMSNorm": {("passed", "")},
    }
    assert (verdict.time_ms, verdict.result.norm_time_ms) == (None, None)
    told = "The result doesn't tell the kernel time of 1 operation: what concerns it is skipped"
    assert any(note.startswith(told) for note in verdict.notes)
    for text in ("\n".join(text_lines(verdict)), junit_xml(verdict).decode(), markdown_summary(verdict)):
        assert told in html.unescape(text)


def test_a_time_that_the_baseline_does_not_tell_is_no_zero() -> None:
    comparison = compared(side(group()), side(group(0.0, has_time=False)))
    found = only(judged(comparison, "[total]\nmax_increase_percent = 10"), "max_increase_percent")
    assert (found.outcome, found.reason, found.baseline) == ("skipped", NO_TIME, None)


def test_a_new_operation_without_a_time_is_still_new() -> None:
    verdict = judged(compared(side(group(), group(0.0, name="new", has_time=False)), side(group())), "")
    assert (only(verdict, "allow_new").outcome, only(verdict, "allow_new").result) == ("breached", None)
    assert "1 operation in the result alone, of unknown time." in verdict.notes


# What both sides are brought to.


def test_doubled_calls_of_one_of_two_operations_are_an_increase() -> None:
    # as recorded: 2 ms after 1 ms, and 1 ms as before
    other = group(1000.0, name="aten::rms_norm", variant="RMSNorm")
    comparison = compared(side(group(2000.0, 20), other), side(group(1000.0, 10), other), [NOISE, NOISE])
    text = '[[operation]]\nname = "*"\nmax_increase_percent = {}\nonly_if_significant = true'
    found = judged(comparison, text.format(99)).of("breached")
    assert [each.what for each in found] == ["aten::native_layer_norm"]
    assert found[0].value == pytest.approx(100.0)
    assert judged(comparison, text.format(100)).outcome == "within"


def test_a_longer_recording_is_told_with_both_times_of_the_baseline() -> None:
    # 2 ms in 20 calls after 1 ms in 10: that is 2 ms in as many
    first, second = side(group(2000.0, 20)), side(group(1000.0, 10))
    pair = Pair(first=(0,), second=(0,), paired_by="arguments", time1_us=2000.0, time2_us=2000.0)
    verdict = judged(
        compared(first, second, normalized="per call", pairs=(pair,)), "[total]\nmax_increase_percent = 0"
    )
    assert verdict.outcome == "within"
    assert (verdict.baseline.norm_time_ms, verdict.baseline_time_ms) == (1.0, 2.0)
    assert verdict.notes[0].endswith("All its norms take 1.000 ms as recorded, 2.000 ms so.")


def test_one_profiler_step_is_not_many() -> None:
    comparison = compared(side(group(), steps=1), side(group(4000.0, 40), steps=4), scale=0.25)
    told = "The result has 1 profiler step and the baseline 4: the baseline's times are multiplied by 0.25."
    assert judged(comparison, "[total]\nmax_time_ms = 1").notes[0].startswith(told)


def test_limits_that_limit_nothing_are_told() -> None:
    told = "The limits set none on time, efficiency or impact: only [coverage] is checked."
    assert told in judged(SLOWER, "").notes
    assert told in judged(SLOWER, "[coverage]\nallow_new = true").notes
    for text in ("[total]", "[variant.LayerNorm]", '[[operation]]\nname = "*"'):
        assert told not in judged(SLOWER, f"{text}\nmax_time_ms = 1").notes


# Properties.

positive = st.floats(0, 1e7, allow_nan=False)
groups = st.builds(
    lambda total, count, name, module, direction, times: group(
        total, count, name=name, module=module, direction=direction, std_us=1.0, times_us=tuple(times)
    ),
    positive,
    st.integers(1, 50),
    st.text(max_size=8),
    st.sampled_from(["", "A", "B"]),
    st.sampled_from(["forward", "backward", "unknown"]),
    st.lists(positive, max_size=6),
)
increases = st.builds(
    TimeLimits, max_increase_percent=positive, max_increase_ms=positive, only_if_significant=st.booleans()
)


@given(st.lists(groups, max_size=6), increases, st.integers(0, 3))
def test_a_result_against_itself_is_within_all_limits_on_increases(
    made: list[CallGroup], limit: TimeLimits, steps: int
) -> None:
    own = side(
        *(renamed(each, order=place) for place, each in enumerate(made)),
        steps=steps,
        coverage_us={"explicit": 5.0, "unlinked": 1.0},
    )
    wanted = Limits(
        total=limit,
        variant={"LayerNorm": limit},
        operation=(
            OperationLimits(
                name="*",
                max_increase_percent=limit.max_increase_percent,
                max_increase_ms=limit.max_increase_ms,
            ),
        ),
    )
    assert check(compare_sides(own, own), wanted).outcome == "within"


@given(st.lists(st.tuples(positive, positive), min_size=1, max_size=6), st.floats(0, 100))
def test_a_higher_limit_never_makes_a_breach(times: list[tuple[float, float]], limit: float) -> None:
    comparison = compared(side(*(group(a) for a, _ in times)), side(*(group(b) for _, b in times)))
    outcomes = [
        check(comparison, Limits(total=TimeLimits(max_increase_percent=each))).outcome
        for each in (limit, limit * 2 + 1)
    ]
    assert outcomes != ["within", "breached"]
