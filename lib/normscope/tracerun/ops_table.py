"""The ops table of a category, with TraceLens' columns and units, and a few of our own at the end."""

import csv
import io
from collections.abc import Sequence

from normscope.hardware.registry import Peaks
from normscope.trace.events import CpuOp, GpuEvent
from normscope.trace.link import LinkedTrace
from normscope.tracerun.signatures import Signature, Spread, rates, roofline, spread

_BYTES_PER_MIB = 1024.0 * 1024.0
_TRUNCATED_NAME = 75
_OP_CATEGORY = {"norm_fwd": "NORM_fwd", "norm_bwd": "NORM_bwd"}

Cells = dict[str, object]


def ops_table(linked: LinkedTrace, rows: Sequence[Signature], peaks: Peaks | None) -> bytes:
    """Return the CSV of ``rows``, all of one category: UTF-8, one row a signature, longest first.

    A cell that isn't known is empty. Times are in µs, data moved in MiB per call.
    """
    total_us = sum(call.kernel_us for row in rows for call in row.calls)
    cumulative = 0.0
    table: list[Cells] = []
    for row in rows:
        share = 100.0 * sum(call.kernel_us for call in row.calls) / total_us if total_us else 0.0
        cumulative += share
        table.append(_cells(linked, row, peaks) | _share_cells(row, share, cumulative))
    text = io.StringIO(newline="")
    writer = csv.DictWriter(
        text, list(dict.fromkeys(c for cells in table for c in cells)), lineterminator="\n"
    )
    writer.writeheader()
    writer.writerows(table)
    return text.getvalue().encode("utf-8", "replace")


def _cells(linked: LinkedTrace, row: Signature, peaks: Peaks | None) -> Cells:
    cost, first = row.first.cost, row.first
    moved, flops = cost.bytes_moved, cost.flops
    roof = roofline(first, peaks)
    kernel_us = spread([call.kernel_us for call in row.calls])
    return {
        "name": row.name,
        "op category": _OP_CATEGORY[row.category],
        "process_name": str(row.thread[0]),
        "thread_name": f"thread {row.thread[1]}",
        "Input Dims": _literal(row.args.dims),
        "Input type": _literal(row.args.types),
        "Input Strides": _literal(row.args.strides),
        "Concrete Inputs": _literal(row.args.concrete),
        "operation_count": len(row.calls),
        **_host_cells(linked.trace.cpu_ops, row),
        "GFLOPS": None if flops is None else flops / 1e9,
        "Data Moved (MB)": None if moved is None else moved / _BYTES_PER_MIB,
        "FLOPS/Byte": cost.flops_per_byte,
        "Compute Spec": cost.compute_spec,
        "Roofline Bound": roof.bound if roof else None,
        **_spread_cells("TB/s", _known_spread([rate / 1e6 for rate in rates(row.calls, moved)])),
        **_spread_cells("TFLOPS/s", _known_spread([rate / 1e6 for rate in rates(row.calls, flops)])),
        **_spread_cells("Kernel Time (µs)", kernel_us),
        "Kernel Time (µs)_sum": kernel_us.total,
        "Roofline Time (µs)_first": roof.time_us if roof else None,
        **_spread_cells("Pct Roofline", _percent_of_roofline(row, roof.time_us if roof else None)),
        "kernel_details_summary": repr(_kernel_details(linked.trace.gpu_events, row)),
        "has_perf_model": moved is not None,
        "entry_point": "Not found",
        "call_stack_full": repr(_call_stack(linked, row)),
        **_own_cells(row),
    }


def _host_cells(ops: Sequence[CpuOp], row: Signature) -> Cells:
    durations = spread([ops[call.op].dur_us for call in row.calls])
    return {
        "total_duration_us": durations.total,
        "mean_duration_us": durations.mean,
        "std_duration_us": durations.std,
        "duration_us_median": durations.median,
        "duration_us_min": durations.least,
        "duration_us_max": durations.most,
    }


def _spread_cells(column: str, values: Spread | None) -> Cells:
    return {
        f"{column}_{suffix}": None if values is None else getattr(values, field)
        for suffix, field in (
            *(("mean", "mean"), ("std", "std"), ("median", "median")),
            *(("min", "least"), ("max", "most")),
        )
    }


def _known_spread(values: list[float]) -> Spread | None:
    return spread(values) if values else None


def _percent_of_roofline(row: Signature, roofline_us: float | None) -> Spread | None:
    return _known_spread([100.0 * rate for rate in rates(row.calls, roofline_us)])


def _own_cells(row: Signature) -> Cells:
    """Return the columns that TraceLens lacks: the norm's own kernels apart from casts and copies."""
    norm_us = spread([call.norm_us for call in row.calls])
    bandwidth = _known_spread(
        [rate / 1e6 for rate in rates(row.calls, row.first.cost.bytes_moved, norm_only=True)]
    )
    return {
        "Norm Kernel Time (µs)_sum": norm_us.total,
        "Norm Kernel Time (µs)_mean": norm_us.mean,
        "Helper Kernel Time (µs)_sum": sum(call.helper_us for call in row.calls),
        "Norm Kernel TB/s_mean": bandwidth.mean if bandwidth else None,
        "module_paths": " | ".join(dict.fromkeys(" > ".join(path) for path in row.modules if path)),
        "bytes_not_known_because": row.first.cost.missing_reason,
    }


def _share_cells(row: Signature, share: float, cumulative: float) -> Cells:
    return {
        "Percentage (%)": share,
        "Cumulative Percentage (%)": cumulative,
        "enhanced_category": row.category,
        "display_name": _OP_CATEGORY[row.category],
    }


def _kernel_details(events: Sequence[GpuEvent], row: Signature) -> list[dict[str, object]]:
    """Return the kernels of the first call, each with its mean time over the calls that launched the same."""
    names = [events[i].name for i in _events_of(row, 0)]
    alike = [
        places
        for places in (_events_of(row, n) for n in range(len(row.calls)))
        if [events[i].name for i in places] == names
    ]
    return [
        {
            "name": name,
            "stream": events[alike[0][place]].stream,
            "count": len(alike),
            "mean_duration_us": sum(events[places[place]].dur_us for places in alike) / len(alike),
        }
        for place, name in enumerate(names)
    ]


def _events_of(row: Signature, call: int) -> list[int]:
    return sorted((*row.calls[call].norm_events, *row.calls[call].helper_events))


def _call_stack(linked: LinkedTrace, row: Signature) -> list[object]:
    kernels = [linked.trace.gpu_events[i].name for i in _events_of(row, 0)]
    frames = [*(f"nn.Module: {name}" for name in row.modules[0]), *row.first.op_chain]
    return [*frames, *(kernels if len(kernels) == 1 else [[name] for name in kernels])]


def _literal(value: object) -> str | None:
    """Return recorded arguments as the Python literal that TraceLens writes: tuples all the way down."""
    return None if value is None else repr(_as_tuples(value))


def _as_tuples(value: object) -> object:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value
