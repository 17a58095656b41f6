"""Shapes from a capture are said to be from it wherever they are shown, and what confirms them."""

import gzip
from pathlib import Path

import pytest

from normscope import analyze_category, render_findings
from normscope.analysis.models import CategoryMetrics
from normscope.escape import markdown
from normscope.report.answer import answer_html
from normscope.report.data_quality import data_quality_html
from normscope.report.findings_text import category_texts, combined_findings
from normscope.report.notebook import open_report
from normscope.report.operations import operations_html
from normscope.report.results import Report
from normscope.tracerun.examine import NormSources
from normscope.tracerun.peaks import GpuChoice
from normscope.tracerun.summary import trace_notes
from runs import row, traced
from test_capture import GEMM, VLLM, captured, replayed, vllm
from test_findings_limits import text_of as valid_findings
from test_trace_report import text_of
from trace_inputs import as_json
from written_run import WrittenRun, written

GPU = GpuChoice(key="mi300x")
HOSTILE = "bs <b>32.json.gz"
BY_ORDER = "matched by the order of norms only"
NOT_CONFIRMED = "Nothing in the trace confirms its batch size"


def run_with_capture(tmp_path: Path, capture: str, grid: list[int] | None) -> WrittenRun:
    """Write the run of one replay of 400 µs, its norm with 32 rows by the capture of that name."""
    folder = tmp_path / "captures"
    folder.mkdir()
    (folder / capture).write_bytes(gzip.compress(as_json(captured(("aten::mm", {}, [GEMM]), vllm(32)))))
    events = replayed(GEMM, VLLM, grid=grid)
    events[-1]["dur"] = 400.0
    (tmp_path / "t.json").write_bytes(as_json(events))
    return written(tmp_path / "t.json", tmp_path / "run", GPU, NormSources(capture=folder))


def report_of(run: WrittenRun, tmp_path: Path) -> Report:
    return open_report(str(run.folder), str(tmp_path / "report"))


@pytest.mark.parametrize(("grid", "shapes_from"), [(None, f"{HOSTILE} ({BY_ORDER})"), ([32, 1, 1], HOSTILE)])
def test_every_file_and_page_says_which_capture_shapes_are_from(
    tmp_path: Path, grid: list[int] | None, shapes_from: str
) -> None:
    run = run_with_capture(tmp_path, HOSTILE, grid)
    assert [row["shapes_from"] for row in run.rows] == [shapes_from]
    assert [call["shapes_from"] for call in run.calls] == [shapes_from]
    metrics = analyze_category(run.folder, "norm_fwd")
    assert isinstance(metrics, CategoryMetrics)
    assert [operation.shapes_from for operation in metrics.operations] == [shapes_from]
    note = f"1 replayed norm call has its shapes from the capture {shapes_from}."
    assert [line.startswith(note) for line in trace_notes(run.summary)][-1]
    report = report_of(run, tmp_path)
    pages = [operations_html(report), answer_html(report), data_quality_html(report)]
    for page in pages:
        assert f"from the capture {shapes_from}" in text_of(page)
        assert "<b>32" not in page
    texts = category_texts(report)
    assert f"with shapes from the capture `{shapes_from}`" in texts["norm_fwd"]
    assert "<b>32" not in combined_findings(report, texts).partition("## norm")[0]
    is_told = [NOT_CONFIRMED in text_of(page) for page in pages[1:]]
    assert is_told == [grid is None] * 2


@pytest.mark.parametrize(
    "name", ["bs_`32`.json", "bs|32<!-- x -->.json (matched by the order of norms only)"]
)
def test_findings_with_shapes_from_a_capture_are_valid(tmp_path: Path, name: str) -> None:
    cells = {"Pct Roofline_mean": 5.0} | traced(shapes_from=name, fused_with="residual | add")
    text = valid_findings(tmp_path, row("rms_norm", 4000.0, 10, cells))
    assert f"with shapes from the capture {markdown(name)}: memory-bound" in text


def test_without_a_capture_nothing_is_said_of_one(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_bytes(as_json(replayed(GEMM, VLLM)))
    run = written(tmp_path / "t.json", tmp_path / "run", GPU)
    assert [row["shapes_from"] for row in run.rows] == [""]
    metrics = analyze_category(run.folder, "norm_fwd")
    assert isinstance(metrics, CategoryMetrics)
    assert "the capture" not in render_findings(metrics).partition("### ")[0]
    assert "from the capture" not in text_of(operations_html(report_of(run, tmp_path)))
    assert (run.summary.replayed_count, run.summary.captured) == (1, ())
