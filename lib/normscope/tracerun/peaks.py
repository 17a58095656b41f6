"""Which GPU a trace comes from, and the peaks to hold its figures against."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from normscope.errors import UsageError
from normscope.hardware.arch_file import peaks_of_arch, read_arch_file
from normscope.hardware.match import match_gpu
from normscope.hardware.registry import Gpu, PeakKind, Peaks, gpu, peaks_of
from normscope.trace.events import DeviceProperties, Trace

SIMULATED_KEY = "normscope_simulated"
HOW_TO_GIVE = "give its figures with --gpu-file FILE to see percentages"


class GpuChoice(msgspec.Struct, frozen=True, kw_only=True):
    """What the user says about the GPU: a key of the registry or an architecture file, and which peaks."""

    key: str | None = None
    file: Path | None = None
    peaks: PeakKind = "datasheet"


class TracedGpu(msgspec.Struct, frozen=True, kw_only=True):
    """The GPU of a trace as far as it is known.

    ``peaks`` is None where it isn't; ``message`` says how it was told, or how to give it.
    ``achievable_gbps`` is the best published bandwidth in GB/s, shown beside the peak.
    ``multiprocessors`` and ``last_level_cache_bytes`` are those of the registry;
    a simulated device declares its cache itself.
    """

    peaks: Peaks | None
    key: str | None
    achievable_gbps: float | None
    message: str
    multiprocessors: int | None = None
    last_level_cache_bytes: int | None = None
    is_simulated: bool = False


def find_gpu(trace: Trace, choice: GpuChoice) -> TracedGpu:
    """Return the GPU of a trace: as the user says, else as the trace says; never a guess.

    Raises
    ------
    UsageError
        Both a key and a file are given, or there is no such key.
    InputError
        The architecture file can't be read.
    """
    if choice.key is not None and choice.file is not None:
        message = "--gpu and --gpu-file exclude each other; give one of them"
        raise UsageError(message)
    if choice.file is not None and choice.peaks != "datasheet":
        message = "--peaks chooses among published figures; a file has its own, so leave --peaks away"
        raise UsageError(message)
    if choice.file is not None:
        message = f"The peaks are those of {choice.file.name}, as given."
        return TracedGpu(peaks=read_arch_file(choice.file), key=None, achievable_gbps=None, message=message)
    if choice.key is not None:
        return _of_registry(gpu(choice.key), choice.peaks, f"The GPU is {choice.key}, as given.")
    simulated = trace.info.metadata.get(SIMULATED_KEY)
    if isinstance(simulated, dict) and isinstance(simulated.get("gpu"), dict):
        message = "The trace is simulated; the peaks are those that its simulated device declares."
        peaks = peaks_of_arch(simulated["gpu"], Path(SIMULATED_KEY))
        cache = simulated.get("last_level_cache_bytes")
        return TracedGpu(
            peaks=peaks,
            key=None,
            achievable_gbps=None,
            message=message,
            last_level_cache_bytes=cache if type(cache) is int and cache > 0 else None,
            is_simulated=True,
        )
    devices = [_properties(device) for device in trace.info.devices]
    match = match_gpu(devices, {e.device for e in trace.gpu_events if e.device is not None})
    if match.gpu is None:
        return TracedGpu(peaks=None, key=None, achievable_gbps=None, message=match.message)
    return _of_registry(match.gpu, choice.peaks, match.message)


def _of_registry(found: Gpu, kind: PeakKind, message: str) -> TracedGpu:
    peaks = peaks_of(found, kind)
    if peaks is None and "--gpu-file" not in message:
        message = f"{message} No {kind} bandwidth of {found.name} is published; {HOW_TO_GIVE}."
    achievable = found.achievable_bandwidth_gbps
    return TracedGpu(
        peaks=peaks,
        key=found.key,
        achievable_gbps=achievable.value if achievable else None,
        message=message,
        multiprocessors=int(found.units.value) if found.units else None,
        last_level_cache_bytes=found.last_level_cache_bytes,
    )


def _properties(device: DeviceProperties) -> Mapping[str, Any]:
    return {
        "id": device.id,
        "name": device.name,
        "totalGlobalMem": device.memory_bytes,
        "computeMajor": device.compute_major,
        "computeMinor": device.compute_minor,
        "numSms": device.multiprocessors,
    }
