"""Linking GPU events to launches, ops and modules, and the GPU's timeline."""

import copy
import math
import time
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normscope.trace.launches import find_launches
from normscope.trace.link import OUTSIDE, SKEW, UNLINKED, LinkedTrace
from normscope.trace.nesting import NONE
from normscope.trace.timeline import gpu_timeline, union_us
from trace_inputs import (
    CORRELATION,
    EPOCH_US,
    Event,
    annotation,
    base_events,
    frame,
    kernel,
    launch,
    link_events,
    op,
    problems,
)

RANK_STEP = 1000


def identified(event: Event, external_id: int) -> Event:
    """Return ``event`` with an external id."""
    event["args"]["External id"] = external_id
    return event


def names_around(linked: LinkedTrace, gpu_event: int = 0) -> list[str]:
    """Return the names of the ops around the launch of a GPU event, innermost first."""
    return [linked.trace.cpu_ops[index].name for index in linked.chain(linked.op_of[gpu_event])]


def test_a_kernel_belongs_to_the_innermost_op_around_its_launch() -> None:
    linked = link_events(*base_events())
    assert linked.how == ["correlation"]
    assert linked.launch_of == [0]
    assert names_around(linked) == ["aten::native_layer_norm", "aten::layer_norm"]
    assert linked.problems == []


@pytest.mark.parametrize(
    ("category", "name"),
    [
        ("cuda_driver", "cuLaunchKernelEx"),
        ("cuda_runtime", "cudaLaunchKernelExC"),
        ("cuda_runtime", "hipExtModuleLaunchKernel"),
        ("xpu_runtime", "piextEnqueueKernelLaunch"),
    ],
)
def test_launches_are_known_by_their_correlation_not_their_name(category: str, name: str) -> None:
    events = base_events()
    events[2] |= {"cat": category, "name": name}
    assert names_around(link_events(*events))[0] == "aten::native_layer_norm"


def test_stream_zero_and_bare_args_are_enough() -> None:
    events = base_events()
    events[3] |= {
        "tid": 0,
        "args": {"correlation": CORRELATION, "device": 0, "stream": 0, "kind": "Dispatch Kernel"},
    }
    linked = link_events(*events)
    assert linked.trace.gpu_events[0].stream == 0
    assert names_around(linked)[0] == "aten::native_layer_norm"


def test_an_external_id_that_is_a_correlation_does_not_mislead() -> None:
    events = base_events()
    for event in events[2:]:
        event["args"]["External id"] = CORRELATION
    wrong = op("aten::zero_", 10, 5, **{"External id": CORRELATION})
    assert names_around(link_events(*events, wrong))[0] == "aten::native_layer_norm"
    without_launch = link_events(*events[:2], events[3], wrong)
    assert without_launch.how == ["none"]
    assert without_launch.op_of == [NONE]


def test_an_external_id_is_used_where_there_is_no_launch_and_it_proves_right() -> None:
    events = base_events()
    events[3]["args"]["External id"] = 12
    lost = identified(kernel(99, 150), 12)
    linked = link_events(*events, lost)
    assert linked.how == ["correlation", "external id"]
    assert names_around(linked, 1)[0] == "aten::native_layer_norm"


def test_an_external_id_is_not_used_if_it_is_wrong_elsewhere() -> None:
    events = base_events()
    events[3]["args"]["External id"] = 40
    linked = link_events(
        *events, op("aten::zero_", 10, 5, **{"External id": 40}), identified(kernel(99, 150), 12)
    )
    assert linked.how == ["correlation", "none"]
    assert problems(linked) == {UNLINKED: 1}


def test_external_ids_are_not_used_where_none_can_be_checked() -> None:
    gemm = identified(kernel(None, 400, name="gemm"), 77)
    linked = link_events(op("aten::layer_norm", 100, 50, **{"External id": 77}), gemm)
    assert linked.how == ["none"]
    assert linked.op_of == [NONE]
    assert problems(linked) == {UNLINKED: 1}


def test_an_external_id_that_two_ops_have_is_not_used() -> None:
    events = base_events()
    events[3]["args"]["External id"] = 12
    twins = [op("aten::mul", start, 5, **{"External id": 40}) for start in (10, 20)]
    linked = link_events(*events, *twins, identified(kernel(99, 150), 40))
    assert linked.how == ["correlation", "none"]


def test_an_external_id_counts_within_its_own_process() -> None:
    events = base_events()
    events[3]["args"]["External id"] = 12
    other_rank = [{**event, "pid": event["pid"] + RANK_STEP} for event in copy.deepcopy(events)]
    lost = identified(kernel(99, 150), 12)
    linked = link_events(*events, *other_rank, lost, identified(kernel(98, 170), 40))
    only_there = {**op("aten::mul", 10, 5, **{"External id": 40}), "pid": other_rank[0]["pid"]}
    with_stranger = link_events(*events, *other_rank, only_there, identified(kernel(98, 170), 40))
    found = linked.op_of[linked.how.index("external id")]
    assert linked.trace.cpu_ops[found].name == "aten::native_layer_norm"
    assert linked.trace.cpu_ops[found].pid == events[0]["pid"]
    assert with_stranger.how == ["correlation", "correlation", "none"]


def test_kernels_without_any_id_stay_unlinked() -> None:
    linked = link_events(*base_events()[:3], kernel(None, 130))
    assert linked.how == ["none"]
    assert problems(linked) == {UNLINKED: 1}


def test_gpu_only_traces_keep_their_kernels() -> None:
    linked = link_events(kernel(CORRELATION, 130))
    assert linked.op_of == [NONE]
    assert gpu_timeline(linked).computation_ms == pytest.approx(0.0125)


def test_kernels_of_a_graph_say_so() -> None:
    graph = launch(5, 10, name="hipGraphLaunch")
    linked = link_events(graph, *(kernel(5, 20.5 + 10 * turn, 8) for turn in range(5)))
    assert linked.how == ["graph"] * 5
    single = link_events(graph, kernel(5, 20.5, 8))
    assert single.how == ["graph"]


def test_merged_ranks_do_not_mix_though_their_ids_repeat() -> None:
    first = base_events()
    second = copy.deepcopy(first)
    for event in second:
        event["pid"] += RANK_STEP
        if "Input Dims" in event["args"]:
            event["args"]["Input Dims"] = [[2, 3]]
    linked = link_events(*first, *second)
    for index, gpu_event in enumerate(linked.trace.gpu_events):
        found = linked.trace.cpu_ops[linked.op_of[index]]
        assert (found.pid == first[0]["pid"]) == (gpu_event.pid == first[3]["pid"])


def test_merged_ranks_on_clocks_of_their_own_are_paired_by_time() -> None:
    early = [event for turn in range(5) for event in _renumbered(base_events(1000.0 * turn), turn)]
    late = [event for turn in range(5) for event in _renumbered(base_events(5e6 + 1700.0 * turn), turn)]
    for event in early:
        event["pid"] = 9000 if event["cat"] != "kernel" else 1
    for event in late:
        event["pid"] = 20 if event["cat"] != "kernel" else 2
    linked = link_events(*early, *late)
    for index, gpu_event in enumerate(linked.trace.gpu_events):
        assert linked.trace.cpu_ops[linked.op_of[index]].pid == (9000 if gpu_event.pid == 1 else 20)


def _renumbered(events: list[dict[str, Any]], turn: int) -> list[dict[str, Any]]:
    for event in events[2:]:
        event["args"]["correlation"] = CORRELATION + turn
    return events


def test_events_at_one_time_nest_by_the_order_in_which_they_were_recorded() -> None:
    inner = op("aten::inner", 10, 20, **{"External id": 8})
    outer = op("aten::outer", 10, 20, **{"External id": 7})
    for events in ([inner, outer], [outer, inner]):
        linked = link_events(*events, launch(1, 12), kernel(1, 50))
        assert names_around(linked) == ["aten::inner", "aten::outer"]


def test_rounded_epoch_times_keep_parent_and_child() -> None:
    parent = op("parent", EPOCH_US + 0.123, 40)
    child = op("child", EPOCH_US + 0.123, 40.3)
    for events in ([parent, child], [child, parent]):
        linked = link_events(*events, launch(1, EPOCH_US + 20), kernel(1, EPOCH_US + 60))
        assert set(names_around(linked)) == {"parent", "child"}


def test_rounding_at_the_epoch_does_not_push_a_child_out_of_its_parent() -> None:
    parent = op("parent", EPOCH_US + 0.123, 40.0)
    child = op("child", EPOCH_US + 30.4, 9.8)
    linked = link_events(parent, child, launch(1, EPOCH_US + 32, 2), kernel(1, EPOCH_US + 60))
    assert names_around(linked) == ["child", "parent"]


def test_ops_one_after_the_other_do_not_nest() -> None:
    linked = link_events(op("first", 10, 5), op("second", 15, 5), launch(1, 15), kernel(1, 50))
    assert names_around(linked) == ["second"]


def test_a_launch_that_ends_after_its_op_still_belongs_to_it() -> None:
    linked = link_events(op("aten::mul", 10, 20), launch(1, 25, 30), kernel(1, 100))
    assert names_around(linked) == ["aten::mul"]


def test_a_launch_on_another_thread_belongs_to_no_op_of_this_one() -> None:
    linked = link_events(op("aten::mul", 10, 20), launch(1, 15, tid=9), kernel(1, 100))
    assert linked.op_of == [NONE]
    assert linked.how == ["correlation"]


def test_a_kernel_before_its_launch_is_linked_and_counted_as_skew() -> None:
    events = base_events()
    linked = link_events(*events[:3], kernel(CORRELATION, 90))
    assert names_around(linked)[0] == "aten::native_layer_norm"
    assert problems(linked) == {SKEW: 1}


def test_kernels_long_before_the_trace_are_cut_and_counted() -> None:
    linked = link_events(*base_events(2e9), kernel(None, 1e9 + 0.5), kernel(None, 1e9 + 100.5))
    assert linked.how == ["outside window", "outside window", "correlation"]
    assert problems(linked) == {OUTSIDE: 2}
    assert gpu_timeline(linked).total_ms == pytest.approx(0.0125)
    assert gpu_timeline(linked).left_out_events == 2


def test_the_profilers_own_marks_bound_the_window() -> None:
    span = {
        "ph": "X",
        "cat": "Trace",
        "name": "PyTorch Profiler (0)",
        "pid": "Spans",
        "tid": "t",
        "ts": 50,
        "dur": 9,
    }
    end = {"ph": "i", "name": "Record Window End", "s": "g", "pid": "", "tid": "", "ts": 400.5}
    linked = link_events(*base_events(), span, end, kernel(None, 20, 5), kernel(None, 60), kernel(None, 500))
    assert linked.trace.window_us == (50.0, 400.5)
    assert linked.how == ["outside window", "none", "correlation", "outside window"]


def test_steps_are_kept_by_time_and_apart_from_annotations() -> None:
    linked = link_events(
        annotation("ProfilerStep#2", 200, 90),
        annotation("ProfilerStep#1", 100, 90),
        annotation("mine", 100, 9),
    )
    assert [step.name for step in linked.trace.steps] == ["ProfilerStep#1", "ProfilerStep#2"]
    assert [span.name for span in linked.trace.annotations] == ["mine"]


def test_annotations_on_the_gpu_are_no_gpu_time() -> None:
    covering = kernel(None, 100, 500, name="layer_norm block", cat="gpu_user_annotation")
    assert gpu_timeline(link_events(*base_events(), covering)).busy_ms == pytest.approx(0.0125)


def test_the_modules_around_an_op_are_named_outermost_first() -> None:
    linked = link_events(
        frame("nn.Module: Model_0", 50, 500),
        frame("nn.Module: Other_0", 60, 20),
        frame("nn.Module: LayerNorm_1", 90, 100),
        frame("x.py(3): forward", 95, 80),
        *base_events(),
    )
    assert linked.module_path(1) == ("nn.Module: Model_0", "nn.Module: LayerNorm_1")


def test_a_backward_op_finds_its_forward_op_and_the_modules_around_that() -> None:
    forward = {"Sequence number": 5, "Fwd thread id": 0}
    linked = link_events(
        frame("nn.Module: LayerNorm_1", 90, 100),
        op("aten::layer_norm", 100, 60, **forward),
        op("aten::native_layer_norm", 105, 50, **forward),
        op("NativeLayerNormBackward0", 300, 60, tid=9, **{"Sequence number": 5, "Fwd thread id": 1}),
        op("aten::native_layer_norm_backward", 310, 40, tid=9),
    )
    assert linked.forward_op(3) == 1
    assert linked.module_path(3) == ("nn.Module: LayerNorm_1",)
    assert linked.forward_op(0) == NONE


def test_a_sequence_number_of_two_threads_names_no_forward_op() -> None:
    forward = {"Sequence number": 5}
    linked = link_events(
        op("aten::mul", 100, 60, **forward),
        op("aten::add", 100, 60, tid=8, **forward),
        op("MulBackward0", 300, 60, tid=9, **{"Sequence number": 5, "Fwd thread id": 1}),
    )
    assert linked.forward_op(2) == NONE


def test_fifty_thousand_kernels_of_one_graph_link_in_linear_time() -> None:
    def seconds(count: int) -> float:
        events = [
            launch(5, 10, name="cudaGraphLaunch"),
            *(kernel(5, 20.5 + 10 * turn, 8) for turn in range(count)),
        ]
        start = time.process_time()
        linked = link_events(*events)
        gpu_timeline(linked)
        elapsed = time.process_time() - start
        assert Counter(linked.how) == {"graph": count}
        return elapsed

    small = min(seconds(5_000) for _ in range(3))
    assert seconds(50_000) < 40 * small


def shared_id_events(count: int, correlation: int, pid: int = 0) -> list[Event]:
    """Return pairs of a launch and a kernel that all have one correlation id."""
    return [
        {**event, "pid": event["pid"] + pid}
        for turn in range(count)
        for event in (launch(correlation, 20 * turn), kernel(correlation, 20 * turn + 10.5, 5))
    ]


def test_of_launches_with_one_id_the_last_before_the_kernel_counts() -> None:
    linked = link_events(*shared_id_events(50, 5))
    starts = [linked.trace.launches[index].ts_us for index in linked.launch_of]
    assert starts == [20 * turn for turn in range(50)]


def test_the_correlation_zero_of_many_launches_links_nothing() -> None:
    linked = link_events(*shared_id_events(3, 0))
    assert linked.launch_of == [NONE] * 3
    assert problems(linked) == {UNLINKED: 3}
    assert link_events(*shared_id_events(1, 0)).launch_of == [0]


@pytest.mark.parametrize("ranks", [1, 2])
def test_launches_that_share_one_id_link_in_linear_time(ranks: int) -> None:
    def seconds(count: int) -> float:
        trace = link_events(
            *(event for rank in range(ranks) for event in shared_id_events(count, 5, RANK_STEP * rank))
        ).trace
        start = time.process_time()
        found = find_launches(trace.gpu_events, trace.launches)
        elapsed = time.process_time() - start
        assert len(set(found)) == ranks * count
        return elapsed

    small = min(seconds(500) for _ in range(3))
    assert seconds(8000) < 80 * small


def test_ops_nested_a_thousand_deep_link_in_linear_time() -> None:
    depth = 1000
    nested = [op(f"op {level}", level, 2 * (depth - level)) for level in range(depth)]
    calls = [launch(turn + 1, depth - 0.5, 0.25) for turn in range(1000)]
    linked = link_events(*nested, *calls, *(kernel(turn + 1, 5000.5 + 3 * turn, 2) for turn in range(1000)))
    assert len(names_around(linked, 999)) == depth
    assert names_around(linked)[0] == f"op {depth - 1}"
    assert names_around(linked)[-1] == "op 0"


def test_the_timeline_is_made_of_unions() -> None:
    linked = link_events(
        kernel(1, 0.5, 10),
        kernel(2, 5.5, 10, stream=8),
        kernel(3, 12.5, 10, stream=9, name="ncclDevKernel_AllReduce_Sum_bf16"),
        kernel(4, 20.5, 10, stream=10, cat="gpu_memcpy"),
        kernel(5, 40.5, 5, cat="gpu_memset"),
    )
    timeline = gpu_timeline(linked)
    assert timeline.total_ms == pytest.approx(0.045)
    assert timeline.computation_ms == pytest.approx(0.020)
    assert timeline.exposed_communication_ms == pytest.approx(0.007)
    assert timeline.exposed_memcpy_ms == pytest.approx(0.008)
    assert timeline.communication_ms == pytest.approx(0.010)
    assert timeline.memcpy_ms == pytest.approx(0.010)
    assert timeline.busy_ms == pytest.approx(0.035)
    assert timeline.idle_ms == pytest.approx(0.010)


def test_the_timeline_of_nothing_is_zero() -> None:
    assert gpu_timeline(link_events()).total_ms == 0


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=12))
def test_the_length_of_a_union_counts_each_microsecond_once(spans: list[tuple[int, int]]) -> None:
    covered = {moment for start, length in spans for moment in range(start, start + length)}
    assert math.isclose(union_us((start, start + length) for start, length in spans), len(covered))
