"""The findings of all categories together, as one Markdown file and as HTML for the report."""

import re
from collections.abc import Collection, Mapping

from normscope.compare.differences import overview
from normscope.escape import html_text, markdown, markdown_to_html, printable
from normscope.findings import render_findings
from normscope.findings.overheads import overhead_notes, overheads_markdown
from normscope.findings.overview import convolutional
from normscope.findings.render import NONE_FOUND
from normscope.findings.wording import duration, plural, sentence_case, verb
from normscope.report.operations import listed_operations
from normscope.report.results import LocatedFinding, Report, analyzed, findings_of, status_of
from normscope.report.tables import Html, folded, link, scroll_tables
from normscope.report.trace_data import TraceData
from normscope.report.trace_notes import findings_notes, nothing_found, overrun_note

_MARKDOWN_HEADING = re.compile(r"^(#+ )", re.MULTILINE)
_MARKDOWN_TITLE = re.compile(r"\A# .*\n")
_FINDING_HEADING = re.compile(r"^### P(\d+): (.+)$", re.MULTILINE)
_FINDING_ACTION = re.compile(r"^### P(\d+): .*\n(?:.*\n)?\*\*Action\*\*: (.+)$", re.MULTILINE)
_HTML_HEADING = re.compile(r"(</?h)([1-6])(>)")
_HTML_FINDING = re.compile(r"<h5>P(\d+): ")
_DETAILED_HEADING = "<h4>Detailed Analysis</h4>"
_LAST_HEADING = 6
MAX_ROW_LINKS = 12


def category_texts(report: Report) -> dict[str, str]:
    """Return the findings file of every category, by category name."""
    return {metrics.category: render_findings(metrics) for metrics in report.metrics}


def findings_markup(text: str) -> Html:
    """Render findings as HTML: labels on lines of their own, tables in containers that scroll.

    Characters that can't be seen, which Markdown holds as entities, are spelt out as everywhere else.
    """
    html = "\n".join(map(printable, markdown_to_html(text).split("\n")))
    return Html(scroll_tables(html).replace("\n<strong>", "<br>\n<strong>"))


def finding_titles(texts: Mapping[str, str]) -> dict[tuple[str, int], str]:
    """Return the title, as Markdown, of every finding by category name and rank."""
    return {
        (category, int(rank)): title
        for category, text in texts.items()
        for rank, title in _FINDING_HEADING.findall(text)
    }


def finding_actions(texts: Mapping[str, str]) -> dict[tuple[str, int], str]:
    """Return the action, as Markdown, of every finding by category name and rank."""
    return {
        (category, int(rank)): action
        for category, text in texts.items()
        for rank, action in _FINDING_ACTION.findall(text)
    }


def pattern_of_run(report: Report) -> str | None:
    """Return what all categories together suggest, as Markdown, where that is more than each does alone."""
    categories = analyzed(report)
    return convolutional(categories) if len(categories) > 1 else None


def inline_html(text: str) -> Html:
    """Render one line of Markdown, such as a title, without a paragraph around it."""
    return Html(findings_markup(text).strip().removeprefix("<p>").removesuffix("</p>"))


def combined_findings(report: Report, texts: Mapping[str, str]) -> str:
    """Return ``findings.md``: the findings ranked across categories, then those of each category in full.

    The headings of each category's text are one level deeper here, so that the file has a single title.
    """
    notes = _notes(report.trace, report) if report.trace else []
    notes += list(filter(None, [_only_trace2(report)]))
    parts = [f"# Normalization findings: {markdown(report.label)}", *notes, _ranked_list(report, texts)]
    pattern = pattern_of_run(report)
    parts += [f"Over all categories: {pattern}"] if pattern else []
    for category, text in texts.items():
        name = markdown(category)
        parts += [f"## {name}", _MARKDOWN_HEADING.sub(r"#\1", _with_category(_untitled(text), name))]
    parts += list(filter(None, [_overheads(report.trace)]))
    return "\n\n".join(parts) + "\n"


def _only_trace2(report: Report) -> str:
    """Say what trace 2 alone has: no category of trace 1 tells it."""
    found = overview(report.comparison.comparison) if report.comparison else None
    alone = [each for each in found.alone if each.side == 2] if found else []
    if not alone:
        return ""
    time_us = sum(each.time_us for each in alone)
    return (
        f"{sentence_case(plural(len(alone), 'operation'))} of trace 2 {verb(len(alone), 'lack')} a "
        f"counterpart in trace 1: {duration(time_us)} that can't be compared."
    )


def _notes(trace: TraceData, report: Report) -> list[str]:
    overrun = overrun_note(trace, sum(m.total_time_ms for m in analyzed(report)))
    return [*map(markdown, findings_notes(trace.summary)), *([overrun] if overrun else [])]


def _overheads(trace: TraceData | None) -> str:
    if trace is None:
        return ""
    summary = trace.summary
    return overheads_markdown(overhead_notes(summary.overheads, summary.timeline.total_ms))


def _untitled(text: str) -> str:
    """Return a category's text without its title, which would repeat the heading above it."""
    return _MARKDOWN_TITLE.sub("", text, count=1).strip()


def _with_category(text: str, name: str) -> str:
    """Put the category before each rank: two categories have a P1 each."""
    return _FINDING_HEADING.sub(lambda m: f"### {name} {m.group(0).removeprefix('### ')}", text)


def _ranked_list(report: Report, texts: Mapping[str, str]) -> str:
    findings = findings_of(report)
    if status_of(report) == "EMPTY":
        return nothing_found(report.trace.summary) if report.trace else NONE_FOUND
    if not findings:
        return "No finding in any category."
    titles = finding_titles(texts)
    lines = [f"{place}. {_ranked_line(located, titles)}" for place, located in enumerate(findings, start=1)]
    return "\n".join(
        ["All findings, largest impact first (impact_score is % of end-to-end time):", "", *lines]
    )


def _ranked_line(located: LocatedFinding, titles: Mapping[tuple[str, int], str]) -> str:
    category, finding = located.metrics.category, located.finding
    title = titles.get((category, finding.rank), "untitled")
    return (
        f"{title} — {markdown(category)} P{finding.rank}, impact_score {finding.impact_score}"
        f" ({finding.impact_score_low}–{finding.impact_score_high})"
    )


def findings_html(report: Report, texts: Mapping[str, str]) -> Html:
    """Return the findings of every category under ``h3`` headings, each linked to the rows it rests on.

    The recommendations are shown, the detailed analysis is folded.
    """
    findings = {each.anchor: each for each in findings_of(report)}
    listed = frozenset(each.anchor for each in listed_operations(report))
    parts = []
    for number, (category, text) in enumerate(texts.items(), start=1):
        body = _deeper(findings_markup(_untitled(text)), 2)
        recommendations, heading, analysis = body.partition(_DETAILED_HEADING)
        parts.append(f"<h3>{html_text(category)}</h3>")
        for piece in re.split(r"(?=<h5>P\d+: )", recommendations):
            match = _HTML_FINDING.match(piece)
            located = findings.get(f"finding-{number}-{match.group(1)}") if match else None
            parts.append(piece if located is None else _linked(piece, located, listed, html_text(category)))
        if analysis.strip():
            parts.append(folded("Data, reasoning and resolution", Html(heading + analysis)))
    return Html('<div class="ns-findings">\n' + "\n".join(parts) + "\n</div>")


def _deeper(html: str, levels: int) -> str:
    return _HTML_HEADING.sub(
        lambda m: f"{m.group(1)}{min(int(m.group(2)) + levels, _LAST_HEADING)}{m.group(3)}", html
    )


def _linked(piece: str, located: LocatedFinding, listed: Collection[str], category: str) -> str:
    """Give a recommendation its category, its id, and links to its rows of the table of operations."""
    heading, end, rest = piece.removeprefix("<h5>").partition("</h5>")
    return f'<h5 id="{located.anchor}">{category} {heading}{end}\n{_row_links(located, listed)}{rest}'


def _row_links(located: LocatedFinding, listed: Collection[str]) -> str:
    links = [
        link(anchor, str(place))
        for place, anchor in enumerate(located.row_anchors, start=1)
        if anchor in listed
    ]
    if not links:
        return ""
    more = f" … of {len(located.row_anchors)}" if len(located.row_anchors) > MAX_ROW_LINKS else ""
    return f'<p class="ns-rows">Operations behind it: {", ".join(links[:MAX_ROW_LINKS])}{more}</p>'
