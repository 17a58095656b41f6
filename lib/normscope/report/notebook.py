"""What the cells of the notebook call: one function per section of the report.

Every ``show_`` function displays something and returns nothing, in Jupyter as well as under papermill.
"""

import base64
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from normscope.analysis.analyze import analyze_category
from normscope.analysis.models import ErrorMetrics, Metrics, Scope, encode_metrics
from normscope.compare.models import COMPARISON_FILE
from normscope.errors import NormscopeError
from normscope.escape import printable
from normscope.inputs.rundir import find_categories
from normscope.params import SAMPLE, ReportParams, make_params
from normscope.report import comparison_tables, findings_text
from normscope.report.answer import answer_html
from normscope.report.breakdown import breakdown_html
from normscope.report.calls import HEADING as CALLS_HEADING
from normscope.report.calls import calls_html, calls_of
from normscope.report.comparison_data import read_comparison
from normscope.report.data_quality import data_quality_html
from normscope.report.gpu_time import gpu_time_html
from normscope.report.kernel import OF_A_REPORT
from normscope.report.method import method_html
from normscope.report.operations import operations_html
from normscope.report.overheads import overheads_html
from normscope.report.prefix import analyze_through_prefix
from normscope.report.results import (
    Report,
    analyzed,
    collect_results,
    encode_results,
    failed,
    operations_of,
    status_of,
)
from normscope.report.source import opened_source
from normscope.report.tables import Html, paragraph
from normscope.report.trace_data import TraceData, read_trace_data
from normscope.resources import template_dir

if TYPE_CHECKING:
    import pandas as pd

    from normscope.figures import Chart

STYLE_ROLE = "style"


def open_report(  # noqa: PLR0913, PLR0917 - the notebook's parameters, one each
    run_dir: str = SAMPLE,
    out_dir: str = "outputs/sample",
    categories: Sequence[str] = (),
    comparison_scope: Scope = "standalone",
    command_prefix: str = "",
    top_n: int = 20,
    gpu: str = "",
    gpu_file: str = "",
    peaks: str = "datasheet",
    catalog: str = "",
    capture: str = "",
) -> Report:
    """Analyze every category of a run and return what the report is made of.

    Parameters
    ----------
    run_dir
        A profiler trace, a TraceLens run directory, or ``sample`` for the bundled simulated trace.
    out_dir
        The folder the results go to.
    categories
        The categories to analyze; empty for every normalization category of the run.
    comparison_scope
        ``standalone`` or ``comparative``.
    command_prefix
        Empty to analyze in this Python, ``cache`` to run the analysis through ``cache/cmd_prefix.txt``.
    top_n
        How many operations the tables and figures show.
    gpu, gpu_file
        The GPU of a trace that doesn't tell it: a key of the registry, or an architecture file.
    peaks
        ``datasheet`` or ``achievable``: what a trace is held against.
    catalog
        A file with more rows of the catalog, to find the norms of a trace.
    capture
        A folder of traces taken while a trace's graphs were captured.

    Raises
    ------
    UsageError
        A parameter has a wrong type or value.
    InputError
        ``run_dir`` is no TraceLens run directory.
    """
    params = make_params(
        {
            "run_dir": run_dir,
            "out_dir": out_dir,
            "categories": list(categories),
            "comparison_scope": comparison_scope,
            "command_prefix": command_prefix,
            "top_n": top_n,
            "gpu": gpu,
            "gpu_file": gpu_file,
            "peaks": peaks,
            "catalog": catalog,
            "capture": capture,
        }
    )
    _display(Html(f"<style>{_component_style()}</style>"), "", {"normscope": STYLE_ROLE})
    with opened_source(params) as source:
        return _analyse(params, source.folder)


def _analyse(params: ReportParams, run_dir: Path) -> Report:
    names = params.categories or find_categories(run_dir)
    metrics = tuple(_analyse_category(params, run_dir, name) for name in dict.fromkeys(names))
    trace = read_trace_data(run_dir, metrics)
    is_comparison = params.comparison_scope == "comparative"
    return Report(
        label=_label(run_dir, trace),
        out_dir=Path(params.out_dir),
        comparison_scope=params.comparison_scope,
        top_n=params.top_n,
        metrics=metrics,
        trace=trace,
        comparison=read_comparison(run_dir) if is_comparison else None,
    )


def _label(run_dir: Path, trace: TraceData | None) -> str:
    """Return the name of the run; a simulated trace is called one wherever the name is shown."""
    name = trace.summary.label if trace else run_dir.resolve().name
    is_named_so = trace is None or not trace.summary.is_simulated or "simulated" in name.lower()
    return printable(name if is_named_so else f"{name} (simulated)") or "run"


def _analyse_category(params: ReportParams, run_dir: Path, category: str) -> Metrics:
    """Return the metrics of one category; a failure is one of its kinds, with the run's folder left out."""
    analyze = analyze_through_prefix if params.command_prefix else analyze_category
    scope = params.comparison_scope
    try:
        metrics = analyze(run_dir, category, scope)
    except NormscopeError as failure:
        metrics = ErrorMetrics(category=category, error=str(failure), comparison_scope=scope, reason="failed")
    if isinstance(metrics, ErrorMetrics):
        return msgspec.structs.replace(metrics, error=metrics.error.replace(f"{run_dir}/", ""))
    return metrics


def show_answer(report: Report) -> None:
    """Show the verdict, the key figures and the operations to start with."""
    _display(answer_html(report), f"normscope report on {report.label}: status {status_of(report)}")


def show_comparison(report: Report) -> None:
    """Show every pair of operations of two runs, with a heading; nothing where no two runs are compared."""
    if report.comparison is None:
        return
    _display(comparison_tables.HEADING, "Operation by operation")
    _show_comparison_figure(report, "comparison_operations")
    html = comparison_tables.pairs_html(report.comparison.comparison, report.top_n)
    _display(html, "Table: paired operations")


def show_comparison_changes(report: Report) -> None:
    """Show what one side has alone and what else differs, with a heading; nothing as above."""
    if report.comparison is not None:
        html = comparison_tables.changes_html(report.comparison.comparison, report.top_n)
        _display(html, "Tables: operations added, vanished and changed")


def show_comparison_noise(report: Report) -> None:
    """Show how the calls of both sides spread, with a heading; nothing as above."""
    if report.comparison is None:
        return
    _display(comparison_tables.NOISE, "The noise")
    _show_comparison_figure(report, "comparison_calls")


def show_comparison_roofline(report: Report) -> None:
    """Show both rooflines in one figure, with a heading; nothing as above."""
    if report.comparison is None:
        return
    _display(comparison_tables.ROOFLINES, "Both rooflines")
    _show_comparison_figure(report, "comparison_roofline")


def show_comparison_coverage(report: Report) -> None:
    """Show what both sides spend their kernel time on, with a heading; nothing as above."""
    if report.comparison is not None:
        html = comparison_tables.sides_html(report.comparison.comparison)
        _display(html, "Tables: both sides side by side")


def _show_comparison_figure(report: Report, name: str) -> None:
    from normscope.figures import COMPARISON_FIGURES  # noqa: PLC0415 - imports matplotlib

    if report.comparison is not None:
        _show_chart(report, COMPARISON_FIGURES[name](report.comparison.comparison, report.top_n))


def show_gpu_time(report: Report) -> None:
    """Show what all GPU time of a trace went to, with a heading; nothing for a run of another origin."""
    if report.trace is not None:
        _display(gpu_time_html(report), "All GPU time: what the kernel time of the trace belongs to")


def show_breakdown(report: Report) -> None:
    """Show the kernel time by direction and norm variant."""
    _display(breakdown_html(report), "Table: kernel time by direction and variant")


def show_figure(report: Report, name: str) -> None:
    """Draw the figure ``name``, keep it as PNG, SVG and CSV in ``out_dir/figures``, and show it."""
    from normscope.figures import ALL_FIGURES  # noqa: PLC0415 - imports matplotlib

    if not operations_of(report):
        _display(paragraph("There is nothing to draw: no operation was analyzed."), "No figure")
        return
    _show_chart(report, ALL_FIGURES[name](analyzed(report), report.top_n))


def show_calls(report: Report) -> None:
    """Show how long each call of a trace took, with a heading; nothing where no call is known."""
    if report.trace is None or not calls_of(report):
        return
    from normscope.figures import call_times  # noqa: PLC0415 - imports matplotlib

    _display(CALLS_HEADING, "Calls")
    _show_chart(report, call_times(analyzed(report), report.trace.calls, report.top_n))
    _display(calls_html(report), "Table: calls by signature")


def _show_chart(report: Report, chart: "Chart") -> None:
    from normscope.figures import save_chart  # noqa: PLC0415 - imports matplotlib
    from normscope.report.images import compact_png  # noqa: PLC0415 - imports Pillow

    png = save_chart(chart, report.out_dir / "figures")[0]
    files = [f"figures/{png.stem}{suffix}" for suffix in (".csv", ".svg")]
    picture = base64.b64encode(compact_png(png.read_bytes())).decode("ascii")
    _publish(
        {"image/png": picture, "text/plain": chart.alt}, {"image/png": {"alt": chart.alt, "files": files}}
    )


def show_overheads(report: Report) -> None:
    """Show what runs around the norms, with a heading; nothing where there is nothing of it."""
    html = overheads_html(report)
    if html:
        _display(html, "Table: work around the norms")


def show_findings(report: Report) -> None:
    """Show the findings of every category; the Markdown is what ``findings.md`` says."""
    texts = findings_text.category_texts(report)
    html = findings_text.findings_html(report, texts) or paragraph(
        "There is nothing that findings could be about."
    )
    _display(html, findings_text.combined_findings(report, texts), markdown=True)


def show_operations(report: Report) -> None:
    """Show the table of every operation."""
    _display(operations_html(report), f"Table: {len(operations_of(report))} operations by time")


def show_data_quality(report: Report) -> None:
    """Show anomalies, high variance, missing columns and failures."""
    _display(data_quality_html(report), "Data quality")


def show_method(report: Report) -> None:
    """Show the hardware, its peaks and the formulas."""
    _display(method_html(report), "Method and hardware")


def operations_frame(report: Report) -> "pd.DataFrame":
    """Return every operation as a table for further work, one row each, named as in the metrics."""
    import pandas as pd  # noqa: PLC0415 - half a second that only interactive use needs

    rows = [
        {"category": each.metrics.category, **_flat(msgspec.to_builtins(each.operation))}
        for each in operations_of(report)
    ]
    return pd.DataFrame(rows)


def _flat(operation: dict[str, object]) -> dict[str, object]:
    efficiency = operation.pop("efficiency")
    return {**operation, **(efficiency if isinstance(efficiency, dict) else {})}


def finish(report: Report) -> None:
    """Write every result into ``out_dir``; the last, ``metrics.json``, says that the report is complete.

    Raises
    ------
    NormscopeError
        A category could not be analyzed, and nobody but the reader of the notebook could tell: so papermill
        alone fails, too. Everything is written by then.
    """
    texts = findings_text.category_texts(report)
    for metrics in report.metrics:
        name = metrics.category
        _write(report.out_dir / "category_data" / f"{name}_metrics.json", encode_metrics(metrics))
        _write(report.out_dir / "category_findings" / f"{name}_findings.md", texts[name].encode())
    for name, content in (report.trace.files if report.trace else {}).items():
        _write(report.out_dir / "category_data" / name, content)
    if report.comparison is not None:
        _write(report.out_dir / "category_data" / COMPARISON_FILE, report.comparison.content)
    _write(report.out_dir / "findings.md", findings_text.combined_findings(report, texts).encode())
    _write(report.out_dir / "metrics.json", encode_results(collect_results(report)))
    state = "with errors" if failed(report) else "complete"
    sentence = (
        f"This report is {state}. Beside it lie findings.md (the findings as text), metrics.json (every "
        "number), category_data and category_findings (the same by category) and figures (PNG, SVG and their "
        "data as CSV)."
    )
    _display(paragraph(sentence), sentence)
    if failed(report) and OF_A_REPORT not in os.environ:
        raise NormscopeError("; ".join(f"{m.category}: {m.error.rstrip('.')}" for m in failed(report)))


def _write(file: Path, data: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)


def _component_style() -> str:
    return (template_dir() / "components.css").read_text(encoding="utf-8")


def _display(
    html: Html, text: str, metadata: Mapping[str, object] | None = None, *, markdown: bool = False
) -> None:
    """Display HTML, with ``text`` for readers that show none."""
    bundle = {"text/html": f'<div class="normscope">\n{html}\n</div>', "text/plain": text}
    if markdown:
        bundle["text/markdown"] = text
    _publish(bundle, metadata or {})


def _publish(bundle: Mapping[str, str], metadata: Mapping[str, object]) -> None:
    from IPython.display import display  # noqa: PLC0415 - a notebook has it already

    display(dict(bundle), raw=True, metadata=dict(metadata))  # type: ignore[no-untyped-call]
