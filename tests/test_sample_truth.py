"""The simulated trace holds what its declared truth says, and the truth agrees with itself."""

import json
import math
import statistics
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from normscope.sample import workload
from normscope.sample.trace import sample_trace
from normscope.sample.truth import Truth, compulsory_bytes, sample_truth
from simulated_trace import Calls, Event, Trace, end, found_for, is_copy, norm_calls, of, read

PEAK_BYTES_PER_US = workload.PEAK_HBM_BW_TBS * 1e6


@pytest.fixture(scope="module")
def trace() -> Trace:
    return read(json.dumps(sample_trace()))


@pytest.fixture(scope="module")
def calls(trace: Trace) -> Calls:
    return norm_calls(trace)


@pytest.mark.parametrize("row", sample_truth(), ids=lambda row: f"{row.kind}-{row.shape}")
def test_counts_and_kernel_times_are_the_declared_ones(calls: Calls, row: Truth) -> None:
    found = found_for(row, calls)
    assert len(found) == row.calls
    assert {len(kernels) for kernels in found} == {row.kernels_per_call + row.helper_kernels_per_call}
    # The casts of an unfused norm are copies, too, but belong to it.
    times = [(event["dur"], is_copy(event) and row.found_as != "unfused") for each in found for event in each]
    own = [duration for duration, is_helper in times if not is_helper]
    helpers = [duration for duration, is_helper in times if is_helper]
    assert math.fsum(own) == pytest.approx(row.duration_us * row.calls, abs=1e-6)
    assert math.fsum(helpers) == pytest.approx(row.helper_us * row.calls, abs=1e-6)


@pytest.mark.parametrize("row", sample_truth(), ids=lambda row: f"{row.kind}-{row.shape}")
def test_efficiency_bytes_and_duration_of_the_truth_agree(row: Truth) -> None:
    if row.bytes_per_call is None or row.efficiency_percent is None:
        assert (row.bytes_per_call, row.efficiency_percent) == (None, None)
        return
    bandwidth = row.bytes_per_call / row.duration_us
    assert row.efficiency_percent == pytest.approx(100 * bandwidth / PEAK_BYTES_PER_US)


# By hand from the shapes with the rows of the coverage table; E elements, 2 bytes per bf16, statistics fp32.
@pytest.mark.parametrize(
    ("kind", "shape", "expected"),
    [
        # x, y; weight, bias; mean, invstd; running mean and variance read and written
        ("batch_norm_native", (2, 8, 4, 4), 2 * 256 * 2 + 2 * 8 * 2 + 2 * 8 * 4 + 4 * 8 * 2),
        # dy, x, dx; weight; mean, invstd; two gradients
        ("batch_norm_backward_native", (2, 8, 4, 4), 3 * 256 * 2 + 8 * 2 + 2 * 8 * 4 + 2 * 8 * 2),
        # dy, x, dx; mean, invstd of 16 channels: no weight
        ("instance_norm_backward_native", (1, 16, 4, 4), 3 * 256 * 2 + 2 * 16 * 4),
        ("layer_norm_native", (2, 3, 16), 2 * 96 * 2 + 2 * 16 * 2 + 2 * 6 * 4),
        ("layer_norm_backward_native", (2, 3, 16), 3 * 96 * 2 + 16 * 2 + 2 * 6 * 4 + 2 * 16 * 2),
        ("rms_norm_native", (2, 3, 16), 2 * 96 * 2 + 16 * 2 + 6 * 4),
        ("rms_norm_backward_native", (2, 3, 16), 3 * 96 * 2 + 16 * 2 + 6 * 4 + 16 * 2),
        ("rms_norm_aiter", (6, 16), 4 * 96 * 2 + 16 * 2),
        ("rms_norm_unfused", (6, 16), 2 * 96 * 2 + 16 * 2),
        # statistics of 2 samples times 32 groups, in bf16
        ("group_norm_copied", (2, 64, 2, 2), 2 * 512 * 2 + 2 * 64 * 2 + 2 * 64 * 2),
        ("group_norm_backward_native", (2, 64, 2, 2), 3 * 512 * 2 + 64 * 2 + 2 * 64 * 2 + 2 * 64 * 2),
        ("instance_norm_native", (2, 8, 4, 4), 2 * 256 * 2 + 2 * 16 * 4),
    ],
)
def test_compulsory_bytes_are_every_input_and_output_once(
    kind: str, shape: tuple[int, ...], expected: int
) -> None:
    assert compulsory_bytes(kind, shape, "bf16") == expected


def test_all_variants_directions_bands_and_special_cases_occur() -> None:
    rows = sample_truth()
    variants = {"BatchNorm", "LayerNorm", "GroupNorm", "InstanceNorm", "RMSNorm"}
    assert {row.variant for row in rows if row.direction == "forward"} == variants
    assert {row.library for row in rows} == {"PyTorch Native", "MIOpen", "AITER", "Triton"}
    efficiencies = [row.efficiency_percent for row in rows if row.efficiency_percent is not None]
    for low, high in ((0, 30), (30, 60), (60, 100)):
        assert any(low <= efficiency < high for efficiency in efficiencies)
    assert [round(efficiency) for efficiency in efficiencies if efficiency > 110] == [134]
    assert len([row for row in rows if row.bytes_per_call is None]) == 1
    assert len([row for row in rows if row.helper_kernels_per_call]) == 1


def test_the_unfused_norm_is_declared_as_its_kernels_are() -> None:
    """By hand, of 8192 rows of 4096 in bf16: E elements, R rows, N features.

    Cast 2E + 4E, square 4E + 4E, mean 4E + 4R, plus epsilon 4R + 4R, root 4R + 4R, product 4E + 4R + 4E,
    cast 4E + 2E, weight 2N + 2E + 2E. At 68% of 4 TB/s a kernel moves 2720 bytes a ns; the two on R alone
    would take 24 ns and take the 4 µs that nothing is shorter than.
    """
    (row,) = (row for row in sample_truth() if row.found_as == "unfused")
    e, r, n = 8192 * 4096, 8192, 4096
    assert (row.op, row.variant, row.calls, row.shape) == ("eager::TextRMSNorm", "RMSNorm", 6, (8192, 4096))
    assert row.bytes_per_call == 4 * e + 2 * n == 134_225_920
    assert row.launched_bytes_per_call == 36 * e + 24 * r + 2 * n == 1_208_164_352
    moved = [6 * e, 8 * e, 4 * e + 4 * r, None, None, 8 * e + 4 * r, 6 * e, 4 * e + 2 * n]
    expected_ns = [4000 if size is None else size / 2720 for size in moved]
    found_ns = [1000 * row.duration_us * share for share in row.kernel_shares]
    assert found_ns == pytest.approx(expected_ns, abs=0.5)
    assert {row.found_as for row in sample_truth()} == {"norm", "compiled", "unfused"}


def test_each_kernel_of_the_unfused_norm_takes_its_share_of_the_call(calls: Calls) -> None:
    (row,) = (row for row in sample_truth() if row.found_as == "unfused")
    for kernels in found_for(row, calls):
        times = [event["dur"] for event in sorted(kernels, key=lambda event: event["ts"])]
        shares = [share * math.fsum(times) for share in row.kernel_shares]
        assert times == pytest.approx(shares, abs=0.005)  # the last takes what rounding to ns leaves


def call_times(row: Truth, calls: Calls) -> list[float]:
    in_order = sorted(found_for(row, calls), key=lambda kernels: kernels[0]["ts"])
    return [math.fsum(event["dur"] for event in kernels) for kernels in in_order]


def test_one_signature_varies_more_than_its_mean(calls: Calls) -> None:
    spread = {
        (row.op, row.shape): statistics.stdev(times) / statistics.fmean(times)
        for row in sample_truth()
        for times in [call_times(row, calls)]
    }
    assert [signature for signature, ratio in spread.items() if ratio > 1] == [
        ("aten::batch_norm", (64, 256, 56, 56))
    ]


def test_the_first_call_of_a_group_norm_is_slow(calls: Calls) -> None:
    slow = [row for row in sample_truth() if row.first_call_factor > 1]
    assert slow
    for row in slow:
        first, *others = call_times(row, calls)
        assert first > 3 * statistics.fmean(others)


def test_one_norm_is_recorded_without_its_arguments(trace: Trace) -> None:
    bare = [event for event in of(trace, "cpu_op") if event["name"] == "aten::layer_norm"]
    assert len([event for event in bare if "Input Dims" not in event["args"]]) == 8


def test_normalization_takes_about_a_quarter_of_kernel_time(trace: Trace) -> None:
    norm_us = math.fsum(row.total_us for row in sample_truth())
    assert 0.2 < norm_us / math.fsum(event["dur"] for event in of(trace, "kernel")) < 0.3


def covered(events: Iterable[Event]) -> float:
    total, reached = 0.0, -math.inf
    for event in sorted(events, key=lambda event: event["ts"]):
        total += max(0.0, end(event) - max(event["ts"], reached))
        reached = max(reached, end(event))
    return total


def test_the_timeline_has_idle_time_and_exposed_communication_and_copies(trace: Trace) -> None:
    kernels, copies = of(trace, "kernel"), of(trace, "gpu_memcpy")
    compute = [event for event in kernels if "nccl" not in event["name"]]
    everything = [*kernels, *copies]
    span = max(map(end, everything)) - min(event["ts"] for event in everything)
    assert span - covered(everything) > 0.01 * span
    assert covered(kernels) - covered(compute) > 0.005 * span
    assert covered(everything) - covered(kernels) > 0.005 * span
    hidden = [event for event in kernels if "nccl" in event["name"]]
    assert covered(kernels) < covered(compute) + covered(hidden) - 1000


def test_the_optimizer_waits_for_the_last_gradients(trace: Trace) -> None:
    kernels = of(trace, "kernel")
    updates = sorted(event["ts"] for event in kernels if "FusedAdam" in event["name"])
    exchanges = sorted(map(end, (event for event in kernels if "nccl" in event["name"])))
    assert (len(updates), len(exchanges)) == (8, 8)
    for step in (0, 4):
        assert updates[step] > exchanges[step + 3]


def test_the_steps_are_annotated_on_both_sides(trace: Trace) -> None:
    for category in ("user_annotation", "gpu_user_annotation"):
        names = [event["name"] for event in of(trace, category) if event["name"].startswith("ProfilerStep#")]
        assert names == ["ProfilerStep#3", "ProfilerStep#4"]


def test_one_step_holds_half_of_the_calls_of_two() -> None:
    one, two = sample_truth(1), sample_truth(2)
    assert [row.calls * 2 for row in one] == [row.calls for row in two]
    calls = norm_calls(sample_trace(steps=1))
    for row in one:
        found = found_for(row, calls)
        assert len(found) == row.calls
        total_us = math.fsum(event["dur"] for kernels in found for event in kernels)
        assert total_us == pytest.approx(row.total_us, abs=1e-6)


@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_totals_are_exact_whatever_the_seed(seed: int) -> None:
    calls = norm_calls(sample_trace(seed=seed, steps=1))
    found = [kernels for same in calls.values() for kernels in same]
    total_us = math.fsum(event["dur"] for kernels in found for event in kernels)
    assert total_us == pytest.approx(math.fsum(row.total_us for row in sample_truth(1)), abs=1e-5)
    assert all(event["dur"] > 0 for kernels in found for event in kernels)
