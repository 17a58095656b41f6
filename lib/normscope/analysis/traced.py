"""The keys of an operation that only a run directory made from a trace has columns for."""

from typing import Any, get_args

from msgspec import UNSET, UnsetType

from normscope.analysis.columns import OpColumns
from normscope.analysis.models import Bound, Evidence, FoundBy, Kind, Limits

TracedKeys = dict[str, Any]
"""Keyword arguments of ``Operation``."""

BETWEEN = " | "
_BYTES_PER_MIB = 1024.0 * 1024.0
_NOTHING: TracedKeys = {"kind": "norm"}


def traced_keys(columns: OpColumns) -> list[TracedKeys]:
    """Return the keys of each row; rows of other origin share one set that says nothing."""
    return [
        _NOTHING if found_by is None else _keys(row, columns) for row, found_by in enumerate(columns.found_by)
    ]


def _keys(row: int, columns: OpColumns) -> TracedKeys:
    launched_mib = columns.data_launched_mib[row]
    share = columns.main_kernel_percent[row]
    return {
        "kind": _kind(columns.found_by[row], launched_mib),
        "norm_library": columns.library[row] or UNSET,
        "found_by": _one_of(FoundBy, columns.found_by[row]),
        "evidence": _one_of(Evidence, columns.evidence[row]),
        "fused_with": _split(columns.fused_with[row]),
        "is_upper_bound": columns.is_upper_bound[row] == "True",
        "is_replayed": columns.is_replayed[row] == "True",
        "bytes_launched_per_call": None if launched_mib is None else launched_mib * _BYTES_PER_MIB,
        "shapes_from": columns.shapes_from[row] or UNSET,
        "main_kernel": columns.main_kernel[row] or UNSET,
        "main_kernel_percent": UNSET if share is None else round(share, 2),
        "limits": _limits(row, columns),
    }


def _kind(found_by: str | None, launched_mib: float | None) -> Kind:
    if found_by == "eager" or launched_mib is not None:
        return "unfused"
    return "compiled" if found_by == "compiled" else "norm"


def _limits(row: int, columns: OpColumns) -> Limits:
    workgroups, units = columns.workgroups[row], columns.multiprocessors[row]
    return Limits(
        bounds=tuple(bound for bound in get_args(Bound) if bound in _split(columns.limits[row])),
        workgroups=workgroups,
        workgroup_threads=columns.workgroup_threads[row],
        multiprocessors=units,
        busy_percent=_rounded(min(100.0, 100.0 * workgroups / units) if workgroups and units else None),
        at_peak_us=columns.at_peak_us[row],
        shortest_kernel_us=columns.shortest_kernel_us[row],
        last_level_cache_bytes=columns.last_level_cache_bytes[row],
        attainable_percent=_rounded(columns.attainable_percent[row]),
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def _split(cell: str | None) -> tuple[str, ...]:
    return tuple(cell.split(BETWEEN)) if cell else ()


def _one_of(choices: Any, cell: str | None) -> str | UnsetType:  # noqa: ANN401 - a Literal has no type
    return cell if cell is not None and cell in get_args(choices) else UNSET
