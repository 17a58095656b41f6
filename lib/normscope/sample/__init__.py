"""A sample run directory: a simulated training step on a device that does not exist."""

import json
import random
from pathlib import Path
from typing import Any

from normscope.errors import UsageError
from normscope.sample import workload
from normscope.sample.ops_table import ops_table
from normscope.sample.simulate import Simulation, simulate

SEED = 20240601


def write_sample(folder: Path) -> Path:
    """Write the sample into ``folder``, which is created where it does not exist.

    Parameters
    ----------
    folder
        Becomes a run directory as TraceLens writes it, with forward and backward normalizations.

    Returns
    -------
    Path
        ``folder``. Its files hold the same bytes every time.

    Raises
    ------
    UsageError
        The folder can't be written.
    """
    rng = random.Random(SEED)  # noqa: S311 - made-up timings, no secret
    categories = {
        category: [simulate(call, rng) for call in calls] for category, calls in workload.CATEGORIES.items()
    }
    files = {"category_data/category_manifest.json": _json(_manifest(categories))}
    for category, simulations in categories.items():
        direction = category.removeprefix("norm_")
        files[f"category_data/{category}_ops.csv"] = ops_table(simulations, direction)
        files[f"metadata/{category}_metadata.json"] = _json(_metadata(category, simulations))
    try:
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        message = f"The sample can't be written to {folder}: {error.strerror}. Choose another folder."
        raise UsageError(message) from error
    return folder


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=1) + "\n"


def _run_facts() -> dict[str, Any]:
    return {"platform": workload.PLATFORM, "trace_path": workload.TRACE_PATH, "output_dir": "."}


def _gpu_utilization() -> dict[str, float]:
    return {"total_time_ms": workload.END_TO_END_MS, **workload.GPU_TIME_PERCENT}


def _kernel_time_ms(simulations: list[Simulation]) -> float:
    return round(sum(simulation.total_us for simulation in simulations) / 1000, 3)


def _metadata(category: str, simulations: list[Simulation]) -> dict[str, Any]:
    return {
        **_run_facts(),
        "simulated": True,
        "peak_hbm_bw_tbs": workload.PEAK_HBM_BW_TBS,
        "max_achievable_tflops": workload.PEAK_TFLOPS,
        "memory_gb": workload.MEMORY_GB,
        "category": category.replace("norm", "NORM"),
        "category_name": category,
        "gpu_utilization": _gpu_utilization(),
        "time_breakdown": {"gpu_kernel_time_ms": _kernel_time_ms(simulations)},
    }


def _manifest(categories: dict[str, list[Simulation]]) -> dict[str, Any]:
    return {
        **_run_facts(),
        "comparison_scope": "standalone",
        "gpu_utilization": _gpu_utilization(),
        "categories": [
            {
                "name": category,
                "display_name": category.replace("norm", "NORM"),
                "skill": "norm-analyzer",
                "tier": "compute_kernel",
                "ops_count": len(simulations),
                "csv_file": f"./category_data/{category}_ops.csv",
                "metadata_file": f"./metadata/{category}_metadata.json",
                "gpu_kernel_time_ms": _kernel_time_ms(simulations),
            }
            for category, simulations in categories.items()
        ],
    }
