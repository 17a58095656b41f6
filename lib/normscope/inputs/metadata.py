"""Reading what belongs to a category beside its table: the hardware, GPU time and the fusion map."""

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from normscope.errors import InputError

Number = int | float
_Model = TypeVar("_Model")


class GpuUtilization(msgspec.Struct, frozen=True):
    """Shares of GPU time, in percent, and the end-to-end time in milliseconds."""

    total_time_ms: Number | None = None
    idle_time_percent: Number | None = None


class Metadata(msgspec.Struct, frozen=True):
    """The keys of ``<category>_metadata.json`` that the analysis reads."""

    platform: str | None = None
    peak_hbm_bw_tbs: Number | None = None
    max_achievable_tflops: dict[str, Number] | None = None
    peak_bf16_maf_tflops: Number | None = None
    memory_gb: Number | None = None
    gpu_utilization: GpuUtilization | None = None
    output_dir: str | None = None

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
        The file isn't there, is no JSON, or a key has the wrong type; the message names it.
    """
    return _read_json(path, Metadata)


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
