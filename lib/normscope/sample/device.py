"""The simulated device: what a profiler says about it, and its declared peaks."""

import json
from pathlib import Path
from typing import Any

from normscope.sample import workload

MARK = "normscope_simulated"
"""Top-level key of a simulated trace, which no profiler writes; it holds what :func:`mark` returns."""


def gpu_file() -> dict[str, Any]:
    """Return the declared peaks in the layout of a TraceLens architecture file.

    Returns
    -------
    dict
        ``name``, ``mem_bw_gbps`` (10^9 bytes per second), ``memory_gb`` and ``max_achievable_tflops`` (by
        unit and type, such as ``vector_bf16``).
    """
    return {
        "name": workload.PLATFORM,
        "mem_bw_gbps": round(workload.PEAK_HBM_BW_TBS * 1000),
        "memory_gb": workload.MEMORY_GB,
        "max_achievable_tflops": dict(workload.PEAK_TFLOPS),
    }


def mark() -> dict[str, Any]:
    """Return what says that a trace is simulated: the peaks of its device under ``gpu``, and its cache."""
    return {"gpu": gpu_file(), "last_level_cache_bytes": workload.LAST_LEVEL_CACHE_BYTES}


def write_sample_gpu_file(path: Path) -> Path:
    """Write :func:`gpu_file` to ``path`` and return it."""
    path.write_text(json.dumps(gpu_file(), indent=1) + "\n", encoding="utf-8", newline="\n")
    return path


def device_properties() -> dict[str, Any]:
    """Return the device as a profiler lists it."""
    return {
        "id": 0,
        "name": workload.PLATFORM,
        "totalGlobalMem": workload.MEMORY_GB * 2**30,
        "computeMajor": 0,
        "computeMinor": 0,
        "maxThreadsPerBlock": 1024,
        "maxThreadsPerMultiprocessor": 2048,
        "regsPerBlock": 65536,
        "warpSize": 64,
        "sharedMemPerBlock": 65536,
        "numSms": workload.COMPUTE_UNITS,
        "maxSharedMemoryPerMultiProcessor": 65536,
    }
