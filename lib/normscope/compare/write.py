"""The run directory of a comparison: side 1's, with TraceLens' columns for what side 2 takes."""

import csv
import io
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import msgspec

from normscope.analysis import columns as c
from normscope.analysis.operations import order_by_time
from normscope.compare.models import COMPARISON_FILE, CallGroup, Comparison, Pair
from normscope.compare.pairing import total_us
from normscope.compare.sides import Place, SideSource
from normscope.compare.tables import (
    Table,
    metadata_of_baseline,
    metadata_of_metrics,
    tables_of_baseline,
    tables_of_metrics,
)
from normscope.errors import ExportError, InputError
from normscope.files import write_atomically
from normscope.inputs.ops_table import long_fields, read_ops_table
from normscope.inputs.rundir import NORM_ANALYZER, category_paths, find_categories
from normscope.tracerun.coverage import COVERAGE_FILE
from normscope.tracerun.signatures import CATEGORIES
from normscope.tracerun.summary import SUMMARY_FILE
from normscope.tracerun.write import CALLS_FILE, json_text, remove_older

_LCA_ID = "lca_id"
_LCA_NAME = "lca_name"
_TIME_TRACE1 = "lca_total_kernel_time_trace1_us"
ADDED_COLUMNS = (c.SPEEDUP, c.DELTA, c.COUNT_TRACE2, _LCA_ID, _LCA_NAME, _TIME_TRACE1, c.TIME_TRACE2)
_MANIFEST = "category_manifest.json"
_FUSION = "kernel_fusion_metrics.json"
_OF_SIDE_1 = (CALLS_FILE, COVERAGE_FILE, SUMMARY_FILE, _FUSION)
_BETWEEN = "; "

Cells = dict[str, object]


class _Share(msgspec.Struct, frozen=True):
    """What a row takes of a pair: its own part of side 1, and what stands against that on side 2."""

    pair: int
    time1_us: float
    time2_us: float
    count2: int


def write_comparison(source: SideSource, comparison: Comparison, folder: Path) -> tuple[str, ...]:
    """Write a comparison as a run directory of the comparative scope.

    Parameters
    ----------
    source
        Side 1: the tables are its own, or made of its metrics or groups.
    comparison
        Side 1 against side 2.
    folder
        The run directory; that of side 1 itself is added to.

    Returns
    -------
    tuple of str
        The categories that were written.

    Raises
    ------
    InputError
        A file of side 1 can't be read.
    ExportError
        The run directory can't be written.
    """
    tables, places = _tables(source)
    shares = _shares(comparison, places)
    normalized = {"comparison_normalized": comparison.normalized, "comparison_steps": comparison.first.steps}
    for category, (header, rows) in tables.items():
        cells = [_added_cells(comparison, shares.get((category, row), ())) for row in range(len(rows))]
        paths = category_paths(folder, category)
        write_atomically(paths.ops_csv, _csv(header, rows, cells))
        write_atomically(paths.metadata_json, json_text(_metadata(source, category) | normalized))
    _copy_rest(source, folder)
    write_atomically(folder / "category_data" / _MANIFEST, json_text(_manifest(source, tables)))
    for category in {*CATEGORIES.values(), *find_categories(folder)}.difference(tables):
        remove_older(category_paths(folder, category))
    data = msgspec.json.encode(comparison) + b"\n"
    write_atomically(folder / "category_data" / COMPARISON_FILE, data)
    return tuple(tables)


def _tables(source: SideSource) -> tuple[dict[str, Table], tuple[Place, ...]]:
    """Return the ops tables of side 1, and the row of each of its groups."""
    if not source.metrics:
        return tables_of_baseline(source.side)
    if source.run_dir is None or source.side.kind == "results":
        return tables_of_metrics(source.metrics, _times_us(source)), source.places
    tables, rows = {}, {}
    for metrics in source.metrics:
        path = category_paths(source.run_dir, metrics.category).ops_csv
        tables[metrics.category] = _read_table(path)
        rows[metrics.category] = order_by_time(read_ops_table(path, c.WANTED_COLUMNS).numbers(c.TIME_SUM))
    return tables, tuple((category, rows[category][index]) for category, index in source.places)


def _times_us(source: SideSource) -> Mapping[Place, float]:
    """Return the kernel time of each operation that has groups, which unlike its metrics isn't rounded."""
    members: dict[Place, list[CallGroup]] = {}
    for place, group in zip(source.places, source.side.groups, strict=True):
        members.setdefault(place, []).append(group)
    return {place: total_us(groups) for place, groups in members.items()}


def _read_table(path: Path) -> Table:
    """Return a table as it is, without the columns of an earlier comparison."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        message = f"{path.name}: can't be read ({error}); check its permissions"
        raise InputError(message) from None
    with long_fields():
        rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    header = rows.pop(0) if rows else [c.NAME]
    kept = [place for place, name in enumerate(header) if name.strip() not in ADDED_COLUMNS]
    return [header[i] for i in kept], [[row[i] for i in kept] for row in rows]


def _shares(comparison: Comparison, places: Sequence[Place]) -> Mapping[Place, list[_Share]]:
    """Return, for each row of side 1, what it takes of each pair."""
    shares: dict[Place, list[_Share]] = {}
    for number, pair in enumerate(comparison.pairs):
        rows: dict[Place, list[int]] = {}
        for group in pair.first:
            rows.setdefault(places[group], []).append(group)
        for place, share in zip(rows, _divided(comparison, number, list(rows.values())), strict=True):
            shares.setdefault(place, []).append(share)
    return shares


def _divided(comparison: Comparison, number: int, rows: Sequence[Sequence[int]]) -> list[_Share]:
    """Return the parts of a pair that its rows take: their partners', or as their calls are."""
    pair, groups = comparison.pairs[number], comparison.first.groups
    divide = _by_partner if len(pair.first) == len(pair.second) else _by_calls
    parts, counts2 = divide(comparison, pair, rows, _scale(comparison, pair))
    return [
        _Share(number, total_us(groups[i] for i in row), part * pair.time2_us, count2)
        for row, part, count2 in zip(rows, parts, counts2, strict=True)
    ]


def _scale(comparison: Comparison, pair: Pair) -> float:
    """Return the factor on what side 2 has of a pair, the same for its time and its calls."""
    if comparison.normalized != "per call":
        return comparison.scale
    calls1 = sum(comparison.first.groups[i].count for i in pair.first)
    calls2 = sum(comparison.second.groups[i].count for i in pair.second)
    return calls1 / calls2 if calls1 and calls2 else 1.0


def _by_partner(
    comparison: Comparison, pair: Pair, rows: Sequence[Sequence[int]], scale: float
) -> tuple[list[float], list[int]]:
    partner = dict(zip(pair.first, (comparison.second.groups[i] for i in pair.second), strict=True))
    whole_us = total_us(partner.values())
    times_us = [total_us(partner[i] for i in row) for row in rows]
    parts = [time_us / whole_us if whole_us else 0.0 for time_us in times_us]
    return parts, [_scaled(sum(partner[i].count for i in row), scale) for row in rows]


def _scaled(calls: int, scale: float) -> int:
    """Return whole calls, at least one where there are any."""
    return max(1, round(calls * scale)) if calls else 0


def _by_calls(
    comparison: Comparison, pair: Pair, rows: Sequence[Sequence[int]], scale: float
) -> tuple[list[float], list[int]]:
    """Divide by the calls of side 1; those of side 2 stay whole, and none gets lost."""
    counts1 = [sum(comparison.first.groups[i].count for i in row) for row in rows]
    calls1 = sum(counts1)
    calls2 = _scaled(sum(comparison.second.groups[i].count for i in pair.second), scale)
    parts = [count / calls1 if calls1 else 1 / len(rows) for count in counts1]
    ends = [round(part * calls2) for part in accumulate(parts)]
    return parts, [end - start for start, end in pairwise([0, *ends])]


def _added_cells(comparison: Comparison, shares: Sequence[_Share]) -> Cells:
    """Return the columns that TraceLens adds for a second trace, empty where a row has no partner."""
    if not shares:
        return dict.fromkeys(ADDED_COLUMNS)
    time1_us, time2_us = sum(share.time1_us for share in shares), sum(share.time2_us for share in shares)
    return {
        c.SPEEDUP: time2_us / time1_us if time1_us > 0 else None,
        c.DELTA: time2_us - time1_us,
        c.COUNT_TRACE2: sum(share.count2 for share in shares),
        _LCA_ID: _BETWEEN.join(str(share.pair) for share in shares),
        _LCA_NAME: _BETWEEN.join(_names(comparison, [comparison.pairs[share.pair] for share in shares])),
        _TIME_TRACE1: time1_us,
        c.TIME_TRACE2: time2_us,
    }


def _names(comparison: Comparison, pairs: Sequence[Pair]) -> Sequence[str]:
    """Return the ops of side 2 that a row is held against."""
    groups = comparison.second.groups
    return list(dict.fromkeys(groups[place].name for pair in pairs for place in pair.second))


def _csv(header: Sequence[str], rows: Sequence[Sequence[object]], added: Sequence[Cells]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*header, *ADDED_COLUMNS])
    for row, cells in zip(rows, added, strict=True):
        writer.writerow([*row, *cells.values()])
    return text.getvalue().encode("utf-8", "replace")


def _metadata(source: SideSource, category: str) -> dict[str, Any]:
    common = {"category_name": category, "comparison_scope": "comparative", "output_dir": "."}
    metrics = next((m for m in source.metrics if m.category == category), None)
    if metrics is None:
        return metadata_of_baseline(source.side) | common
    if source.run_dir is None or source.side.kind == "results":
        return metadata_of_metrics(metrics) | common
    return _read_json(category_paths(source.run_dir, category).metadata_json) | common


def _manifest(source: SideSource, tables: Mapping[str, Table]) -> dict[str, Any]:
    known: dict[str, Any] = {}
    if source.run_dir is not None and (path := source.run_dir / "category_data" / _MANIFEST).is_file():
        known = _read_json(path)
    entries = known.get("categories")
    entries = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    described = {str(entry.get("name")): entry for entry in entries}
    return known | {
        "comparison_scope": "comparative",
        "categories": [
            {
                **described.get(category, {}),
                "name": category,
                "skill": NORM_ANALYZER,
                "ops_count": len(rows),
                "csv_file": f"./category_data/{category}_ops.csv",
                "metadata_file": f"./metadata/{category}_metadata.json",
            }
            for category, (_, rows) in tables.items()
        ],
    }


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = f"{path.name}: can't be read ({error}); correct the file or write it again"
        raise InputError(message) from None


def _copy_rest(source: SideSource, folder: Path) -> None:
    """Copy what lies beside the tables of side 1, and remove what an earlier run left in its place."""
    target = folder / "category_data"
    origin = None if source.run_dir is None else source.run_dir / "category_data"
    if origin is not None and origin.resolve() == target.resolve():
        return
    for name in _OF_SIDE_1:
        try:
            data = (origin / name).read_bytes() if origin is not None and (origin / name).is_file() else None
            if data is None:
                (target / name).unlink(missing_ok=True)
        except OSError as error:
            message = f"{name} can't be copied to {folder} ({error.strerror}); check its permissions"
            raise ExportError(message) from None
        if data is not None:
            write_atomically(target / name, data)
