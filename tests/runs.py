"""Run directories made by hand, for tests that need a certain table."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from normscope import analyze_category
from normscope.analysis.models import CategoryMetrics, Scope

TIME_SUM = "Kernel Time (µs)_sum"
TIME_MEAN = "Kernel Time (µs)_mean"
TIME_STD = "Kernel Time (µs)_std"
NATIVE_KERNEL = "void at::native::some_norm_kernel"
METADATA = {
    "platform": "Test GPU",
    "peak_hbm_bw_tbs": 2.0,
    "max_achievable_tflops": {"matrix_bf16": 400, "vector_fp32": 50},
    "gpu_utilization": {"total_time_ms": 10.0},
}

Row = dict[str, object]


def row(
    name: str = "aten::layer_norm",
    time_us: float = 1000.0,
    count: int = 10,
    cells: Mapping[str, object] = MappingProxyType({}),
) -> Row:
    """Return a row: memory-bound, (1024,1024) bf16, native kernel; ``cells`` replace or add columns."""
    return {
        "name": name,
        "operation_count": count,
        TIME_SUM: time_us,
        TIME_MEAN: time_us / count,
        TIME_STD: 0.0,
        "FLOPS/Byte": 1.25,
        "TFLOPS/s_mean": 0.5,
        "TB/s_mean": 0.4,
        "Compute Spec": "vector_fp32",
        "Roofline Bound": "MEMORY_BOUND",
        "Pct Roofline_mean": 20.0,
        "Input Dims": "((1024, 1024), (1024,))",
        "Input type": "('c10::BFloat16', 'c10::BFloat16')",
        "kernel_details_summary": f"[{{'name': '{NATIVE_KERNEL}', 'stream': 0}}]",
        "call_stack_full": repr(["nn.Module: Net_0", "nn.Module: Norm_1", name, NATIVE_KERNEL]),
        "entry_point": "Not found",
        "Data Moved (MB)": 4.0,
        **cells,
    }


def traced(**cells: object) -> Row:
    """Return the columns that only a table made from a trace has: found by its op; ``cells`` replace some.

    The GPU has 100 compute units and a last-level cache of 32 MiB, its shortest kernels take 2 µs.
    """
    return {
        "norm_variant": "",
        "norm_library": "",
        "found_by": "op",
        "evidence": "trace",
        "fused_with": "",
        "is_upper_bound": False,
        "is_replayed": False,
        "Data Launched (MB)": "",
        "shapes_from": "",
        "limits": "",
        "main_kernel": "",
        "main_kernel_percent": "",
        "workgroups": 400,
        "workgroup_threads": 256,
        "multiprocessors": 100,
        "At Peak (µs)": 2.1,
        "Shortest Kernels (µs)": 2.0,
        "last_level_cache_bytes": 32 * 2**20,
        "attainable_percent": "",
        **cells,
    }


def write_run(
    folder: Path, rows: Sequence[Row], category: str = "norm_fwd", metadata: Mapping[str, object] = METADATA
) -> Path:
    """Write a run directory of one category and return it."""
    table = folder / "category_data" / f"{category}_ops.csv"
    described = folder / "metadata" / f"{category}_metadata.json"
    table.parent.mkdir(parents=True, exist_ok=True)
    described.parent.mkdir(parents=True, exist_ok=True)
    columns = list(dict.fromkeys(name for each in rows for name in each)) or list(row())
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)
    described.write_text(json.dumps(metadata), encoding="utf-8")
    return folder


def analyzed(
    folder: Path,
    rows: Sequence[Row],
    category: str = "norm_fwd",
    scope: Scope = "standalone",
    metadata: Mapping[str, object] = METADATA,
) -> CategoryMetrics:
    """Return the metrics of a table made of ``rows``."""
    metrics = analyze_category(write_run(folder, rows, category, metadata), category, scope)
    assert isinstance(metrics, CategoryMetrics), metrics
    return metrics
