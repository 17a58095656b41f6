"""What a run directory made from a trace holds besides the tables: the summary, and every call."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from normscope.analysis.call_times import CallTimes
from normscope.analysis.models import CategoryMetrics, Metrics
from normscope.errors import InputError
from normscope.inputs.ops_table import long_fields
from normscope.inputs.versions import read_versioned
from normscope.tracerun.coverage import COVERAGE_FILE
from normscope.tracerun.summary import SUMMARY_FILE, TraceSummary
from normscope.tracerun.write import CALL_COLUMNS, CALLS_FILE

_TIME_TOLERANCE_MS = 0.00051  # the metrics round to the microsecond
_OVERRUN = "Overrun (µs)_sum"
_FILES = (COVERAGE_FILE, SUMMARY_FILE, CALLS_FILE)
_REMEDY = "write the run directory again with `normscope analyze TRACE`"


class TraceData(msgspec.Struct, frozen=True, kw_only=True):
    """A trace's summary, its calls by signature, and the files as they are, by name.

    ``unmatched`` counts the signatures of the calls file that fit no operation of the metrics.
    ``overrun_us`` is the part of the normalization time by which kernels claim to run past the start of the
    next one on their stream.
    """

    summary: TraceSummary
    calls: tuple[CallTimes, ...]
    unmatched: int
    overrun_us: float
    files: Mapping[str, bytes]


def read_trace_data(run_dir: Path, metrics: Sequence[Metrics]) -> TraceData | None:
    """Return what only the trace told, or None where the run directory was not made from a trace by us.

    Raises
    ------
    InputError
        One of the files can't be read, or is of a version that can't be.
    """
    found = read_trace_files(run_dir, metrics)
    if found is None:
        return None
    tables = (
        run_dir / "category_data" / f"{m.category}_ops.csv" for m in metrics if isinstance(m, CategoryMetrics)
    )
    return msgspec.structs.replace(found, overrun_us=sum(map(_overrun_us, tables)))


def read_trace_files(run_dir: Path, metrics: Sequence[Metrics]) -> TraceData | None:
    """Return the same without the overrun, which only the ops tables tell: a report doesn't hold them.

    Raises
    ------
    InputError
        One of the files can't be read, or is of a version that can't be.
    """
    data = run_dir / "category_data"
    if not (data / SUMMARY_FILE).is_file():
        return None
    files = {name: _bytes_of(data / name) for name in _FILES if (data / name).is_file()}
    where = f"category_data/{SUMMARY_FILE}"
    summary = read_versioned(files[SUMMARY_FILE], TraceSummary, what="summary of a trace", where=where)
    analyzed = {m.category: m for m in metrics if isinstance(m, CategoryMetrics)}
    found = [c for c in _calls(files.get(CALLS_FILE, b"")) if c.category in analyzed]
    # The ops table is written by time, longest first, and the metrics keep that order; a table that was
    # changed since would put calls to the wrong operation, so the two have to agree.
    fitting = tuple(c for c in found if _fits(c, analyzed[c.category]))
    return TraceData(
        summary=summary,
        calls=fitting,
        unmatched=len(found) - len(fitting),
        overrun_us=0.0,
        files=files,
    )


def _overrun_us(ops_table: Path) -> float:
    """Return the sum of a column of ours; tables without it tell of no overrun."""
    try:
        with long_fields(), ops_table.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            return sum(float(row.get(_OVERRUN) or 0) for row in csv.DictReader(file))
    except (OSError, ValueError, csv.Error) as error:
        message = f"category_data/{ops_table.name} has no readable {_OVERRUN} ({error}); {_REMEDY}"
        raise InputError(message) from None


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        message = f"category_data/{path.name} can't be read ({error.strerror}); check its permissions"
        raise InputError(message) from None


def _calls(table: bytes) -> Iterator[CallTimes]:
    try:
        header, groups = _rows_by_signature(table.decode())
        for key, rows in groups.items():
            yield _call_times(*key, dict(zip(header, zip(*rows, strict=True), strict=True)))
    except (ValueError, KeyError, IndexError, csv.Error) as error:
        message = f"category_data/{CALLS_FILE} is not a table of calls ({error}); {_REMEDY}"
        raise InputError(message) from None


def _rows_by_signature(table: str) -> tuple[list[str], dict[tuple[str, int], list[list[str]]]]:
    groups: dict[tuple[str, int], list[list[str]]] = {}
    with long_fields():
        reader = csv.reader(io.StringIO(table, newline=""))
        header = next(reader, list(CALL_COLUMNS))
        category, row = header.index("category"), header.index("row")
        for cells in reader:
            groups.setdefault((cells[category], int(cells[row])), []).append(cells)
    return header, groups


def _call_times(category: str, row: int, columns: Mapping[str, tuple[str, ...]]) -> CallTimes:
    return CallTimes(
        category=category,
        operation_index=row,
        kernel_us=tuple(map(float, columns["kernel_time_us"])),
        norm_us=tuple(map(float, columns["norm_kernel_time_us"])),
        helper_us=tuple(map(float, columns["helper_kernel_time_us"])),
        is_recomputed=tuple(cell == "True" for cell in columns["is_recomputed"]),
        steps=columns["step"],
        modules=columns["module"],
        starts_us=tuple(map(float, columns.get("op_start_us", ()))),
    )


def _fits(calls: CallTimes, metrics: CategoryMetrics) -> bool:
    if not 0 <= calls.operation_index < len(metrics.operations):
        return False
    operation = metrics.operations[calls.operation_index]
    gap_ms = abs(sum(calls.kernel_us) / 1e3 - operation.time_ms)
    return operation.count == len(calls.kernel_us) and gap_ms <= _TIME_TOLERANCE_MS
