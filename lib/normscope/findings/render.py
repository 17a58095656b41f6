"""The findings file of one category: Markdown that follows the contract, rendered from the metrics alone."""

from msgspec import UNSET

from normscope.analysis.models import (
    CategoryFinding,
    ErrorMetrics,
    Metrics,
    Number,
    Operation,
)
from normscope.analysis.upper_bound import upper_bound_words
from normscope.escape import MISSING, markdown, shorten
from normscope.findings import overview
from normscope.findings.comparative import COMPARATIVE
from normscope.findings.heuristic import HEURISTIC
from normscope.findings.phrases import Prose, paragraph
from normscope.findings.standalone import STANDALONE
from normscope.findings.subject import Subject, subject_of
from normscope.findings.unfused import UNFUSED

RECOMMENDATIONS = "## Recommendations"
DETAILS = "## Detailed Analysis"
TIER = "compute"
NONE_FOUND = "No normalization operations found in trace."

STANDALONE_COLUMNS = (
    "Operation | Args | Kernel Path | Kernel Name | Time (ms) | %E2E | Count | "
    "FLOPS/Byte | Efficiency | Bound"
)
COMPARATIVE_COLUMNS = (
    "Operation | Args (T1) | Kernel Path | Kernel Name | Trace 1 Time (ms) | Trace 2 Time (ms) | "
    "Count (T1/T2) | Difference (ms) | FLOPS/Byte (T1) | Bound (T1)"
)
_OPERATION_WIDTH = 120


def render_findings(metrics: Metrics) -> str:
    """Return the findings file of one category.

    Parameters
    ----------
    metrics
        What :func:`normscope.analyze_category` returned.

    Returns
    -------
    str
        Markdown, the same for equal metrics. Where there is no ops table it says that no normalization
        operations were found; where the analysis failed it says ``Status: ERROR`` and holds no findings.
    """
    if isinstance(metrics, ErrorMetrics):
        return _render_error(metrics)
    subjects = [subject_of(metrics, finding) for finding in metrics.category_findings]
    blocks = [
        f"# Normalization findings: {markdown(metrics.category)}",
        "**Status**: OK",
        overview.render(metrics),
        RECOMMENDATIONS,
        *map(_recommendation, subjects),
        DETAILS,
        *map(_detail, subjects),
    ]
    return "\n\n".join(blocks) + "\n"


def _render_error(metrics: ErrorMetrics) -> str:
    title = f"# Normalization findings: {markdown(metrics.category)}"
    if metrics.reason == "missing":
        blocks = [title, NONE_FOUND, f"{markdown(metrics.error)}"]
    else:
        blocks = [title, "**Status**: ERROR", f"The analysis failed: {markdown(metrics.error)}"]
    return "\n\n".join([*blocks, RECOMMENDATIONS, DETAILS]) + "\n"


def prose_of(subject: Subject) -> Prose:
    """Return the sentences that fit the kind of a finding."""
    if subject.finding.estimate_method == "heuristic":
        return HEURISTIC
    if subject.metrics.comparison_scope == "comparative":
        return COMPARATIVE
    return UNFUSED if subject.finding.kind == "unfused" else STANDALONE


def _recommendation(s: Subject) -> str:
    finding, prose = s.finding, prose_of(s)
    library = "" if finding.library == "Unknown" else f" ({markdown(finding.library)})"
    low, mid, high = finding.impact_score_low, finding.impact_score, finding.impact_score_high
    lines = [
        f"### P{finding.rank}: {prose.title(s)}{library}",
        f"**Insight**: {prose.insight(s)}",
        f"**Action**: {prose.action(s)}",
        f"<!-- impact-begin kind=p_item low={low} mid={mid} high={high} -->",
        f"**Impact**: impact_score: {mid}",
        "<!-- impact-end -->",
    ]
    if prose.warning is not None:
        lines += ["", prose.warning(s)]
    return "\n".join(lines)


def _detail(s: Subject) -> str:
    finding, prose = s.finding, prose_of(s)
    low, high = finding.impact_score_low, finding.impact_score_high
    candidate = f"<!-- reasoning-candidate tier={TIER} rank={finding.rank} -->"
    estimate = (
        "**Impact estimate:**\n"
        f"<!-- impact-begin kind=detail_estimate low={low} high={high} -->\n"
        f"- Low end impact_score: {low}\n"
        f"- High end impact_score: {high}\n"
        "<!-- impact-end -->"
    )
    blocks = [
        f"{candidate}\n#### {prose.title(s)}",
        f"**Identification:** {paragraph(prose.identification, s)}",
        f"**Data:**\n\n{_table(s)}",
        f"**Reasoning for Slowdown:** {paragraph(prose.reasoning, s)}",
        f"**Resolution:** {paragraph(prose.resolution, s)}",
        estimate,
    ]
    return "\n\n".join(blocks)


def _table(s: Subject) -> str:
    is_comparative = s.metrics.comparison_scope == "comparative"
    columns = COMPARATIVE_COLUMNS if is_comparative else STANDALONE_COLUMNS
    cells = _comparative_cells if is_comparative else _standalone_cells
    has_bound = any(op.is_upper_bound for op in s.operations)
    columns += " | Time is" if has_bound else ""
    rule = "|".join(["---"] * len(columns.split("|")))
    rows = [
        f"| {' | '.join(cells(op, s.finding) + ([_what_time(op)] if has_bound else []))} |"
        for op in s.operations
    ]
    return "\n".join([f"| {columns} |", f"|{rule}|", *rows])


def _standalone_cells(op: Operation, finding: CategoryFinding) -> list[str]:
    is_heuristic = finding.estimate_method == "heuristic"
    return [
        *_names(op),
        f"{op.time_ms}",
        _figure(op.percent_of_total),
        f"{op.count}",
        _figure(op.efficiency.flops_per_byte),
        MISSING if is_heuristic else _efficiency(op),
        MISSING if is_heuristic else _bound(op),
    ]


def _comparative_cells(op: Operation, _finding: CategoryFinding) -> list[str]:
    trace2_count = MISSING if op.count_trace2 is UNSET else f"{op.count_trace2}"
    return [
        *_names(op),
        f"{op.time_ms}",
        _figure(None if op.t2_time_ms is UNSET else op.t2_time_ms),
        f"{op.count}/{trace2_count}",
        _figure(None if op.difference_ms is UNSET else op.difference_ms),
        _figure(op.efficiency.flops_per_byte),
        _bound(op),
    ]


def _what_time(op: Operation) -> str:
    return markdown(upper_bound_words(op) or "its own")


def _names(op: Operation) -> list[str]:
    args = None if op.args is UNSET else op.args
    return [
        _text(shorten(op.name, _OPERATION_WIDTH)),
        _text(args),
        _text(op.launcher_path),
        _text(op.kernel_name_trunc),
    ]


def _text(text: str | None) -> str:
    return markdown(text) if text else MISSING


def _figure(value: Number | None) -> str:
    return MISSING if value is None else f"{value}"


def _efficiency(op: Operation) -> str:
    efficiency = op.efficiency
    if efficiency.efficiency_percent is None:
        return MISSING
    limits = {
        "memory": (efficiency.resolved_peak_hbm_bw, "TB/s"),
        "compute": (efficiency.resolved_peak_maf, "TFLOPS"),
    }
    peak, unit = limits.get(efficiency.bound_type or "", (None, ""))
    share = f"{efficiency.efficiency_percent:.2f}%"
    return share if peak is None else f"{share} of {peak} {unit}"


def _bound(op: Operation) -> str:
    return MISSING if op.efficiency.bound_type is None else f"{op.efficiency.bound_type}-bound"
