"""The GPUs whose figures are known, from ``gpus.json``; each figure keeps its kind and its sources."""

import difflib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from normscope.errors import UsageError

PeakKind = Literal["datasheet", "achievable"]

_DATA = Path(__file__).with_name("gpus.json")
_MIB = 2**20
_SUGGESTIONS = 5
# A norm kernel computes in fp32 whatever its tensors hold, so that rate stands in where none is published.
_COMPUTED_IN_FP32 = ("vector_fp16", "vector_bf16")


class Figure(msgspec.Struct, frozen=True, omit_defaults=True):
    """One number with its origin.

    Attributes
    ----------
    value
        The number, in the unit that its field names.
    kind
        How it came about, a key of ``Registry.kinds``.
    sources
        Where it was published, keys of ``Registry.sources``.
    formula
        The calculation behind a derived figure.
    benchmark, confidence
        What was run to measure it, and how far the result can be trusted.
    """

    value: float
    kind: str
    sources: tuple[str, ...]
    formula: str | None = None
    benchmark: str | None = None
    confidence: Literal["low", "medium", "high"] | None = None


class Source(msgspec.Struct, frozen=True):
    """A publication that figures come from; ``seen`` tells whether it was read in whole or as an excerpt."""

    title: str
    url: str | None
    seen: Literal["read", "excerpt"]


class Gpu(msgspec.Struct, frozen=True, omit_defaults=True):
    """A GPU as one device of a trace. All peaks are dense; ``None`` where nothing is published.

    Attributes
    ----------
    key
        Its name on the command line, such as ``mi300x``.
    name, vendor, architecture
        What people call it.
    compute_capability
        Major and minor version as a trace records them, such as ``9.4``.
    device_names
        Names that drivers report for it.
    shared_names
        Names of other parts that it may carry; they hold only where its memory fits.
    units
        Streaming multiprocessors or compute units, as a trace records them.
    memory_gb
        Nominal memory size.
    last_level_cache_mib
        The largest cache in front of memory.
    peak_bandwidth_gbps, achievable_bandwidth_gbps
        Of memory: from the datasheet, and the best that a published benchmark reached.
    peak_tflops, achievable_tflops
        By compute spec, such as ``matrix_bf16`` or ``vector_fp32``.
    """

    key: str
    name: str
    vendor: Literal["AMD", "NVIDIA", "Intel"]
    architecture: str
    compute_capability: str | None
    device_names: tuple[str, ...]
    memory_gb: Figure
    peak_tflops: Mapping[str, Figure]
    shared_names: tuple[str, ...] = ()
    units: Figure | None = None
    last_level_cache_mib: Figure | None = None
    peak_bandwidth_gbps: Figure | None = None
    achievable_bandwidth_gbps: Figure | None = None
    achievable_tflops: Mapping[str, Figure] = {}

    @property
    def last_level_cache_bytes(self) -> int | None:
        """The largest cache in front of memory, in bytes."""
        cache_mib = self.last_level_cache_mib
        return int(cache_mib.value * _MIB) if cache_mib else None


class Peaks(msgspec.Struct, frozen=True):
    """The roof that measurements are held against.

    Attributes
    ----------
    name
        Of the GPU.
    bandwidth_gbps
        Memory bandwidth in GB/s, 1e9 bytes.
    bandwidth_kind
        ``datasheet``, ``achievable`` (the best of a published benchmark) or ``file`` (given by the user).
    tflops
        1e12 operations per second, by compute spec.
    memory_gb
        Memory size, ``None`` where it wasn't given.
    """

    name: str
    bandwidth_gbps: float
    bandwidth_kind: Literal["datasheet", "achievable", "file"]
    tflops: Mapping[str, float]
    memory_gb: float | None = None


class Registry(msgspec.Struct, frozen=True):
    """The data file.

    Attributes
    ----------
    kinds, sources
        What the kinds and sources of figures stand for.
    generic_names
        Device names that say nothing about the part.
    gpus
        Every GPU, by vendor and age.
    """

    kinds: Mapping[str, str]
    sources: Mapping[str, Source]
    generic_names: tuple[str, ...]
    gpus: tuple[Gpu, ...]


@cache
def registry() -> Registry:
    """Return the data file, read once."""
    return msgspec.json.decode(_DATA.read_bytes(), type=Registry)


def all_gpus() -> tuple[Gpu, ...]:
    """Return every GPU whose figures are known."""
    return registry().gpus


def gpu(key: str) -> Gpu:
    """Return the GPU with this key; case doesn't matter.

    Raises
    ------
    UsageError
        No GPU has it; the message names the nearest keys.
    """
    found = {gpu.key: gpu for gpu in all_gpus()}
    wanted = key.strip().lower().replace("-", "_")
    if wanted in found:
        return found[wanted]
    near = [key for key in found if wanted and wanted in key] or difflib.get_close_matches(wanted, found)
    hint = f"; did you mean {' or '.join(near[:_SUGGESTIONS])}?" if near else "."
    message = f"no GPU has the key {key!r}{hint} `normscope gpus` lists them all."
    raise UsageError(message)


def peaks_of(gpu: Gpu, kind: PeakKind = "datasheet") -> Peaks | None:
    """Return the roof of a GPU.

    Parameters
    ----------
    gpu
        One of the registry.
    kind
        ``datasheet``: the vendor's peaks. ``achievable``: the best published benchmarks, and the vendor's
        peak for a compute rate that no benchmark is published for.

    Returns
    -------
    Peaks or None
        ``None`` where that bandwidth is not published.
    """
    bandwidth = gpu.peak_bandwidth_gbps if kind == "datasheet" else gpu.achievable_bandwidth_gbps
    if bandwidth is None:
        return None
    figures = dict(gpu.peak_tflops)
    if kind == "achievable":
        figures |= gpu.achievable_tflops
    tflops = {spec: figure.value for spec, figure in figures.items()}
    for spec in _COMPUTED_IN_FP32:
        if spec not in tflops and "vector_fp32" in tflops:
            tflops[spec] = tflops["vector_fp32"]
    return Peaks(gpu.name, bandwidth.value, kind, tflops, gpu.memory_gb.value)


def run_metadata(peaks: Peaks) -> dict[str, object]:
    """Return the hardware keys of a run directory's metadata.

    Returns
    -------
    dict
        ``platform``, ``peak_hbm_bw_tbs`` (1e12 bytes per second), ``max_achievable_tflops`` by compute spec,
        and ``memory_gb`` where it is known.
    """
    metadata: dict[str, object] = {
        "platform": peaks.name,
        "peak_hbm_bw_tbs": peaks.bandwidth_gbps / 1000,
        "max_achievable_tflops": dict(peaks.tflops),
    }
    return metadata if peaks.memory_gb is None else metadata | {"memory_gb": peaks.memory_gb}
