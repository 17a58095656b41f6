"""The section on work around the norms: what runs beside their own kernels, and what to do about it."""

from normscope.analysis.impact import MIN_FINDING
from normscope.escape import MISSING, html_text
from normscope.findings.overheads import OverheadNote, overhead_notes
from normscope.report.findings_text import inline_html
from normscope.report.results import Report
from normscope.report.tables import Column, Html, Row, number, paragraph, percent, table

_COLUMNS = (
    Column("What"),
    Column("Norm calls", numeric=True),
    Column("Kernels", numeric=True),
    Column("Time (ms)", numeric=True),
    Column("End-to-end time (%)", numeric=True),
    Column("What to do"),
)


def notes_of(report: Report) -> list[OverheadNote]:
    """Return what there is to say, nothing for a run of another origin."""
    if report.trace is None:
        return []
    summary = report.trace.summary
    return overhead_notes(summary.overheads, summary.timeline.total_ms)


def overheads_html(report: Report) -> Html:
    """Return the section; empty where there is no such work."""
    notes = notes_of(report)
    if not notes:
        return Html("")
    return Html(
        "\n".join(
            (
                "<h2>Work around the norms</h2>",
                paragraph(
                    "What runs because of the norms: norms that run twice, copies and casts of their inputs, "
                    "counters that they keep. Copies and casts inside a norm op are part of its kernel time. "
                    f"There is advice where a line takes {MIN_FINDING}% of end-to-end GPU time or more, as a "
                    "finding must."
                ),
                table("Work around the norms", _COLUMNS, [_row(note) for note in notes]),
            )
        )
    )


def _row(note: OverheadNote) -> Row:
    overhead = note.overhead
    what = f"<strong>{html_text(note.title)}</strong><br>{inline_html(note.explanation)}"
    return Row(
        (
            Html(what),
            f"{overhead.call_count:,}",
            f"{overhead.event_count:,}",
            number(overhead.time_us / 1e3, 3),
            percent(note.share_percent),
            inline_html(note.advice) if note.matters else MISSING,
        )
    )
