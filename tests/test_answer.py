"""The first screen: key figures checked by hand, verdicts, and what failed or is missing."""

from pathlib import Path

import msgspec
import pytest

import runs
from normscope.analysis.models import ErrorMetrics
from normscope.report.answer import answer_html
from normscope.report.breakdown import shares
from normscope.report.data_quality import data_quality_html
from normscope.report.findings_text import category_texts, combined_findings, findings_html
from normscope.report.key_figures import Bandwidth, key_figures
from normscope.report.method import method_html
from normscope.report.notebook import operations_frame
from normscope.report.results import (
    Report,
    collect_results,
    decode_results,
    encode_results,
    operations_of,
    status_of,
)
from report_inputs import norm_row, report_of, write_run

TRACE_2 = {"lca_total_kernel_time_trace2_us": 1500.0, "lca_count_trace2": 10}


def with_times(*rows: tuple[str, float, float, float]) -> list[dict[str, object]]:
    """Rows of (name, time in ms, achieved TB/s, % of roofline)."""
    return [
        norm_row(
            name,
            **{"Kernel Time (µs)_sum": 1000 * time_ms, "TB/s_mean": tbs, "Pct Roofline_mean": roofline},
        )
        for name, time_ms, tbs, roofline in rows
    ]


def test_the_key_figures_are_those_calculated_by_hand(tmp_path: Path) -> None:
    forward = with_times(("aten::layer_norm", 6.0, 0.4, 10.0), ("aten::batch_norm", 2.0, 2.0, 50.0))
    backward = with_times(("aten::native_layer_norm_backward", 4.0, 0.8, 20.0))
    run = write_run(tmp_path, {"norm_fwd": forward, "norm_bwd": backward}, end_to_end_ms=100.0)
    figures = key_figures(report_of(run, "norm_fwd", "norm_bwd"))
    assert (figures.time_ms, figures.end_to_end_ms, figures.share_percent) == (12.0, 100.0, 12.0)
    assert (figures.calls, figures.signatures) == (30, 3)
    # (0.4 × 6 + 2.0 × 2 + 0.8 × 4) ÷ 12 = 0.8 TB/s
    assert figures.bandwidth is not None
    assert figures.bandwidth == Bandwidth(figures.bandwidth.achieved_tbs, 4.0, 100.0)
    assert figures.bandwidth.achieved_tbs == pytest.approx(0.8)
    # high: 0.9 × 6 + 0.5 × 2 + 0.8 × 4 = 9.6%; low 75%, middle 87.5% of it
    assert figures.gain is not None
    assert msgspec.structs.astuple(figures.gain) == pytest.approx((7.2, 8.4, 9.6, 3), abs=0.01)


def test_an_anomaly_counts_neither_as_bandwidth_nor_as_gain(tmp_path: Path) -> None:
    rows = with_times(("aten::layer_norm", 3.0, 0.4, 10.0), ("aten::batch_norm", 1.0, 9.9, 250.0))
    figures = key_figures(report_of(write_run(tmp_path, {"norm_fwd": rows}), "norm_fwd"))
    assert figures.bandwidth is not None
    assert figures.bandwidth.achieved_tbs == pytest.approx(0.4)
    assert figures.bandwidth.covered_percent == 75.0


def test_the_time_by_variant_adds_up(tmp_path: Path) -> None:
    rows = with_times(("aten::layer_norm", 3.0, 0.4, 10.0), ("aten::batch_norm", 5.0, 0.4, 10.0))
    rows += with_times(("aten::layer_norm", 4.0, 0.4, 10.0))
    groups = shares(report_of(write_run(tmp_path, {"norm_fwd": rows}), "norm_fwd"))
    assert [(g.variant, g.direction, g.signatures, g.calls, g.time_ms) for g in groups] == [
        ("LayerNorm", "forward", 2, 20, 7.0),
        ("BatchNorm", "forward", 1, 10, 5.0),
    ]


@pytest.mark.parametrize(
    ("time_ms", "headline"),
    [
        (10.0, "Large potential: about 7.0"),
        (5.0, "Moderate potential: about 3.5"),
        (1.0, "Small potential: about 0.7"),
    ],
)
def test_the_headline_names_the_size_of_the_gain(tmp_path: Path, time_ms: float, headline: str) -> None:
    rows = with_times(("aten::layer_norm", time_ms, 0.8, 20.0))  # mid: 0.8 × 0.875 × time ÷ 100 ms
    html = answer_html(report_of(write_run(tmp_path, {"norm_fwd": rows}), "norm_fwd"))
    assert f'<p class="ns-headline">{headline}% of GPU time</p>' in html


def test_a_run_without_a_finding_is_told_that_nothing_is_worth_fixing(tmp_path: Path) -> None:
    rows = with_times(("aten::layer_norm", 0.1, 0.8, 20.0))
    html = answer_html(report_of(write_run(tmp_path, {"norm_fwd": rows}), "norm_fwd"))
    assert "Nothing worth fixing" in html
    assert "What to do first" not in html
    assert "Start here" not in html


def test_the_comparison_is_in_percent_of_trace_2s_time(tmp_path: Path) -> None:
    run = runs.write_run(
        tmp_path,
        [runs.row(time_us=1000.0, cells={"delta_us (trace2 - trace1)": 500.0, **TRACE_2})],
    )
    html = answer_html(report_of(run, "norm_fwd", scope="comparative"))
    # 1.0 ms against 1.5 ms: 0.5 ÷ 1.5
    assert "33% faster" in html
    assert "1.000 ms in trace 1, 1.500 ms in trace 2; in % of trace 2" in html


def test_more_time_than_there_is_gives_no_verdict(tmp_path: Path) -> None:
    rows = with_times(("aten::layer_norm", 120.0, 0.8, 20.0))
    html = answer_html(report_of(write_run(tmp_path, {"norm_fwd": rows}), "norm_fwd"))
    assert '<p class="ns-headline">No verdict: more normalization time than end-to-end time</p>' in html
    assert "Normalization takes 120.000 ms" in html
    assert "The end-to-end time is 100.000 ms, which can&#x27;t be" in html.replace("can't", "can&#x27;t")
    assert 'Potential gain</p><p class="ns-card-value">—<' in html


def test_an_efficiency_of_zero_gives_no_verdict(tmp_path: Path) -> None:
    rows = with_times(("aten::layer_norm", 50.0, 0.0, 0.0))
    html = answer_html(report_of(write_run(tmp_path, {"norm_fwd": rows}), "norm_fwd"))
    assert '<p class="ns-headline">No verdict: measured at 0% of the roofline</p>' in html
    assert "would save" not in html


def test_batch_norm_is_judged_over_both_categories(tmp_path: Path) -> None:
    images = {"Input Dims": "((8, 64, 56, 56), (64,))"}
    forward = [row | images for row in with_times(("aten::batch_norm", 6.2, 0.4, 10.0))]
    backward = [row | images for row in with_times(("aten::native_batch_norm_backward", 5.2, 0.4, 10.0))]
    run = write_run(tmp_path, {"norm_fwd": forward, "norm_bwd": backward})
    report = report_of(run, "norm_fwd", "norm_bwd")
    sentence = "Over all categories: BatchNorm takes 11.4% of end-to-end GPU time, as in many convolutional"
    texts = category_texts(report)
    assert sentence in answer_html(report)
    assert sentence in combined_findings(report, texts)
    assert "as in many convolutional" not in "".join(texts.values())


def test_without_an_end_to_end_time_there_are_dashes_and_no_verdict(tmp_path: Path) -> None:
    run = write_run(tmp_path, {"norm_fwd": [norm_row()]}, end_to_end_ms=None)
    html = answer_html(report_of(run, "norm_fwd"))
    assert "No verdict: the end-to-end time is not known" in html
    assert html.count('<p class="ns-card-value">—</p>') == 2
    assert "% of GPU time" not in html


def test_the_first_findings_link_to_their_text_and_that_to_its_rows(tmp_path: Path) -> None:
    rows = with_times(("aten::layer_norm", 6.0, 0.4, 10.0))
    report = report_of(write_run(tmp_path, {"norm_fwd": rows, "norm_bwd": rows}), "norm_fwd", "norm_bwd")
    answer, findings = answer_html(report), findings_html(report, category_texts(report))
    assert '<a href="#finding-1-1">' in answer
    assert '<a href="#finding-2-1">' in answer
    assert '<h5 id="finding-2-1">norm_bwd P1: ' in findings
    assert answer.count("<li>Swap the implementation of the dominant kernels: ") == 1  # both findings' advice
    assert ">norm_bwd P1: LayerNorm " in answer
    assert '<a href="#op-2-1">1</a>' in findings
    assert {each.anchor for each in operations_of(report)} == {"op-1-1", "op-2-1"}


def test_operations_are_sorted_by_time_across_categories(tmp_path: Path) -> None:
    run = write_run(
        tmp_path,
        {
            "norm_fwd": with_times(
                ("aten::layer_norm", 3.0, 0.4, 10.0), ("aten::batch_norm", 1.0, 0.4, 10.0)
            ),
            "norm_bwd": with_times(("aten::native_layer_norm_backward", 2.0, 0.4, 10.0)),
        },
    )
    report = report_of(run, "norm_fwd", "norm_bwd")
    assert [each.operation.time_ms for each in operations_of(report)] == [3.0, 2.0, 1.0]


def test_a_failed_category_gives_a_banner_and_no_verdict(tmp_path: Path) -> None:
    broken = [norm_row(**{"Kernel Time (µs)_sum": "abc"})]
    report = report_of(
        write_run(tmp_path, {"norm_fwd": [norm_row()], "norm_bwd": broken}), "norm_fwd", "norm_bwd"
    )
    html = answer_html(report)
    assert status_of(report) == "ERROR"
    assert '<div class="ns-banner" role="alert">' in html
    assert "Status: ERROR" in html
    assert "Incomplete: no verdict" in html
    failure = report.metrics[1]
    assert isinstance(failure, ErrorMetrics)
    assert collect_results(report).errors == (f"norm_bwd: {failure.error}",)


def test_an_empty_run_says_that_no_operation_was_found(tmp_path: Path) -> None:
    report = report_of(write_run(tmp_path, {"norm_fwd": []}), "norm_fwd", "norm_bwd")
    assert status_of(report) == "EMPTY"
    assert "No normalization operations found" in answer_html(report)
    assert "norm_bwd: no normalization operations found in the trace." in data_quality_html(report)


def test_clean_data_is_said_to_be_clean_and_doubtful_data_is_named(tmp_path: Path) -> None:
    clean = report_of(write_run(tmp_path / "a", {"norm_fwd": [norm_row()]}), "norm_fwd")
    assert "No anomaly, no high variance, no missing column." in data_quality_html(clean)
    rows = [
        norm_row("aten::layer_norm", **{"Pct Roofline_mean": 250.0}),
        norm_row(
            "aten::batch_norm", count=20, **{"Kernel Time (µs)_sum": 9000, "Kernel Time (µs)_std": 150.0}
        ),
        norm_row("aten::group_norm", **{"Pct Roofline_mean": ""}),
    ]
    html = data_quality_html(report_of(write_run(tmp_path / "b", {"norm_fwd": rows}), "norm_fwd"))
    assert "1 operation above 110% of the roofline (anomaly)" in html
    assert "(250.00%)" in html
    assert "1 operation with high variance between calls" in html
    assert "(std/mean 1.500)" in html
    assert "1 operation without efficiency" in html


def test_the_method_names_the_peaks_and_the_formulas_of_its_scope(tmp_path: Path) -> None:
    run = write_run(tmp_path, {"norm_fwd": [norm_row()]})
    standalone = method_html(report_of(run, "norm_fwd"))
    assert '<td>Peak memory bandwidth (TB/s)</td><td class="ns-number">4.00</td>' in standalone
    assert "Maximum achievable compute, vector_bf16 (TFLOPS)" in standalone
    assert "low = 0.75 × high; mid = 0.875 × high" in standalone
    assert "0.15, 0.30 and 0.45" in standalone
    comparative = method_html(report_of(run, "norm_fwd", scope="comparative"))
    assert "100 × trace 2 kernel time ÷ trace 1 kernel time" in comparative
    assert "0.15, 0.30 and 0.45" not in comparative


def test_the_findings_file_ranks_across_categories_and_has_one_title(tmp_path: Path) -> None:
    run = write_run(
        tmp_path,
        {
            "norm_fwd": with_times(("aten::layer_norm", 2.0, 0.4, 10.0)),
            "norm_bwd": with_times(("aten::native_layer_norm_backward", 6.0, 0.4, 10.0)),
        },
    )
    report = report_of(run, "norm_fwd", "norm_bwd")
    lines = combined_findings(report, category_texts(report)).splitlines()
    assert [line for line in lines if line.startswith("# ")] == [f"# Normalization findings: {tmp_path.name}"]
    assert [line for line in lines if line.startswith("## ")] == ["## norm_fwd", "## norm_bwd"]
    headings = [line for line in lines if line.startswith("#### ") and " P1: " in line]
    assert [heading.split(":")[0] for heading in headings] == ["#### norm_fwd P1", "#### norm_bwd P1"]
    ranked = [line for line in lines if line[:3] in {"1. ", "2. "}]
    # high: 0.9 × 6 = 5.4% and 0.9 × 2 = 1.8% of 100 ms
    assert [("norm_bwd P1" in ranked[0], "–5.4)" in ranked[0])] == [(True, True)]
    assert [("norm_fwd P1" in ranked[1], "–1.8)" in ranked[1])] == [(True, True)]


def test_the_operations_are_a_table_for_further_work(tmp_path: Path) -> None:
    run = write_run(tmp_path, {"norm_fwd": with_times(("aten::layer_norm", 2.0, 0.4, 10.0))})
    frame = operations_frame(report_of(run, "norm_fwd"))
    columns = ["category", "name", "time_ms", "efficiency_percent", "tb_s_achieved"]
    assert frame[columns].to_numpy().tolist() == [["norm_fwd", "aten::layer_norm", 2.0, 10.0, 0.4]]


def test_the_results_file_reads_back_as_it_was(tmp_path: Path) -> None:
    missing = ErrorMetrics(category="norm_bwd", error="none", comparison_scope="standalone", reason="missing")
    good = report_of(write_run(tmp_path, {"norm_fwd": [norm_row()]}), "norm_fwd")
    report = Report(
        label="run",
        out_dir=tmp_path,
        comparison_scope="standalone",
        top_n=20,
        metrics=(*good.metrics, missing),
    )
    results = collect_results(report)
    assert (results.complete, results.status, results.errors) == (True, "OK", ())
    assert decode_results(encode_results(results)) == results
