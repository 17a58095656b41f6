"""A trace becomes a run directory: tables, metadata, manifest, and what only the trace knows."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from normscope.errors import ExportError
from normscope.files import write_atomically
from normscope.hardware.registry import run_metadata
from normscope.inputs.rundir import NORM_ANALYZER, CategoryPaths, category_paths
from normscope.norms.calls import NormCall
from normscope.trace.collector_pause import collector_paused
from normscope.trace.link import LinkedTrace
from normscope.trace.source import Progress
from normscope.trace.timeline import Timeline, gpu_timeline
from normscope.tracerun.coverage import COVERAGE_FILE
from normscope.tracerun.examine import Examined, NormSources, examine
from normscope.tracerun.limits import traced_device
from normscope.tracerun.ops_table import bare_module, ops_table
from normscope.tracerun.peaks import GpuChoice, TracedGpu, find_gpu
from normscope.tracerun.signatures import CATEGORIES, Signature, signatures
from normscope.tracerun.summary import SUMMARY_FILE, TraceSummary, step_of, summarize

CALLS_FILE = "norm_calls.csv"
_DISPLAY_NAMES = {"norm_fwd": "NORM_fwd", "norm_bwd": "NORM_bwd"}


def write_trace_run(  # noqa: PLR0913 - a trace, a folder, and what the user may say
    source: Path | BinaryIO | None,
    folder: Path,
    *,
    label: str,
    gpu: GpuChoice | None = None,
    norms: NormSources | None = None,
    on_progress: Progress | None = None,
) -> TraceSummary:
    """Read a profiler trace and write it as a run directory in TraceLens' layout.

    Parameters
    ----------
    source
        The trace file, an open binary file, or None for standard input.
    folder
        The run directory; made where it isn't there.
    label
        The trace's name in what is written: no path.
    gpu
        What the user says about the GPU; by default the trace tells.
    norms
        What the user gives to find more norms; by default nothing.
    on_progress
        Called with bytes read and the size of the file, or None.

    Returns
    -------
    TraceSummary
        What the trace holds, as also written to ``category_data/trace_summary.json``.

    Raises
    ------
    InputError
        The trace can't be read, or what the user gives to find more norms.
    NoGpuActivityError
        The trace holds no GPU event.
    UsageError
        The GPU can't be used as given.
    """
    with collector_paused():
        # Nothing here refers to what was found, so that it is gone before the collector would walk over it.
        return _write_examined(
            examine(source, label=label, norms=norms or NormSources(), on_progress=on_progress),
            folder,
            label,
            gpu or GpuChoice(),
        )


def _write_examined(found: Examined, folder: Path, label: str, gpu: GpuChoice) -> TraceSummary:
    linked = found.linked
    rows = signatures(linked, [call for call in found.calls if call.is_in_timeline])
    traced = find_gpu(linked.trace, gpu)
    timeline = gpu_timeline(linked)
    summary = summarize(found, rows, timeline, traced, label)
    _write(folder, linked, rows, timeline, traced, summary)
    return summary


def _write(  # noqa: PLR0913, PLR0917 - everything that is written
    folder: Path,
    linked: LinkedTrace,
    rows: Sequence[Signature],
    timeline: Timeline,
    found: TracedGpu,
    summary: TraceSummary,
) -> None:
    common = _common_metadata(timeline, found, summary)
    device = traced_device(linked.trace, found)
    entries = []
    for category in CATEGORIES.values():
        own = [row for row in rows if row.category == category]
        paths = category_paths(folder, category)
        if not own:
            remove_older(paths)
            continue
        kernel_us = sum(row.kernel_us for row in own)
        write_atomically(paths.ops_csv, ops_table(linked, own, found.peaks, device))
        metadata = common | {
            "category": _DISPLAY_NAMES[category],
            "category_name": category,
            "time_breakdown": {"gpu_kernel_time_ms": round(kernel_us / 1e3, 3)},
        }
        _write_json(paths.metadata_json, metadata)
        entries.append(_manifest_entry(category, len(own), kernel_us))
    _write_json(folder / "category_data" / "category_manifest.json", common | {"categories": entries})
    write_atomically(folder / "category_data" / CALLS_FILE, _calls_table(linked, rows))
    _write_json(folder / "category_data" / COVERAGE_FILE, summary.coverage)
    _write_json(folder / "category_data" / SUMMARY_FILE, summary)


def remove_older(paths: CategoryPaths) -> None:
    """Remove what an earlier run left of a category that this run doesn't have."""
    for path in (paths.ops_csv, paths.metadata_json, paths.metrics_json, paths.findings_md):
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            message = f"{path}: can't be replaced ({error.strerror}); give an empty folder"
            raise ExportError(message) from None


def _write_json(path: Path, value: object) -> None:
    write_atomically(path, json_text(value))


def json_text(value: object) -> bytes:
    """Return the text of a JSON file of a run directory."""
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


def _common_metadata(timeline: Timeline, found: TracedGpu, summary: TraceSummary) -> dict[str, Any]:
    unknown: dict[str, object] = {"platform": None, "peak_hbm_bw_tbs": None, "max_achievable_tflops": {}}
    return {
        **(run_metadata(found.peaks) if found.peaks else unknown),
        "trace_path": summary.label,
        "output_dir": ".",
        "comparison_scope": "standalone",
        "gpu_utilization": {
            "total_time_ms": timeline.total_ms,
            "computation_time_percent": _percent(timeline.computation_ms, timeline),
            "exposed_comm_time_percent": _percent(timeline.exposed_communication_ms, timeline),
            "exposed_memcpy_time_percent": _percent(timeline.exposed_memcpy_ms, timeline),
            "idle_time_percent": _percent(timeline.idle_ms, timeline),
        },
    }


def _percent(part_ms: float, timeline: Timeline) -> float | None:
    return 100 * part_ms / timeline.total_ms if timeline.total_ms > 0 else None


def _manifest_entry(category: str, signature_count: int, kernel_us: float) -> dict[str, Any]:
    return {
        "name": category,
        "display_name": _DISPLAY_NAMES[category],
        "skill": NORM_ANALYZER,
        "tier": "compute_kernel",
        "ops_count": signature_count,
        "csv_file": f"./category_data/{category}_ops.csv",
        "metadata_file": f"./metadata/{category}_metadata.json",
        "gpu_kernel_time_ms": round(kernel_us / 1e3, 3),
    }


CALL_COLUMNS = (
    *("category", "row", "call", "step", "op_start_us", "kernel_time_us", "norm_kernel_time_us"),
    *("helper_kernel_time_us", "is_recomputed", "module", "shapes_from"),
)


def _calls_table(linked: LinkedTrace, rows: Sequence[Signature]) -> bytes:
    """Return every call: ``row`` is its place in the ops table of its category, times are in µs."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CALL_COLUMNS)
    place = dict.fromkeys(CATEGORIES.values(), 0)
    modules = {path: " > ".join(map(bare_module, path)) for row in rows for path in row.modules}
    for row in rows:
        for number, (call, path) in enumerate(zip(row.calls, row.modules, strict=True)):
            cells = _call_cells(linked, call, modules[path])
            writer.writerow((row.category, place[row.category], number, *cells))
        place[row.category] += 1
    return text.getvalue().encode("utf-8", "replace")


def _call_cells(linked: LinkedTrace, call: NormCall, modules: str) -> tuple[object, ...]:
    step = step_of(linked.trace.steps, call.ts_us)
    name = "" if step is None else linked.trace.steps[step].name
    times_us = (call.ts_us, call.kernel_us, call.norm_us, call.helper_us)
    return (name, *times_us, call.is_recomputed, modules, call.shapes_from)
