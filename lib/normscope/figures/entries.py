"""The operations of several metrics files as one list, each with a label that no other has."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from msgspec import UNSET

from normscope.analysis.limit_phrases import is_cache_resident
from normscope.analysis.models import CategoryMetrics, Operation, Scope
from normscope.analysis.upper_bound import MARK, bounded, fused_words, sum_words, upper_bound_words
from normscope.figures.labels import drawable, duration, name_label, number_duplicates

_DETAIL_WIDTH = 30
MAX_EFFICIENCY_PERCENT = 110.0
UPPER_BOUND_HEADER = ("is_upper_bound", "fused_with")
NAMED_IN_NOTE = 4
_LEAST_ON_AXIS, _MOST_ON_AXIS = 1e-12, 1e18


@dataclass(frozen=True, slots=True)
class Entry:
    """One operation signature and where it comes from.

    ``label`` is the short name, ``detail`` its first argument, its direction and what it does beside the
    norm; together they are unique. ``time_ms`` is ``None`` where the input gave no kernel time, ``index`` its
    place in ``operations[]``.
    """

    category: str
    index: int
    scope: Scope
    operation: Operation
    label: str
    detail: str
    time_ms: float | None

    @property
    def is_anomaly(self) -> bool:
        """Whether the input claims more than the hardware can do."""
        return self.operation.efficiency.is_anomaly

    @property
    def weight_ms(self) -> float:
        """The time to weigh with, in ms; 0 where it isn't known."""
        return self.time_ms or 0.0

    @property
    def time_text(self) -> str:
        """The time with its unit, marked where it is an upper bound."""
        return bounded(self.operation, duration(self.weight_ms))

    @property
    def time_remark(self) -> str:
        """Why the time is an upper bound, to follow it in brackets; empty where it is not."""
        why = upper_bound_words(self.operation)
        return f" ({drawable(why)})" if why else ""

    @property
    def mark(self) -> str:
        """The mark of an upper bound, to follow the detail; empty where the time is the norm's own."""
        return f" · {MARK}" if self.operation.is_upper_bound else ""

    @property
    def one_line(self) -> str:
        """Label and detail in one line."""
        return f"{self.label} · {self.detail}"


def entries_of(reports: Sequence[CategoryMetrics]) -> tuple[Entry, ...]:
    """Return all operations of all reports, longest first, ties in the order given."""
    found = sorted(
        (_entry(report, index) for report in reports for index in range(len(report.operations))),
        key=lambda entry: -entry.weight_ms,
    )
    # The detail goes first so that the running number lands at the end of the name.
    keys = number_duplicates([f"{entry.detail}\n{entry.label}" for entry in found])
    return tuple(
        replace(entry, label=key.removeprefix(f"{entry.detail}\n"))
        for entry, key in zip(found, keys, strict=True)
    )


def _entry(report: CategoryMetrics, index: int) -> Entry:
    operation = report.operations[index]
    unknown = index in report.data_quality.operations_without_time
    return Entry(
        category=report.category,
        index=index,
        scope=report.comparison_scope,
        operation=operation,
        label=name_label(operation.name),
        detail=_detail(operation),
        time_ms=None if unknown else operation.time_ms,
    )


def _detail(operation: Operation) -> str:
    direction = "direction unknown" if operation.direction == "unknown" else operation.direction
    parts: list[str] = [direction]
    if isinstance(operation.args, str) and operation.args:
        first_argument = operation.args.partition("<br>")[0]
        parts.insert(0, name_label(first_argument, _DETAIL_WIDTH))
    if words := fused_words(operation):
        parts.append(name_label(words, _DETAIL_WIDTH))
    return " · ".join(parts)


def identity_cells(entry: Entry) -> tuple[str | None, ...]:
    """Return the cells that tell an operation in the data of a figure, in full: the first six columns."""
    operation = entry.operation
    return (
        entry.one_line,
        operation.name,
        operation.args if isinstance(operation.args, str) else None,
        operation.variant,
        operation.direction,
        entry.category,
    )


def upper_bound_cells(entry: Entry) -> tuple[str | None, ...]:
    """Return whether the time is an upper bound and all that is fused: the cells of ``UPPER_BOUND_HEADER``.

    They are empty where the input doesn't tell.
    """
    operation = entry.operation
    if operation.found_by is UNSET:
        return None, None
    return "yes" if operation.is_upper_bound else "no", "; ".join(operation.fused_with) or None


def upper_bound_note(entries: Iterable[Entry]) -> str:
    """Return what the mark of an upper bound means, empty where no entry has one."""
    words = drawable(upper_bound_words(*(entry.operation for entry in entries), named=NAMED_IN_NOTE))
    return f"{MARK} {words}; the data name all." if words else ""


def upper_bound_sum(entries: Iterable[Entry]) -> str:
    """Return how much of the whole time is an upper bound, as a sentence; empty where none is."""
    words = sum_words(entry.operation for entry in entries)
    return f"In the normalization time: {words}." if words else ""


def why_above(anomalies: Sequence[Entry]) -> str:
    """Return why operations are above the roofline: no error where their bytes fit the last-level cache."""
    cached = sum(is_cache_resident(entry.operation) for entry in anomalies)
    if not cached:
        return "a fault of peak or byte count, not a success"
    if cached == len(anomalies):
        return "no error, the bytes of a call fit the last-level cache"
    return f"a fault of peak or byte count, but for {cached:,} with bytes that fit the last-level cache"


def on_log_axis(value: float | None) -> float | None:
    """Return a value that a logarithmic axis can show, or ``None`` for none, for 0 and for the absurd."""
    return value if value is not None and _LEAST_ON_AXIS <= value <= _MOST_ON_AXIS else None


def total_ms(entries: Sequence[Entry]) -> float:
    """Return the summed kernel time in ms."""
    return sum(entry.weight_ms for entry in entries)


def end_to_end_ms(reports: Sequence[CategoryMetrics]) -> float | None:
    """Return the end-to-end time the shares refer to, in ms, or ``None`` where it isn't known."""
    known = [r.hardware.end_to_end_ms for r in reports if r.hardware.end_to_end_ms]
    return known[0] if known and known[0] > 0 else None


def is_comparative(reports: Sequence[CategoryMetrics]) -> bool:
    """Tell whether the efficiencies compare two traces."""
    return any(report.comparison_scope == "comparative" for report in reports)
