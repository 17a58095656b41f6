"""The simulated trace is a well-formed profiler trace that holds what its declared truth says."""

import gzip
import json
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from normscope.errors import UsageError
from normscope.sample import workload
from normscope.sample.device import gpu_file, write_sample_gpu_file
from normscope.sample.forms import Form
from normscope.sample.large_trace import KERNEL_US, generate_large_trace
from normscope.sample.recorded import recorded_arguments
from normscope.sample.trace import sample_trace, write_sample_trace
from normscope.sample.truth import Truth, compulsory_bytes, sample_truth

Event = dict[str, Any]
Trace = dict[str, Any]
Calls = dict[tuple[str, tuple[Any, ...]], list[list[Event]]]
LISTS = ("Concrete Inputs", "Input type", "Input Strides", "Input Dims")
PEAK_BYTES_PER_US = workload.PEAK_HBM_BW_TBS * 1e6
# The floats of the file hold µs since 5e9 to within a quarter of a ns.
EPSILON_US = 0.002


@pytest.fixture(scope="module")
def trace() -> Trace:
    return read(json.dumps(sample_trace()))


@pytest.fixture(scope="module")
def calls(trace: Trace) -> Calls:
    return norm_calls(trace)


def read(text: str | bytes) -> Trace:
    found: Trace = json.loads(text)
    return found


def of(trace: Trace, *categories: str) -> list[Event]:
    return [event for event in trace["traceEvents"] if event.get("cat") in categories]


def end(event: Event) -> float:
    return float(event["ts"] + event["dur"])


def with_ancestors(events: Iterable[Event]) -> list[tuple[Event, list[Event]]]:
    """Give every span of every thread those around it, the outermost first; spans must nest."""
    found = []
    threads = defaultdict(list)
    for event in events:
        threads[event["pid"], event["tid"]].append(event)
    for spans in threads.values():
        open_spans: list[Event] = []
        for span in sorted(spans, key=lambda event: (event["ts"], -event["dur"])):
            while open_spans and end(open_spans[-1]) <= span["ts"]:
                open_spans.pop()
            if open_spans:
                assert end(span) <= end(open_spans[-1]) + EPSILON_US
            found.append((span, list(open_spans)))
            open_spans.append(span)
    return found


def norm_calls(trace: Trace) -> Calls:
    """Find the kernels of every call of a norm, by outermost norm op and the arguments of that op.

    This is an own small reader: kernel to launch by correlation, launch to the ops around it by time.
    """
    kernels = {event["args"]["correlation"]: event for event in of(trace, "kernel")}
    kernels_of: dict[int, list[Event]] = defaultdict(list)
    ops = {}
    for span, ancestors in with_ancestors(of(trace, "cpu_op", "cuda_runtime")):
        kernel = kernels.get(span["args"].get("correlation"))
        norms = [op for op in ancestors if is_norm(op["name"])]
        if kernel is not None and norms:
            kernels_of[norms[0]["args"]["External id"]].append(kernel)
            ops[norms[0]["args"]["External id"]] = norms[0]
    found = defaultdict(list)
    for number, own in kernels_of.items():
        op = ops[number]
        found[op["name"], freeze(op["args"].get("Input Dims"), op["args"].get("Input type"))].append(own)
    return found


def is_norm(name: str) -> bool:
    return "norm" in name and not name.startswith("autograd")


def freeze(dims: list[list[int]] | None, types: list[str] | None) -> tuple[Any, ...]:
    return () if dims is None or types is None else (tuple(map(tuple, dims)), tuple(types))


def found_for(row: Truth, calls: Calls) -> list[list[Event]]:
    """Return the kernels of each call of ``row``, found by its op, its shape and whether it has a weight."""
    matching = []
    for (name, arguments), found in calls.items():
        if name != row.op:
            continue
        shape = arguments[0][0] if arguments else None
        if row.kind == "layer_norm_unrecorded":
            is_row = shape is None
        else:
            has_weight = bool(arguments) and "instance_norm" not in row.kind
            is_row = shape == row.shape and (
                row.direction == "forward" or has_weight == (arguments[1][2] != "")
            )
        if is_row:
            matching += found
    return matching


def is_copy(kernel: Event) -> bool:
    return "direct_copy_kernel" in kernel["name"]


def test_the_file_is_valid_json_of_under_400_kb(tmp_path: Path) -> None:
    path = write_sample_trace(tmp_path / "trace.json.gz")
    assert path.stat().st_size < 400_000
    trace = read(gzip.decompress(path.read_bytes()))
    assert trace["normscope_simulated"] is True
    assert len(trace["traceEvents"]) > 10_000


def test_the_same_arguments_give_the_same_bytes(tmp_path: Path) -> None:
    first = write_sample_trace(tmp_path / "one.json.gz", steps=1).read_bytes()
    assert write_sample_trace(tmp_path / "another.json.gz", steps=1).read_bytes() == first


def test_another_seed_gives_other_times() -> None:
    assert sample_trace(steps=1, seed=1) != sample_trace(steps=1)


def test_a_plain_name_gives_plain_json(tmp_path: Path) -> None:
    plain = write_sample_trace(tmp_path / "trace.json", steps=1).read_bytes()
    packed = write_sample_trace(tmp_path / "trace.json.gz", steps=1).read_bytes()
    assert gzip.decompress(packed) == plain


def test_a_file_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="can't be written"):
        write_sample_trace(tmp_path / "missing" / "trace.json", steps=1)


def test_every_piece_of_gpu_work_has_one_launch_and_every_launch_its_work(trace: Trace) -> None:
    work = Counter(event["args"]["correlation"] for event in of(trace, "kernel", "gpu_memcpy"))
    launches = Counter(
        event["args"]["correlation"]
        for event in of(trace, "cuda_runtime")
        if "Synchronize" not in event["name"]
    )
    assert work == launches
    assert set(work.values()) == {1}


def test_gpu_work_starts_after_its_launch_and_never_overlaps_on_its_stream(trace: Trace) -> None:
    launches = {event["args"]["correlation"]: event for event in of(trace, "cuda_runtime")}
    streams = defaultdict(list)
    for event in of(trace, "kernel", "gpu_memcpy"):
        assert event["ts"] > end(launches[event["args"]["correlation"]])
        assert (event["pid"], event["tid"]) == (event["args"]["device"], event["args"]["stream"])
        streams[event["tid"]].append(event)
    assert set(streams) == {0, 4}
    for events in streams.values():
        in_order = sorted(events, key=lambda event: event["args"]["correlation"])
        assert all(end(a) < b["ts"] for a, b in pairwise(in_order))


def test_spans_nest_on_every_thread_with_their_python_parents(trace: Trace) -> None:
    for span, ancestors in with_ancestors(
        of(trace, "cpu_op", "cuda_runtime", "python_function", "user_annotation")
    ):
        if span["cat"] == "python_function":
            frames = [event for event in ancestors if event["cat"] == "python_function"]
            parent = frames[-1]["args"]["Python id"] if frames else None
            assert span["args"]["Python parent id"] == parent


def test_work_and_launches_name_the_innermost_op_around_the_launch(trace: Trace) -> None:
    work = {event["args"]["correlation"]: event for event in of(trace, "kernel", "gpu_memcpy")}
    for span, ancestors in with_ancestors(of(trace, "cpu_op", "cuda_runtime", "user_annotation")):
        if span["args"].get("correlation") in work:
            linked = work[span["args"]["correlation"]]["args"]["External id"]
            assert linked == span["args"]["External id"] == ancestors[-1]["args"]["External id"]


def test_ids_are_unique(trace: Trace) -> None:
    for key, events in (
        ("External id", of(trace, "cpu_op", "user_annotation")),
        ("Python id", of(trace, "python_function")),
        ("correlation", of(trace, "cuda_runtime")),
    ):
        numbers = [event["args"][key] for event in events]
        assert len(set(numbers)) == len(numbers)


def test_flow_events_lie_on_the_events_that_they_join(trace: Trace) -> None:
    starts = {
        (event["pid"], event["tid"], event["ts"]) for event in trace["traceEvents"] if event["ph"] == "X"
    }
    for category in ("ac2g", "fwdbwd"):
        phases = defaultdict(list)
        for event in of(trace, category):
            assert (event["pid"], event["tid"], event["ts"]) in starts
            phases[event["id"]].append(event["ph"])
        assert phases
        assert all(sorted(pair) == ["f", "s"] for pair in phases.values())


def test_the_four_lists_of_arguments_have_one_length_and_follow_the_recording_rules(
    trace: Trace,
) -> None:
    for event in of(trace, "cpu_op"):
        args = event["args"]
        if LISTS[0] not in args:
            continue
        values, types, strides, dims = (args[key] for key in LISTS)
        assert len({len(values), len(types), len(strides), len(dims)}) == 1
        for value, kind, stride, dim in zip(values, types, strides, dims, strict=True):
            assert isinstance(value, str)
            assert len(stride) == len(dim)
            if kind in ("", "Scalar", "ScalarList"):
                assert dim == []
                assert (value == "") == (kind == "")
            else:
                assert value == ""


# Number of arguments and places of activation, weight and settings, from the ATen schemas.
@pytest.mark.parametrize(
    ("op", "count", "tensors", "settings"),
    [
        ("aten::batch_norm", 9, [0, 1, 2, 3, 4], {5: "True", 6: "0.10000000000000001"}),
        ("aten::_batch_norm_impl_index", 9, [0, 1, 2, 3, 4], {5: "True", 8: "True"}),
        ("aten::native_batch_norm", 8, [0, 1, 2, 3, 4], {5: "True", 7: "1.0000000000000001e-05"}),
        ("aten::miopen_batch_norm", 8, [0, 1, 2, 3, 4], {5: "True"}),
        ("aten::layer_norm", 6, [0, 2, 3], {5: "True"}),
        ("aten::native_layer_norm", 5, [0, 2, 3], {1: "[1024]", 4: "1.0000000000000001e-05"}),
        ("aten::rms_norm", 4, [0, 2], {1: "[64]", 3: "9.9999999999999995e-07"}),
        ("aten::_fused_rms_norm", 4, [0, 2], {1: "[64]"}),
        ("aten::group_norm", 6, [0, 2, 3], {1: "32", 5: "True"}),
        ("aten::native_group_norm", 8, [0, 1, 2], {3: "16", 4: "320", 5: "4096", 6: "32"}),
        ("aten::instance_norm", 9, [0], {5: "True", 8: "True"}),
        ("aiter::add_rmsnorm", 6, [0, 1, 2, 3, 4], {5: "9.9999999999999995e-07"}),
        (
            "aten::native_batch_norm_backward",
            10,
            [0, 1, 2, 3, 4, 5, 6],
            {7: "True", 9: "[True, True, True]"},
        ),
        ("aten::miopen_batch_norm_backward", 8, [0, 1, 2, 3, 4, 5, 6], {7: "1.0000000000000001e-05"}),
        ("aten::native_layer_norm_backward", 8, [0, 1, 3, 4, 5, 6], {2: "[1024]", 7: "[True, True, True]"}),
        ("aten::_fused_rms_norm_backward", 6, [0, 1, 3, 4], {2: "[64]", 5: "[True, True]"}),
        (
            "aten::native_group_norm_backward",
            10,
            [0, 1, 2, 3, 4],
            {5: "16", 6: "1280", 7: "256", 8: "32", 9: "[True, True, True]"},
        ),
    ],
)
def test_arguments_stand_at_the_places_of_the_schema(
    trace: Trace, op: str, count: int, tensors: list[int], settings: dict[int, str]
) -> None:
    args = next(
        event["args"]
        for event in of(trace, "cpu_op")
        if event["name"] == op and event["args"].get("Input Dims", [[1]])[0][0] > 1  # no instance norm
    )
    kinds = args["Input type"]
    assert len(kinds) == count
    assert [place for place, kind in enumerate(kinds) if kind not in ("", "Scalar", "ScalarList")] == tensors
    assert {place: args["Concrete Inputs"][place] for place in settings} == settings


@pytest.mark.parametrize("name", ["norm_layers_mi300x", "resnet_checkpoint_mi300x", "sglang_prefill_mi300x"])
def test_ops_have_as_many_arguments_as_in_real_traces(trace: Trace, shared: Path, name: str) -> None:
    real = read(gzip.decompress((shared / "traces" / f"{name}.json.gz").read_bytes()))

    def lengths(of_trace: Trace) -> dict[str, set[int]]:
        found = defaultdict(set)
        for event in of(of_trace, "cpu_op"):
            if "Input type" in event["args"]:
                found[event["name"]].add(len(event["args"]["Input type"]))
        return found

    simulated, recorded = lengths(trace), lengths(real)
    common = set(simulated) & set(recorded)
    assert any(is_norm(op) for op in common)
    assert {op: simulated[op] for op in common} == {op: recorded[op] for op in common}


def test_statistics_and_absent_parameters_are_recorded_as_pytorch_does() -> None:
    # Copied by hand from a profile of torch: a layer norm backward without weight and bias.
    words = "activation activation [{N}] row_stat row_stat absent absent [True,False,False]"
    assert recorded_arguments(words, (8, 16, 32), "bf16") == {
        "Concrete Inputs": ["", "", "[32]", "", "", "", "", "[True, False, False]"],
        "Input type": ["c10::BFloat16"] * 2 + ["ScalarList", "float", "float", "", "", "ScalarList"],
        "Input Strides": [[512, 32, 1], [512, 32, 1], [], [16, 1, 1], [16, 1, 1], [], [], []],
        "Input Dims": [[8, 16, 32], [8, 16, 32], [], [8, 16, 1], [8, 16, 1], [], [], []],
    }


def test_chains_of_nested_ops_are_those_of_real_traces(trace: Trace) -> None:
    chains = set()
    for span, ancestors in with_ancestors(of(trace, "cpu_op", "cuda_runtime")):
        names = tuple(event["name"] for event in ancestors)
        if span["cat"] == "cuda_runtime" and any("orm" in name for name in names):
            chains.add(names)
    assert {
        ("aten::batch_norm", "aten::_batch_norm_impl_index", "aten::native_batch_norm"),
        ("aten::batch_norm", "aten::_batch_norm_impl_index", "aten::miopen_batch_norm"),
        ("aten::layer_norm", "aten::native_layer_norm"),
        ("aten::group_norm", "aten::native_group_norm"),
        (
            *("aten::group_norm", "aten::native_group_norm"),
            *("aten::contiguous", "aten::clone", "aten::copy_"),
        ),
        ("aten::rms_norm", "aten::_fused_rms_norm"),
        (
            *("aten::instance_norm", "aten::batch_norm"),
            *("aten::_batch_norm_impl_index", "aten::native_batch_norm"),
        ),
        (
            "autograd::engine::evaluate_function: NativeLayerNormBackward0",
            *("NativeLayerNormBackward0", "aten::native_layer_norm_backward"),
        ),
        (
            "autograd::engine::evaluate_function: MiopenBatchNormBackward0",
            *("MiopenBatchNormBackward0", "aten::miopen_batch_norm_backward"),
        ),
    } <= chains


def test_backward_runs_on_its_own_thread_with_the_sequence_number_of_its_forward(
    trace: Trace,
) -> None:
    forward: dict[int, Event] = {}
    backward: dict[int, Event] = {}
    for event in of(trace, "cpu_op"):
        if "Sequence number" in event["args"]:
            found = backward if event["args"]["Fwd thread id"] else forward
            found.setdefault(event["args"]["Sequence number"], event)
    assert set(backward) == set(forward)
    assert {event["tid"] for event in forward.values()} != {event["tid"] for event in backward.values()}
    assert all(event["name"].startswith("autograd::engine") for event in backward.values())


def test_modules_form_the_declared_tree(trace: Trace) -> None:
    forward = [row for row in sample_truth() if row.direction == "forward"]
    ops = {row.op for row in forward}
    paths = set()
    for span, ancestors in with_ancestors(of(trace, "python_function", "cpu_op")):
        if span["name"] in ops:
            names = [event["name"] for event in ancestors if event["name"].startswith("nn.Module: ")]
            paths.add(" > ".join(name.removeprefix("nn.Module: ").rpartition("_")[0] for name in names))
    assert paths == {row.module for row in forward}


@pytest.mark.parametrize("row", sample_truth(), ids=lambda row: f"{row.kind}-{row.shape}")
def test_counts_and_kernel_times_are_the_declared_ones(calls: Calls, row: Truth) -> None:
    found = found_for(row, calls)
    assert len(found) == row.calls
    assert {len(kernels) for kernels in found} == {row.kernels_per_call + row.helper_kernels_per_call}
    own = [event["dur"] for kernels in found for event in kernels if not is_copy(event)]
    helpers = [event["dur"] for kernels in found for event in kernels if is_copy(event)]
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
    assert len([row for row in rows if row.bytes_per_call is None]) == 2
    assert len([row for row in rows if row.helper_kernels_per_call]) == 1


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


def test_the_device_declares_its_peaks_as_a_tracelens_file(trace: Trace, tmp_path: Path) -> None:
    (device,) = trace["deviceProperties"]
    assert device["name"] == "Simulated GPU (no real device)"
    assert device["normscope_peaks"] == gpu_file()
    written = json.loads(write_sample_gpu_file(tmp_path / "gpu.json").read_text(encoding="utf-8"))
    assert written["mem_bw_gbps"] == 4000
    assert written["max_achievable_tflops"]["vector_bf16"] == 120


def test_without_shapes_no_op_has_arguments_and_nothing_else_changes(trace: Trace) -> None:
    bare = sample_trace(form=Form(record_shapes=False))
    assert "record_shapes" not in bare
    assert not [event for event in bare["traceEvents"] if LISTS[0] in event.get("args", {})]
    assert [event["name"] for event in bare["traceEvents"]] == [
        event["name"] for event in trace["traceEvents"]
    ]


def test_gpu_only_has_work_and_launches_without_ops() -> None:
    trace = sample_trace(form=Form(gpu_only=True), steps=1)
    assert {event.get("cat") for event in trace["traceEvents"]} == {
        *("kernel", "gpu_memcpy", "cuda_runtime", "ac2g"),
        None,
    }
    assert not [event for event in trace["traceEvents"] if "External id" in event.get("args", {})]


def test_without_gpu_kernels_there_is_no_device_and_no_gpu_activity() -> None:
    trace = sample_trace(form=Form(gpu_kernels=False), steps=1)
    assert trace["deviceProperties"] == []
    assert {event.get("cat") for event in trace["traceEvents"]} == {
        *("cpu_op", "python_function", "user_annotation", "fwdbwd"),
        None,
    }


def test_the_legacy_form_has_capitalized_categories_whole_us_and_threads_by_name() -> None:
    trace = sample_trace(form=Form(legacy=True), steps=1)
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert {event["cat"] for event in spans} == {"Operator", "Runtime", "Kernel", "Memcpy"}
    assert all(isinstance(event[key], int) for event in spans for key in ("ts", "dur"))
    assert {event["tid"] for event in of(trace, "Kernel")} == {"stream 0", "stream 4"}
    assert all("external id" in event["args"] for event in of(trace, "Kernel"))


@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_totals_are_exact_whatever_the_seed(seed: int) -> None:
    calls = norm_calls(sample_trace(seed=seed, steps=1))
    found = [kernels for same in calls.values() for kernels in same]
    total_us = math.fsum(event["dur"] for kernels in found for event in kernels)
    assert total_us == pytest.approx(math.fsum(row.total_us for row in sample_truth(1)), abs=1e-5)
    assert all(event["dur"] > 0 for kernels in found for event in kernels)


@settings(max_examples=3, deadline=None)
@given(factor=st.sampled_from([0.5, 2.0, 3.0]))
def test_scaling_scales_all_work_on_the_gpu(factor: float) -> None:
    usual, scaled = sample_trace(steps=1), sample_trace(steps=1, form=Form(scale_durations=factor))
    for before, after in zip(of(usual, "kernel"), of(scaled, "kernel"), strict=True):
        assert before["name"] == after["name"]
        assert after["dur"] == pytest.approx(factor * before["dur"], abs=0.0006)


def test_shuffling_changes_only_the_order() -> None:
    shuffled = sample_trace(steps=1, form=Form(shuffle=7))["traceEvents"]
    usual = sample_trace(steps=1)["traceEvents"]
    assert shuffled != usual
    assert sorted(map(json.dumps, shuffled)) == sorted(map(json.dumps, usual))


def test_a_large_trace_is_valid_json_of_the_wanted_size(tmp_path: Path) -> None:
    path = generate_large_trace(tmp_path / "large.json", 3_000_000)
    assert path.stat().st_size == pytest.approx(3_000_000, abs=300_000)
    trace = read(path.read_bytes())
    kernels = of(trace, "kernel")
    assert {event["dur"] for event in kernels} == {KERNEL_US}
    (((op, _), found),) = norm_calls(trace).items()
    assert op == "aten::layer_norm"
    assert [len(own) for own in found] == [1] * len(kernels)
    functions = of(trace, "python_function")
    assert len(functions) > 0.8 * len(trace["traceEvents"])
    assert len({event["args"]["Python id"] for event in functions}) == len(functions)
    with_ancestors(of(trace, "python_function", "cpu_op", "cuda_runtime"))
    assert all(a["ts"] + a["dur"] < b["ts"] for a, b in pairwise(kernels))


def test_a_large_trace_can_be_compressed(tmp_path: Path) -> None:
    plain = generate_large_trace(tmp_path / "large.json", 1_000_000)
    packed = generate_large_trace(tmp_path / "large.json.gz", 1_000_000)
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
