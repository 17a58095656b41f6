"""A large ops table of which no two rows are alike: other shapes, kernel names and call stacks in each."""

import csv
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from normscope.analysis.models import Number

CATEGORY = "norm_fwd"
END_TO_END_MS = 1e7
PEAK_TFLOPS: dict[str, Number] = {"vector_bf16": 120, "matrix_bf16": 600}
PEAK_BYTES_PER_US = 4e6
PARTS = ("batch_norm_collect_statistics", "batch_norm_update_stats", "batch_norm_transform_input")
MODULE_CALL = "torch/nn/modules/module.py(1779): _call_impl"


def write_run_dir(folder: Path, rows: int) -> Path:
    """Write a run directory with ``rows`` operations and return it."""
    (folder / "category_data").mkdir(parents=True)
    (folder / "metadata").mkdir()
    metadata = {
        "platform": "Simulated GPU (no real device)",
        "peak_hbm_bw_tbs": 4.0,
        "max_achievable_tflops": PEAK_TFLOPS,
        "output_dir": ".",
        "gpu_utilization": {"total_time_ms": END_TO_END_MS},
    }
    (folder / "metadata" / f"{CATEGORY}_metadata.json").write_text(json.dumps(metadata), encoding="utf-8")
    with ops_csv(folder).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, _row(0), lineterminator="\n")
        writer.writeheader()
        writer.writerows(_rows(rows))
    return folder


def ops_csv(folder: Path) -> Path:
    """Return the path of the ops table of a run directory."""
    return folder / "category_data" / f"{CATEGORY}_ops.csv"


def _rows(count: int) -> Iterator[dict[str, Any]]:
    return (_row(index) for index in range(count))


def _row(index: int) -> dict[str, Any]:
    shape = (1 + index % 64, 32 + 8 * (index // 64), 14 + index % 7, 14 + index % 5)
    size = 4 * math.prod(shape)
    efficiency = 5 + index % 91
    calls = 1 + index % 40
    mean_us = size / (efficiency / 100 * PEAK_BYTES_PER_US)
    kernels = [f"void at::native::{part}_kernel<c10::BFloat16, float, {index}, int>(...)" for part in PARTS]
    timing = f"'stream': 0, 'count': {calls}, 'mean_duration_us': np.float64({mean_us / 3!r})"
    details = ", ".join(f"{{'name': '{name}', {timing}}}" for name in kernels)
    return {
        "name": "aten::batch_norm" if index % 3 else "aten::group_norm",
        "operation_count": calls,
        "Input Dims": repr((shape, *((shape[1],),) * 4, (), (), (), ())),
        "Input type": repr(("c10::BFloat16",) * 5 + ("Scalar",) * 4),
        "Data Moved (MB)": size / 2**20,
        "FLOPS/Byte": 1.25,
        "Compute Spec": "vector_bf16",
        "Roofline Bound": "MEMORY_BOUND",
        "TB/s_mean": efficiency / 25,
        "TFLOPS/s_mean": efficiency / 20,
        "Pct Roofline_mean": efficiency,
        "Kernel Time (µs)_mean": mean_us,
        "Kernel Time (µs)_std": mean_us * (index % 13) / 10,
        "Kernel Time (µs)_sum": mean_us * calls,
        "kernel_details_summary": f"[{details}]",
        "entry_point": f"model/blocks.py({index}): forward",
        "call_stack_full": repr(_call_stack(index, kernels)),
    }


def _call_stack(index: int, kernels: list[str]) -> list[str | list[str]]:
    modules = ("Model", f"Stage_{index % 4}", f"Block_{index}", f"BatchNorm2d_{index}")
    frames = [
        frame
        for module in modules
        for frame in (f"nn.Module: {module}", MODULE_CALL, f"model/blocks.py({index}): forward")
    ]
    return [*frames, "aten::batch_norm", "aten::native_batch_norm", *([name] for name in kernels)]
