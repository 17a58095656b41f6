"""Real traces give the reference's rows: equal, or different by what is proven, and by nothing else.

Norms that the reference doesn't have are declared trace by trace in ``ONLY_OURS``.
"""

import ast
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import reference_bytes
from normscope.norms.calls import NormCall
from normscope.norms.catalog.catalog import load_catalog
from normscope.norms.find import find_norms
from normscope.trace.link import LinkedTrace, link
from normscope.trace.read import read_trace
from real_traces import EXPECTED_TRACES, TIMELINE_FIELDS
from written_run import Row, WrittenRun, known, number, written

RECORDED = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
MIB = 2**20
EXACT = 1e-9
Expected = dict[str, Any]
ONLY_OURS: Mapping[str, frozenset[str]] = {
    "compiled_llama_layer": frozenset({"compiled_fused"}),
    "qwen15_mi300x": frozenset({"eager_decomposed"}),
    "sd35_compiled_mi300x": frozenset({"compiled_fused", "eager_decomposed"}),
    "sglang_decode_graph_mi300x": frozenset({"explicit"}),
    "vllm_eager_b200": frozenset({"explicit"}),
    "vllm_piecewise_graph": frozenset({"explicit"}),
}
"""Groups of the coverage figures whose norms the reference lacks; elsewhere it has every one."""
GROUP_OF = {
    "op": "explicit",
    "kernel": "explicit",
    "compiled": "compiled_fused",
    "eager": "eager_decomposed",
}


class Compared(NamedTuple):
    """A trace as we write it and as the reference reports it.

    ``rows`` and ``calls`` are those that the reference has, ``others`` the calls that it doesn't have.
    """

    name: str
    run: WrittenRun
    rows: list[Row]
    expected: Expected
    pairs: list[tuple[Row, Expected]]
    linked: LinkedTrace
    calls: list[NormCall]
    others: list[NormCall]


@pytest.fixture(scope="module")
def reference_names(shared: Path) -> frozenset[str]:
    """The norm ops that the reference knows: those of its rows, in any trace."""
    files = [path for path in (shared / "traces" / "expected").glob("*.json") if "_vs_" not in path.stem]
    return frozenset(row["name"] for path in files for row in json.loads(path.read_text())["norm_rows"])


@pytest.fixture(scope="module", params=EXPECTED_TRACES)
def compared(
    request: pytest.FixtureRequest,
    shared: Path,
    tmp_path_factory: pytest.TempPathFactory,
    reference_names: frozenset[str],
) -> Compared:
    name: str = request.param
    trace = shared / "traces" / f"{name}.json.gz"
    run = written(trace, tmp_path_factory.mktemp(name))
    expected = json.loads((shared / "traces" / "expected" / f"{name}.json").read_text())
    rows = [row for row in run.rows if row["found_by"] == "op" and row["name"] in reference_names]
    linked = link(read_trace(trace))
    calls = [call for call in find_norms(linked, load_catalog()) if call.is_in_timeline]
    by_whom: dict[bool, list[NormCall]] = {True: [], False: []}
    for call in calls:
        by_whom[call.found_by == "op" and call.name in reference_names].append(call)
    pairs = paired(rows, expected["norm_rows"])
    return Compared(name, run, rows, expected, pairs, linked, by_whom[True], by_whom[False])


def paired(rows: list[Row], expected: list[Expected]) -> list[tuple[Row, Expected]]:
    """Pair rows of the same name, inputs and count; of several alike the times decide."""
    ours, theirs = defaultdict(list), defaultdict(list)
    for row in rows:
        key = (row["name"], *(row[column] for column in RECORDED), float(row["operation_count"]))
        ours[key].append(row)
    for entry in expected:
        recorded = ("input_dims", "input_type", "input_strides", "concrete_inputs")
        theirs[(entry["name"], *(entry[field] for field in recorded), entry["count"])].append(entry)
    assert set(ours) == set(theirs)
    return [
        pair
        for key, group in theirs.items()
        for pair in zip(
            sorted(ours[key], key=lambda row: known(row, "Kernel Time (µs)_sum")),
            sorted(group, key=lambda entry: float(entry["kernel_time_us_sum"])),
            strict=True,
        )
    ]


def test_every_trace_with_figures_of_the_reference_is_compared(shared: Path) -> None:
    files = (shared / "traces" / "expected").glob("*.json")
    assert {file.stem for file in files if "_vs_" not in file.stem} == set(EXPECTED_TRACES)


def test_names_inputs_and_counts_are_the_references(compared: Compared) -> None:
    # paired() has compared them; what is left is that nothing stands on one side only
    assert len(compared.pairs) == len(compared.rows) == len(compared.expected["norm_rows"])
    assert len(compared.calls) == sum(entry["count"] for _, entry in compared.pairs)


def test_what_the_reference_does_not_have_is_declared_with_its_kernels_and_time(
    compared: Compared, shared: Path
) -> None:
    figures = json.loads((shared / "traces" / "coverage.json").read_text())[compared.name]
    kernels: dict[str, int] = defaultdict(int)
    time_us: dict[str, float] = defaultdict(float)
    for call in compared.others:
        group = GROUP_OF[call.found_by]
        kernels[group] += len(call.norm_events) + len(call.helper_events)
        time_us[group] += call.kernel_us
    expected = ONLY_OURS.get(compared.name, frozenset())
    assert set(kernels) == expected
    for group in expected:
        entries = figures[group] if isinstance(figures[group], list) else [figures[group]]
        assert kernels[group] == sum(entry["count"] for entry in entries)
        assert time_us[group] == pytest.approx(sum(entry["us"] for entry in entries), abs=0.1)


def test_every_row_is_the_references_or_of_a_call_that_only_we_have(compared: Compared) -> None:
    others = [row for row in compared.run.rows if row not in compared.rows]
    assert sum(int(row["operation_count"]) for row in others) == len(compared.others)
    assert sum(known(row, "Kernel Time (µs)_sum") for row in others) == pytest.approx(
        sum(call.kernel_us for call in compared.others)
    )


def test_kernels_compute_spec_and_bound_are_the_references(compared: Compared) -> None:
    for row, entry in compared.pairs:
        assert {kernel["name"] for kernel in ast.literal_eval(row["kernel_details_summary"])} == set(
            entry["kernels"]
        )
        assert row["Compute Spec"] == entry["compute_spec"]
        assert row["Roofline Bound"] == entry["roofline_bound"]


def test_every_direction_has_its_table(compared: Compared) -> None:
    """RMSNorm rows, which the reference keeps apart, are forward norms like the others."""
    directions = {"NORM_fwd": "NORM_fwd", "NORM_bwd": "NORM_bwd", "RMSNorm": "NORM_fwd"}
    for row, entry in compared.pairs:
        assert row["op category"] == directions[entry["category"]]


def test_kernel_times_are_the_references_but_for_its_rounding(compared: Compared) -> None:
    """The reference subtracts the start from the end, both counted from an early moment: floats so large keep
    a thousandth of a µs or less. The duration as recorded, which we add up, is off from that by one rounding
    for each kernel.
    """
    rounding_us = math.ulp(max((event.end_us for event in compared.linked.trace.gpu_events), default=0.0))
    for row, entry in compared.pairs:
        kernels = len(ast.literal_eval(row["kernel_details_summary"])) or 1
        tolerance = kernels * rounding_us
        count = entry["count"]
        assert known(row, "Kernel Time (µs)_sum") == pytest.approx(
            entry["kernel_time_us_sum"], abs=count * tolerance
        )
        assert known(row, "Kernel Time (µs)_mean") == pytest.approx(
            entry["kernel_time_us_mean"], abs=tolerance
        )
        deviation = number(row, "Kernel Time (µs)_std")
        assert (deviation is None) == (entry["kernel_time_us_std"] is None)
        assert deviation == pytest.approx(entry["kernel_time_us_std"], abs=2 * tolerance)


def test_kernel_times_rounded_as_the_reference_does_are_exactly_its_own(compared: Compared) -> None:
    ours = sorted(spread_us(compared.linked, calls) for calls in by_signature(compared))
    theirs = sorted(
        (
            entry["kernel_time_us_sum"],
            entry["kernel_time_us_mean"],
            entry["kernel_time_us_std"] or 0.0,
        )
        for entry in compared.expected["norm_rows"]
    )
    for found, expected in zip(ours, theirs, strict=True):
        assert found == pytest.approx(expected, rel=EXACT, abs=1e-12)


def by_signature(compared: Compared) -> Iterable[list[NormCall]]:
    groups: dict[tuple[object, ...], list[NormCall]] = defaultdict(list)
    for call in compared.calls:
        groups[call.name, call.pid, call.tid, repr(call.args)].append(call)
    return groups.values()


def spread_us(linked: LinkedTrace, calls: list[NormCall]) -> tuple[float, float, float]:
    events = linked.trace.gpu_events
    times = [
        sum(events[i].end_us - events[i].ts_us for i in (*call.norm_events, *call.helper_events))
        for call in calls
    ]
    mean = sum(times) / len(times)
    squares = sum((time - mean) ** 2 for time in times)
    return sum(times), mean, math.sqrt(squares / (len(times) - 1)) if len(times) > 1 else 0.0


def test_bytes_are_the_references_or_differ_by_its_proven_mistakes(compared: Compared) -> None:
    for row, entry in compared.pairs:
        counted = reference_bytes.BY_OP[entry["name"]](reference_bytes.call_of(entry))
        ours = known(row, "Data Moved (MB)") * MIB
        assert entry["data_moved_mib"] * MIB == counted.reference, entry["name"]
        assert ours == counted.right, f"{entry['name']}: {counted.mistakes}"
        assert ours == counted.reference or counted.mistakes


def test_bandwidth_and_intensity_follow_from_bytes_and_times(compared: Compared) -> None:
    for row, entry in compared.pairs:
        # its times are rounded: to a thousandth of a µs, of kernels that take a few
        corrected = known(row, "Data Moved (MB)") / entry["data_moved_mib"]
        assert known(row, "TB/s_mean") == pytest.approx(entry["tb_s_mean"] * corrected, rel=2e-3)
        gflops, moved = known(row, "GFLOPS"), known(row, "Data Moved (MB)") * MIB
        assert known(row, "FLOPS/Byte") == pytest.approx(gflops * 1e9 / moved)
        assert known(row, "TFLOPS/s_mean") / known(row, "TB/s_mean") == pytest.approx(
            known(row, "FLOPS/Byte")
        )


def test_the_timeline_is_the_references(compared: Compared) -> None:
    expected = compared.expected["gpu_timeline"]
    timeline = compared.run.summary.timeline
    for entry, field in TIMELINE_FIELDS.items():
        assert getattr(timeline, field) == pytest.approx(expected[entry]["time_ms"], rel=EXACT, abs=1e-6), (
            entry
        )
    utilization = compared.run.manifest["gpu_utilization"]
    assert utilization["total_time_ms"] == timeline.total_ms
    for entry, key in (
        ("computation_time", "computation_time_percent"),
        ("exposed_comm_time", "exposed_comm_time_percent"),
        ("exposed_memcpy_time", "exposed_memcpy_time_percent"),
        ("idle_time", "idle_time_percent"),
    ):
        assert utilization[key] == pytest.approx(expected[entry]["percent"], rel=EXACT, abs=1e-6)


def test_m19_no_time_stands_in_two_rows(shared: Path, tmp_path: Path) -> None:
    """The reference's sheet of norms adds up to 1,226.6 µs; kernels take 794.9 of it and copies 20.7."""
    run = written(shared / "traces" / "norm_layers_mi300x.json.gz", tmp_path)
    total = sum(known(row, "Kernel Time (µs)_sum") for row in run.rows)
    direct = sum(known(row, "Norm Kernel Time (µs)_sum") for row in run.rows)
    helper = sum(known(row, "Helper Kernel Time (µs)_sum") for row in run.rows)
    assert total == pytest.approx(815.6, abs=0.05)
    assert direct == pytest.approx(794.9, abs=0.05)
    assert helper == pytest.approx(20.7, abs=0.05)


def test_m20_hidden_copies_do_not_slow_the_norm_down(shared: Path, tmp_path: Path) -> None:
    """Four group norms of a channels-last input copy it first, which takes 252.2 µs in all."""
    run = written(shared / "traces" / "sd35_compiled_mi300x.json.gz", tmp_path)
    rows = [row for row in run.rows if row["found_by"] == "op"]
    copied = [row for row in rows if known(row, "Helper Kernel Time (µs)_sum") > 0]
    assert sum(known(row, "Helper Kernel Time (µs)_sum") for row in copied) == pytest.approx(252.2, abs=0.05)
    for row in rows:
        with_copies, alone = known(row, "TB/s_mean"), known(row, "Norm Kernel TB/s_mean")
        assert (alone > with_copies) if row in copied else alone == pytest.approx(with_copies)
