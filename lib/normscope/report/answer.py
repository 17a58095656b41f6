"""The answer first: the verdict, the key figures, what to do and where to start."""

from normscope.analysis.models import CategoryMetrics, ImpactEstimate
from normscope.escape import html_text, shorten
from normscope.hardware.registry import all_gpus
from normscope.report.cards import cards_html
from normscope.report.comparison_answer import topics_html
from normscope.report.comparison_answer import verdict_html as comparison_verdict_html
from normscope.report.doubt import has_large_overrun
from normscope.report.findings_text import (
    category_texts,
    finding_actions,
    finding_titles,
    inline_html,
    pattern_of_run,
)
from normscope.report.key_figures import key_figures
from normscope.report.operations import EFFICIENCY_TITLES, arguments, efficiency, operation_name, time_ms
from normscope.report.results import (
    LocatedFinding,
    LocatedOperation,
    Report,
    analyzed,
    failed,
    findings_of,
    operation_anchor,
    operations_of,
    status_of,
)
from normscope.report.tables import (
    Column,
    Html,
    Row,
    link,
    number,
    percent,
    safe,
    table,
)
from normscope.report.trace_notes import note, nothing_analyzed, overrun_note, trace_banners, unknown_gpu_box
from normscope.report.verdict import verdict_html

WORST_OPERATIONS = 3
FIRST_FINDINGS = 3
_RUN_NAME_WIDTH = 80
_WHERE_TO_START = " Start with "
_RULE_OF_THUMB = ", by a rule of thumb"


def answer_html(report: Report) -> Html:
    """Return the verdict, the cards with the key figures and the operations to start with."""
    summary = report.trace.summary if report.trace else None
    parts = [
        _error_banner(report),
        *(trace_banners(summary) if summary else ()),
        _overrun_banner(report),
        Html(f'<p class="ns-run">{safe(_run_line(report))}</p>'),
    ]
    if report.comparison is not None:
        parts.append(comparison_verdict_html(report.comparison.comparison))
    if status_of(report) == "EMPTY":
        nothing = nothing_analyzed(summary) if summary else _nothing_found()
        return Html("\n".join(part for part in [*parts, nothing, _topics(report)] if part))
    if operations_of(report):
        figures = key_figures(report)
        verdict = verdict_html(report, figures) if report.comparison is None else Html("")
        parts += [verdict, cards_html(report, figures), _topics(report)]
        parts += [unknown_gpu_box(summary)] if summary else []
        if not has_large_overrun(report, figures):
            parts += [_first_findings(report), _worst_operations(report)]
    return Html("\n".join(part for part in parts if part))


def _topics(report: Report) -> Html:
    return topics_html(report.comparison.comparison) if report.comparison else Html("")


def _run_line(report: Report) -> str:
    platforms = dict.fromkeys(m.hardware.platform for m in analyzed(report) if m.hardware.platform)
    hardware = ", ".join(platforms) or _traced_gpu(report) or "device not known"
    categories = ", ".join(m.category for m in report.metrics) or "no norm ops"
    parts = (report.label, hardware, categories, report.comparison_scope)
    return " · ".join(shorten(part, _RUN_NAME_WIDTH) for part in parts)


def _traced_gpu(report: Report) -> str | None:
    """Return the GPU of a trace, for a report without a category that would name it."""
    key = report.trace.summary.gpu_key if report.trace else None
    return next((gpu.name for gpu in all_gpus() if gpu.key == key), None)


def _error_banner(report: Report) -> Html:
    failures = failed(report)
    if not failures:
        return Html("")
    reasons = "\n".join(f"<p>{safe(m.category)}: {safe(m.error)}</p>" for m in failures)
    return Html(
        '<div class="ns-banner" role="alert">\n'
        "<p><strong>Status: ERROR</strong>. The analysis failed, so this report is incomplete.</p>\n"
        f"{reasons}\n</div>"
    )


def _overrun_banner(report: Report) -> Html:
    time_ms = sum(m.total_time_ms for m in analyzed(report))
    text = overrun_note(report.trace, time_ms) if report.trace else None
    return note("Times that can't be right", text) if text else Html("")


def _nothing_found() -> Html:
    return Html(
        '<div class="ns-verdict">\n<p class="ns-headline">No normalization operations found</p>\n'
        "<p>The run directory has no rows in <code>category_data/&lt;category&gt;_ops.csv</code>. If the "
        "model has normalization layers, check that the trace was split into categories and that the right "
        "directory was given.</p>\n</div>"
    )


def _first_findings(report: Report) -> Html:
    """Return what to do about the findings with the largest impact; each linked, no advice twice."""
    texts = category_texts(report)
    titles, actions = finding_titles(texts), finding_actions(texts)
    links: dict[str, list[Html]] = {}
    for located in findings_of(report)[:FIRST_FINDINGS]:
        key = (located.metrics.category, located.finding.rank)
        if key in titles and key in actions:
            links.setdefault(actions[key].partition(_WHERE_TO_START)[0], []).append(
                _link(located, titles[key])
            )
    if not links:
        return Html("")
    items = [f"<li>{inline_html(action)}\n{''.join(sources)}</li>" for action, sources in links.items()]
    pattern = pattern_of_run(report)
    over_all = f"\n<p>Over all categories: {inline_html(pattern)}</p>" if pattern else ""
    listed = "\n".join(items)
    return Html(f"<p><strong>What to do first</strong></p>\n<ol>\n{listed}\n</ol>{over_all}")


def _link(located: LocatedFinding, title: str) -> Html:
    finding = located.finding
    gain = f"{percent(finding.impact_score_low)} to {percent(finding.impact_score_high)} of GPU time"
    gain += _RULE_OF_THUMB if finding.estimate_method == "heuristic" else ""
    place = f"{html_text(located.metrics.category)} P{finding.rank}: {inline_html(title)}"
    return Html(f'<span class="ns-sub"><a href="#{located.anchor}">{place}</a>, {safe(gain)}</span>')


def _worst_operations(report: Report) -> Html:
    by_anchor = {each.anchor: each for each in operations_of(report)}
    worst = _largest_estimates(report)[:WORST_OPERATIONS]
    if not worst or not findings_of(report):
        return Html("")
    columns = (
        Column("Operation"),
        Column("Arguments"),
        Column("Time (ms)", numeric=True),
        Column(EFFICIENCY_TITLES[report.comparison_scope], numeric=True),
        Column("Potential gain (% of GPU time)", numeric=True),
        Column("Details"),
    )
    rows = [Row(_worst_cells(by_anchor[anchor], estimate)) for anchor, estimate in worst]
    return table("Start here: the operations with the largest potential gain", columns, rows)


def _worst_cells(located: LocatedOperation, estimate: ImpactEstimate) -> tuple[str | Html, ...]:
    operation = located.operation
    return (
        operation_name(operation),
        arguments(operation),
        time_ms(operation),
        efficiency(operation),
        f"{number(estimate.impact_score)} ({number(estimate.impact_score_low)}–"
        f"{number(estimate.impact_score_high)})",
        link(located.anchor, "row"),
    )


def _largest_estimates(report: Report) -> list[tuple[str, ImpactEstimate]]:
    located = [
        (operation_anchor(place, estimate.operation_index), estimate)
        for place, metrics in enumerate(report.metrics, start=1)
        if isinstance(metrics, CategoryMetrics)
        for estimate in metrics.impact_estimates
    ]
    return sorted(located, key=lambda pair: -pair[1].impact_score)
