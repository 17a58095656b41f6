"""What is said of a comparison: the headline for every way it can come out, and the sentences by topic."""

from collections.abc import Sequence

import msgspec
import pytest

from comparison_inputs import FASTER, NOISE, SLOWER, comparison, group, hostile, pair, realistic, shape, side
from normscope.compare.answer import headline, proof_words, sentences, totals, verdict_words
from normscope.compare.differences import overview, times_by
from normscope.compare.models import CallGroup, Comparison, Significance
from normscope.compare.words import change_words


def of_times(*times_us: tuple[float, float], tests: Sequence[Significance | None]) -> Comparison:
    """Return a comparison of pairs of those times, each of a shape of its own."""
    first = [group(one, order=i, arguments=shape(i + 1)) for i, (one, _) in enumerate(times_us)]
    second = [group(two, order=i, arguments=shape(i + 1)) for i, (_, two) in enumerate(times_us)]
    return comparison(side(*first), side(*second), tests)


def topic(compared: Comparison, name: str) -> str:
    """Return what is said by topic, empty for nothing."""
    return dict(sentences(compared)).get(name, "")


def test_the_headline_says_how_much_where_and_what_carries_it() -> None:
    # 6600 less 5200 is 1400, 26.9% of 5200; 1330 of 1400 is 95%.
    times = [(2000.0, 1500.0), (2000.0, 1500.0), (1330.0, 1000.0), (1270.0, 1200.0)]
    assert headline(of_times(*times, tests=[SLOWER] * 4)) == (
        "Trace 1 spends 1.4 ms more in LayerNorm, 27% slower; 3 of 4 shapes carry 95% of it"
    )


def test_it_is_of_what_is_slower_where_another_shape_is_faster() -> None:
    # Slower by 1000 and 20, faster by 100: 920 of 2100, and 1000 of 1020 is 98%.
    compared = of_times((2000, 1000), (520, 500), (500, 600), tests=[SLOWER, SLOWER, FASTER])
    assert headline(compared) == (
        "Trace 1 spends 920 µs more in LayerNorm, 44% slower; 1 of 3 shapes carries 98% of what is slower"
    )


@pytest.mark.parametrize(
    ("times", "test", "said"),
    [
        ((127, 100), SLOWER, "Trace 1 spends 27 µs more in LayerNorm, 27% slower; all in one shape"),
        ((79, 100), FASTER, "Trace 1 spends 21 µs less in LayerNorm, 21% faster; all in one shape"),
        (
            (101, 100), NOISE,
            "No difference beyond the noise: LayerNorm takes 101 µs in trace 1 and 100 µs in trace 2",
        ),
        (
            (150, 100), None,
            "Trace 1 spends 50 µs more in LayerNorm, 50% slower, real or not: no test applies",
        ),
        ((100, 100), None, "As fast: LayerNorm takes 100 µs in trace 1 and 100 µs in trace 2"),
        ((0, 0), None, "Trace 1 spends 0 µs in LayerNorm, trace 2 no time at all"),
        ((5, 0), None, "Trace 1 spends 5 µs in LayerNorm, trace 2 no time at all"),
        ((5000, 100), SLOWER, "Trace 1 spends 4.9 ms more in LayerNorm, 50 times as slow; all in one shape"),
    ],
)  # fmt: skip
def test_every_outcome_of_one_pair_has_its_headline(
    times: tuple[float, float], test: Significance | None, said: str
) -> None:
    assert headline(of_times(times, tests=[test])) == said


def test_sides_without_norms_are_told() -> None:
    assert headline(comparison(side(), side(), [])) == "Neither trace holds a normalization"
    assert headline(comparison(side(group(5)), side(), [])) == "Only trace 1 holds normalization, 5 µs"
    assert headline(comparison(side(), side(group(7)), [])) == "Only trace 2 holds normalization, 7 µs"


def test_noise_that_outweighs_the_real_difference_is_not_called_real() -> None:
    said = headline(of_times((1300, 1000), (90, 100), tests=[NOISE, FASTER]))
    assert said == (
        "Trace 1 spends 290 µs more in LayerNorm, 26% slower, but by noise; for real, one operation is "
        "faster in trace 1"
    )


def test_sides_that_cancel_out_are_as_fast_in_sum() -> None:
    said = headline(of_times((1100, 1000), (900, 1000), tests=[SLOWER, FASTER]))
    assert said == (
        "As fast in sum: LayerNorm takes 2 ms in trace 1 and 2 ms in trace 2; one operation is slower in "
        "trace 1 and one operation is faster in trace 1"
    )


def test_a_variant_that_makes_the_difference_is_named_and_else_all_normalization() -> None:
    norms = [group(1500), group(100, variant="BatchNorm", order=1)]
    one_made_it = comparison(side(*norms), side(group(1000), norms[1]), [SLOWER, NOISE])
    assert headline(one_made_it).startswith("Trace 1 spends 500 µs more in LayerNorm, 50% slower")
    both = comparison(
        side(*norms), side(group(1300), group(20, variant="BatchNorm", order=1)), [SLOWER, SLOWER]
    )
    assert headline(both).startswith("Trace 1 spends 280 µs more in normalization, 21% slower")


def test_a_test_counts_only_where_the_sum_goes_the_same_way() -> None:
    (only,) = overview(of_times((100, 120), tests=[SLOWER])).differences
    assert (only.is_real, only.verdict, verdict_words(only)) == (False, "noise", "calls and sum disagree")


def test_another_number_of_calls_is_real_without_a_test() -> None:
    compared = comparison(side(group(200, count=20)), side(group(100, count=10)), [NOISE])
    (only,) = overview(compared).differences
    assert (only.verdict, verdict_words(only)) == ("slower", "other number of calls")
    assert "number of calls" in only.changes


def test_steps_scale_calls_and_times_of_trace_2() -> None:
    # 20 calls in 20 steps are 10 in 10 steps, as trace 1 has.
    compared = comparison(
        side(group(127), steps=10), side(group(200, count=20), steps=20), [SLOWER],
        scale=0.5, normalized="per step",
    )  # fmt: skip
    (only,) = overview(compared).differences
    assert not only.has_other_calls
    assert totals(compared) == (
        "Trace 1 spends 127 µs (1.3% of its GPU time) in normalization, trace 2 200 µs (2% of its GPU "
        "time), 100 µs when scaled: trace 1 is 27% slower. Times of trace 2 are scaled to the 10 steps of "
        "trace 1; it has 20 steps."
    )


def test_totals_add_up_to_both_sides() -> None:
    compared = realistic()
    found = overview(compared)
    assert found.time1_us == pytest.approx(sum(each.total_us for each in compared.first.groups))
    assert found.time2_us == pytest.approx(sum(each.total_us for each in compared.second.groups))
    by_name = times_by(found, lambda each: each.name).values()
    assert sum(one for one, _ in by_name) == pytest.approx(found.time1_us)
    assert sum(two for _, two in by_name) == pytest.approx(found.time2_us)


def test_mirrored_sides_mirror_the_headline() -> None:
    there = of_times((300, 200), (100, 100), tests=[SLOWER, NOISE])
    back = of_times((200, 300), (100, 100), tests=[FASTER, NOISE])
    assert "100 µs more" in headline(there)
    assert "100 µs less" in headline(back)


def test_the_topics_tell_real_noise_untested_and_alone() -> None:
    first = [group(100.0 + i, order=i, arguments=shape(i + 1)) for i in range(4)]
    second = [group(90.0, order=i, arguments=shape(i + 1)) for i in range(3)]
    compared = comparison(side(*first), side(*second), [SLOWER, NOISE, None])
    assert topic(compared, "Real differences") == (
        "1 of 3 pairs differs for real: trace 1 is slower (+10 µs). It is aten::layer_norm on (1,1024) bf16, "
        "forward: +10 µs, 11% slower (Mann-Whitney U, p = 0.001, Cliff's delta +1.00)."
    )
    assert topic(compared, "Noise") == (
        "1 of 3 pairs differs by no more than the spread of the calls explains, 11 µs in sum. 1 of 3 pairs "
        "can't be tested: too few calls, no spread known, or nothing in common but the variant. The "
        "difference is 12 µs in sum, real or not."
    )
    assert topic(compared, "Without a partner") == (
        "One operation in trace 1 only (103 µs, the longest aten::layer_norm on (4,1024) bf16, forward)."
    )


@pytest.mark.parametrize(
    ("gpus", "said"),
    [
        (("A", "A"), "Both ran on A."),
        ((None, None), "The GPU of neither trace is known, so a difference may be one of hardware."),
        (("A", None), "Trace 1 ran on A; the GPU of trace 2 isn't known."),
        (
            ("A", "B"),
            "Trace 1 ran on A and trace 2 ran on B: other hardware, so times differ without any change of "
            "code. Their peak memory bandwidths are 4 and 4 TB/s, a ratio of 1.",
        ),
    ],
)
def test_the_gpus_are_told(gpus: tuple[str | None, str | None], said: str) -> None:
    assert topic(comparison(side(gpu=gpus[0]), side(gpu=gpus[1]), []), "GPU") == said


def test_other_libraries_kernels_and_ops_are_told() -> None:
    other = group(name="triton", library="Triton", kernels=("k",), found_by="compiled", kind="compiled")
    compared = comparison(side(group()), side(other), [NOISE])
    assert topic(compared, "What else differs") == ("Besides the time: op, how it runs, library and kernels.")
    assert topic(compared, "Library") == "From trace 1 to trace 2, PyTorch Native became Triton in one pair."


def _weak(paired_by: str, old: CallGroup) -> tuple[str, ...]:
    weak = msgspec.structs.replace(pair(0, 0, (1, 1)), paired_by=paired_by)
    (only,) = overview(comparison(side(old), side(old), [None], pairs=(weak,))).differences
    return only.changes


def test_pairs_by_less_than_module_and_arguments_are_told() -> None:
    assert _weak("shape", group()) == ("paired by shape alone",)
    assert _weak("arguments", group()) == ("paired by arguments alone",)
    assert _weak("arguments", group(module="")) == ()


def test_p_values_and_effects_point_to_the_slower_trace() -> None:
    tiny = msgspec.structs.replace(SLOWER, p_value=1e-9, effect_size=-0.5)
    assert proof_words(tiny) == "Mann-Whitney U, p < 0.0001, Cliff's delta +0.50"


@pytest.mark.parametrize(
    ("times", "said"),
    [((100, 100.01), "as fast"), ((0, 0), "as fast"), ((1, 0), "slower"), ((0, 1), "100% faster")],
)
def test_changes_at_the_edges(times: tuple[float, float], said: str) -> None:
    assert change_words(*times) == said


def test_hostile_names_keep_sentences_short() -> None:
    assert all(len(text) < 1500 for _, text in sentences(hostile()))


def test_times_that_are_not_known_are_said_and_never_taken_for_none() -> None:
    unknown = msgspec.structs.replace(group(0), has_time=False)
    compared = comparison(side(unknown), side(group(100)), [None])
    assert headline(compared) == "Not to be compared as a whole: the time of 1 operation isn't known"
    assert totals(compared).startswith("These sums hold only the times that are known. ")
    (only,) = overview(compared).differences
    assert only.verdict == "untested"
