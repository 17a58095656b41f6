"""Comparisons of real traces give the reference's figures; its comparative runs stay as they are."""

import csv
import json
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

from normscope import analyze_category
from normscope.analysis.models import CategoryMetrics
from normscope.compare.models import Comparison
from normscope.compare.pairing import compare_sides
from normscope.compare.sides import SideSource, read_source
from normscope.compare.write import write_comparison
from normscope.inputs.ops_table import long_fields

PAIRS = ("bert_small", "owlv2", "vit")
GROUPS = {"bert_small": 10, "vit": 25, "owlv2": 77}
"""Modules with norm calls: 2 a layer and a few more; owlv2 has 50, 25, 1 and 1 by shape."""
CLOCK_US = 0.002
"""The reference's sums of trace 1 are rounded by the clock: 5090.4824 where the calls add up to 5090.484."""


class Compared(msgspec.Struct, frozen=True):
    name: str
    expected: dict[str, Any]
    source: SideSource
    comparison: Comparison
    folder: Path

    @property
    def rows(self) -> list[dict[str, str]]:
        with long_fields(), (self.folder / "category_data" / "norm_fwd_ops.csv").open(newline="") as file:
            return list(csv.DictReader(file))


@pytest.fixture(scope="module", params=PAIRS)
def compared(
    request: pytest.FixtureRequest, shared: Path, tmp_path_factory: pytest.TempPathFactory
) -> Compared:
    name: str = request.param
    folder = tmp_path_factory.mktemp(name)
    traces = shared / "traces"
    first = read_source(traces / f"{name}_mi300x.json.gz", folder=folder / "first")
    second = read_source(traces / f"{name}_h100.json.gz", folder=folder / "second")
    comparison = compare_sides(first.side, second.side)
    write_comparison(first, comparison, folder / "out")
    expected = json.loads((traces / "expected" / f"{name}_mi300x_vs_h100.json").read_text())
    return Compared(name, expected, first, comparison, folder / "out")


def test_every_norm_has_its_partner_by_module_and_arguments(compared: Compared) -> None:
    comparison = compared.comparison
    assert (comparison.only_first, comparison.only_second) == ((), ())
    assert {pair.paired_by for pair in comparison.pairs} == {"module and arguments"}
    assert len(comparison.pairs) == len(compared.expected["norm_rows"])
    assert len(comparison.first.groups) == len(comparison.second.groups) == GROUPS[compared.name]
    assert (comparison.scale, comparison.normalized) == (1.0, "as recorded")


def test_the_written_columns_are_the_references(compared: Compared) -> None:
    rows, expected = compared.rows, compared.expected["norm_rows"]
    assert [row["Input Dims"] for row in rows] == [row["input_dims"] for row in expected]
    for ours, theirs in zip(rows, expected, strict=True):
        assert float(ours["operation_count"]) == theirs["count"]
        assert float(ours["lca_count_trace2"]) == theirs["trace2_count"]
        assert float(ours["Kernel Time (µs)_sum"]) == pytest.approx(
            theirs["kernel_time_us_sum"], abs=CLOCK_US
        )
        time2_us = float(ours["lca_total_kernel_time_trace2_us"])
        assert time2_us == pytest.approx(theirs["trace2_kernel_time_us_sum"], rel=1e-12)
        assert float(ours["delta_us (trace2 - trace1)"]) == pytest.approx(theirs["delta_us"], abs=CLOCK_US)
        ratio = float(ours["speedup (trace2/trace1)"])
        assert ratio == pytest.approx(theirs["speedup_trace2_over_trace1"], rel=1e-5)


def test_the_pairs_are_the_rows(compared: Compared) -> None:
    found = sorted((pair.time1_us, pair.time2_us) for pair in compared.comparison.pairs)
    rows = [(r["kernel_time_us_sum"], r["trace2_kernel_time_us_sum"]) for r in compared.expected["norm_rows"]]
    for (time1_us, time2_us), (expected1_us, expected2_us) in zip(found, sorted(rows), strict=True):
        assert time1_us == pytest.approx(expected1_us, abs=CLOCK_US)
        assert time2_us == pytest.approx(expected2_us, rel=1e-12)


def test_the_metrics_say_the_same(compared: Compared) -> None:
    metrics = analyze_category(compared.folder, "norm_fwd", "comparative")
    assert isinstance(metrics, CategoryMetrics)
    for operation, row in zip(metrics.operations, compared.expected["norm_rows"], strict=True):
        assert operation.count_trace2 == row["trace2_count"]
        assert operation.t2_time_ms == pytest.approx(row["trace2_kernel_time_us_sum"] / 1e3, abs=0.0006)
        assert operation.difference_ms == pytest.approx(row["delta_us"] / 1e3, abs=0.0006)
        percent = 100 * row["speedup_trace2_over_trace1"]
        assert operation.efficiency.efficiency_percent == pytest.approx(percent, abs=0.006)


@pytest.mark.parametrize("compared", ["bert_small", "owlv2"], indirect=True)
def test_the_comparative_columns_are_those_of_the_references_run(shared: Path, compared: Compared) -> None:
    run = shared / "tracelens_runs" / f"{compared.name}_mi300x_vs_h100" / "category_data"
    with long_fields(), (run / "norm_fwd_ops.csv").open(newline="", encoding="utf-8") as file:
        theirs = list(csv.DictReader(file))
    for ours, row in zip(compared.rows, theirs, strict=True):
        for column in (
            "lca_total_kernel_time_trace1_us",
            "lca_total_kernel_time_trace2_us",
            "lca_count_trace2",
        ):
            assert math.isclose(float(ours[column]), float(row[column]), rel_tol=1e-12)


@pytest.mark.parametrize("name", ["bert_small", "owlv2"])
def test_the_references_metrics_come_out_of_its_own_comparative_runs(shared: Path, name: str) -> None:
    run = shared / "tracelens_runs" / f"{name}_mi300x_vs_h100"
    expected = json.loads((run / "expected" / "norm_fwd_metrics.json").read_text())
    found = msgspec.to_builtins(analyze_category(run, "norm_fwd", "comparative"))
    for key in ("total_time_ms", "percent_of_compute", "operation_count"):
        assert found[key] == expected[key]
    for ours, theirs in zip(found["operations"], expected["operations"], strict=True):
        shared_keys = {"name", "count", "time_ms", "t2_time_ms", "count_trace2", "difference_ms"}
        assert {key: ours[key] for key in shared_keys} == {key: theirs[key] for key in shared_keys}
        assert ours["efficiency"] == theirs["efficiency"]


def test_a_trace_against_the_references_run_of_the_same_differs_by_nothing(
    shared: Path, tmp_path: Path
) -> None:
    ours = read_source(shared / "traces" / "vit_mi300x.json.gz", folder=tmp_path)
    theirs = read_source(shared / "tracelens_runs" / "vit_mi300x", folder=tmp_path / "unused")
    found = compare_sides(ours.side, theirs.side)
    assert ours.side.gpu == theirs.side.gpu == "AMD Instinct MI300X"
    assert (found.only_first, found.only_second) == ((), ())
    assert [pair.delta_us for pair in found.pairs] == [pytest.approx(0.0, abs=CLOCK_US)]
    assert not (tmp_path / "unused").exists()


@pytest.mark.parametrize(
    "name",
    ["norm_layers_mi300x", "resnet_checkpoint_mi300x", "sd35_compiled_mi300x", "sglang_prefill_mi300x"],
)
def test_real_runs_against_themselves_have_no_difference_and_no_finding(
    shared: Path, tmp_path: Path, name: str
) -> None:
    first = read_source(shared / "traces" / f"{name}.json.gz", folder=tmp_path / "first")
    second = read_source(shared / "tracelens_runs" / name, folder=tmp_path / "second")
    for source in (first, second):
        found = compare_sides(source.side, source.side)
        assert (found.only_first, found.only_second) == ((), ())
        assert {pair.delta_us for pair in found.pairs} == {0.0}
        for category in write_comparison(source, found, tmp_path / "out"):
            metrics = analyze_category(tmp_path / "out", category, "comparative")
            assert isinstance(metrics, CategoryMetrics)
            assert metrics.category_findings == ()
            assert {op.efficiency.efficiency_percent for op in metrics.operations if op.time_ms} == {100.0}
