"""Shapes of replayed norms from the captures of graphs: what fits, what is ambiguous, what is no capture."""

import gzip
import math
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from normscope.errors import InputError
from normscope.norms.calls import NormCall
from normscope.norms.capture import SAME_TRACE, Capture, captures_in, read_captures
from normscope.norms.catalog.catalog import Catalog, builtin_rows, load_catalog, read_rows
from normscope.norms.find import find_norms
from normscope.norms.kernel_calls import IN_GRAPH
from normscope.norms.replay import BY_NAMES, BY_ORDER, NOT_IN_CAPTURE
from normscope.trace.link import GRAPH_LAUNCH, LinkedTrace, link
from normscope.trace.read import read_trace
from trace_inputs import KERNEL, Event, as_json, kernel, launch, link_events, op

CATALOG = load_catalog()
BF16 = "c10::BFloat16"
GEMM = "gemm_kernel"
MOMENTS = "void at::native::RowwiseMomentsCUDAKernel<float, float, false>(long)"
LAYER = "void at::native::LayerNormForwardCUDAKernel<float, float, false>(long)"
# A kernel whose name tells the residual add, and one whose name tells it has none.
ADDING_ROWS = b"""
[[norm]]
id = "test-add"
library = "test"
variant = "RMSNorm"
ops = ["test::add_rms_norm"]
arguments = ">y x residual >residual_out weight _"
bytes = "tensors"
kernels = ["add_rms_norm_kernel"]
fuses = ["residual add"]
evidence = "unverified"
source = "test"

[[norm]]
id = "test-plain"
library = "test"
variant = "RMSNorm"
ops = ["test::rms_norm"]
arguments = ">y x weight _"
bytes = "tensors"
kernels = ["plain_rms_norm_kernel"]
evidence = "unverified"
source = "test"
"""
WITH_ADDING = Catalog(builtin_rows(), read_rows(ADDING_ROWS, "test"))


def tensors(*shapes: list[int], scalars: int = 1) -> Event:
    """Return recorded inputs: bf16 tensors, and scalars after them."""
    return {
        "Input Dims": [*shapes, *([] for _ in range(scalars))],
        "Input type": [*(BF16 for _ in shapes), *("Scalar" for _ in range(scalars))],
        "Concrete Inputs": [*("" for _ in shapes), *("1e-06" for _ in range(scalars))],
    }


def layer_norm(rows: int, width: int = 64) -> tuple[str, Event]:
    return "aten::native_layer_norm", {
        "Input Dims": [[rows, width], [], [width], [width], []],
        "Input type": [BF16, "ScalarList", BF16, BF16, "Scalar"],
        "Concrete Inputs": ["", f"[{width}]", "", "", "1e-05"],
    }


def layer_norm_bytes(rows: int, width: int = 64) -> int:
    """Input and output, weight and bias, mean and rstd in fp32."""
    return 2 * rows * width * 2 + 2 * width * 2 + 2 * rows * 4


Step = tuple[str, Event, Sequence[str]]
"""An op with its inputs, and the kernels that it launches."""


def captured(
    *steps: Step, start: float = 1000.0, named: bool = False, marks: bool = True, tid: int = 501
) -> list[Event]:
    """Return the events of a capture: ops and launches without kernels, between the calls that mark it."""
    number = count(int(start) * 1000)
    system = "hip" if named else "cuda"
    at = start + 1
    events: list[Event] = []
    for name, inputs, kernels in steps:
        events.append(op(name, at, 2.0 * len(kernels) + 1, tid=tid, **inputs))
        for each in kernels:
            known = {"kernel": each} if named else {}
            at += 1
            events.append(launch(next(number), at, 0.5, f"{system}LaunchKernel", tid=tid, **known))
        at += 2.0 * len(kernels) + 2
    if marks:
        events.append(launch(next(number), start, 0.5, f"{system}StreamBeginCapture", tid=tid))
        events.append(launch(next(number), at, 0.5, f"{system}StreamEndCapture", tid=tid))
    return events


def replayed(
    *kernels: str, start: float = 900_000.0, correlation: int = 1, grid: list[int] | None = None
) -> list[Event]:
    """Return a graph's launch and its kernels of 5 µs, one after the other, all with the same grid."""
    return [
        launch(correlation, start, name="cudaGraphLaunch"),
        *(
            kernel(correlation, start + 10 + 6 * i, 5.0, name=name, grid=grid)
            for i, name in enumerate(kernels)
        ),
    ]


def norms(*events: Event, catalog: Catalog = CATALOG) -> list[NormCall]:
    return find_norms(link_events(*events), catalog)


def given(tmp_path: Path, **files: list[Event]) -> list[Capture]:
    for name, events in files.items():
        (tmp_path / f"{name}.json.gz").write_bytes(gzip.compress(as_json(events)))
    return read_captures(tmp_path, WITH_ADDING)


def reasons(calls: Sequence[NormCall]) -> set[str | None]:
    assert all(call.cost.bytes_moved is None and call.shapes_from is None for call in calls)
    return {call.cost.missing_reason for call in calls}


ONE: tuple[Step, ...] = (("aten::mm", {}, [GEMM]), (*layer_norm(32), [KERNEL]))


@pytest.mark.parametrize("named", [True, False])
def test_a_capture_in_the_trace_tells_the_shapes_of_its_replays(named: bool) -> None:
    calls = norms(
        *captured(*ONE, named=named),
        *replayed(GEMM, KERNEL, correlation=1),
        *replayed(GEMM, KERNEL, correlation=2, start=950_000.0),
    )
    assert [call.cost.bytes_moved for call in calls] == [layer_norm_bytes(32)] * 2
    by = BY_NAMES if named else BY_ORDER
    assert {(call.name, call.found_by, call.shapes_from) for call in calls} == {
        ("aten::native_layer_norm", "kernel", f"{SAME_TRACE} ({by})")
    }
    assert {tuple(call.args.dims[0]) for call in calls} == {(32, 64)}
    assert [call.norm_us for call in calls] == [5.0, 5.0]


def test_without_a_capture_a_replay_has_no_bytes() -> None:
    assert reasons(norms(*replayed(GEMM, KERNEL))) == {IN_GRAPH}


@pytest.mark.parametrize("named", [True, False])
def test_a_capture_of_another_number_of_kernels_does_not_fit(named: bool) -> None:
    calls = norms(*captured(*ONE, named=named), *replayed(GEMM, GEMM, KERNEL))
    assert reasons(calls) == {"a graph launched it, and none of the captured graphs (1) fits it"}


def test_a_capture_of_other_kernels_does_not_fit() -> None:
    other: tuple[Step, ...] = (("aten::mm", {}, ["another_gemm"]), (*layer_norm(32), [KERNEL]))
    calls = norms(*captured(*other, named=True), *replayed(GEMM, KERNEL))
    assert reasons(calls) == {"a graph launched it, and none of the captured graphs (1) fits it"}


@pytest.mark.parametrize("named", [True, False])
def test_captures_of_two_batch_sizes_that_both_fit_tell_nothing(tmp_path: Path, named: bool) -> None:
    captures = given(
        tmp_path,
        bs_32=captured(*ONE, named=named),
        bs_64=captured(ONE[0], (*layer_norm(64), [KERNEL]), named=named),
    )
    calls = find_norms(link_events(*replayed(GEMM, KERNEL)), CATALOG, captures)
    assert reasons(calls) == {"a graph launched it, and 2 captured graphs with different shapes fit it"}


def test_kernel_names_tell_which_batch_size_a_replay_has(tmp_path: Path) -> None:
    """Matrix products of other sizes are other kernels."""
    captures = given(
        tmp_path,
        bs_32=captured(("aten::mm", {}, ["gemm_32x64"]), (*layer_norm(32), [KERNEL]), named=True),
        bs_64=captured(("aten::mm", {}, ["gemm_64x64"]), (*layer_norm(64), [KERNEL]), named=True),
    )
    (call,) = find_norms(link_events(*replayed("gemm_64x64", KERNEL)), CATALOG, captures)
    assert (call.cost.bytes_moved, call.shapes_from) == (layer_norm_bytes(64), f"bs_64.json.gz ({BY_NAMES})")


def test_captures_of_several_ranks_with_the_same_shapes_agree(tmp_path: Path) -> None:
    captures = given(tmp_path, rank0=captured(*ONE), rank1=captured(*ONE, start=5000.0))
    (call,) = find_norms(link_events(*replayed(GEMM, KERNEL)), CATALOG, captures)
    assert (call.cost.bytes_moved, call.shapes_from) == (
        layer_norm_bytes(32),
        f"rank0.json.gz ({BY_ORDER})",
    )


def test_several_graphs_of_one_trace_are_told_apart_by_their_captures() -> None:
    two: tuple[Step, ...] = (("aten::mm", {}, [GEMM, GEMM]), (*layer_norm(8), [KERNEL]))
    calls = norms(
        *captured(*ONE),
        *captured(*two, start=2000.0),
        *replayed(GEMM, GEMM, KERNEL, correlation=1),
        *replayed(GEMM, KERNEL, correlation=2, start=950_000.0),
    )
    assert [call.cost.bytes_moved for call in calls] == [layer_norm_bytes(8), layer_norm_bytes(32)]
    assert [call.shapes_from for call in calls] == [
        f"{SAME_TRACE}, graph {number} ({BY_ORDER})" for number in (2, 1)
    ]


OTHER_ROWS = (
    "a graph launched it, and none of the captured graphs (1) fits it; 1 would but for the number of rows"
)
VLLM = "void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>(c10::BFloat16*)"
CK = "void ck_tile::kentry<1, ck_tile::Rmsnorm2dFwd<float>>()"


def vllm(rows: int, name: str = VLLM) -> Step:
    return "_C::rms_norm", tensors([rows, 64], [rows, 64], [64]), [name]


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(("rows", "grid"), [(32, [32, 1, 1]), (32, [4, 8, 1])])
def test_workgroups_as_many_as_the_rows_confirm_a_capture(named: bool, rows: int, grid: list[int]) -> None:
    steps = (ONE[0], vllm(rows))
    (call,) = norms(*captured(*steps, named=named), *replayed(GEMM, VLLM, grid=grid))
    assert (call.shapes_from, call.cost.x_shape) == (SAME_TRACE, (rows, 64))


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("workgroups", [1, 31, 64])
@pytest.mark.parametrize(("kernel_name", "step"), [(VLLM, vllm(32)), (KERNEL, ONE[1])])
def test_a_capture_of_another_batch_size_is_refused(
    named: bool, workgroups: int, kernel_name: str, step: Step
) -> None:
    calls = norms(*captured(ONE[0], step, named=named), *replayed(GEMM, kernel_name, grid=[workgroups, 1, 1]))
    assert reasons(calls) == {OTHER_ROWS}


def test_workgroups_tell_which_of_several_captures_it_is(tmp_path: Path) -> None:
    captures = given(tmp_path, bs_32=captured(vllm(32)), bs_64=captured(vllm(64)))
    (call,) = find_norms(link_events(*replayed(VLLM, grid=[64, 1, 1])), CATALOG, captures)
    assert (call.shapes_from, call.cost.x_shape) == ("bs_64.json.gz", (64, 64))


def test_replays_of_the_same_kernels_for_two_batch_sizes_are_told_apart(tmp_path: Path) -> None:
    captures = given(tmp_path, bs_32=captured(vllm(32)), bs_64=captured(vllm(64)))
    events = [
        event
        for number, rows in enumerate((64, 32), 1)
        for event in replayed(VLLM, grid=[rows, 1, 1], correlation=number, start=9e5 + number * 1e4)
    ]
    calls = find_norms(link_events(*events), CATALOG, captures)
    assert [call.shapes_from for call in calls] == ["bs_64.json.gz", "bs_32.json.gz"]


def test_one_norm_of_a_graph_confirms_the_batch_size_of_the_others() -> None:
    steps = (vllm(32, CK), vllm(32))
    calls = norms(*captured(*steps), *replayed(CK, VLLM, grid=[32, 1, 1]))
    assert [call.shapes_from for call in calls] == [SAME_TRACE, SAME_TRACE]


def test_workgroups_of_kernels_that_take_several_rows_each_tell_nothing() -> None:
    (call,) = norms(*captured(vllm(32, CK)), *replayed(CK, grid=[8, 1, 1]))
    assert (call.shapes_from, call.cost.x_shape) == (f"{SAME_TRACE} ({BY_ORDER})", (32, 64))


@pytest.mark.parametrize("name", ["vllm_eager_b200", "sglang_prefill_mi300x", "vit_h100", "vit_mi300x"])
def test_kernels_said_to_start_a_workgroup_for_each_row_do(shared: Path, name: str) -> None:
    """Rows by the recorded shape: all sizes but the last, which each of these norms works along."""
    linked = link(read_trace(shared / f"traces/{name}.json.gz"))
    checked = 0
    for call in find_norms(linked, CATALOG):
        events = [linked.trace.gpu_events[i] for i in call.norm_events]
        for event in events:
            row = CATALOG.of_kernel(event.name)
            if row is None or not row.workgroup_per_row or call.cost.x_shape is None:
                continue
            assert event.grid == (math.prod(call.cost.x_shape[:-1]), 1, 1)
            checked += 1
    assert checked


def test_without_marks_the_launches_of_a_thread_are_a_graph() -> None:
    (call,) = norms(*captured(*ONE, marks=False), *replayed(GEMM, KERNEL))
    assert call.cost.bytes_moved == layer_norm_bytes(32)


def test_launches_outside_a_capture_and_those_that_ran_are_not_in_it() -> None:
    """A warm-up before the capture, whose kernels ran, and a lost kernel after it."""
    warm_up = [op("aten::mm", 10, 20), launch(7, 12), kernel(7, 40, name=GEMM)]
    lost = [op("aten::mm", 5000, 20), launch(8, 5001)]
    (call,) = norms(*warm_up, *captured(*ONE), *lost, *replayed(GEMM, KERNEL))
    assert call.cost.bytes_moved == layer_norm_bytes(32)


def test_a_capture_that_is_cut_off_tells_nothing() -> None:
    events = [event for event in captured(*ONE) if event["name"] != "cudaStreamEndCapture"]
    assert captures_in(link_events(*events), CATALOG) == []
    assert reasons(norms(*events, *replayed(GEMM, KERNEL))) == {IN_GRAPH}


def test_captures_at_the_same_time_tell_nothing() -> None:
    both = [*captured(*ONE), *captured(*ONE, start=1003.0, tid=777)]
    assert captures_in(link_events(*both), CATALOG) == []


def test_autograd_may_launch_from_another_thread() -> None:
    events = captured(*ONE)
    norm, its_launch = events[2:4]
    norm["tid"] = its_launch["tid"] = 888
    (capture,) = captures_in(link_events(*events), CATALOG)
    assert len(capture.kernels) == 2
    assert [norm.name for norm in capture.norms] == ["aten::native_layer_norm"]


def test_the_order_of_norms_with_and_without_residual_add_has_to_be_the_same() -> None:
    x, w = [16, 128], [128]
    plain: Step = ("test::rms_norm", tensors(x, x, w), ["plain_rms_norm_kernel"])
    adding: Step = ("test::add_rms_norm", tensors(x, x, x, x, w), ["add_rms_norm_kernel"])
    kernels = [step[2][0] for step in (plain, adding, adding)]
    calls = norms(*captured(plain, adding, adding), *replayed(*kernels), catalog=WITH_ADDING)
    # 2 or 4 tensors of 16 x 128 and a weight of 128, in bf16.
    assert [call.cost.bytes_moved for call in calls] == [8448, 16_640, 16_640]
    assert [call.fuses for call in calls] == [(), ("residual add",), ("residual add",)]
    turned = norms(*captured(adding, plain, adding), *replayed(*kernels), catalog=WITH_ADDING)
    assert "none of the captured graphs (1) fits" in str(reasons(turned))


def test_a_norm_of_the_other_direction_does_not_fit() -> None:
    name, inputs = layer_norm(32)
    backward = (f"{name}_backward", inputs, [KERNEL])
    calls = norms(*captured(ONE[0], backward), *replayed(GEMM, KERNEL))
    assert "none of the captured graphs (1) fits" in str(reasons(calls))


@pytest.mark.parametrize("named", [True, False])
def test_the_pieces_of_a_norm_are_one_call_of_the_op_that_launched_them(named: bool) -> None:
    steps = ((*layer_norm(32), [MOMENTS, LAYER]), (*layer_norm(4), [MOMENTS, LAYER]))
    calls = norms(*captured(*steps, named=named), *replayed(MOMENTS, LAYER, MOMENTS, LAYER))
    assert [len(call.norm_events) for call in calls] == [2, 2]
    assert [call.cost.bytes_moved for call in calls] == [layer_norm_bytes(32), layer_norm_bytes(4)]


@pytest.mark.parametrize("named", [True, False])
def test_kernels_that_names_did_not_join_are_one_call_where_an_op_launched_both(named: bool) -> None:
    first, second = f"{KERNEL}_a", f"{KERNEL}_b"
    steps = ((*layer_norm(32), [first, second]), (*layer_norm(4), [first, second]))
    calls = norms(*captured(*steps, named=named), *replayed(first, second, first, second))
    assert [call.norm_us for call in calls] == [10.0, 10.0]
    assert [call.cost.bytes_moved for call in calls] == [layer_norm_bytes(32), layer_norm_bytes(4)]


def test_a_replayed_norm_without_an_op_in_its_capture_says_so() -> None:
    """A bare launch in the capture: names tell that it is the right one, and that there is no op."""
    steps: tuple[Step, ...] = (("Torch-Compiled Region: 0/0", {}, [KERNEL]), (*layer_norm(32), [KERNEL]))
    bare, known = norms(*captured(*steps, named=True), *replayed(KERNEL, KERNEL))
    assert reasons([bare]) == {NOT_IN_CAPTURE}
    assert known.cost.bytes_moved == layer_norm_bytes(32)


@pytest.mark.parametrize("named", [True, False])
def test_a_compiled_kernel_in_a_graph_gets_its_tensors_from_its_op(named: bool) -> None:
    name = "triton_red_fused_add_native_layer_norm_3"
    steps: tuple[Step, ...] = (("aten::mm", {}, [GEMM]), (name, tensors([32, 64], [64], [32, 64]), [name]))
    (call,) = norms(*captured(*steps, named=named), *replayed(GEMM, name))
    assert (call.found_by, call.name, call.fuses) == ("compiled", name, ("add",))
    assert call.cost.bytes_moved == (2 * 32 * 64 + 64) * 2


def test_kernels_that_rocm_starts_itself_are_not_missing_in_a_capture() -> None:
    (call,) = norms(*captured(*ONE, named=True), *replayed("__amd_rocclr_fillBufferAligned", GEMM, KERNEL))
    assert call.cost.bytes_moved == layer_norm_bytes(32)


def test_norms_that_no_graph_replayed_are_left_as_they_are() -> None:
    name, inputs = layer_norm(16)
    eager = [op(name, 10, 20, **inputs), launch(7, 12), kernel(7, 40, name=KERNEL)]
    bare = [launch(8, 60), kernel(8, 80, name=KERNEL)]
    by_op, by_name, _ = norms(*eager, *bare, *captured(*ONE), *replayed(GEMM, KERNEL))
    assert (by_op.found_by, by_op.shapes_from) == ("op", None)
    assert (by_name.shapes_from, by_name.cost.bytes_moved) == (None, None)


def test_a_folder_without_captures_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no trace"):
        read_captures(tmp_path, CATALOG)
    with pytest.raises(InputError, match="is no folder"):
        read_captures(tmp_path / "missing", CATALOG)
    (tmp_path / "notes.txt").write_text("no trace")
    with pytest.raises(InputError, match="holds no trace"):
        read_captures(tmp_path, CATALOG)


@pytest.mark.parametrize("content", [b"", b"hello", b"{}", b"\x1f\x8bbroken"])
def test_a_broken_file_in_the_folder_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bs_1.json").write_bytes(as_json(captured(*ONE)))
    (tmp_path / "bs_2.json").write_bytes(content)
    with pytest.raises(InputError, match=r"bs_2\.json"):
        read_captures(tmp_path, CATALOG)


def test_a_file_without_norms_is_counted(tmp_path: Path) -> None:
    captures = given(
        tmp_path, a=captured(("aten::mm", {}, [GEMM])), b=[op("aten::mm", 1, 2)], c=captured(*ONE)
    )
    assert [(capture.label, len(capture.norms)) for capture in captures] == [
        ("a.json.gz", 0),
        ("b.json.gz", 0),
        ("c.json.gz", 1),
    ]


def simulated_capture(linked: LinkedTrace, rows: int) -> list[Event]:
    """Return what the capture of a real trace's graphs would hold, with ``rows`` rows in every norm."""
    graphs: dict[int, list[str]] = {}
    for event, launched in zip(linked.trace.gpu_events, linked.launch_of, strict=True):
        if launched >= 0 and GRAPH_LAUNCH in linked.trace.launches[launched].name.lower():
            graphs.setdefault(launched, []).append(event.name)
    events: list[Event] = []
    for number, names in enumerate(graphs.values()):
        steps: list[Any] = [(*_op_of(name, rows), [name]) for name in names]
        events += captured(*steps, start=1000.0 + 10_000.0 * number, named=True)
    return events


def _op_of(name: str, rows: int) -> tuple[str, Event]:
    x, w = [rows, 2880], [2880]
    if not CATALOG.is_norm_kernel(name):
        return "aten::mm", {}
    if "FusedAddEnumE1" in name or "Lb1ELb0ELb1ELi1E" in name:
        return "aiter::add_rmsnorm", tensors(x, x, x, x, w)
    return "aiter::rms_norm", tensors(x, w, scalars=2)


@pytest.mark.parametrize(
    ("name", "plain", "adding"), [("vllm_piecewise_graph", 1, 48), ("sglang_decode_graph_mi300x", 73, 72)]
)
def test_every_norm_of_a_real_replay_gets_its_shapes(
    shared: Path, tmp_path: Path, name: str, plain: int, adding: int
) -> None:
    linked = link(read_trace(shared / f"traces/{name}.json.gz"))
    assert reasons(find_norms(linked, CATALOG)) == {IN_GRAPH}
    captures = given(tmp_path, bs_32=simulated_capture(linked, 32))
    calls = find_norms(linked, CATALOG, captures)
    tensor, weight = 32 * 2880 * 2, 2880 * 2
    assert [call.cost.bytes_moved for call in calls].count(2 * tensor + weight) == plain
    assert [call.cost.bytes_moved for call in calls].count(4 * tensor + weight) == adding
    assert len(calls) == plain + adding
    # The same graph for another batch size makes it ambiguous.
    captures = given(tmp_path, bs_64=simulated_capture(linked, 64))
    assert "with different shapes" in str(reasons(find_norms(linked, CATALOG, captures)))
