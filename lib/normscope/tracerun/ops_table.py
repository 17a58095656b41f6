"""The ops table of a category, with TraceLens' columns and units, and a few of our own at the end."""

import csv
import io
from collections.abc import Sequence

from normscope.hardware.registry import Peaks
from normscope.norms.kernel_calls import NO_LIBRARY
from normscope.trace.events import GpuEvent
from normscope.trace.link import LinkedTrace
from normscope.trace.nesting import NONE
from normscope.tracerun.limits import Limits, TracedDevice, limits
from normscope.tracerun.signatures import Signature, Spread, rates, roofline, spread

_BYTES_PER_MIB = 1024.0 * 1024.0
_PER_TERA = 1e6
"""Bytes per µs in one TB/s; also FLOPs per µs in one TFLOP/s."""
_SHORT_NAME = 75
_OP_CATEGORY = {"norm_fwd": "NORM_fwd", "norm_bwd": "NORM_bwd"}
_SUFFIXES = {"mean": "mean", "std": "std", "median": "median", "min": "least", "max": "most"}

Cells = dict[str, object]


def ops_table(
    linked: LinkedTrace, rows: Sequence[Signature], peaks: Peaks | None, device: TracedDevice
) -> bytes:
    """Return the CSV of ``rows``, all of one category: UTF-8, one row a signature, longest first.

    A cell that isn't known is empty. Times are in µs, data moved in MiB per call.
    """
    total_us = sum(row.kernel_us for row in rows)
    cumulative = 0.0
    table: list[Cells] = []
    for row in rows:
        share = 100.0 * row.kernel_us / total_us if total_us else 0.0
        cumulative += share
        table.append(
            {
                **_call_cells(row),
                **_rate_cells(row, peaks),
                **_kernel_cells(linked, row),
                "Percentage (%)": share,
                "Cumulative Percentage (%)": cumulative,
                "enhanced_category": row.category,
                "display_name": _OP_CATEGORY[row.category],
                **_own_cells(linked, row),
                **_limit_cells(limits(linked.trace.gpu_events, row, device)),
            }
        )
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(table[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return text.getvalue().encode("utf-8", "replace")


def _call_cells(row: Signature) -> Cells:
    process, thread = row.thread
    dims, types, strides, concrete = row.inputs
    times_us = [call.host_us for call in row.calls if call.host_us is not None]
    host_us = spread(times_us) if times_us else None
    return {
        "name": row.name,
        "op category": _OP_CATEGORY[row.category],
        "process_name": str(process),
        "process_label": "GPU" if host_us is None else "CPU",
        "thread_name": f"thread {thread}",
        "Input Dims": dims,
        "Input type": types,
        "Input Strides": strides,
        "Concrete Inputs": concrete,
        "ex_UID": None if row.first.op == NONE else row.first.op,
        "operation_count": len(row.calls),
        "total_duration_us": host_us and host_us.total,
        "mean_duration_us": host_us and host_us.mean,
        "std_duration_us": host_us and host_us.std,
        "duration_us_median": host_us and host_us.median,
        "duration_us_min": host_us and host_us.least,
        "duration_us_max": host_us and host_us.most,
    }


def _rate_cells(row: Signature, peaks: Peaks | None) -> Cells:
    cost = row.first.cost
    moved, flops = cost.bytes_moved, cost.flops
    roof = roofline(row.first, peaks)
    kernel_us = spread([call.kernel_us for call in row.calls])
    percent = rates(row, 100.0 * roof.time_us if roof else None)
    return {
        "GFLOPS": None if flops is None else flops / 1e9,
        "Data Moved (MB)": _mib(moved),
        "FLOPS/Byte": cost.flops_per_byte,
        "Compute Spec": cost.compute_spec,
        "Roofline Bound": roof.bound if roof else None,
        **_spread_cells("TB/s", rates(row, None if moved is None else moved / _PER_TERA)),
        **_spread_cells("TFLOPS/s", rates(row, None if flops is None else flops / _PER_TERA)),
        **_spread_cells("Kernel Time (µs)", kernel_us),
        "Kernel Time (µs)_sum": kernel_us.total,
        "Roofline Time (µs)_first": roof.time_us if roof else None,
        **_spread_cells("Pct Roofline", percent),
    }


def _spread_cells(column: str, values: Spread | None) -> Cells:
    return {f"{column}_{suffix}": getattr(values, field, None) for suffix, field in _SUFFIXES.items()}


def _kernel_cells(linked: LinkedTrace, row: Signature) -> Cells:
    kernels = _kernel_details(linked.trace.gpu_events, row)
    short = [
        {
            "name": f"{name[:_SHORT_NAME]}..." if len(name := str(kernel["name"])) > _SHORT_NAME else name,
            "stream": kernel["stream"],
            "mean_duration_us": kernel["mean_duration_us"],
        }
        for kernel in kernels
    ]
    names = [str(kernel["name"]) for kernel in kernels]
    frames = [*(f"nn.Module: {bare_module(name)}" for name in row.modules[0]), *row.first.op_chain]
    return {
        "kernel_details_summary": repr(kernels),
        "trunc_kernel_details": repr(short),
        "perf_params": repr(_model_facts(row)),
        "has_perf_model": row.first.cost.bytes_moved is not None,
        "entry_point": "Not found",
        "call_stack_full": repr([*frames, *(names if len(names) == 1 else [[name] for name in names])]),
    }


def bare_module(module: str) -> str:
    """Return the name of a module without what the profiler puts in front: ``LayerNorm_0``."""
    return module.removeprefix("nn.Module:").strip()


def _model_facts(row: Signature) -> Cells:
    cost = row.first.cost
    return {
        "op_shape": cost.x_shape,
        "dtype": cost.dtype,
        "is_affine": cost.has_weight,
        "has_bias": cost.has_bias,
        "is_training": cost.training,
        "output_mask": cost.output_mask,
    }


def _kernel_details(events: Sequence[GpuEvent], row: Signature) -> list[Cells]:
    """Return the kernels of the first call, each with its times over all calls with the same ones."""
    places = [sorted((*call.norm_events, *call.helper_events)) for call in row.calls]
    names = [events[i].name for i in places[0]]
    alike = [each for each in places if [events[i].name for i in each] == names]
    details: list[Cells] = []
    for number, name in enumerate(names):
        times_us = spread([events[each[number]].dur_us for each in alike])
        details.append(
            {
                "name": name,
                "stream": events[places[0][number]].stream,
                "count": len(alike),
                "total_duration_us": times_us.total,
                "mean_duration_us": times_us.mean,
                "median_duration_us": times_us.median,
                "min_duration_us": times_us.least,
                "max_duration_us": times_us.most,
            }
        )
    return details


def _own_cells(linked: LinkedTrace, row: Signature) -> Cells:
    """Return the columns that TraceLens lacks: the norm's own kernels apart from casts and copies."""
    events = linked.trace.gpu_events
    norm_us = spread([call.norm_us for call in row.calls])
    moved = row.first.cost.bytes_moved
    bandwidth = rates(row, None if moved is None else moved / _PER_TERA, norm_only=True)
    paths = dict.fromkeys(" > ".join(map(bare_module, path)) for path in row.modules if path)
    return {
        "Norm Kernel Time (µs)_sum": norm_us.total,
        "Norm Kernel Time (µs)_mean": norm_us.mean,
        "Helper Kernel Time (µs)_sum": sum(call.helper_us for call in row.calls),
        "Norm Kernel TB/s_mean": bandwidth.mean if bandwidth else None,
        "Overrun (µs)_sum": sum(_overrun_us(events[i]) for call in row.calls for i in call.norm_events),
        "recomputed_calls": sum(call.is_recomputed for call in row.calls),
        "module_paths": " | ".join(paths),
        "bytes_not_known_because": row.first.cost.missing_reason,
        "norm_variant": row.first.variant,
        "norm_library": None if row.first.row.library == NO_LIBRARY else row.first.row.library,
        "found_by": row.first.found_by,
        "catalog_row": row.first.row.id,
        "evidence": row.first.row.evidence,
        "fused_with": " | ".join(row.first.fuses),
        "is_upper_bound": row.first.is_upper_bound,
        "Data Launched (MB)": _mib(row.first.launched_bytes),
        "is_replayed": any(linked.how[i] == "graph" for i in row.first.norm_events),
        "shapes_from": " | ".join(dict.fromkeys(call.shapes_from for call in row.calls if call.shapes_from)),
    }


def _limit_cells(found: Limits) -> Cells:
    return {
        "limits": " | ".join(found.bounds),
        "main_kernel": found.main_kernel,
        "main_kernel_percent": found.main_kernel_percent,
        "workgroups": found.workgroups,
        "workgroup_threads": found.workgroup_threads,
        "multiprocessors": found.multiprocessors,
        "At Peak (µs)": found.at_peak_us,
        "Shortest Kernels (µs)": found.shortest_kernel_us,
        "last_level_cache_bytes": found.last_level_cache_bytes,
        "attainable_percent": found.attainable_percent,
    }


def _mib(size_bytes: float | None) -> float | None:
    return None if size_bytes is None else size_bytes / _BYTES_PER_MIB


def _overrun_us(event: GpuEvent) -> float:
    """Return by how much an event claims to outlast the start of the next one on its stream, if it does."""
    return 0.0 if event.clipped_dur_us is None else event.dur_us - event.clipped_dur_us
