"""Work around the norms: what is counted on simulated and real traces, and what is said about it."""

from pathlib import Path

import pytest

from normscope.findings.overheads import overhead_notes, overheads_markdown
from normscope.norms.catalog.catalog import load_catalog
from normscope.norms.find import find_norms
from normscope.norms.overheads import Overhead, OverheadKind, Overheads, find_overheads
from normscope.trace.link import link
from normscope.trace.read import read_trace
from trace_inputs import INPUTS, Event, frame, kernel, launch, link_events, op

COUNT_KERNEL = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctorOnSelf_add<long>>"
COPY_KERNEL = "void at::native::direct_copy_kernel"
BATCH_NORM = {
    "Input Dims": [[2, 4, 8, 8], [4], [4], [4], [4], [], [], []],
    "Input type": ["float", "float", "float", "float", "float", "Scalar", "Scalar", "Scalar"],
    "Concrete Inputs": ["", "", "", "", "", "True", "0.1", "1e-05"],
}


def overheads_of(*events: Event) -> Overheads:
    catalog = load_catalog()
    linked = link_events(*events)
    return find_overheads(linked, catalog, find_norms(linked, catalog))


def figures(found: Overheads) -> dict[OverheadKind, tuple[int, int, float]]:
    """Return calls, events and µs by kind."""
    return {o.kind: (o.call_count, o.event_count, o.time_us) for o in found.found}


def counter(start: float, correlation: int, name: str = COUNT_KERNEL) -> list[Event]:
    """Return an addition of 1 to a counter, of 3 µs."""
    return [
        op("aten::add_", start, 10.0),
        launch(correlation, start + 2),
        kernel(correlation, start + 40, 3.0, name),
    ]


def batch_norm(start: float, correlation: int) -> list[Event]:
    return [
        op("aten::native_batch_norm", start, 20.0, **BATCH_NORM),
        launch(correlation, start + 2),
        kernel(correlation, start + 60, 9.0, "batch_norm_transform_input_kernel"),
    ]


def test_a_counter_in_a_batch_norms_module_is_bookkeeping() -> None:
    module = frame("nn.Module: SyncBatchNorm_0", 90.0, 100.0)
    assert figures(overheads_of(module, *counter(100.0, 1))) == {"counter": (1, 1, 3.0)}


def test_without_modules_a_counter_comes_right_before_a_batch_norm() -> None:
    assert figures(overheads_of(*counter(100.0, 1), *batch_norm(120.0, 2))) == {"counter": (1, 1, 3.0)}


@pytest.mark.parametrize(
    "events",
    [
        # nothing follows
        counter(100.0, 1),
        # a layer norm follows
        [
            *counter(100.0, 1),
            op("aten::native_layer_norm", 120.0, 20.0, **INPUTS),
            launch(2, 122.0),
            kernel(2, 170.0),
        ],
        # something else comes between
        [
            *counter(100.0, 1),
            *(op("aten::mul", 112.0, 6.0), launch(3, 113.0), kernel(3, 160.0, 2.0, "mul")),
            *batch_norm(120.0, 2),
        ],
        # no addition of integers
        [*counter(100.0, 1, COUNT_KERNEL.replace("long", "float")), *batch_norm(120.0, 2)],
        # the module of another layer
        [frame("nn.Module: Linear_0", 90.0, 100.0), *counter(100.0, 1)],
    ],
    ids=["alone", "layer norm", "between", "float", "linear"],
)
def test_other_additions_are_no_bookkeeping(events: list[Event]) -> None:
    assert "counter" not in figures(overheads_of(*events))


@pytest.mark.parametrize(
    ("helpers", "kind"),
    [
        (("aten::contiguous", "aten::clone", "aten::copy_"), "contiguous copy"),
        (("aten::to", "aten::_to_copy", "aten::copy_"), "cast"),
        (("aten::zeros", "aten::fill_"), "other helper"),
    ],
)
def test_copies_inside_a_norm_are_told_by_the_ops_around_them(
    helpers: tuple[str, ...], kind: OverheadKind
) -> None:
    nested = [op(name, 101.0 + depth, 30.0 - 2 * depth) for depth, name in enumerate(helpers)]
    events = [
        op("aten::native_layer_norm", 100.0, 80.0, **INPUTS),
        *nested,
        launch(1, 106.0, 2.0),
        kernel(1, 200.0, 4.0, COPY_KERNEL),
        launch(2, 150.0),
        kernel(2, 210.0),
    ]
    assert figures(overheads_of(*events)) == {kind: (1, 1, 4.0)}


def test_the_parameters_that_instance_norm_repeats_are_counted_by_call() -> None:
    instance = {
        "Input Dims": [[2, 4, 8, 8], [4], [4], [], [], [], [], [], []],
        "Input type": ["float", "float", "float", "", "", "Scalar", "Scalar", "Scalar", "Scalar"],
        "Concrete Inputs": ["", "", "", "", "", "True", "0.1", "1e-05", "True"],
    }
    events = [
        op("aten::instance_norm", 100.0, 90.0, **instance),
        op("aten::repeat", 101.0, 10.0),
        op("aten::copy_", 102.0, 8.0),
        launch(1, 103.0, 2.0),
        kernel(1, 200.0, 2.0, COPY_KERNEL),
        op("aten::repeat", 112.0, 10.0),
        op("aten::copy_", 113.0, 8.0),
        launch(2, 114.0, 2.0),
        kernel(2, 203.0, 2.5, COPY_KERNEL),
        *batch_norm(130.0, 3),
    ]
    assert figures(overheads_of(*events)) == {"repeated parameters": (1, 2, 4.5)}


def test_a_forward_norm_in_the_backward_pass_ran_twice() -> None:
    events = [
        op("autograd::engine::evaluate_function: ReluBackward0", 90.0, 100.0),
        *batch_norm(100.0, 1),
    ]
    assert figures(overheads_of(*events)) == {"recomputed": (1, 1, 9.0)}


def test_an_op_that_only_reshapes_for_a_norm_is_a_helper_of_no_call() -> None:
    found = overheads_of(
        op("sglang_profiler::utils__reshape_for_qk_norm_486", 100.0, 50.0),
        op("aten::clone", 101.0, 40.0),
        launch(1, 103.0, 2.0),
        kernel(1, 200.0, 6.0, COPY_KERNEL),
    )
    assert figures(found) == {"prepared tensor": (1, 1, 6.0)}
    assert found.helper_events == (0,)


REAL: dict[str, dict[OverheadKind, tuple[int, int, float]]] = {
    # coverage.json; three kernels a recomputed call
    "resnet_checkpoint_mi300x": {"counter": (117, 117, 446.2), "recomputed": (57, 171, 1368.8)},
    # norms.md: 6 copies of 20.7 µs, 6 additions of 19.8 µs, 2 memsets under MIOpen's ops
    "norm_layers_mi300x": {"repeated parameters": (3, 6, 20.7), "counter": (6, 6, 19.8)},
    "sd35_compiled_mi300x": {"contiguous copy": (4, 4, 252.2)},
    "sglang_prefill_mi300x": {"prepared tensor": (72, 72, 3389.9)},
}


@pytest.mark.parametrize("name", REAL)
def test_real_traces_hold_the_work_that_is_known(shared: Path, name: str) -> None:
    catalog = load_catalog()
    linked = link(read_trace(shared / "traces" / f"{name}.json.gz"))
    found = figures(find_overheads(linked, catalog, find_norms(linked, catalog)))
    for kind, (calls, events, time_us) in REAL[name].items():
        assert found[kind][:2] == (calls, events), kind
        assert found[kind][2] == pytest.approx(time_us, rel=0.005), kind


def test_advice_is_given_where_it_matters_and_only_there() -> None:
    # of 100 ms: 446.2 µs are 0.45 %, 1,368.8 µs are 1.37 %
    found = [Overhead("recomputed", 57, 171, 1368.8), Overhead("counter", 117, 117, 446.2)]
    recomputed, counters = overhead_notes(found, 100.0)
    assert (recomputed.matters, counters.matters) == (True, False)
    text = overheads_markdown([recomputed, counters])
    assert "(1.37 ms, 1.4% of end-to-end time): 57 forward norms ran again in the backward pass" in text
    assert "create_selective_checkpoint_contexts" in text
    assert "(446 µs, 0.45% of end-to-end time): 117 launches that add 1 to `num_batches_tracked`" in text
    assert "num_batches_tracked = None" not in text


def test_without_the_end_to_end_time_nothing_is_said_to_matter() -> None:
    for total_ms in (None, 0.0):
        (note,) = overhead_notes([Overhead("cast", 1, 2, 5e6)], total_ms)
        assert (note.share_percent, note.matters) == (None, False)
    assert overheads_markdown([]) == ""
