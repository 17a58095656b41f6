"""Reports of traces made by hand: a summary whose parts add up, and calls whose times are chosen."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from normscope.analysis.call_times import CallTimes
from normscope.norms.catalog.rows import How
from normscope.report.results import Report
from normscope.report.trace_data import read_trace_data
from normscope.trace.events import Problem
from normscope.trace.timeline import Timeline
from normscope.tracerun.coverage import TITLES, Coverage, Group
from normscope.tracerun.found import CutOffKernel, FiredRow
from normscope.tracerun.summary import FormulaNote, StepCalls, TraceSummary
from normscope.tracerun.write import CALL_COLUMNS
from report_inputs import norm_row, report_of, write_run

TIMELINE = Timeline(
    total_ms=10.0,
    computation_ms=6.0,
    exposed_communication_ms=1.0,
    exposed_memcpy_ms=0.5,
    busy_ms=7.5,
    idle_ms=2.5,
    communication_ms=2.0,
    memcpy_ms=1.0,
    counted_events=100,
    left_out_events=3,
)


def covered(**times_us: float) -> Coverage:
    """Return a coverage with a kernel for each named group."""
    groups: dict[str, Group | tuple[Group, ...]] = {
        name: Group(int(name in times_us), times_us.get(name, 0.0)) for name in TITLES
    }
    fused = times_us.get("compiled_fused")
    groups["compiled_fused"] = (
        () if fused is None else (Group(1, fused, how="native_layer_norm in the name"),)
    )
    whole = {"all_kernels": len(times_us), "all_kernels_us": sum(times_us.values())}
    counts = {"recomputed_forward_calls": 0, "unlinked_kernels_of_any_kind": 0}
    return msgspec.convert(msgspec.to_builtins(groups) | whole | counts, Coverage)


def fired(found_by: How = "op", us: float = 1000.0, **changes: object) -> FiredRow:
    """Return a row of the catalog that 10 calls were found by, but for the changes."""
    usual = FiredRow(
        row="layer-norm",
        library="PyTorch",
        variant="LayerNorm",
        direction="forward",
        found_by=found_by,
        evidence="trace",
        is_in_timeline=True,
        is_upper_bound=False,
        calls=10,
        us=us,
    )
    return msgspec.structs.replace(usual, **changes)


def cut_off(us: float, name: str = "rms_norm_kernel", **changes: object) -> CutOffKernel:
    """Return a norm kernel of that time whose launch was cut off, but for the changes."""
    usual = CutOffKernel(
        name=name, variant="RMSNorm", direction="forward", fuses=(), is_upper_bound=False, count=1, us=us
    )
    return msgspec.structs.replace(usual, **changes)


def summary(coverage: Coverage | None = None, **changes: object) -> TraceSummary:
    """Return the summary of an ordinary trace on a known GPU, but for the changes."""
    usual = TraceSummary(
        label="step",
        is_simulated=False,
        gpu_key="mi300x",
        gpu_message="The trace ran on AMD Instinct MI300X, told by its name.",
        bandwidth_kind="datasheet",
        peak_bandwidth_gbps=5300.0,
        achievable_bandwidth_gbps=4269.1,
        timeline=TIMELINE,
        coverage=coverage or covered(explicit=1000.0, other_ops=9000.0),
        overheads=(),
        rows=(fired(),),
        cut_off=(),
        call_count=10,
        recomputed_count=0,
        replayed_count=0,
        captured=(),
        by_name_us=0.0,
        norm_us=1000.0,
        helper_us=0.0,
        resolution_us=0.001,
        steps=(StepCalls("ProfilerStep#3", 10),),
        has_ops=True,
        has_shapes=True,
        has_modules=True,
        is_truncated=False,
        event_count=1234,
        problems=(),
        formulas=(FormulaNote("Layer norm forward", "E(sx+sy)", "6E", "layer_norm.cu", "read once"),),
    )
    return msgspec.structs.replace(usual, **changes)


def call_times(*kernel_us: float, index: int = 0, modules: Sequence[str] = ()) -> CallTimes:
    """Return calls of those times, all of it in norm kernels."""
    count = len(kernel_us)
    return CallTimes(
        category="norm_fwd",
        operation_index=index,
        kernel_us=kernel_us,
        norm_us=kernel_us,
        helper_us=(0.0,) * count,
        is_recomputed=(False,) * count,
        steps=("ProfilerStep#3",) * count,
        modules=tuple(modules) or ("Net_0 > LayerNorm_0",) * count,
    )


def row_of(times_us: Sequence[float], name: str = "aten::layer_norm") -> dict[str, object]:
    """Return the row of an ops table that calls of those times add up to."""
    return norm_row(
        name,
        **{
            "count": len(times_us),
            "operation_count": len(times_us),
            "Kernel Time (µs)_sum": sum(times_us),
            "Kernel Time (µs)_mean": sum(times_us) / len(times_us),
        },
    )


def calls_table(rows: Sequence[Sequence[float]], category: str = "norm_fwd", module: str = "Net_0") -> str:
    """Return a calls file: for each row of the ops table the times of its calls, all in norm kernels."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, CALL_COLUMNS)
    writer.writeheader()
    for row, times in enumerate(rows):
        for number, time_us in enumerate(times):
            cells: Mapping[str, object] = {
                "category": category,
                "row": row,
                "call": number,
                "step": "ProfilerStep#3",
                "op_start_us": number,
                "kernel_time_us": time_us,
                "norm_kernel_time_us": time_us,
                "helper_kernel_time_us": 0.0,
                "is_recomputed": number % 2 == 1,
                "module": module,
            }
            writer.writerow(cells)
    return text.getvalue()


def traced_report(
    folder: Path,
    rows: Sequence[Mapping[str, object]] = (),
    calls: str = "",
    found: TraceSummary | None = None,
) -> Report:
    """Return the report of a run directory that was made from a trace."""
    run = write_run(folder, {"norm_fwd": rows} if rows else {})
    data = run / "category_data"
    data.mkdir(parents=True, exist_ok=True)
    (data / "trace_summary.json").write_bytes(msgspec.json.encode(found or summary()))
    if calls:
        (data / "norm_calls.csv").write_text(calls, encoding="utf-8")
    report = report_of(run, *(["norm_fwd"] if rows else []))
    return msgspec.structs.replace(report, trace=read_trace_data(run, report.metrics))


def problem(count: int, what: str, offset: int | None = None) -> Problem:
    """Return one kind of trouble in a trace."""
    return Problem(what, count, offset)
