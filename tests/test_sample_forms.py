"""The other forms of the simulated trace, its device, and the large one for benchmarks."""

import gzip
import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from normscope.sample.device import gpu_file, write_sample_gpu_file
from normscope.sample.forms import Form
from normscope.sample.large_trace import KERNEL_US, generate_large_trace
from normscope.sample.trace import sample_trace
from simulated_trace import Trace, norm_calls, of, read, with_ancestors

LISTS = ("Concrete Inputs", "Input type", "Input Strides", "Input Dims")


@pytest.fixture(scope="module")
def trace() -> Trace:
    return read(json.dumps(sample_trace()))


def test_the_device_declares_its_peaks_as_a_tracelens_file(trace: Trace, tmp_path: Path) -> None:
    (device,) = trace["deviceProperties"]
    assert device["name"] == "Simulated GPU (no real device)"
    assert trace["normscope_simulated"]["gpu"] == gpu_file()
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
