"""Data quality: what the input lacked and which figures not to trust, said plainly."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import UNSET

from normscope.analysis.limit_phrases import is_cache_resident
from normscope.analysis.models import CategoryMetrics
from normscope.analysis.upper_bound import fused_words
from normscope.escape import html_text, shorten
from normscope.report.operations import listed_operations
from normscope.report.results import Report, absent, failed, operation_anchor
from normscope.report.tables import Cell, Html, bullets, count_of, link, number, paragraph, percent
from normscope.report.trace_quality import trace_quality_html

_MAX_NAMED = 20
_NAME_WIDTH = 80
_UNVERIFIED = "No trace and no source code confirms the rule; look at the kernels before you act on them."
ANOMALY_CAUSES = (
    "More than 110% of the roofline is not possible. Probable causes: the data stayed in a cache, the bytes "
    "or FLOPs of the performance model are too high for this kernel, or the peak in the metadata is too low."
)


IN_CACHE = (
    "that is no error of measurement: the bytes of a call fit the last-level cache, so the peak of memory "
    "does not bound them"
)


def data_quality_html(report: Report) -> Html:
    """Return what is missing, doubtful or failed in every category, or a sentence that nothing is."""
    parts: list[Html] = [
        paragraph(f"{m.category}: the analysis failed (Status: ERROR). {m.error}") for m in failed(report)
    ]
    parts += [
        paragraph(f"{m.category}: no normalization operations found in the trace.") for m in absent(report)
    ]
    if report.trace:
        parts.append(trace_quality_html(report.trace))
    listed = frozenset(each.anchor for each in listed_operations(report))
    for place, metrics in enumerate(report.metrics, start=1):
        if isinstance(metrics, CategoryMetrics):
            parts.append(_category_html(place, metrics, listed))
    return Html("\n".join(parts) or paragraph("There is no data to judge."))


def _category_html(place: int, metrics: CategoryMetrics, listed: frozenset[str]) -> Html:
    points = list(_points(place, metrics, listed))
    heading = Html(f"<h3>{html_text(metrics.category)}</h3>\n")
    if not points:
        return Html(heading + paragraph("No anomaly, no high variance, no missing column."))
    return Html(heading + bullets(points))


def _points(place: int, metrics: CategoryMetrics, listed: frozenset[str]) -> Iterator[Cell]:
    quality = metrics.data_quality
    for title, indexes, explanation in (
        ("above 110% of the roofline (anomaly)", quality.anomalies, _why_above(metrics)),
        (
            "with high variance between calls",
            quality.high_variance,
            "The mean hides slow calls.",
        ),
        (
            "without kernel time",
            quality.operations_without_time,
            "They are left out of the impact estimates.",
        ),
        (
            "without efficiency",
            quality.operations_without_efficiency,
            _why_no_efficiency(metrics, quality.operations_without_efficiency),
        ),
        ("found by an unverified rule", _unverified(metrics), _UNVERIFIED),
    ):
        if indexes:
            names = _named(place, metrics, indexes, listed)
            subject = html_text(f"{count_of(len(indexes), 'operation')} {title}")
            yield Html(f"<strong>{subject}</strong>: {names}. {html_text(explanation)}")
    if quality.missing_columns:
        columns = ", ".join(f"<code>{html_text(column)}</code>" for column in quality.missing_columns)
        yield Html(f"<strong>Columns missing from the operations table</strong>: {columns}.")
    yield from quality.notes


def _why_above(metrics: CategoryMetrics) -> str:
    """Return the causes of anomalies: for what fits the last-level cache it is no error."""
    anomalies = metrics.data_quality.anomalies
    cached = sum(is_cache_resident(metrics.operations[index]) for index in anomalies)
    if not cached:
        return ANOMALY_CAUSES
    if cached == len(anomalies):
        return f"{IN_CACHE[:1].upper()}{IN_CACHE[1:]}."
    return f"{ANOMALY_CAUSES} For {cached:,} of them {IN_CACHE}."


def _unverified(metrics: CategoryMetrics) -> tuple[int, ...]:
    return tuple(i for i, op in enumerate(metrics.operations) if op.evidence == "unverified")


def _why_no_efficiency(metrics: CategoryMetrics, indexes: Sequence[int]) -> str:
    without_shapes = [metrics.operations[i].args is UNSET for i in indexes]
    if all(without_shapes):
        why = "Their shapes aren't known"
    elif any(without_shapes):
        why = "Their shapes aren't known, or nothing models their performance"
    else:
        why = "Nothing models their performance"
    if metrics.hardware.peak_hbm_bw_tbs is None:
        why = "The peak of the GPU isn't known, or nothing models their performance"
    return f"{why}; their impact is a guess from their share of the time."


def _named(place: int, metrics: CategoryMetrics, indexes: Iterable[int], listed: frozenset[str]) -> str:
    indexes = list(indexes)
    names = [_operation(place, index, metrics, listed) for index in indexes[:_MAX_NAMED]]
    more = len(indexes) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def _operation(place: int, index: int, metrics: CategoryMetrics, listed: frozenset[str]) -> str:
    operation = metrics.operations[index]
    anchor = operation_anchor(place, index)
    text = " ".join(filter(None, (shorten(operation.name, _NAME_WIDTH), fused_words(operation))))
    label = link(anchor, text) if anchor in listed else html_text(text)
    if operation.efficiency.is_anomaly:
        return f"{label} ({percent(operation.efficiency.efficiency_percent)})"
    if operation.cov is not UNSET and operation.high_variance is True:
        return f"{label} (std/mean {number(operation.cov, 3)})"
    return label
