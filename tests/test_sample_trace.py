"""The simulated trace is a well-formed profiler trace, recorded as real ones are."""

import gzip
import json
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

from normscope.errors import UsageError
from normscope.sample.recorded import recorded_arguments
from normscope.sample.recorded_ops import NORM_KINDS
from normscope.sample.trace import sample_trace, write_sample_trace
from normscope.sample.truth import sample_truth
from simulated_trace import Event, Trace, end, is_norm, of, read, with_ancestors

BF16, SCALARS = "c10::BFloat16", ["Scalar"] * 3
LISTS = ("Concrete Inputs", "Input type", "Input Strides", "Input Dims")


@pytest.fixture(scope="module")
def trace() -> Trace:
    return read(json.dumps(sample_trace()))


def test_the_file_is_valid_json_of_under_400_kb(tmp_path: Path) -> None:
    path = write_sample_trace(tmp_path / "trace.json.gz")
    assert path.stat().st_size < 400_000
    trace = read(gzip.decompress(path.read_bytes()))
    assert "normscope_simulated" in trace
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


def test_ops_have_as_many_arguments_as_in_real_traces(trace: Trace, shared: Path) -> None:
    def add_lengths(of_trace: Trace, found: dict[str, set[int]]) -> None:
        for event in of(of_trace, "cpu_op"):
            if "Input type" in event["args"]:
                found[event["name"]].add(len(event["args"]["Input type"]))

    simulated: dict[str, set[int]] = defaultdict(set)
    recorded: dict[str, set[int]] = defaultdict(set)
    add_lengths(trace, simulated)
    for name in ("norm_layers_mi300x", "resnet_checkpoint_mi300x", "sglang_prefill_mi300x", "qwen15_mi300x"):
        real = read(gzip.decompress((shared / "traces" / f"{name}.json.gz").read_bytes()))
        add_lengths(real, recorded)
    common = set(simulated) & set(recorded)
    assert len([op for op in common if is_norm(op)]) > 10
    assert {"aten::to", "aten::pow", "aten::mean", "aten::rsqrt"} <= common
    # A real trace also has overloads that take more or fewer arguments.
    assert {op: simulated[op] - recorded[op] for op in common if simulated[op] - recorded[op]} == {}


def test_statistics_and_absent_parameters_are_recorded_as_pytorch_does() -> None:
    # Copied by hand from a profile of torch: a layer norm backward without weight and bias.
    words = "activation activation [{N}] row_stat row_stat absent absent [True,False,False]"
    assert recorded_arguments(words, (8, 16, 32), "bf16") == {
        "Concrete Inputs": ["", "", "[32]", "", "", "", "", "[True, False, False]"],
        "Input type": ["c10::BFloat16"] * 2 + ["ScalarList", "float", "float", "", "", "ScalarList"],
        "Input Strides": [[512, 32, 1], [512, 32, 1], [], [16, 1, 1], [16, 1, 1], [], [], []],
        "Input Dims": [[8, 16, 32], [8, 16, 32], [], [8, 16, 1], [8, 16, 1], [], [], []],
    }


# Copied by hand from a profile of such a module in torch, with 3 rows of 4 in bf16.
UNFUSED_OPS = (
    ("aten::to", ["", "6", "False", "False", ""], [BF16, *SCALARS, ""], [[3, 4], *[[]] * 4]),
    (
        *("aten::_to_copy", ["", "6", "", "", "", "False", ""], [BF16, "Scalar", "", "", "", "Scalar", ""]),
        [[3, 4], *[[]] * 6],
    ),
    ("aten::copy_", ["", "", "False"], ["float", BF16, "Scalar"], [[3, 4], [3, 4], []]),
    ("aten::pow", ["", "2"], ["float", "Scalar"], [[3, 4], []]),
    ("aten::mean", ["", "[-1]", "True", ""], ["float", "ScalarList", "Scalar", ""], [[3, 4], [], [], []]),
    ("aten::add", ["", "", "1"], ["float", "double", "Scalar"], [[3, 1], [], []]),
    ("aten::rsqrt", [""], ["float"], [[3, 1]]),
    ("aten::mul", ["", ""], ["float", "float"], [[3, 4], [3, 1]]),
    ("aten::to", ["", "15", "False", "False", ""], ["float", *SCALARS, ""], [[3, 4], *[[]] * 4]),
    (
        *("aten::_to_copy", ["", "15", "", "", "", "False", ""]),
        *(["float", "Scalar", "", "", "", "Scalar", ""], [[3, 4], *[[]] * 6]),
    ),
    ("aten::copy_", ["", "", "False"], [BF16, "float", "Scalar"], [[3, 4], [3, 4], []]),
    ("aten::mul", ["", ""], [BF16, BF16], [[4], [3, 4]]),
)


def test_the_ops_of_the_unfused_norm_are_those_of_a_profile() -> None:
    links = [link for op in NORM_KINDS["rms_norm_unfused"].small_ops for link in op.chain]
    found = [
        (name, *(recorded_arguments(words, (3, 4), "bf16")[key] for key in (LISTS[0], LISTS[1], LISTS[3])))
        for name, words in links
    ]
    assert found == list(UNFUSED_OPS)


def test_a_call_of_the_unfused_norm_runs_eight_kernels_of_ops_beside_each_other(trace: Trace) -> None:
    cast = ("aten::to", "aten::_to_copy", "aten::copy_")
    singles = ("pow", "mean", "add", "rsqrt", "mul")
    expected = [cast, *((f"aten::{name}",) for name in singles), cast, ("aten::mul",)]
    calls = defaultdict(list)
    for span, ancestors in with_ancestors(of(trace, "cpu_op", "cuda_runtime", "python_function")):
        modules = [e for e in ancestors if e["name"].startswith("nn.Module: TextRMSNorm_")]
        if span["cat"] == "cuda_runtime" and modules:
            names = tuple(event["name"] for event in ancestors if event["cat"] == "cpu_op")
            calls[modules[0]["args"]["Python id"]].append(names)
    assert list(calls.values()) == [expected] * 6


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
    ops = {"aten::rsqrt" if row.found_as == "unfused" else row.op for row in forward}
    paths = set()
    for span, ancestors in with_ancestors(of(trace, "python_function", "cpu_op")):
        if span["name"] in ops:
            names = [event["name"] for event in ancestors if event["name"].startswith("nn.Module: ")]
            paths.add(" > ".join(name.removeprefix("nn.Module: ").rpartition("_")[0] for name in names))
    assert paths == {row.module for row in forward}
