"""Data quality of a trace: what was repaired or left out while reading, and what it was recorded without."""

from collections.abc import Iterator

from normscope.escape import MISSING
from normscope.report.tables import Cell, Column, Html, Row, bullets, count_of, paragraph, table
from normscope.report.trace_data import TraceData
from normscope.report.trace_notes import MODULES_HINT, how_to_know_shapes
from normscope.tracerun.summary import TraceSummary, captured_notes

_MAX_STEPS = 8
_COARSE_US = 1.0
_COARSE = "GPU times are whole microseconds, as PyTorch before 2.4 recorded them: coarse for short calls."
_RECOMPUTED = "ran a forward norm again in the backward pass, as activation checkpointing makes it."
_UNMATCHED = "don't fit the ops table, which was changed since, and are left out."
HEADING = Html("<h3>The trace</h3>")


def trace_quality_html(trace: TraceData) -> Html:
    """Return what reading the trace found, the steps in it, and what it lacks."""
    parts = [HEADING, bullets(_points(trace)), _problems_html(trace.summary)]
    return Html("\n".join(parts))


def _points(trace: TraceData) -> Iterator[Cell]:
    summary = trace.summary
    broken = "; it breaks off, so the report is about what is there" if summary.is_truncated else ""
    yield f"The trace holds {count_of(summary.event_count, 'readable event')}{broken}."
    if summary.steps:
        yield _steps(summary)
    if summary.resolution_us >= _COARSE_US:
        yield _COARSE
    if hint := how_to_know_shapes(summary):
        yield hint
    yield from captured_notes(summary)
    if summary.call_count and summary.has_ops and not summary.has_modules:
        yield MODULES_HINT
    if summary.recomputed_count:
        yield f"{count_of(summary.recomputed_count, 'call')} {_RECOMPUTED}"
    if trace.unmatched:
        yield f"The calls of {count_of(trace.unmatched, 'signature')} {_UNMATCHED}"
    yield from _left_out(summary)


def _steps(summary: TraceSummary) -> str:
    names = [f"{step.name} ({count_of(step.call_count, 'norm call')})" for step in summary.steps[:_MAX_STEPS]]
    more = len(summary.steps) - len(names)
    return f"Profiler steps, all of them used: {', '.join(names)}{f' and {more} more' if more else ''}."


def _left_out(summary: TraceSummary) -> Iterator[str]:
    if outside := summary.coverage.count("outside_window"):
        yield f"{count_of(outside, 'kernel')} outside the profiled window belong to no op."
    if unlinked := summary.coverage.unlinked_kernels_of_any_kind:
        yield f"The launch of {count_of(unlinked, 'kernel')} lies outside the trace."


def _problems_html(summary: TraceSummary) -> Html:
    if not summary.problems:
        return paragraph("Nothing in the file had to be repaired or left out.")
    columns = (Column("Count", numeric=True), Column("What"), Column("First one at byte", numeric=True))
    rows = [
        Row((f"{p.count:,}", p.what, MISSING if p.first_offset is None else f"{p.first_offset:,}"))
        for p in summary.problems
    ]
    return table("Found while reading the trace", columns, rows)
