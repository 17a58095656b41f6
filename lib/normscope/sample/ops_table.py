"""Simulated calls as the rows of an ops table, in the columns that TraceLens writes."""

import csv
import io
import math
import statistics
from collections.abc import Sequence
from typing import Any

from normscope.sample.arguments import ARGUMENTS, TRACE_DTYPE, Shape
from normscope.sample.simulate import PER_US, Simulation
from normscope.sample.workload import END_TO_END_MS, GPU_TIME_PERCENT, NormCall

COLUMNS = (
    *("name", "op category", "process_name", "process_label", "thread_name"),
    *("Input Dims", "Input type", "Input Strides", "Concrete Inputs", "ex_UID", "operation_count"),
    *("total_duration_us", "mean_duration_us", "std_duration_us"),
    *("GFLOPS", "Data Moved (MB)", "FLOPS/Byte", "Compute Spec", "Roofline Bound"),
    *("TB/s_mean", "TB/s_std", "TFLOPS/s_mean", "TFLOPS/s_std"),
    *("Kernel Time (µs)_mean", "Kernel Time (µs)_std", "Kernel Time (µs)_sum"),
    *("duration_us_median", "duration_us_min", "duration_us_max"),
    *("TB/s_median", "TB/s_min", "TB/s_max", "TFLOPS/s_median", "TFLOPS/s_min", "TFLOPS/s_max"),
    *("Roofline Time (µs)_first", "Pct Roofline_mean", "Pct Roofline_median", "Pct Roofline_std"),
    *("Pct Roofline_min", "Pct Roofline_max"),
    *("Kernel Time (µs)_median", "Kernel Time (µs)_min", "Kernel Time (µs)_max"),
    *("kernel_details_summary", "trunc_kernel_details", "perf_params", "has_perf_model"),
    *("entry_point", "call_stack_full", "Percentage (%)", "Cumulative Percentage (%)"),
    *("enhanced_category", "display_name"),
)
BYTES_PER_MIB = 2**20
CPU_US_PER_CALL = 10.0
MODULE_CALL = "torch/nn/modules/module.py(1779): _call_impl"

Row = dict[str, Any]


def ops_table(simulations: Sequence[Simulation], direction: str) -> str:
    """Return the text of an ops table, the longest op first.

    Parameters
    ----------
    simulations
        The operations of one category.
    direction
        ``fwd`` or ``bwd``.

    Returns
    -------
    str
        CSV with a header line. A column is empty where the op has no performance model to fill it.
    """
    gpu_us = END_TO_END_MS * 1000 * GPU_TIME_PERCENT["computation_time_percent"] / 100
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    cumulative = 0.0
    for uid, simulation in enumerate(sorted(simulations, key=lambda s: -s.total_us), start=1):
        share = 100 * simulation.total_us / gpu_us
        cumulative += share
        row = _call_columns(simulation, direction) | _time_columns(simulation)
        row |= _model_columns(simulation) if simulation.kind.has_model else {"has_perf_model": False}
        row |= {"ex_UID": uid, "Percentage (%)": share, "Cumulative Percentage (%)": cumulative}
        writer.writerow(row)
    return text.getvalue()


def _call_columns(simulation: Simulation, direction: str) -> Row:
    call, kind = simulation.call, simulation.kind
    arguments = [ARGUMENTS[word] for word in kind.arguments.split()]
    dims = tuple(argument.shape(call.shape) for argument in arguments)
    settings = iter(kind.settings)
    return {
        "name": kind.name,
        "op category": f"NORM_{direction}",
        "process_name": "python",
        "process_label": "CPU",
        "thread_name": "thread 1 (simulated)",
        "Input Dims": repr(dims),
        "Input type": repr(tuple(argument.type_in_trace(call.dtype) for argument in arguments)),
        "Input Strides": repr(tuple(_contiguous_strides(shape) for shape in dims)),
        "Concrete Inputs": repr(
            tuple(_fill(next(settings), call) if argument.trace_type else "" for argument in arguments)
        ),
        "operation_count": call.calls,
        "total_duration_us": CPU_US_PER_CALL * call.calls,
        "mean_duration_us": CPU_US_PER_CALL,
        "std_duration_us": 0.0,
        **{f"duration_us_{name}": CPU_US_PER_CALL for name in ("median", "min", "max")},
        "entry_point": kind.python_frames[-1] if kind.python_frames else "Not found",
        "call_stack_full": repr(_call_stack(simulation)),
        "enhanced_category": f"norm_{direction}",
        "display_name": f"NORM_{direction}",
    }


def _time_columns(simulation: Simulation) -> Row:
    names = _kernel_names(simulation)
    times = simulation.kernel_times_us
    details = [
        {
            "name": name,
            "stream": 0,
            "count": len(times),
            **{f"{key}_duration_us": round(value * kernel.share, 3) for key, value in _spread(times).items()},
        }
        for name, kernel in zip(names, simulation.kind.kernels, strict=True)
    ]
    shortened = [
        {"name": _shorten(name), "stream": 0, "mean_duration_us": detail["mean_duration_us"]}
        for name, detail in zip(names, details, strict=True)
    ]
    return {
        **{f"Kernel Time (µs)_{key}": value for key, value in _spread(times).items()},
        "Kernel Time (µs)_sum": simulation.total_us,
        "kernel_details_summary": repr(details),
        "trunc_kernel_details": repr(shortened),
    }


def _model_columns(simulation: Simulation) -> Row:
    """Return what a performance model adds; the ``_mean`` of a rate is the rate of the mean call."""
    call, size, flops = simulation.call, simulation.bytes_per_call, simulation.flops_per_call
    times = simulation.kernel_times_us
    amounts = {
        "TB/s": size / PER_US,
        "TFLOPS/s": flops / PER_US,
        "Pct Roofline": 100 * simulation.roofline_us,
    }
    rates: Row = {}
    for prefix, amount in amounts.items():
        rates |= {f"{prefix}_{key}": rate for key, rate in _spread([amount / t for t in times]).items()}
        rates[f"{prefix}_mean"] = amount / statistics.fmean(times)
    parameters = {
        "op_shape": call.shape,
        "dtype_in_out": (TRACE_DTYPE[call.dtype], None),
        "stride_input": _contiguous_strides(call.shape),
        "stride_output": None,
    }
    return {
        "GFLOPS": flops / 1e9,
        "Data Moved (MB)": size / BYTES_PER_MIB,
        "FLOPS/Byte": flops / size,
        "Compute Spec": f"vector_{call.dtype}",
        "Roofline Bound": "MEMORY_BOUND",
        "Roofline Time (µs)_first": simulation.roofline_us,
        "perf_params": repr(parameters),
        "has_perf_model": True,
        **rates,
    }


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {
        "mean": statistics.fmean(values),
        "std": statistics.stdev(values),
        "median": statistics.median(values),
        "min": min(values),
        "max": max(values),
    }


def _contiguous_strides(shape: Shape) -> Shape:
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _fill(template: str, call: NormCall) -> str:
    """Put the sizes of the call and its data type into a setting or a kernel name."""
    sizes = {
        "{B}": str(call.shape[0]),
        "{C}": str(call.shape[1]),
        "{HW}": str(math.prod(call.shape[2:])),
        "{N}": str(call.shape[-1]),
        "{R}": str(math.prod(call.shape[:-1])),
        "{T}": TRACE_DTYPE[call.dtype],
    }
    for placeholder, value in sizes.items():
        template = template.replace(placeholder, value)
    return template


def _kernel_names(simulation: Simulation) -> list[str]:
    return [_fill(kernel.name, simulation.call) for kernel in simulation.kind.kernels]


def _shorten(name: str) -> str:
    return name if len(name) <= 64 else f"{name[:64]}..."


def _call_stack(simulation: Simulation) -> list[str | list[str]]:
    """Return the frames from the outermost module down to the kernels.

    Autograd runs the backward outside of any module. Several kernels are a list each, one is a plain frame.
    """
    kind, kernels = simulation.kind, _kernel_names(simulation)
    modules = simulation.call.module.split(" > ") if kind.python_frames else []
    frames = [frame for module in modules for frame in (f"nn.Module: {module}", MODULE_CALL)]
    tail: list[str | list[str]] = [kernels[0]] if len(kernels) == 1 else [[name] for name in kernels]
    return [*frames, *kind.python_frames, *kind.dispatch, *tail]
