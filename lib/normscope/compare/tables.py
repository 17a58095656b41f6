"""Ops tables for a side that has none: made of its metrics, or of the groups of a baseline."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET

from normscope.analysis import columns as c
from normscope.analysis.call_stack import MODULE_PREFIX
from normscope.analysis.efficiency import BOUND_TYPES
from normscope.analysis.models import CategoryMetrics, Operation
from normscope.analysis.traced import BETWEEN
from normscope.compare.models import CallGroup, Side
from normscope.compare.pairing import total_us
from normscope.compare.sides import BETWEEN_MODULES, Place, kernels_in
from normscope.compare.statistics import Sample, pooled

Cells = dict[str, object]
Table = tuple[list[str], list[list[object]]]
"""A header, and the cells of each row."""

_BYTES_PER_MIB = 1024.0 * 1024.0
_BOUND_COLUMN = {bound: column for column, bound in BOUND_TYPES.items()}
_ARGUMENT = re.compile(r"\(([0-9,]*)\) ?(.*)", re.DOTALL)


def tables_of_metrics(
    metrics: Sequence[CategoryMetrics], times_us: Mapping[Place, float]
) -> dict[str, Table]:
    """Return the ops table that each category's metrics could have come from, in the metrics' order.

    Parameters
    ----------
    metrics
        The categories; their times are rounded.
    times_us
        The kernel time of each operation whose calls are known.
    """
    return {
        m.category: _table(
            [
                _operation_cells(op, times_us.get((m.category, place), op.time_ms * 1e3))
                for place, op in enumerate(m.operations)
            ]
        )
        for m in metrics
    }


def metadata_of_metrics(metrics: CategoryMetrics) -> dict[str, Any]:
    """Return the metadata that the metrics tell."""
    hardware = metrics.hardware
    return {
        "platform": hardware.platform,
        "peak_hbm_bw_tbs": hardware.peak_hbm_bw_tbs,
        "max_achievable_tflops": hardware.peak_tflops,
        "memory_gb": hardware.memory_gb,
        "gpu_utilization": {
            "total_time_ms": hardware.end_to_end_ms,
            "idle_time_percent": hardware.idle_time_percent,
        },
    }


def metadata_of_baseline(side: Side) -> dict[str, Any]:
    """Return the metadata that a baseline tells."""
    return {
        "platform": side.gpu,
        "peak_hbm_bw_tbs": side.peak_bandwidth_tbs,
        "gpu_utilization": {"total_time_ms": side.end_to_end_ms},
    }


def tables_of_baseline(side: Side) -> tuple[dict[str, Table], tuple[Place, ...]]:
    """Return an ops table by category with one row an op and its arguments, and the row of each group."""
    rows: dict[str, dict[object, list[int]]] = {}
    for place, group in enumerate(side.groups):
        alike = (group.name, group.variant, group.kind, group.arguments, group.library, group.kernels)
        rows.setdefault(_category(group), {}).setdefault(alike, []).append(place)
    places: list[Place] = [("", 0)] * len(side.groups)
    tables = {}
    for category, found in rows.items():
        ordered = sorted(found.values(), key=lambda members: -total_us(side.groups[i] for i in members))
        for row, members in enumerate(ordered):
            for place in members:
                places[place] = category, row
        tables[category] = _table([_baseline_cells([side.groups[i] for i in m]) for m in ordered])
    return tables, tuple(places)


def _category(group: CallGroup) -> str:
    return "norm_bwd" if group.direction == "backward" else "norm_fwd"


def _table(rows: Sequence[Cells]) -> Table:
    header = list(rows[0]) if rows else [c.NAME]
    return header, [[row[column] for column in header] for row in rows]


def _operation_cells(op: Operation, time_us: float) -> Cells:
    efficiency, kernels = op.efficiency, kernels_in(op.kernel_name)
    return {
        c.NAME: op.name,
        c.COUNT: op.count,
        c.OPERATION_COUNT: op.count,
        c.INPUT_DIMS: _known(op.input_dims),
        c.INPUT_TYPE: _known(op.input_type),
        c.DATA_MOVED: _mib(op.bytes_moved_per_call),
        c.FLOPS_PER_BYTE: efficiency.flops_per_byte,
        c.COMPUTE_SPEC: efficiency.compute_spec,
        c.ROOFLINE_BOUND: _BOUND_COLUMN.get(efficiency.bound_type or ""),
        c.TB_S: efficiency.tb_s_achieved,
        c.TFLOPS: efficiency.tflops_achieved,
        c.PCT_ROOFLINE: efficiency.efficiency_percent,
        c.TIME_SUM: time_us,
        c.TIME_MEAN: op.kernel_time_mean_us,
        c.TIME_STD: op.kernel_time_std_us,
        c.KERNEL_DETAILS: _details(kernels),
        c.CALL_STACK: _stack(op.module_chain, kernels),
        c.ENTRY_POINT: op.launcher_path,
        c.VARIANT: op.variant,
        c.FOUND_BY: _known(op.found_by),
        c.EVIDENCE: _known(op.evidence),
        c.FUSED_WITH: BETWEEN.join(op.fused_with),
        c.UPPER_BOUND: op.is_upper_bound,
        c.REPLAYED: op.is_replayed,
        c.DATA_LAUNCHED: _mib(op.bytes_launched_per_call),
    }


def _baseline_cells(groups: Sequence[CallGroup]) -> Cells:
    first = groups[0]
    dims, types = _dims_and_types(first.arguments)
    spread = pooled([Sample(count=g.count, mean_us=g.mean_us, std_us=g.std_us) for g in groups])
    modules = first.module.split(BETWEEN_MODULES) if first.module else []
    return {
        c.NAME: first.name,
        c.COUNT: spread.count,
        c.OPERATION_COUNT: spread.count,
        c.INPUT_DIMS: dims,
        c.INPUT_TYPE: types,
        c.DATA_MOVED: _mib(first.bytes_moved_per_call),
        c.PCT_ROOFLINE: first.efficiency_percent,
        c.TIME_SUM: total_us(groups),
        c.TIME_MEAN: spread.mean_us,
        c.TIME_STD: spread.std_us,
        c.KERNEL_DETAILS: _details(first.kernels),
        c.CALL_STACK: _stack(modules, first.kernels),
        c.VARIANT: first.variant,
        c.FOUND_BY: first.found_by,
    }


def _details(kernels: Sequence[str]) -> str:
    return repr([{"name": name} for name in kernels])


def _stack(modules: Sequence[str], kernels: Sequence[str]) -> str:
    frames: list[object] = [f"{MODULE_PREFIX}{module}" for module in modules]
    return repr([*frames, *(kernels if len(kernels) == 1 else [[name] for name in kernels])])


def _dims_and_types(arguments: str | None) -> tuple[str | None, str | None]:
    """Return shapes and types as literals, from the text that the metrics make of them."""
    if arguments is None:
        return None, None
    found = [match.groups() for part in arguments.split("<br>") if (match := _ARGUMENT.fullmatch(part))]
    dims = tuple(tuple(int(size) for size in sizes.split(",") if size) for sizes, _ in found)
    return repr(dims), repr(tuple(dtype for _, dtype in found))


def _mib(size_bytes: float | None) -> float | None:
    return None if size_bytes is None else size_bytes / _BYTES_PER_MIB


def _known(value: object) -> object:
    return None if value is UNSET else value
