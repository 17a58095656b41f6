"""Calls of norm ops: what runs inside an op and is no norm, norms in pieces, ops that call themselves."""

import pytest

from norm_events import BF16, F32, Argument, recorded
from normscope.norms.calls import NormCall
from normscope.norms.catalog.catalog import load_catalog
from normscope.norms.cost import NO_LAYOUT
from normscope.norms.find import find_norms
from normscope.norms.op_calls import op_calls
from trace_inputs import KERNEL, Event, kernel, launch, link_events, op

CATALOG = load_catalog()
GEMM, NCCL = "nvjet_gemm", "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
X: Argument = (BF16, [4, 8])
# E = 72 elements in 4 channels, fp32: 288 B, and 16 B for each vector of channels. Three GPUs.
IMAGE: Argument = (F32, [2, 4, 3, 3])
C: Argument = (F32, [4])
GATHERED: Argument = (F32, [3, 4])
COUNTS: Argument = (F32, [3])
EPS, YES = "1e-05", "True"
SYNC_INPUTS = (IMAGE, C, C, C, C, EPS, "0.1", "3")
# x read, two statistics written; three GPUs' statistics and counts read, two written, running ones updated;
# x, y, two parameters, two statistics
SYNC_BYTES = (288 + 2 * 16) + (2 * 48 + 12 + 2 * 16 + 4 * 16) + (2 * 288 + 4 * 16)
# dy, x, two statistics, two sums, two gradients; dy, x, dx, weight, two statistics, two sums, counts
SYNC_BACKWARD_BYTES = (2 * 288 + 6 * 16) + (3 * 288 + 5 * 16 + 12)


def inputs(*arguments: Argument) -> dict[str, object]:
    args = recorded(*arguments)
    return {"Input Dims": args.dims, "Input type": args.types, "Concrete Inputs": args.concrete}


def work(name: str, start: float, kernel_name: str, *arguments: Argument, tid: int = 501) -> list[Event]:
    """Return an op of 10 µs with a kernel of 5 µs."""
    number = int(start)
    return [
        op(name, start, 10, tid=tid, **inputs(*arguments)),
        launch(number, start + 2, 1, tid=tid),
        kernel(number, 5000 + 10 * start, 5, name=kernel_name),
    ]


def names(call: NormCall, events: list[Event]) -> list[str]:
    trace = link_events(*events).trace
    return [trace.gpu_events[i].name for i in (*call.norm_events, *call.helper_events)]


def test_a_graph_that_is_launched_inside_a_norm_op_is_no_part_of_it() -> None:
    events = [
        op("aten::layer_norm", 100, 50, **inputs(X, "[8]")),
        launch(1, 110, name="cudaGraphLaunch"),
        kernel(1, 200, 40, name=GEMM),
        kernel(1, 240, 40, name=KERNEL),
        launch(2, 130),
        kernel(2, 300, 5, name=KERNEL),
    ]
    (call,) = op_calls(link_events(*events), CATALOG)
    assert (names(call, events), call.kernel_us) == ([KERNEL], 5)
    replayed, own = sorted(find_norms(link_events(*events), CATALOG), key=lambda each: each.norm_us)[::-1]
    assert (replayed.found_by, replayed.norm_us, own.found_by) == ("kernel", 40, "op")


@pytest.mark.parametrize("count", [10, 12, 17])
def test_a_layout_that_no_row_has_says_so(count: int) -> None:
    events = work("vllm::flashinfer_trtllm_fused_allreduce_norm", 100, "k", *[X] * count)
    (call,) = op_calls(link_events(*events), CATALOG)
    assert (call.cost.bytes_moved, call.cost.missing_reason) == (None, NO_LAYOUT)


def test_under_autocast_the_inputs_shown_are_those_that_the_bytes_are_of() -> None:
    narrow, wide = (BF16, [4, 8]), (F32, [4, 8])
    events = [
        op("aten::layer_norm", 100, 90, **inputs(narrow, "[8]")),
        *work("aten::to", 105, "cast_kernel", narrow, "6"),
        op("aten::layer_norm", 120, 60, **inputs(wide, "[8]")),
        *work("aten::native_layer_norm", 130, KERNEL, wide, "[8]", None, None, EPS),
    ]
    (call,) = op_calls(link_events(*events), CATALOG)
    assert (call.name, call.host_us) == ("aten::layer_norm", 90)
    assert call.args.types == [F32, "ScalarList"]
    assert call.cost.dtype == "fp32"
    assert call.cost.bytes_moved == 2 * 32 * 4 + 2 * 4 * 4  # x, y; a mean and a deviation for each of 4 rows
    assert names(call, events) == [KERNEL, "cast_kernel"]
    assert (call.norm_us, call.helper_us) == (5, 5)


def sync_forward(around: str | None) -> list[Event]:
    return [
        *([op(around, 100, 90, **inputs(*SYNC_INPUTS))] if around else []),
        *work("aten::contiguous", 101, "copy_kernel", IMAGE),
        *work("aten::batch_norm_stats", 112, "batch_norm_collect_statistics_kernel", IMAGE, EPS),
        *work("c10d::_allgather_base_", 124, NCCL, GATHERED, C),
        *work(
            *("aten::batch_norm_gather_stats_with_counts", 136, "batch_norm_reduce_statistics_kernel"),
            *(IMAGE, GATHERED, GATHERED, C, C, "0.1", EPS, COUNTS),
        ),
        *work(
            *("aten::batch_norm_elemt", 148, "batch_norm_transform_input_kernel"),
            *(IMAGE, C, C, C, C, EPS),
        ),
    ]


def test_a_synchronized_batch_norm_is_one_call_of_its_pieces_without_the_collective() -> None:
    events = sync_forward("SyncBatchNorm")
    (call,) = find_norms(link_events(*events), CATALOG)
    assert (call.name, call.variant, call.direction) == ("SyncBatchNorm", "SyncBatchNorm", "forward")
    assert [name.split("_kernel")[0] for name in names(call, events)] == [
        "batch_norm_collect_statistics",
        "batch_norm_reduce_statistics",
        "batch_norm_transform_input",
    ]
    assert (call.norm_us, call.helper_us) == (15, 0)
    assert call.cost.bytes_moved == SYNC_BYTES
    assert call.cost.flops == (4 * 72 + 3 * 4) + 2 * 72
    assert (call.cost.x_shape, call.cost.has_weight, call.cost.training) == ((2, 4, 3, 3), True, True)
    assert call.args.dims is not None
    assert len(call.args.dims) == len(SYNC_INPUTS)


def test_pieces_of_a_synchronized_batch_norm_without_its_function_are_calls_of_their_own() -> None:
    calls = find_norms(link_events(*sync_forward(None)), CATALOG)
    assert [len(call.norm_events) for call in calls] == [1, 1, 1]
    assert sum(call.cost.bytes_moved or 0 for call in calls) == SYNC_BYTES


def test_the_backward_pass_of_a_synchronized_batch_norm_is_one_call() -> None:
    events = [
        op("SyncBatchNormBackward", 100, 90, **inputs(IMAGE)),
        *work(
            *("aten::batch_norm_backward_reduce", 112, "batch_norm_backward_reduce_kernel"),
            *(IMAGE, IMAGE, C, C, C, YES, YES, YES),
        ),
        *work("c10d::allreduce_", 124, NCCL, C),
        *work(
            *("aten::batch_norm_backward_elemt", 136, "batch_norm_backward_elemt_kernel"),
            *(IMAGE, IMAGE, C, C, C, C, C, COUNTS),
        ),
    ]
    (call,) = find_norms(link_events(*events), CATALOG)
    assert (call.name, call.variant, call.direction) == ("SyncBatchNormBackward", "SyncBatchNorm", "backward")
    assert (len(call.norm_events), call.norm_us) == (2, 10)
    assert (call.cost.bytes_moved, call.cost.flops) == (SYNC_BACKWARD_BYTES, (4 + 5) * 72)
    assert call.cost.output_mask == (True, True, True)


def test_a_piece_whose_tensors_are_not_recorded_leaves_the_bytes_unknown() -> None:
    events = sync_forward("SyncBatchNorm")
    for event in events:
        if event["name"] == "aten::batch_norm_elemt":
            event["args"] = {}
    (call,) = find_norms(link_events(*events), CATALOG)
    assert (call.cost.bytes_moved, call.cost.flops) == (None, None)
    assert call.cost.missing_reason == "no shapes recorded"


@pytest.mark.parametrize("has_pieces", [True, False])
def test_a_function_that_launches_no_piece_is_no_call(has_pieces: bool) -> None:
    around = op("SyncBatchNorm", 100, 90, **inputs(*SYNC_INPUTS))
    extra = op("aten::batch_norm_stats", 112, 10, **inputs(IMAGE, EPS))
    events = [around, *([extra] if has_pieces else []), *work("c10d::_allgather_base_", 124, NCCL, C)]
    assert find_norms(link_events(*events), CATALOG) == []
