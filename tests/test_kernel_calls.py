"""Norms found by the names of kernels alone: which kernels are one call, its name, and what is not known."""

from pathlib import Path

import msgspec
import pytest

from normscope.norms.calls import NormCall
from normscope.norms.catalog.catalog import load_catalog
from normscope.norms.find import find_norms
from normscope.norms.kernel_calls import (
    IN_GRAPH,
    NO_NORM_BY_ITSELF,
    NO_OP,
    ONLY_AROUND,
    OP_WITHOUT_ROW,
    OUTSIDE_LAUNCH,
)
from normscope.norms.kernel_pieces import leading_pieces
from normscope.trace.link import link
from normscope.trace.read import read_trace
from trace_inputs import KERNEL, Event, kernel, launch, link_events, op

CATALOG = load_catalog()
COLLECT = "void at::native::batch_norm_collect_statistics_kernel<float>(int)"
UPDATE = (
    "void at::native::unrolled_elementwise_kernel<at::native::batch_norm_update_stats_and_invert(int)>(int)"
)
APPLY = "void at::native::batch_norm_transform_input_kernel<float, true>(int)"
MOMENTS = "void at::native::RowwiseMomentsCUDAKernel<float, float, false>(long, float, float const*)"
LAYER = "void at::native::LayerNormForwardCUDAKernel<float, float, false>(long, float const*)"
OTHER = "gemm_kernel"
INPUTS = {
    "Input Dims": [[4, 64]],
    "Input type": ["float"],
    "Input Strides": [[64, 1]],
    "Concrete Inputs": [""],
}


def found(*events: Event) -> list[NormCall]:
    return find_norms(link_events(*events), CATALOG)


def row_of(*names: str) -> list[Event]:
    """Return kernels of 10 µs one after the other, each with a launch and no op."""
    return [
        event
        for place, name in enumerate(names)
        for event in (
            launch(900 + place, 10.0 + place),
            kernel(900 + place, 100.0 + 10 * place, 10.0, name=name),
        )
    ]


def sizes(calls: list[NormCall]) -> list[int]:
    return [len(call.norm_events) for call in calls]


def test_the_pieces_of_a_batch_norm_are_one_call() -> None:
    (call,) = found(*row_of(COLLECT, UPDATE, APPLY))
    assert (call.found_by, len(call.norm_events), call.norm_us) == ("kernel", 3, 30.0)
    assert call.row.id == "batch-norm-native"
    assert "batch_norm_transform_input_kernel" in call.name
    assert call.cost.bytes_moved is None
    assert call.cost.missing_reason == NO_OP
    assert call.is_in_timeline


def test_pieces_in_a_row_are_as_many_calls_as_they_begin() -> None:
    assert sizes(found(*row_of(COLLECT, UPDATE, APPLY, COLLECT, UPDATE, APPLY, APPLY))) == [3, 3, 1]
    assert sizes(found(*row_of(MOMENTS, LAYER, MOMENTS, LAYER))) == [2, 2]
    assert sizes(found(*row_of(KERNEL, KERNEL))) == [1, 1]
    # Read backwards they are no norm's order.
    assert sizes(found(*row_of(APPLY, UPDATE, COLLECT))) == [1, 1, 1]


def test_pieces_with_other_work_between_them_are_not_joined() -> None:
    assert sizes(found(*row_of(COLLECT, OTHER, UPDATE, APPLY))) == [1, 2]


def test_pieces_on_two_streams_are_not_joined() -> None:
    events = [*row_of(MOMENTS), kernel(None, 300.0, name=LAYER, stream=9, tid=9)]
    assert sizes(found(*events)) == [1, 1]


def test_a_piece_on_another_stream_in_between_does_not_part_the_others() -> None:
    events = row_of(MOMENTS, LAYER)
    events.append(kernel(None, 105.0, 1.0, name=OTHER, stream=9, tid=9))
    assert sizes(found(*events)) == [2]


def test_pieces_of_two_graphs_are_not_joined() -> None:
    graphs = [launch(1, 10, name="cudaGraphLaunch"), launch(2, 20, name="cudaGraphLaunch")]
    calls = found(*graphs, kernel(1, 100, 5, name=MOMENTS), kernel(2, 105, 5, name=LAYER))
    assert sizes(calls) == [1, 1]
    assert {call.cost.missing_reason for call in calls} == {IN_GRAPH}
    joined = found(*graphs, kernel(1, 100, 5, name=MOMENTS), kernel(1, 105, 5, name=LAYER))
    assert sizes(joined) == [2]


def test_moments_are_group_norm_or_layer_norm_by_what_follows() -> None:
    factors = "void at::native::ComputeFusedParamsCUDAKernel<float>(int)"
    apply = "void at::native::elementwise_kernel<4, at::native::GroupNormKernelImplInternal<float>(int)>(int)"
    (group,) = found(*row_of(MOMENTS, factors, apply))
    (layer,) = found(*row_of(MOMENTS, LAYER))
    assert (group.row.id, layer.row.id) == ("group-norm", "layer-norm")
    assert "LayerNormForwardCUDAKernel" in layer.name


def inside(around: str, *names: str) -> list[Event]:
    """Return an op of 50 µs that launches kernels of 10 µs."""
    return [op(around, 5, 50, **INPUTS), *row_of(*names)]


@pytest.mark.parametrize("names", [(KERNEL,), (COLLECT, UPDATE, APPLY), (OTHER, MOMENTS, LAYER, OTHER)])
def test_an_op_without_a_row_that_runs_one_norm_is_one_call_with_its_inputs(names: tuple[str, ...]) -> None:
    (call,) = found(*inside("mylib::norm_and_more", *names))
    assert (call.name, call.op, call.host_us) == ("mylib::norm_and_more", 0, 50.0)
    assert call.args.dims == [[4, 64]]
    assert len(call.norm_events) == len([name for name in names if name != OTHER])
    assert (call.cost.bytes_moved, call.cost.missing_reason) == (None, OP_WITHOUT_ROW)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((KERNEL, OTHER, KERNEL), [1, 1]),
        ((KERNEL, KERNEL), [1, 1]),
        ((MOMENTS, LAYER, OTHER, MOMENTS, LAYER), [2, 2]),
        ((MOMENTS, OTHER, LAYER), [1, 1]),
    ],
)
def test_an_op_without_a_row_that_runs_several_norms_is_a_call_for_each(
    names: tuple[str, ...], expected: list[int]
) -> None:
    calls = found(*inside("mylib::block", *names))
    assert sizes(calls) == expected
    assert {(call.name, call.op, call.cost.missing_reason) for call in calls} == {
        ("mylib::block", 0, OP_WITHOUT_ROW)
    }
    # the time of the whole block is that of none of its norms
    assert {call.host_us for call in calls} == {None}
    assert [call.norm_us for call in calls] == [10.0 * size for size in expected]


@pytest.mark.parametrize("around", ["SyncBatchNorm", "aten::linalg_vector_norm"])
def test_an_op_with_a_row_that_is_no_norm_by_itself_has_a_reason_of_its_own(around: str) -> None:
    (call,) = found(*inside(around, KERNEL))
    assert (call.found_by, call.name) == ("kernel", around)
    assert call.cost.missing_reason == NO_NORM_BY_ITSELF


def test_two_calls_of_an_op_without_a_row_are_two() -> None:
    events = [
        event
        for turn in (0, 1)
        for event in (
            op("mylib::norm", 100 + 100 * turn, 50, **INPUTS),
            launch(turn, 110.0 + 100 * turn),
            kernel(turn, 500.0 + 100 * turn, name=KERNEL),
        )
    ]
    assert [call.op for call in found(*events)] == [0, 1]


@pytest.mark.parametrize(
    "around",
    [
        "autograd::engine::evaluate_function: MyNormBackward",
        "MulBackward0",
        "Torch-Compiled Region: 0/0",
        "## Call CompiledFxGraph abc ##",
        "Optimizer.step#AdamW.step",
        "CheckpointFunction",
        "CheckpointFunctionBackward",
    ],
)
def test_what_only_stands_around_a_launch_gives_it_no_name(around: str) -> None:
    calls = found(
        op(around, 100, 50, **INPUTS),
        launch(1, 110),
        launch(2, 120),
        kernel(1, 200, 10, name=KERNEL),
        kernel(2, 210, 10, name=KERNEL),
    )
    assert sizes(calls) == [1, 1]
    assert {call.cost.missing_reason for call in calls} == {ONLY_AROUND}
    assert all("vectorized_layer" in call.name and call.args.dims is None for call in calls)


def test_other_kernels_are_no_calls() -> None:
    others = ("renorm_kernel", "multi_tensor_l2norm", "normal_kernel", OTHER)
    assert found(*row_of(*others)) == []


def test_a_kernel_whose_launch_is_not_in_the_trace_is_not_in_the_timeline() -> None:
    calls = found(launch(1, 10), kernel(1, 100, name=OTHER), kernel(2, 200, name=KERNEL))
    (call,) = calls
    assert not call.is_in_timeline
    assert call.cost.missing_reason == OUTSIDE_LAUNCH


def test_without_any_launch_all_kernels_are_in_the_timeline() -> None:
    (call,) = found(kernel(1, 100, name=KERNEL))
    assert call.is_in_timeline
    assert call.cost.missing_reason == NO_OP


def test_a_kernel_without_a_name_and_a_very_long_one_do_no_harm() -> None:
    calls = found(*row_of("", "layer_norm_kernel<" * 20_000, "RowwiseMomentsCUDAKernel<" * 5_000))
    assert sizes(calls) == [1, 1]


def test_a_chain_of_pieces_ends_where_one_repeats() -> None:
    assert leading_pieces([COLLECT, UPDATE, UPDATE, APPLY]) == 2
    assert leading_pieces([OTHER, UPDATE]) == 1


def test_batch_norm_of_a_trace_without_ops_is_one_call_for_each_layer(shared: Path) -> None:
    """80 kernels: 20 forward passes of three kernels, 20 backward passes of one."""
    calls = find_norms(link(read_trace(shared / "traces/gpu_only_mi210.json.gz")), CATALOG)
    assert sorted(sizes(calls)) == [1] * 20 + [3] * 20
    rows = {len(call.norm_events): call.row.id for call in calls}
    assert rows == {3: "batch-norm-native", 1: "batch-norm-backward-native"}
    assert sum(call.norm_us for call in calls) == pytest.approx(1415.1, abs=0.05)


def test_norms_before_the_window_are_calls_too(shared: Path) -> None:
    """137 kernels, 2,140.5 µs: 39 forward passes of three, 20 backward passes of one."""
    calls = find_norms(link(read_trace(shared / "traces/resnet_checkpoint_mi300x.json.gz")), CATALOG)
    lost = [call for call in calls if call.found_by == "kernel"]
    assert sorted(sizes(lost)) == [1] * 20 + [3] * 39
    assert not any(call.is_in_timeline for call in lost)
    assert sum(call.norm_us for call in lost) == pytest.approx(2140.5, abs=0.05)


@pytest.mark.parametrize("name", ["norm_layers_mi300x", "bert_small_h100", "vit_mi300x", "owlv2_h100"])
def test_without_its_ops_a_trace_has_the_same_calls(shared: Path, name: str) -> None:
    """What the ops say is one call, the kernels alone say too: kernels, times and direction of each."""
    trace = read_trace(shared / f"traces/{name}.json.gz")
    by_op = find_norms(link(trace), CATALOG)
    by_kernel = find_norms(link(msgspec.structs.replace(trace, cpu_ops=[])), CATALOG)
    assert {call.found_by for call in by_kernel} == {"kernel"}
    # A norm op's own copies have no norm in their names.
    assert sorted(call.norm_events for call in by_kernel) == sorted(call.norm_events for call in by_op)
