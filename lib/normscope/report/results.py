"""The report as data: its metrics, its status and where each operation and finding stands."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from normscope.analysis.models import (
    SCHEMA_VERSION,
    CategoryFinding,
    CategoryMetrics,
    ErrorMetrics,
    Metrics,
    Operation,
    Scope,
)
from normscope.report.comparison_data import ComparisonData
from normscope.report.trace_data import TraceData

Status = Literal["OK", "ERROR", "EMPTY"]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the notebook shows: the metrics of every category and how to show them.

    ``label`` names the run, ``top_n`` is the number of operations a table shows unfolded, and ``out_dir`` is
    the folder the results go to. ``trace`` is what only a trace tells, None for a run of another origin;
    ``comparison`` is what only a comparison of two runs tells.
    """

    label: str
    out_dir: Path
    comparison_scope: Scope
    top_n: int
    metrics: tuple[Metrics, ...]
    trace: TraceData | None = None
    comparison: ComparisonData | None = None


class LocatedOperation(msgspec.Struct, frozen=True):
    """One operation and where it is: ``anchor`` is the id of its row in the report."""

    anchor: str
    metrics: CategoryMetrics
    operation: Operation


class LocatedFinding(msgspec.Struct, frozen=True):
    """One finding and where it is: ``anchor`` is the id of its heading in the report."""

    anchor: str
    metrics: CategoryMetrics
    finding: CategoryFinding
    row_anchors: tuple[str, ...]


class ReportResults(msgspec.Struct, frozen=True, kw_only=True):
    """The file ``metrics.json`` of a report, written last: a report without it is not complete."""

    schema_version: str = SCHEMA_VERSION
    complete: bool
    status: Status
    comparison_scope: Scope
    label: str
    categories: tuple[Metrics, ...]
    errors: tuple[str, ...]


def analyzed(report: Report) -> tuple[CategoryMetrics, ...]:
    """Return the categories whose analysis succeeded."""
    return tuple(m for m in report.metrics if isinstance(m, CategoryMetrics))


def failed(report: Report) -> tuple[ErrorMetrics, ...]:
    """Return the categories that have data which could not be analyzed."""
    return tuple(m for m in report.metrics if isinstance(m, ErrorMetrics) and m.reason == "failed")


def absent(report: Report) -> tuple[ErrorMetrics, ...]:
    """Return the categories that were asked for and of which the run has no data."""
    return tuple(m for m in report.metrics if isinstance(m, ErrorMetrics) and m.reason == "missing")


def status_of(report: Report) -> Status:
    """Return ``ERROR`` if any analysis failed, ``EMPTY`` if there is no operation at all, else ``OK``."""
    if failed(report):
        return "ERROR"
    return "OK" if any(m.operations for m in analyzed(report)) else "EMPTY"


def operation_anchor(category_number: int, index: int) -> str:
    """Return the id of the row of ``operations[index]`` of the ``category_number``-th category."""
    return f"op-{category_number}-{index + 1}"


def _numbered(report: Report) -> Iterator[tuple[int, CategoryMetrics]]:
    for number, metrics in enumerate(report.metrics, start=1):
        if isinstance(metrics, CategoryMetrics):
            yield number, metrics


def operations_of(report: Report) -> tuple[LocatedOperation, ...]:
    """Return the operations of all categories, longest kernel time first."""
    located = (
        LocatedOperation(operation_anchor(number, index), metrics, operation)
        for number, metrics in _numbered(report)
        for index, operation in enumerate(metrics.operations)
    )
    return tuple(sorted(located, key=lambda each: -each.operation.time_ms))


def findings_of(report: Report) -> tuple[LocatedFinding, ...]:
    """Return the findings of all categories, largest impact first."""
    located = (
        LocatedFinding(
            f"finding-{number}-{finding.rank}",
            metrics,
            finding,
            tuple(operation_anchor(number, member.operation_index) for member in finding.members),
        )
        for number, metrics in _numbered(report)
        for finding in metrics.category_findings
    )
    return tuple(sorted(located, key=lambda each: -each.finding.impact_score))


def collect_results(report: Report) -> ReportResults:
    """Return what ``metrics.json`` says."""
    return ReportResults(
        complete=True,
        status=status_of(report),
        comparison_scope=report.comparison_scope,
        label=report.label,
        categories=report.metrics,
        errors=tuple(f"{m.category}: {m.error}" for m in failed(report)),
    )


def encode_results(results: ReportResults) -> bytes:
    """Return the bytes of ``metrics.json``: UTF-8 JSON, two spaces of indent, a final newline."""
    return msgspec.json.format(msgspec.json.encode(results), indent=2) + b"\n"


def decode_results(data: bytes) -> ReportResults:
    """Read back what :func:`encode_results` wrote.

    Raises
    ------
    msgspec.ValidationError
        The data is not the results file of a report.
    """
    return msgspec.json.decode(data, type=ReportResults)
