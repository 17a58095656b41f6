"""Traces that real users reported as trouble, from the file to the run: right figures or the right sentence.

The numbers A… are those of the collection of reports. How each is read is tested beside the reader.
"""

import ast
import json
import time
from pathlib import Path
from typing import Any

import pytest

from normscope.errors import InputError, NoGpuActivityError, NormscopeError
from normscope.tracerun.summary import ODD_STEPS
from trace_inputs import (
    CORRELATION,
    INPUTS,
    KERNEL,
    KERNEL_US,
    Event,
    annotation,
    as_json,
    base_document,
    base_events,
    frame,
    gzipped,
    kernel,
    launch,
    op,
    with_raw_name,
)
from written_run import Row, WrittenRun, known, number, written_bytes, written_events

MOVED = 2 * 2 * 8 * 128 * 1024 + 2 * 2 * 1024 + 2 * 4 * 8 * 128
"""Bytes of the LayerNorm of `base_events`: x and y, weight and bias, two fp32 statistics a row."""
HOSTILE = "a|b`c`<script>alert(1)</script>\x00\x1b[31m\n\r\u202e,\"'" + "x" * 600


def is_base(run: WrittenRun) -> bool:
    """Tell whether a run is that of `base_events`: one call of 12.5 µs with its bytes."""
    (row,) = run.rows
    figures = known(row, "Kernel Time (µs)_sum"), known(row, "Data Moved (MB)") * 2**20
    return (row["name"], *figures) == ("aten::layer_norm", KERNEL_US, MOVED)


def known_by_name(row: Row) -> float:
    """Return the time of a row that the names of its kernels alone tell: there is nothing else in it."""
    assert (row["found_by"], row["Data Moved (MB)"], row["Pct Roofline_mean"]) == ("kernel", "", "")
    return known(row, "Kernel Time (µs)_sum")


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(with_raw_name(rb"torch\cuda\x", good=0), id="A1 lone backslashes"),
        pytest.param(with_raw_name(b'{"device": "cpu"}(12): run', good=0), id="A2 quotes"),
        pytest.param(with_raw_name(b'line one\nline "two"', good=0), id="A3 a line break and quotes"),
        pytest.param(with_raw_name(b"a\x01b \x1b[31m", good=0), id="A4 control characters"),
        pytest.param(with_raw_name(b"\xff\xfe", good=0), id="A5 no UTF-8"),
        pytest.param(
            as_json([*base_events(), op("x", 1, 1, **{"Comms Id": 2**64 - 1})]), id="A6 a large number"
        ),
        pytest.param(as_json().replace(b'"stream": 7', b'"stream": 7, "bw": inf'), id="A8 infinity"),
        pytest.param(as_json().replace(b'"stream": 7', b'"stream": 7, "bw": nan'), id="A9 not a number"),
        pytest.param(as_json().replace(b' ],\n "traceName"', b' ,],\n "traceName"'), id="A10 a comma"),
        pytest.param(as_json()[:-20], id="A11 cut after the events"),
        pytest.param(as_json() + as_json(), id="A12 two documents"),
        pytest.param(json.dumps(base_document()["traceEvents"]).encode(), id="A15 a bare list"),
        pytest.param(gzipped(as_json()), id="A17 compressed"),
        pytest.param(as_json(displayTimeUnit="ns"), id="A20 nanoseconds to display"),
        pytest.param(
            as_json([*base_events(), kernel(5, 500, -5), op("aten::layer_norm", 600, -1)]), id="A22 negative"
        ),
        pytest.param(as_json([*base_events(), launch(5, 400), kernel(5, 0, 0)]), id="A25 a lost record"),
    ],
)
def test_a_damaged_trace_gives_the_whole_figures_of_what_is_there(content: bytes, tmp_path: Path) -> None:
    assert is_base(written_bytes(tmp_path, content))


@pytest.mark.parametrize(
    ("content", "error", "says"),
    [
        pytest.param(b"", InputError, "empty", id="A18 an empty file"),
        pytest.param(b"{}", NormscopeError, "no events|holds 0 events|traceEvents", id="A18 an empty object"),
        pytest.param(b'{"traceEvents": []}', NoGpuActivityError, "holds 0 events", id="A18 no events"),
        pytest.param(as_json(base_events()[:2]), NoGpuActivityError, "none of them on a GPU", id="A41"),
        pytest.param(as_json()[:60], InputError, "byte", id="A13 cut before the first event"),
        pytest.param(b"name,dur\na,1\n", InputError, "trace", id="a table"),
    ],
)
def test_what_cannot_be_reported_is_one_sentence(
    content: bytes, error: type[NormscopeError], says: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=says) as caught:
        written_bytes(tmp_path, content)
    assert "\n" not in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_wide_gaps_in_a_damaged_trace_cost_no_more_than_their_bytes(tmp_path: Path) -> None:
    """A search that tries every split of a gap needs half a minute here."""
    damaged = as_json().replace(b'"name": "aten::layer_norm"', b'"name": "aten::layer_norm')
    start = time.process_time()
    run = written_bytes(tmp_path, damaged.replace(b"}", b"}" + b" " * 40_000))
    assert time.process_time() - start < 2
    assert known(run.rows[0], "Kernel Time (µs)_sum") == KERNEL_US


@pytest.mark.parametrize("ts", [1e300, -1e300, 1e18])
def test_a_time_that_no_clock_shows_costs_only_its_event(ts: float, tmp_path: Path) -> None:
    run = written_events(tmp_path, *base_events(), kernel(None, ts, 5))
    assert is_base(run)
    assert run.summary.timeline.total_ms == KERNEL_US / 1000
    assert any("no usable start time" in what for what in run.problems)


def test_a19_a_kernel_of_no_duration_has_no_bandwidth(tmp_path: Path) -> None:
    events = [*base_events()[:3], kernel(CORRELATION, 130, 0)]
    (row,) = written_events(tmp_path, *events).rows
    assert known(row, "Kernel Time (µs)_sum") == 0
    assert row["TB/s_mean"] == row["Pct Roofline_mean"] == ""
    assert known(row, "Data Moved (MB)") * 2**20 == MOVED


def test_a24_an_overrun_is_shown_beside_the_time_as_recorded(tmp_path: Path) -> None:
    events = [*base_events()[:3], kernel(CORRELATION, 130.5, 1e6), kernel(None, 140.5, 5, name="gemm")]
    run = written_events(tmp_path, *events)
    (row,) = run.rows
    assert known(row, "Kernel Time (µs)_sum") == 1e6
    assert known(row, "Overrun (µs)_sum") == 1e6 - 10
    assert any("claim to end after the next one" in what for what in run.problems)


def test_a26_overlapping_kernels_are_both_counted_and_the_gpu_is_busy_once(tmp_path: Path) -> None:
    events = [
        op("aten::layer_norm", 1, 50, **INPUTS),
        launch(1, 2),
        launch(2, 10),
        kernel(1, 103.5, 3.75),
        kernel(2, 105.5, 2.75),
    ]
    run = written_events(tmp_path, *events)
    assert known(run.rows[0], "Kernel Time (µs)_sum") == 6.5
    assert run.summary.timeline.busy_ms == pytest.approx(0.00475)
    assert known(run.rows[0], "Overrun (µs)_sum") == 0


def test_a28_a_kernel_before_its_launch_is_linked_and_the_skew_told(tmp_path: Path) -> None:
    run = written_events(tmp_path, *base_events()[:3], kernel(CORRELATION, 90))
    assert is_base(run)
    assert any("clock skew" in what for what in run.problems)


def test_a29_warm_up_before_the_window_is_left_out_and_told(tmp_path: Path) -> None:
    run = written_events(tmp_path, *base_events(1e10), kernel(None, 100, name="layer_norm_warm_up"))
    assert is_base(run)
    assert run.groups["unlinked"] == (1, KERNEL_US)
    assert any("outside the profiled window" in what for what in run.problems)


def step_events(*kernels_in_step: int) -> list[Event]:
    """Return steps with as many LayerNorms as given, each with its kernel."""
    events = []
    for step, count in enumerate(kernels_in_step):
        start = 1000.0 + 1000 * step
        events.append(annotation(f"ProfilerStep#{step}", start, 900))
        for turn in range(count):
            correlation = 10 * step + turn + 1
            at = start + 100 * turn
            events += [
                op("aten::layer_norm", at + 5, 50, **INPUTS),
                launch(correlation, at + 10),
                kernel(correlation, at + 70),
            ]
    return events


def test_a31_a_step_that_lost_kernels_is_told(tmp_path: Path) -> None:
    run = written_events(tmp_path, *step_events(2, 1, 2))
    assert [(step.name, step.call_count) for step in run.summary.steps] == [
        ("ProfilerStep#0", 2),
        ("ProfilerStep#1", 1),
        ("ProfilerStep#2", 2),
    ]
    assert run.problems == {ODD_STEPS: 1}


def test_a32_external_ids_that_are_correlations_mislead_nobody(tmp_path: Path) -> None:
    ids = {"External id": CORRELATION}
    events = base_events()
    for event in events[2:]:
        event["args"].update(ids)
    run = written_events(tmp_path, *events, op("aten::zero_", 500, 10, **ids))
    assert is_base(run)


def test_a33_without_any_link_norms_are_found_by_name(tmp_path: Path) -> None:
    run = written_events(tmp_path, *base_events()[:2], kernel(None, 130), kernel(None, 150, 1, name="gemm"))
    assert [known_by_name(row) for row in run.rows] == [KERNEL_US]
    assert run.groups == {"explicit": (1, KERNEL_US), "other_kernels_without_op": (1, 1.0)}
    assert run.summary.has_norms
    assert run.problems == {"GPU events have no launch in the trace": 2}


@pytest.mark.parametrize(
    ("category", "name"),
    [
        ("cuda_driver", "cuLaunchKernelEx"),
        ("cuda_runtime", "cudaLaunchKernelExC"),
        ("cuda_runtime", "hipExtModuleLaunchKernel"),
        ("hip_runtime", "hipLaunchKernel"),
        ("xpu_runtime", "urEnqueueKernelLaunch"),
        ("Runtime", "anything"),
    ],
)
def test_a34_a35_whatever_launches_with_a_correlation_is_a_launch(
    category: str, name: str, tmp_path: Path
) -> None:
    events = [*base_events()[:2], launch(CORRELATION, 120, name=name, cat=category)]
    args = {"correlation": CORRELATION, "device": 0, "kind": "Dispatch Kernel", "stream": 0}
    assert is_base(written_events(tmp_path, *events, kernel(CORRELATION, 130, tid=0) | {"args": args}))


@pytest.mark.parametrize("name", ["hipGraphLaunch", "cudaGraphLaunch"])
def test_a37_a_graph_launch_has_its_norms_by_name_and_no_shapes(name: str, tmp_path: Path) -> None:
    names = ["gemm", "rms_norm_kernel", "silu", "fused_add_rms_norm_kernel", "gemm"]
    events = [kernel(9, 200 + 20 * turn, 10, name=each) for turn, each in enumerate(names)]
    run = written_events(tmp_path, launch(9, 100, name=name), *events)
    assert [known_by_name(row) for row in run.rows] == [10.0, 10.0]
    assert run.groups == {"explicit": (2, 20.0), "other_graph_kernels": (3, 30.0)}
    assert run.summary.has_norms
    assert not run.summary.has_shapes


def test_a39_ranks_of_a_merged_file_keep_their_kernels(tmp_path: Path) -> None:
    second = base_events(103.0)
    for event in second:
        event["pid"] += 1000
        if "Input Dims" in event["args"]:
            event["args"]["Input Dims"] = [[4, 128, 1024], [], [1024], [1024], []]
    second[3] |= {"dur": 6.25}
    run = written_events(tmp_path, *base_events(), *second)
    figures = {
        (row["process_name"], ast.literal_eval(row["Input Dims"])[0], known(row, "Kernel Time (µs)_sum"))
        for row in run.rows
    }
    assert figures == {("500", (8, 128, 1024), 12.5), ("1500", (4, 128, 1024), 6.25)}


def test_a40_a_kernel_alone_is_found_by_name(tmp_path: Path) -> None:
    run = written_events(tmp_path, kernel(CORRELATION, 130))
    assert run.groups == {"explicit": (1, KERNEL_US)}
    assert [known_by_name(row) for row in run.rows] == [KERNEL_US]
    assert run.manifest["gpu_utilization"]["computation_time_percent"] == pytest.approx(100)


def test_a43_a_call_on_the_host_is_no_time_on_the_gpu(tmp_path: Path) -> None:
    waiting = launch(500, 600, 1000, name="cudaDeviceSynchronize", **{"External id": 11})
    run = written_events(tmp_path, *base_events(), waiting)
    assert is_base(run)
    assert run.summary.coverage.all_kernels_us == KERNEL_US


def test_a46_a_library_op_inside_a_norm_belongs_to_the_norm(tmp_path: Path) -> None:
    outer, inner, *rest = base_events()
    run = written_events(tmp_path, outer, inner | {"name": "execute"}, *rest)
    (row,) = run.rows
    assert known(row, "Norm Kernel Time (µs)_sum") == KERNEL_US
    assert ast.literal_eval(row["call_stack_full"]) == ["aten::layer_norm", KERNEL]


def test_a47_annotations_on_the_gpu_are_not_counted(tmp_path: Path) -> None:
    covering = kernel(None, 100, 500, name="layer_norm block", cat="gpu_user_annotation")
    run = written_events(tmp_path, *base_events(), covering)
    assert is_base(run)
    assert run.summary.coverage.all_kernels_us == KERNEL_US
    assert run.summary.timeline.total_ms == KERNEL_US / 1000


def test_a48_a_chain_of_norm_ops_is_one_call(tmp_path: Path) -> None:
    names = ("aten::batch_norm", "aten::_batch_norm_impl_index", "aten::native_batch_norm")
    chain = [op(name, 100 + 5 * depth, 60 - 10 * depth) for depth, name in enumerate(names)]
    run = written_events(tmp_path, *chain, launch(1, 115), kernel(1, 130), launch(2, 121), kernel(2, 150, 5))
    (row,) = run.rows
    assert (row["name"], row["operation_count"]) == ("aten::batch_norm", "1")
    assert known(row, "Kernel Time (µs)_sum") == KERNEL_US + 5
    assert len(run.calls) == run.summary.call_count == 1


def test_a49_an_op_recorded_twice_is_one_call(tmp_path: Path) -> None:
    outer, inner, *rest = base_events()
    assert is_base(written_events(tmp_path, outer, dict(outer), inner, dict(inner), *rest))


def test_a50_a_recomputed_forward_norm_is_marked(tmp_path: Path) -> None:
    node = "autograd::engine::evaluate_function: ReluBackward0"
    again = [
        op(node, 1000, 200, tid=9),
        op("aten::layer_norm", 1010, 60, tid=9, **INPUTS),
        launch(5, 1020, tid=9),
        kernel(5, 1100, 10),
    ]
    run = written_events(tmp_path, *base_events(), *again)
    marked = {(row["thread_name"], row["recomputed_calls"]) for row in run.table("norm_fwd")}
    assert marked == {("thread 501", "0"), ("thread 9", "1")}
    assert run.summary.recomputed_count == 1


def test_a51_a_backward_norm_on_its_own_thread_is_backward(tmp_path: Path) -> None:
    backward = [
        op("aten::native_layer_norm_backward", 1000, 100, tid=9),
        *(launch(5 + turn, 1010 + 20 * turn, tid=9) for turn in range(2)),
        *(kernel(5 + turn, 1200 + 20 * turn, 8) for turn in range(2)),
    ]
    run = written_events(tmp_path, *base_events(), *backward)
    (row,) = run.table("norm_bwd")
    assert (row["name"], row["op category"]) == ("aten::native_layer_norm_backward", "NORM_bwd")
    assert known(row, "Kernel Time (µs)_sum") == 16
    assert [row["name"] for row in run.table("norm_fwd")] == ["aten::layer_norm"]


def test_a52_every_step_is_used_and_named(tmp_path: Path) -> None:
    run = written_events(tmp_path, *step_events(1, 1, 1))
    assert [call["step"] for call in run.calls] == ["ProfilerStep#0", "ProfilerStep#1", "ProfilerStep#2"]
    assert run.rows[0]["operation_count"] == "3"
    assert run.problems == {}


def test_a53_without_steps_there_are_none(tmp_path: Path) -> None:
    run = written_events(tmp_path, *base_events())
    assert run.summary.steps == ()
    assert [call["step"] for call in run.calls] == [""]


def test_a54_evaluation_without_parameters_is_counted_as_such(tmp_path: Path) -> None:
    inputs = {
        "Input Dims": [[8, 16, 4], [], [], [16], [16], [], [], [], []],
        "Input type": ["float", "", "", "float", "float", "Scalar", "Scalar", "Scalar", "Scalar"],
        "Concrete Inputs": ["", "", "", "", "", "False", "0.1", "1e-05", "True"],
    }
    events = [op("aten::batch_norm", 100, 60, **inputs), launch(1, 110), kernel(1, 130)]
    (row,) = written_events(tmp_path, *events).rows
    assert known(row, "Data Moved (MB)") * 2**20 == 2 * 4 * 512 + 2 * 4 * 16
    assert ast.literal_eval(row["perf_params"])["is_training"] is False


@pytest.mark.parametrize(
    "inputs",
    [
        pytest.param({}, id="A58 not recorded"),
        pytest.param(INPUTS | {"Input Dims": [["s0", 128, 1024], [], [1024], [1024], []]}, id="A60 symbols"),
        pytest.param(INPUTS | {"Input Dims": [[None, 128, 1024], [], [1024], [1024], []]}, id="null"),
        pytest.param(INPUTS | {"Input Dims": {"a": 1}}, id="an object"),
        pytest.param(INPUTS | {"Input Dims": "text"}, id="text"),
        pytest.param(INPUTS | {"Input type": ["c10::Strange"] * 5}, id="an unknown type"),
        pytest.param(INPUTS | {"Input Dims": [[8, 128, 1000], [], [1024], [1024], []]}, id="A59 misfit"),
    ],
)
def test_unknown_shapes_keep_the_time_and_name_the_reason(inputs: dict[str, Any], tmp_path: Path) -> None:
    events = [op("aten::layer_norm", 100, 60, **inputs), launch(1, 110), kernel(1, 130)]
    (row,) = written_events(tmp_path, *events).rows
    assert known(row, "Kernel Time (µs)_sum") == KERNEL_US
    assert row["Data Moved (MB)"] == row["TB/s_mean"] == row["Pct Roofline_mean"] == ""
    assert row["has_perf_model"] == "False"
    assert row["bytes_not_known_because"] != ""


@pytest.mark.parametrize("depth", [9, 400, *range(890, 1000, 10)])
def test_arguments_nested_without_end_are_no_trouble(depth: int, tmp_path: Path) -> None:
    events = [op("aten::layer_norm", 100, 60, **{"Input Dims": "DIMS"}), *base_events()[2:]]
    content = as_json(events).replace(b'"DIMS"', b"[" * depth + b"]" * depth)
    run = written_bytes(tmp_path, content)
    assert run.summary.coverage.all_kernels_us == KERNEL_US
    for row in run.rows:  # what is nested too deep to be read costs the op, and is told
        assert number(row, "Data Moved (MB)") is None
    assert run.rows or run.problems


def test_autocast_counts_the_norm_once_with_the_types_behind_the_cast(tmp_path: Path) -> None:
    in_fp32 = INPUTS | {"Input type": ["float", "ScalarList", "float", "float", "Scalar"]}
    events = [
        op("aten::layer_norm", 100, 100, **INPUTS),
        op("aten::to", 105, 20),
        op("aten::_to_copy", 106, 18),
        op("aten::copy_", 107, 16),
        launch(1, 108, 5),
        kernel(1, 210, 4, name="cast"),
        op("aten::layer_norm", 130, 60, **in_fp32),
        op("aten::native_layer_norm", 135, 50, **in_fp32),
        launch(2, 140),
        kernel(2, 230),
    ]
    run = written_events(tmp_path, *events)
    (row,) = run.rows
    assert known(row, "Norm Kernel Time (µs)_sum") == KERNEL_US
    assert known(row, "Helper Kernel Time (µs)_sum") == 4
    assert known(row, "Data Moved (MB)") * 2**20 == 2 * 4 * 8 * 128 * 1024 + 2 * 4 * 1024 + 2 * 4 * 8 * 128
    assert row["Compute Spec"] == "vector_fp32"
    assert run.groups == {"explicit": (1, KERNEL_US), "helper_copies": (1, 4.0)}


def test_copies_of_an_instance_norm_are_no_norm(tmp_path: Path) -> None:
    events = [
        op("aten::instance_norm", 100, 200),
        op("aten::repeat", 105, 20),
        launch(1, 108, 5),
        kernel(1, 400, 4, name="copy"),
        op("aten::batch_norm", 130, 60),
        launch(2, 140),
        kernel(2, 430),
        op("aten::mean", 200, 20),
        launch(3, 205),
        kernel(3, 460, 2, name="reduce_kernel"),
    ]
    (row,) = written_events(tmp_path, *events).rows
    assert known(row, "Norm Kernel Time (µs)_sum") == KERNEL_US
    assert known(row, "Helper Kernel Time (µs)_sum") == 6


def test_a62_a_fused_kernel_is_named_and_an_upper_bound(tmp_path: Path) -> None:
    name = "triton_red_fused_add_native_layer_norm_4"
    run = written_events(tmp_path, op(name, 100, 60), launch(1, 110), kernel(1, 130, name=name))
    (row,) = run.rows
    assert (row["name"], row["fused_with"], row["is_upper_bound"]) == (name, "add", "True")
    assert run.groups == {"compiled_fused": (1, KERNEL_US)}
    assert run.summary.has_norms


def test_a63_a_norm_fused_with_a_product_does_not_take_its_time(tmp_path: Path) -> None:
    run = written_events(
        tmp_path,
        op("_LayerNormLinear", 100, 60),
        launch(1, 110),
        kernel(1, 130, name="void transformer_engine::normalization::ln_fwd_tuned_kernel<float>"),
        launch(2, 120),
        kernel(2, 150, 90, name="Cijk_Ailk_Bljk_BBS_BH_MT128x128"),
    )
    assert run.groups == {"explicit": (1, KERNEL_US), "other_ops": (1, 90.0)}


def test_a64_long_names_that_begin_alike_stay_apart(tmp_path: Path) -> None:
    start = "void ck_tile::kentry<" + "Rmsnorm2dFwdPipeline, " * 30
    names = [start + "one>", start + "two>"]
    events = [op("aten::layer_norm", 100, 60), launch(1, 110), launch(2, 120)]
    events += [kernel(turn + 1, 200 + 20 * turn, name=name) for turn, name in enumerate(names)]
    (row,) = written_events(tmp_path, *events).rows
    assert [each["name"] for each in ast.literal_eval(row["kernel_details_summary"])] == names
    short = [each["name"] for each in ast.literal_eval(row["trunc_kernel_details"])]
    assert all(len(name) < 100 for name in short)


def test_a65_frames_of_python_cost_nothing_and_hide_nothing(tmp_path: Path) -> None:
    frames = [frame(f"file.py({line}): call", 100 + line * 0.001, 0.5) for line in range(5000)]
    assert is_base(written_events(tmp_path, *frames, *base_events()))


@pytest.mark.parametrize("place", ["kernel", "module", "step", "device", "thread"])
def test_hostile_names_reach_the_files_whole_and_harmless(place: str, tmp_path: Path) -> None:
    events = base_events()
    metadata: dict[str, Any] = {}
    if place == "kernel":
        events[3]["name"] = HOSTILE
    elif place == "module":
        events.insert(0, frame(f"nn.Module: {HOSTILE}", 90, 200))
    elif place == "step":
        events.insert(0, annotation(f"ProfilerStep#{HOSTILE}", 90, 200))
    elif place == "device":
        metadata["deviceProperties"] = [{"id": 0, "name": HOSTILE}]
    else:
        for event in events[:3]:
            event |= {"pid": HOSTILE, "tid": HOSTILE}
    run = written_events(tmp_path, *events, **metadata)
    assert is_base(run)
    assert len(run.calls) == 1
    if place == "module":
        assert run.calls[0]["module"] == HOSTILE
    if place == "kernel":
        assert ast.literal_eval(run.rows[0]["kernel_details_summary"])[0]["name"] == HOSTILE
