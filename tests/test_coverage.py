"""All kernel time of a trace in groups: as counted by hand, and with nothing lost or counted twice."""

import gzip
import io
import json
import math
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from normscope.norms.catalog.catalog import load_catalog
from normscope.norms.overheads import find_overheads
from normscope.sample.forms import Form
from normscope.sample.trace import sample_trace
from normscope.tracerun.coverage import NORM_GROUPS, TITLES, Coverage, GroupName
from normscope.tracerun.coverage_text import coverage_text
from normscope.tracerun.examine import Examined, NormSources, examine
from normscope.tracerun.found import cut_off_kernels, fired_rows
from real_traces import TRACES
from trace_inputs import Event, as_json, base_events, kernel, launch, op
from written_run import written_events

TOLERANCE = 0.005
COUNTED_BY_HAND: tuple[GroupName, ...] = tuple(TITLES)[: tuple(TITLES).index("other_ops")]


@cache
def found_in(path: Path) -> Examined:
    return examine(path, label="a trace", norms=NormSources())


def examined(*events: Event) -> Examined:
    return examine(io.BytesIO(as_json(list(events))), label="a trace", norms=NormSources())


@pytest.fixture(scope="module")
def by_hand(shared: Path) -> dict[str, Any]:
    counted: dict[str, Any] = json.loads((shared / "traces" / "coverage.json").read_text("utf-8"))
    # reference/norms.md, section 4, counts these six additions; coverage.json doesn't list the group here.
    counted["norm_layers_mi300x"]["bookkeeping_adds"] = {"count": 6, "us": 19.8}
    return {name: figures for name, figures in counted.items() if not name.startswith("_")}


def test_every_shared_trace_was_counted_by_hand(by_hand: dict[str, Any]) -> None:
    assert set(by_hand) == set(TRACES)


@pytest.mark.parametrize("group", COUNTED_BY_HAND)
@pytest.mark.parametrize("name", TRACES)
def test_a_group_is_what_was_counted_by_hand(
    name: str, group: GroupName, shared: Path, by_hand: dict[str, Any]
) -> None:
    covered = found_in(shared / "traces" / f"{name}.json.gz").coverage
    expected = by_hand[name].get(group, [])
    expected = expected if isinstance(expected, list) else [expected]
    ours = [found for which, found in covered.groups if which == group]
    assert [found.count for found in ours] == [part["count"] for part in expected]
    for found, part in zip(ours, expected, strict=True):
        assert found.us == pytest.approx(part["us"], rel=TOLERANCE)
        assert found.norms == part.get("norms")


@pytest.mark.parametrize("name", TRACES)
def test_the_other_figures_are_those_counted_by_hand(
    name: str, shared: Path, by_hand: dict[str, Any]
) -> None:
    covered = found_in(shared / "traces" / f"{name}.json.gz").coverage
    for figure in ("recomputed_forward_calls", "unlinked_kernels_of_any_kind"):
        if figure in by_hand[name]:
            assert getattr(covered, figure) == by_hand[name][figure]
    if "all_kernels_us" in by_hand[name]:
        assert covered.all_kernels_us == pytest.approx(by_hand[name]["all_kernels_us"], abs=0.5001)


@pytest.mark.parametrize("name", TRACES)
def test_no_kernel_of_a_real_trace_is_lost_or_counted_twice(name: str, shared: Path) -> None:
    is_complete(found_in(shared / "traces" / f"{name}.json.gz"))


def is_complete(found: Examined) -> None:
    """Check that every kernel is in exactly one group, and that the parts add up to the whole."""
    covered = found.coverage
    kernels_us = [event.dur_us for event in found.linked.trace.gpu_events if event.kind == "kernel"]
    assert sum(group.count for _, group in covered.groups) == covered.all_kernels == len(kernels_us)
    assert math.fsum(group.us for _, group in covered.groups) == covered.all_kernels_us
    assert covered.all_kernels_us == pytest.approx(math.fsum(kernels_us), rel=1e-12)
    overheads = find_overheads(found.linked, load_catalog(), found.calls)
    claimed: Counter[int] = Counter(overheads.helper_events + overheads.counter_events)
    for call in found.calls:
        claimed.update(call.norm_events + call.helper_events)
    assert [event for event, claims in claimed.items() if claims > 1] == []
    norm_us = covered.us(*NORM_GROUPS)
    assert math.fsum(row.us for row in fired_rows(found.calls)) == pytest.approx(norm_us)
    assert math.fsum(
        each.us for each in cut_off_kernels(found.linked.trace.gpu_events, found.calls)
    ) == pytest.approx(covered.unlinked.us)
    assert (
        sum(each.count for each in cut_off_kernels(found.linked.trace.gpu_events, found.calls))
        == covered.unlinked.count
    )


NAMES = (
    *("vectorized_layer_norm_kernel", "gemm", "rms_norm_kernel", "triton_red_fused_add_native_layer_norm_4"),
    *("triton_per_fused__to_copy_mean_mul_pow_rsqrt_0", "reduce_kernel", "copy"),
)
OPS = ("aten::layer_norm", "aten::mul", "aten::copy_", "aten::linalg_vector_norm", *NAMES[3:5])


@st.composite
def traces(draw: st.DrawFn) -> list[Event]:
    """Draw events: ops in ops, launches of kernels or graphs in them or in none, and kernels without one."""
    events: list[Event] = base_events() if draw(st.booleans()) else []
    for number in range(1, draw(st.integers(1, 12)) + 1):
        at = 1000.0 * number
        depth = draw(st.integers(0, 3))
        events += [op(draw(st.sampled_from(OPS)), at + 5 * d, 500 - 10 * d) for d in range(depth)]
        name = "cudaGraphLaunch" if draw(st.booleans()) and not depth else "cudaLaunchKernel"
        has_launch = draw(st.booleans())
        if has_launch:
            events.append(launch(number, at + 100, name=name))
        for place in range(draw(st.integers(0, 3))):
            times = at + 200 + 50 * place, draw(st.integers(0, 40_000)) / 1024
            kind = draw(st.sampled_from(["kernel", "kernel", "kernel", "gpu_memcpy", "gpu_memset"]))
            linked = number if has_launch or draw(st.booleans()) else None
            events.append(kernel(linked, *times, name=draw(st.sampled_from(NAMES)), cat=kind))
    return [*events, kernel(None, 9e9, 1.5, name="layer_norm_kernel")]


@settings(max_examples=60)
@given(traces())
def test_every_kernel_of_any_trace_is_in_exactly_one_group(events: list[Event]) -> None:
    is_complete(examined(*events))


@settings(max_examples=6)
@given(
    seed=st.integers(0, 2**32),
    form=st.builds(
        Form,
        record_shapes=st.booleans(),
        gpu_only=st.booleans(),
        legacy=st.booleans(),
        scale_durations=st.sampled_from([0.5, 1.0, 3.0]),
        shuffle=st.none() | st.integers(0, 9),
    ),
)
def test_every_kernel_of_a_simulated_trace_is_in_exactly_one_group(seed: int, form: Form) -> None:
    trace = sample_trace(seed=seed, steps=1, form=form)
    found = examine(io.BytesIO(json.dumps(trace).encode()), label="a trace", norms=NormSources())
    is_complete(found)
    kernels = [event["dur"] for event in trace["traceEvents"] if event.get("cat", "").lower() == "kernel"]
    assert found.coverage.all_kernels == len(kernels)
    assert found.coverage.all_kernels_us == pytest.approx(math.fsum(kernels))


def test_each_group_holds_its_kernels(tmp_path: Path) -> None:
    compiled = "triton_red_fused_add_native_layer_norm_4"
    run = written_events(
        tmp_path,
        *base_events(),  # a LayerNorm of 12.5 µs
        op(compiled, 300, 20),
        launch(1, 305),
        kernel(1, 400, 1, name=compiled),
        op("aten::linalg_vector_norm", 330, 20),
        launch(2, 335),
        kernel(2, 410, 2, name="reduce_kernel"),
        op("aten::mul", 360, 20),
        launch(3, 365),
        kernel(3, 420, 3, name="mul"),
        launch(4, 390, name="hipGraphLaunch"),
        kernel(4, 430, 4, name="gemm"),
        kernel(4, 440, 5, name="rms_norm_kernel"),
        kernel(None, 450, 6, name="gemm"),
        kernel(None, 460, 7, name="layer_norm_kernel"),
    )
    assert run.groups == {
        "explicit": (2, 12.5 + 5),
        "compiled_fused": (1, 1.0),
        "unlinked": (1, 7.0),
        "not_a_norm_layer": (1, 2.0),
        "other_ops": (1, 3.0),
        "other_graph_kernels": (1, 4.0),
        "other_kernels_without_op": (1, 6.0),
    }
    assert run.summary.coverage.unlinked_kernels_of_any_kind == 2
    assert run.summary.call_count == len(run.calls) == 3


def test_the_file_has_every_group_by_the_names_of_the_reference(tmp_path: Path) -> None:
    compiled = "triton_red_fused_add_native_layer_norm_4"
    run = written_events(tmp_path, *base_events(), op(compiled, 300, 20), launch(1, 305), kernel(1, 400, 1))
    file = run.coverage_file
    assert set(TITLES) < set(file)
    assert file["explicit"] == {"count": 2, "us": 13.5}
    assert file["compiled_fused"] == []
    assert file["eager_decomposed"] == {"count": 0, "us": 0.0, "norms": 0}
    assert (file["all_kernels"], file["all_kernels_us"]) == (2, 13.5)
    assert msgspec.convert(file, Coverage) == run.summary.coverage


def test_compiled_kernels_are_told_apart_by_what_is_in_their_names() -> None:
    names = {
        "triton_red_fused_add_native_layer_norm_4": "native_layer_norm in the name",
        "triton_red_fused_native_layer_norm_backward_7": "native_layer_norm_backward in the name",
        "triton_per_fused__to_copy_mean_mul_pow_rsqrt_0": "mean+pow+rsqrt",
        "triton_red_fused__fused_rms_norm_1": "rms_norm in the name",
    }
    events = []
    for number, name in enumerate(names, start=1):
        at = 100.0 * number
        events += [op(name, at, 50), launch(number, at + 5), kernel(number, at + 20, 9 - number, name=name)]
    fused = examined(*events).coverage.compiled_fused
    assert [(group.how, group.count, group.us) for group in fused] == [
        (how, 1, 8.0 - place) for place, how in enumerate(names.values())
    ]


# The rows that fired


OWN_ROWS = """\
[[norm]]
id = "acme-norm"
library = "ACME"
variant = "RMSNorm"
ops = ["acme::normalize"]
evidence = "unverified"
source = "a guess"
"""


def acme() -> list[Event]:
    """Two calls of an op that only a user's row knows."""
    events = []
    for number in (1, 2):
        at = 100.0 * number
        events += [op("acme::normalize", at, 50), launch(number, at + 5)]
        events.append(kernel(number, at + 20, 4, name="acme_kernel"))
    return events


def test_a_row_of_the_user_finds_what_was_other_work(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(OWN_ROWS, encoding="utf-8")
    usual = examined(*acme())
    assert [name for name, _ in usual.coverage.groups] == ["other_ops"]
    source = io.BytesIO(as_json(acme()))
    found = examine(source, label="a trace", norms=NormSources(catalog=tmp_path / "own.toml"))
    assert [name for name, _ in found.coverage.groups] == ["explicit"]
    (row,) = fired_rows(found.calls)
    assert (row.row, row.library, row.variant, row.evidence) == ("acme-norm", "ACME", "RMSNorm", "unverified")
    assert (row.calls, row.us, row.found_by, row.found) == (2, 8.0, "op", "op")
    text = "\n".join(coverage_text("a trace", found))
    assert "acme-norm  ACME     RMSNorm  forward    op            2      0.008  unverified\n" in text
    assert "Unverified: names or arguments were never checked against a trace or source." in text


def test_kernels_whose_launch_was_cut_off_are_listed_by_name() -> None:
    lost = [kernel(None, 1000 + 20 * turn, 3 + turn, name="rms_norm_kernel") for turn in range(3)]
    found = examined(*base_events(), *lost)
    (cut_off,) = cut_off_kernels(found.linked.trace.gpu_events, found.calls)
    assert (cut_off.count, cut_off.us) == (3, 3.0 + 4.0 + 5.0)
    rows = {row.found: (row.calls, row.us) for row in fired_rows(found.calls)}
    assert rows == {"op": (1, 12.5), "kernel name, launch cut off": (3, 12.0)}


RESNET_LOST = {
    "batch_norm_collect_statistics": 39,
    "batch_norm_update_stats_and_invert": 39,
    "batch_norm_transform_input": 39,
    "batch_norm_backward_kernel": 20,
}
"""Norm kernels of the trace without a launch, by a part of their name; each norm of the 39 runs three."""


def test_each_kernel_of_a_cut_off_norm_is_listed_by_its_own_name(shared: Path) -> None:
    path = shared / "traces" / "resnet_checkpoint_mi300x.json.gz"
    found = found_in(path)
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    launched = {event["args"]["correlation"] for event in events if event.get("cat") == "cuda_runtime"}
    lost = [e for e in events if e.get("cat") == "kernel" and e["args"]["correlation"] not in launched]
    listed = cut_off_kernels(found.linked.trace.gpu_events, found.calls)
    assert len(listed) == len(RESNET_LOST)
    for part, count in RESNET_LOST.items():
        by_hand = [event["dur"] for event in lost if part in event["name"]]
        (kernels,) = (each for each in listed if part in each.name)
        assert kernels.count == len(by_hand) == count
        assert kernels.us == pytest.approx(math.fsum(by_hand))


def test_compiled_kernels_whose_launch_was_cut_off_are_an_upper_bound() -> None:
    compiled = "triton_red_fused_add_native_layer_norm_3"
    found = examined(*base_events(), kernel(None, 1000, 30.0, name=compiled), *rms_norm_lost(20.0))
    listed = {
        each.name: (each.us, each.fuses, each.is_upper_bound)
        for each in cut_off_kernels(found.linked.trace.gpu_events, found.calls)
    }
    assert listed == {compiled: (30.0, ("add",), True), "rms_norm_kernel": (20.0, (), False)}
    assert (found.coverage.unlinked.us, found.coverage.unlinked.upper_bound_us) == (50.0, 30.0)
    assert {row.found for row in fired_rows(found.calls) if not row.is_in_timeline} == {
        "name of a compiled kernel, launch cut off, upper bound",
        "kernel name, launch cut off",
    }
    text = "\n".join(coverage_text("step", found))
    assert "Norm kernels whose launch was cut off, partly compiled (*)" in text
    assert "(*) An upper bound" in text


def test_without_compiled_kernels_cut_off_time_is_no_upper_bound() -> None:
    found = examined(*base_events(), *rms_norm_lost(20.0))
    assert found.coverage.unlinked.upper_bound_us is None
    assert "upper bound" not in "\n".join(coverage_text("step", found))


def rms_norm_lost(time_us: float) -> list[Event]:
    return [kernel(None, 2000, time_us, name="rms_norm_kernel")]


def test_the_text_adds_up_and_names_every_group_in_words() -> None:
    lines = list(coverage_text("step", examined(*base_events(), kernel(None, 900, 37.5, name="gemm"))))
    assert lines[0] == "All kernel time of step"
    assert lines[2].split() == ["group", "kernels", "time", "(ms)", "share", "(%)"]
    assert [line.split()[-3:] for line in lines[3:6]] == [
        ["1", "0.013", "25.00"],
        ["1", "0.037", "75.00"],
        ["2", "0.050", "100.00"],
    ]
    assert [line.rpartition("  ")[0].rstrip("0123456789. ") for line in lines[3:6]] == [
        "Norm ops and kernels with a norm's name",
        "Other kernels without an op",
        "All kernels",
    ]
