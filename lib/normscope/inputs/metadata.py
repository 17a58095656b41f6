"""Reading what belongs to a category beside its table: the hardware, GPU time and the fusion map."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from normscope.errors import InputError
from normscope.escape import printable, shorten
from normscope.inputs.ops_table import LARGEST_NUMBER, SMALLEST_NUMBER

Number = int | float
_Model = TypeVar("_Model")


class GpuUtilization(msgspec.Struct, frozen=True):
    """Shares of GPU time, in percent, and the end-to-end time in milliseconds."""

    total_time_ms: Number | None = None
    idle_time_percent: Number | None = None


class Metadata(msgspec.Struct, frozen=True):
    """The keys of ``<category>_metadata.json`` that the analysis reads.

    ``output_dir`` is not among them: it names the place where the run was made, perhaps on another machine.
    The fusion map is looked up in the run that is analyzed, which is the same folder for a run in its place.
    """

    platform: str | None = None
    peak_hbm_bw_tbs: Number | None = None
    max_achievable_tflops: dict[str, Number] | None = None
    peak_bf16_maf_tflops: Number | None = None
    memory_gb: Number | None = None
    gpu_utilization: GpuUtilization | None = None
    comparison_normalized: str | None = None
    comparison_steps: int | None = None

    @property
    def end_to_end_ms(self) -> float | None:
        """The end-to-end time in milliseconds, ``None`` where it is not known."""
        total = self.gpu_utilization.total_time_ms if self.gpu_utilization else None
        return float(total) if total is not None and total > 0 else None

    @property
    def peak_tflops(self) -> dict[str, Number]:
        """Peak TFLOP/s by compute spec; the older single number counts as ``matrix_bf16``."""
        if self.max_achievable_tflops is not None:
            return self.max_achievable_tflops
        return {} if self.peak_bf16_maf_tflops is None else {"matrix_bf16": self.peak_bf16_maf_tflops}


class _FusionFile(msgspec.Struct, frozen=True):
    high_confidence_kernel_map: dict[str, Any] = {}


def read_metadata(path: Path) -> Metadata:
    """Read the metadata of a category.

    Raises
    ------
    InputError
        The file isn't there, is no JSON, or a key has the wrong type or a value that can't be; the message
        names it.
    """
    metadata = _read_json(path, Metadata)
    for key, value in _numbers(metadata):
        problem = _problem(value)
        if problem:
            message = f"{path.name}: '{printable(key)}' is {_shown(value)}, {problem}; correct the file"
            raise InputError(message)
    return metadata


def _shown(value: Number | None) -> str:
    return shorten(msgspec.json.encode(value).decode(), 24)


def _numbers(metadata: Metadata) -> Iterator[tuple[str, Number | None]]:
    used = metadata.gpu_utilization or GpuUtilization()
    yield "peak_hbm_bw_tbs", metadata.peak_hbm_bw_tbs
    yield "peak_bf16_maf_tflops", metadata.peak_bf16_maf_tflops
    yield "memory_gb", metadata.memory_gb
    yield "gpu_utilization.total_time_ms", used.total_time_ms
    yield "gpu_utilization.idle_time_percent", used.idle_time_percent
    for spec, peak in (metadata.max_achievable_tflops or {}).items():
        yield f"max_achievable_tflops.{spec}", peak


def _problem(value: Number | None) -> str:
    """Return what is wrong with a number of which none can be negative, or an empty text."""
    if value is None or value == 0:
        return ""
    if value < 0:
        return "which is negative"
    if value > LARGEST_NUMBER:
        return "more than anything measures"
    return "less than anything measures" if value < SMALLEST_NUMBER else ""


def read_fusion_map(path: Path) -> dict[str, str]:
    """Return GPU kernel name → fusion candidate name; empty where there is no such file."""
    if not path.is_file():
        return {}
    entries = _read_json(path, _FusionFile).high_confidence_kernel_map
    return {kernel: str(candidate) for kernel, candidate in entries.items()}


def _read_json(path: Path, model: type[_Model]) -> _Model:
    try:
        return msgspec.json.decode(path.read_bytes(), type=model)
    except OSError as error:
        message = f"{path.name}: can't be read ({error.strerror}); check the path and its permissions"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = f"{path.name}: {error}; correct the file or write it again"
    raise InputError(message)
