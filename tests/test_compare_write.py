"""The run directory of a comparison, cell by cell, and what the analysis makes of it."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from normscope import analyze_category, render_findings, validate_findings_file
from normscope.analysis.models import CategoryMetrics
from normscope.analysis.write import write_metrics
from normscope.compare.models import Comparison, Side
from normscope.compare.pairing import compare_sides
from normscope.compare.sides import SideSource, read_source
from normscope.compare.write import ADDED_COLUMNS, write_comparison
from normscope.inputs.rundir import default_scope, find_categories
from normscope.report.comparison_data import read_comparison
from normscope.report.findings_text import category_texts, combined_findings
from normscope.report.key_figures import key_figures
from normscope.report.results import Report
from pairing_inputs import ARGUMENTS, group, side, without_times
from runs import METADATA, Row, row, write_run
from test_compare_sides import layer_norm_calls, write_baseline, write_results

SMALL = {"Input Dims": "((8, 768), (768,))", "Input type": "('c10::BFloat16', 'c10::BFloat16')"}
OTHER_SHAPE = {"Input Dims": "((4, 64), (64,))", "Input type": "('float', 'float')"}


def table(folder: Path, category: str = "norm_fwd") -> list[dict[str, str]]:
    with (folder / "category_data" / f"{category}_ops.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def added(cells: dict[str, str]) -> list[str]:
    return [cells[column] for column in ADDED_COLUMNS]


def written(source: SideSource, second: Side, folder: Path) -> Comparison:
    comparison = compare_sides(source.side, second)
    write_comparison(source, comparison, folder)
    return comparison


def run_of(folder: Path, rows: Sequence[Row]) -> SideSource:
    return read_source(write_run(folder, rows), folder=folder / "unused")


def test_a_row_gets_trace_2s_time_calls_and_name_and_a_row_without_partner_nothing(tmp_path: Path) -> None:
    rows = [row(time_us=100.0, cells=OTHER_SHAPE), row(time_us=400.0, cells=SMALL)]
    source = run_of(tmp_path / "run", rows)
    second = side(group(*[30.0] * 10, module="Elsewhere", name="miopen::layer_norm"))
    written(source, second, tmp_path / "out")
    short, long = table(tmp_path / "out")
    assert added(short) == [""] * 7
    assert added(long) == ["0.75", "-100.0", "10", "0", "miopen::layer_norm", "400.0", "300.0"]
    assert {key: long[key] for key in rows[1]} == {key: str(value) for key, value in rows[1].items()}


def test_the_columns_are_those_of_tracelens_in_its_order(shared: Path) -> None:
    path = shared / "tracelens_runs" / "bert_small_mi300x_vs_h100" / "category_data" / "norm_fwd_ops.csv"
    with path.open(newline="", encoding="utf-8") as file:
        header = next(csv.reader(file))
    start = header.index(ADDED_COLUMNS[0])
    assert tuple(header[start : start + len(ADDED_COLUMNS)]) == ADDED_COLUMNS


def test_rows_that_share_a_partner_divide_it_by_their_calls(tmp_path: Path) -> None:
    rows = [row(time_us=500.0, count=5, cells=SMALL), row(time_us=200.0, count=2, cells=SMALL)]
    source = run_of(tmp_path / "run", rows)
    comparison = written(source, side(group(*[70.0] * 10, module="")), tmp_path / "out")
    assert comparison.normalized == "per call"
    first, second = table(tmp_path / "out")
    # Ten calls of 700 µs against seven: 490 µs and seven calls, five sevenths and two sevenths.
    assert [float(cell) for cell in added(first)[-1:] + added(second)[-1:]] == pytest.approx([350.0, 140.0])
    assert [first["lca_count_trace2"], second["lca_count_trace2"]] == ["5", "2"]


def overview_of(folder: Path) -> str:
    metrics = analyze_category(folder, "norm_fwd", "comparative")
    assert isinstance(metrics, CategoryMetrics)
    return render_findings(metrics)


def test_the_calls_of_trace_2_are_scaled_with_its_time_per_step(tmp_path: Path) -> None:
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    # A step has one call in each of two modules: 30 µs a step against 60 µs a step.
    one.write_bytes(layer_norm_calls(40.0, 20.0))
    two.write_bytes(layer_norm_calls(20.0, 10.0, 20.0, 10.0))
    first = read_source(one, folder=tmp_path / "run")
    second = read_source(two, folder=tmp_path / "second").side
    assert written(first, second, tmp_path / "out").normalized == "per step"
    (only,) = table(tmp_path / "out")
    assert [float(only[c]) for c in ADDED_COLUMNS[:3]] == [0.5, -30.0, 2.0]
    text = overview_of(tmp_path / "out")
    assert "60 µs in trace 1 and 30 µs in trace 2, which is scaled to the single step of trace 1" in text
    assert "100% slower" in text
    assert "differ in calls" not in text


def test_the_calls_of_trace_2_are_scaled_with_its_time_per_call(tmp_path: Path) -> None:
    source = run_of(tmp_path / "run", [row(time_us=500.0, count=50, cells=SMALL)])
    assert written(source, side(group(*[5.0] * 25, module="")), tmp_path / "out").normalized == "per call"
    (only,) = table(tmp_path / "out")
    assert [float(only[c]) for c in ADDED_COLUMNS[:3]] == [0.5, -250.0, 50.0]
    text = overview_of(tmp_path / "out")
    assert "500 µs in trace 1 and 250 µs in trace 2, which is scaled to the calls of trace 1" in text
    assert "100% slower" in text
    assert "differ in calls" not in text
    assert "each call is" not in text


def test_calls_that_differ_as_recorded_are_told(tmp_path: Path) -> None:
    two, one = tmp_path / "two.json", tmp_path / "one.json"
    two.write_bytes(layer_norm_calls(40.0, 20.0, 40.0, 20.0))
    one.write_bytes(layer_norm_calls(40.0, 20.0, 40.0))
    first = read_source(two, folder=tmp_path / "run")
    second = read_source(one, folder=tmp_path / "second").side
    assert written(first, second, tmp_path / "out").normalized == "as recorded"
    (only,) = table(tmp_path / "out")
    assert only["lca_count_trace2"] == "3"
    assert "scaled" not in overview_of(tmp_path / "out")


def test_a_category_of_an_earlier_run_goes_whatever_its_name(tmp_path: Path) -> None:
    source = run_of(tmp_path / "run", [row(time_us=400.0, cells=SMALL)])
    write_run(tmp_path / "out", [row("RMSNorm")], category="rmsnorm")
    written(source, source.side, tmp_path / "out")
    assert find_categories(tmp_path / "out") == ("norm_fwd",)
    assert not list((tmp_path / "out").rglob("rmsnorm*"))


def test_results_keep_the_times_that_their_calls_add_up_to(tmp_path: Path) -> None:
    trace = tmp_path / "a trace.json"
    trace.write_bytes(layer_norm_calls(8.6004, 8.0008))
    traced = read_source(trace, folder=tmp_path / "run")
    results = read_source(write_results(tmp_path / "report", traced), folder=tmp_path / "unused")
    written(results, traced.side, tmp_path / "out")
    (only,) = table(tmp_path / "out")
    assert float(only["Kernel Time (µs)_sum"]) == pytest.approx(16.6012, abs=1e-9)


def test_rows_with_a_partner_each_get_that_ones_time(tmp_path: Path) -> None:
    rows = [row(time_us=500.0, count=5, cells=SMALL), row(time_us=200.0, count=5, cells=SMALL)]
    source = run_of(tmp_path / "run", rows)
    second = side(group(*[90.0] * 5, module=""), group(*[10.0] * 5, module=""))
    written(source, second, tmp_path / "out")
    assert [cells["lca_total_kernel_time_trace2_us"] for cells in table(tmp_path / "out")] == [
        "450.0",
        "50.0",
    ]


def test_a_run_against_itself_has_no_finding_whatever_its_order(tmp_path: Path) -> None:
    rows = [row(time_us=100.0 * i, count=i, cells=SMALL | {"Input Strides": f"(({i},),)"}) for i in (2, 9, 4)]
    source = run_of(tmp_path / "run", rows)
    written(source, source.side, tmp_path / "out")
    assert [cells["delta_us (trace2 - trace1)"] for cells in table(tmp_path / "out")] == ["0.0"] * 3
    metrics = analyze_category(tmp_path / "out", "norm_fwd", "comparative")
    assert isinstance(metrics, CategoryMetrics)
    assert metrics.category_findings == ()


def test_what_lies_beside_the_tables_comes_along(tmp_path: Path) -> None:
    trace = tmp_path / "a trace.json"
    trace.write_bytes(layer_norm_calls(10.0, 20.0, 11.0, 21.0))
    source = read_source(trace, folder=tmp_path / "run")
    comparison = written(source, source.side, tmp_path / "out")
    assert default_scope(tmp_path / "out") == "comparative"
    assert find_categories(tmp_path / "out") == ("norm_fwd",)
    for name in ("norm_calls.csv", "trace_summary.json", "coverage.json"):
        data = (tmp_path / "out" / "category_data" / name).read_bytes()
        assert data == (tmp_path / "run" / "category_data" / name).read_bytes()
    kept = (tmp_path / "out" / "category_data" / "comparison.json").read_bytes()
    assert msgspec.json.decode(kept, type=Comparison) == comparison
    metadata = json.loads((tmp_path / "out" / "metadata" / "norm_fwd_metadata.json").read_text())
    assert metadata["comparison_scope"] == "comparative"
    original = json.loads((tmp_path / "run" / "metadata" / "norm_fwd_metadata.json").read_text())
    told = {"comparison_normalized": "as recorded", "comparison_steps": 2}
    assert metadata == {**original, "comparison_scope": "comparative", **told}


def test_nothing_of_an_earlier_comparison_stays(tmp_path: Path) -> None:
    trace = tmp_path / "a trace.json"
    trace.write_bytes(layer_norm_calls(10.0, 20.0))
    source = read_source(trace, folder=tmp_path / "run")
    written(source, source.side, tmp_path / "out")
    backward = run_of(tmp_path / "other", [row("aten::native_layer_norm_backward")])
    moved = tmp_path / "other" / "category_data"
    (moved / "norm_fwd_ops.csv").rename(moved / "norm_bwd_ops.csv")
    metadata = tmp_path / "other" / "metadata"
    (metadata / "norm_fwd_metadata.json").rename(metadata / "norm_bwd_metadata.json")
    backward = read_source(tmp_path / "other", folder=tmp_path / "unused")
    written(backward, backward.side, tmp_path / "out")
    assert find_categories(tmp_path / "out") == ("norm_bwd",)
    assert not (tmp_path / "out" / "category_data" / "trace_summary.json").exists()


def test_the_columns_of_an_earlier_comparison_are_replaced(tmp_path: Path) -> None:
    old = {"delta_us (trace2 - trace1)": "-1.0", "speedup (trace2/trace1)": "0.1"}
    source = run_of(tmp_path / "run", [row(time_us=400.0, cells=SMALL | old)])
    written(source, side(group(*[30.0] * 10, module="")), tmp_path / "out")
    (only,) = table(tmp_path / "out")
    assert only["delta_us (trace2 - trace1)"] == "-100.0"
    assert list(only).count("speedup (trace2/trace1)") == 1


def test_results_without_tables_give_the_metrics_that_their_run_gives(tmp_path: Path) -> None:
    rows = [
        row(time_us=400.0, cells=SMALL),
        row(time_us=900.0, cells=OTHER_SHAPE),
        row("miopen::layer_norm", 50.0, 5, {"kernel_details_summary": "[{'name': 'MIOpenLayerNormFwd'}]"}),
    ]
    run = run_of(tmp_path / "run", rows)
    results = read_source(write_results(tmp_path / "report", run), folder=tmp_path / "unused")
    second = side(group(*[30.0] * 10, module=""), group(*[5.0] * 10, module="", arguments="(4,64) fp32"))
    for number, source in enumerate((run, results)):
        written(source, second, tmp_path / str(number))
    expected, found = (
        analyze_category(tmp_path / str(number), "norm_fwd", "comparative") for number in (0, 1)
    )
    assert isinstance(expected, CategoryMetrics)
    assert isinstance(found, CategoryMetrics)
    assert expected.category_findings
    assert found.category_findings == expected.category_findings
    assert found.hardware == expected.hardware
    for ours, theirs in zip(found.operations, expected.operations, strict=True):
        for field in (
            "name",
            "count",
            "time_ms",
            "args",
            "efficiency",
            "difference_ms",
            "t2_time_ms",
            "library",
        ):
            assert getattr(ours, field) == getattr(theirs, field)
        for field in ("launcher_path", "kernel_name", "module_chain", "variant", "bytes_moved_per_call"):
            assert getattr(ours, field) == getattr(theirs, field)


def test_a_baseline_as_trace_1_has_a_row_for_each_op_and_its_arguments(tmp_path: Path) -> None:
    kept = without_times(
        side(
            group(10.0, 12.0, efficiency_percent=30.0),
            group(11.0, 13.0, module="Net_0 > LayerNorm_1", efficiency_percent=30.0),
            group(100.0, arguments="() Scalar<br>(4,) fp32"),
            group(7.0, direction="backward", name="aten::native_layer_norm_backward"),
        )
    )
    kept = msgspec.structs.replace(kept, gpu="Test GPU", peak_bandwidth_tbs=2.0, end_to_end_ms=1.0)
    source = read_source(write_baseline(tmp_path, kept), folder=tmp_path / "unused")
    second = side(group(5.0, 5.0), group(6.0, 6.0, module="Net_0 > LayerNorm_1"))
    written(source, second, tmp_path / "out")
    longest, shorter = table(tmp_path / "out")
    assert (longest["Input Dims"], longest["Input type"]) == ("((), (4,))", "('Scalar', 'fp32')")
    assert added(longest) == [""] * 7
    assert [shorter[c] for c in ("operation_count", "Kernel Time (µs)_sum", "Kernel Time (µs)_mean")] == [
        "4",
        "46.0",
        "11.5",
    ]
    # Deviations of 10, 12, 11 and 13 from 11.5: 1.5, 0.5, 0.5 and 1.5, squares 5, by three.
    assert float(shorter["Kernel Time (µs)_std"]) == pytest.approx((5 / 3) ** 0.5)
    assert float(shorter["delta_us (trace2 - trace1)"]) == -24.0
    metrics = analyze_category(tmp_path / "out", "norm_fwd", "comparative")
    assert isinstance(metrics, CategoryMetrics)
    assert (metrics.hardware.platform, metrics.hardware.end_to_end_ms) == ("Test GPU", 1.0)
    assert [operation.args for operation in metrics.operations] == ["(4,) fp32", ARGUMENTS]
    assert len(table(tmp_path / "out", "norm_bwd")) == 1


def test_findings_of_a_comparison_pass_the_validator(tmp_path: Path) -> None:
    source = run_of(
        tmp_path / "run", [row(time_us=4000.0, cells=SMALL), row(time_us=900.0, cells=OTHER_SHAPE)]
    )
    written(source, side(group(*[100.0] * 10, module="")), tmp_path / "out")
    metrics = analyze_category(tmp_path / "out", "norm_fwd", "comparative")
    assert isinstance(metrics, CategoryMetrics)
    assert len(metrics.category_findings) == 1
    kept = write_metrics(tmp_path / "out", metrics)
    file = tmp_path / "norm_fwd_findings.md"
    file.write_text(render_findings(metrics))
    assert validate_findings_file(file, "compute", "comparative", kept) == (True, [])


def test_a_table_with_a_header_alone_stays_one(tmp_path: Path) -> None:
    source = run_of(tmp_path / "run", [row(time_us=400.0, cells=SMALL)])
    empty = tmp_path / "run" / "category_data" / "norm_bwd_ops.csv"
    empty.write_text("name,Kernel Time (µs)_sum\n", encoding="utf-8")
    metadata = tmp_path / "run" / "metadata"
    (metadata / "norm_bwd_metadata.json").write_bytes((metadata / "norm_fwd_metadata.json").read_bytes())
    source = read_source(tmp_path / "run", folder=tmp_path / "unused")
    written(source, source.side, tmp_path / "out")
    assert table(tmp_path / "out", "norm_bwd") == []


def test_sentences_and_tiles_of_a_comparison_rest_on_exact_times(tmp_path: Path) -> None:
    # 39.4 µs against 30.8 µs: 8.6 µs and 27.9%.
    total = {"gpu_utilization": {"total_time_ms": 0.1}}
    run = write_run(tmp_path / "run", [row(time_us=39.4, cells=SMALL)], metadata=METADATA | total)
    source = read_source(run, folder=tmp_path / "unused")
    written(source, side(group(*[3.08] * 10, module="")), tmp_path / "out")
    metrics = analyze_category(tmp_path / "out", "norm_fwd", "comparative")
    assert isinstance(metrics, CategoryMetrics)
    (only,) = metrics.operations
    assert (only.kernel_time_us, only.time2_us, only.delta_us) == pytest.approx((39.4, 30.8, -8.6))
    text = render_findings(metrics)
    assert "8.6 µs more than in trace 2 (28% slower)" in text
    report = Report(
        label="out",
        out_dir=tmp_path,
        comparison_scope="comparative",
        top_n=20,
        metrics=(metrics,),
    )
    figures = key_figures(report)
    assert (figures.time_ms, figures.trace2_time_ms) == pytest.approx((0.0394, 0.0308))


def test_what_one_trace_alone_has_is_told(tmp_path: Path) -> None:
    rows = [row(time_us=100.0, cells=OTHER_SHAPE), row(time_us=400.0, cells=SMALL)]
    source = run_of(tmp_path / "run", rows)
    second = side(
        group(*[30.0] * 10, module=""), group(7.0, variant="RMSNorm", arguments="(2,2) fp32", module="")
    )
    written(source, second, tmp_path / "out")
    metrics = analyze_category(tmp_path / "out", "norm_fwd", "comparative")
    report = Report(
        label="out",
        out_dir=tmp_path,
        comparison_scope="comparative",
        top_n=20,
        metrics=(metrics,),
        comparison=read_comparison(tmp_path / "out"),
    )
    text = combined_findings(report, category_texts(report))
    own = "One signature lacks a counterpart in trace 2: 100 µs in 10 calls that can't be compared."
    other = "One operation of trace 2 lacks a counterpart in trace 1: 7 µs that can't be compared."
    assert own in text
    assert other in text
    assert own in render_findings(metrics)
