"""Which GPU of the registry a trace ran on, by the ``deviceProperties`` that the profiler recorded.

A name alone can mislead: some devices have none, two parts can share one, and a partition of a card carries
the name of the whole. So memory size, number of units and compute capability have to agree wherever they are
recorded. What can't be told stays open; nothing is guessed.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from normscope.hardware.registry import Gpu, all_gpus, peaks_of, registry

How = Literal["name", "properties", "not recorded", "not known", "ambiguous", "partition", "several"]

_GIB = 2**30
# Reported memory over nominal: drivers keep back up to a tenth, and vendors mix GB and GiB.
_LEAST_MEMORY, _MOST_MEMORY = 0.90, 1.01
_VENDOR_PREFIXES = ("nvidia ", "amd ")
_GIVE_FIGURES = (
    "give the GPU with --gpu KEY (`normscope gpus` lists them) or its figures with --gpu-file FILE"
)
_NO_PERCENTAGES = "Times and bandwidth are shown without percentages"
_LONGEST_NAME = 80


class Match(msgspec.Struct, frozen=True):
    """The GPU of a trace.

    Attributes
    ----------
    gpu
        ``None`` where it can't be told.
    how
        What it was told by, or why it can't be.
    candidates
        Keys of the GPUs that it may be, where there are several.
    message
        A sentence for the user. It may hold a device name from the trace.
    """

    gpu: Gpu | None
    how: How
    candidates: tuple[str, ...]
    message: str

    @property
    def keys(self) -> tuple[str, ...]:
        """Every GPU that the device may be."""
        return self.candidates or ((self.gpu.key,) if self.gpu else ())


class _Device(msgspec.Struct, frozen=True):
    """One recorded device; a property that isn't there or makes no sense is ``None``."""

    name: str
    memory_bytes: int | None
    units: int | None
    compute_capability: str | None

    @property
    def is_generic(self) -> bool:
        return self.name in registry().generic_names

    @property
    def shown(self) -> str:
        return f'"{self.name[:_LONGEST_NAME]}"' if self.name else "a device without a name"


def match_gpu(
    device_properties: Sequence[Mapping[str, Any]] | None, device_ids: Collection[int] = ()
) -> Match:
    """Return the GPU that a trace ran on.

    Parameters
    ----------
    device_properties
        The list in the trace; entries that aren't objects are passed over.
    device_ids
        Devices that kernels ran on. They choose among different devices, and are ignored where none is
        listed: the numbers of kernels and of the list don't always agree.
    """
    listed = device_properties if isinstance(device_properties, list | tuple) else ()
    entries = [entry for entry in listed if isinstance(entry, Mapping)]
    used = [entry for entry in entries if any(entry.get("id") == number for number in device_ids)]
    devices = list(dict.fromkeys(map(_device, used or entries)))
    if not devices:
        message = f"The trace doesn't say which GPU it ran on. {_NO_PERCENTAGES}; {_GIVE_FIGURES}."
        return Match(None, "not recorded", (), message)
    matches = [_match_device(device) for device in devices]
    first = matches[0]
    if all((match.gpu, match.candidates) == (first.gpu, first.candidates) for match in matches):
        return first
    keys = dict.fromkeys(key for match in matches for key in match.keys)
    shown = ", ".join(device.shown for device in devices)
    message = f"The trace lists different GPUs ({shown}). {_NO_PERCENTAGES}; {_GIVE_FIGURES}."
    return Match(None, "several", tuple(keys), message)


def _match_device(device: _Device) -> Match:
    named = [gpu for gpu in all_gpus() if _is_named(gpu.device_names, device.name)]
    sharing = [gpu for gpu in all_gpus() if _is_named(gpu.shared_names, device.name)]
    if device.is_generic:
        return _decide(device, [gpu for gpu in all_gpus() if _is_identified(gpu, device)], "properties")
    if "mig" in device.name.lower().split():
        message = f"The GPU {device.shown} is a partition. {_NO_PERCENTAGES}; {_GIVE_FIGURES}."
        return Match(None, "partition", (), message)
    if not named:
        message = f"The GPU {device.shown} is not in the registry. {_NO_PERCENTAGES}; {_GIVE_FIGURES}."
        return Match(None, "not known", (), message)
    fitting = [gpu for gpu in named if _fits(gpu, device)]
    fitting = fitting or [gpu for gpu in sharing if _is_identified(gpu, device)]
    return _decide(device, fitting, "name") if fitting else _misfit(device, named[0])


def _decide(device: _Device, fitting: list[Gpu], how: Literal["name", "properties"]) -> Match:
    """Settle on one of the GPUs that fit; several will do where their figures are the same."""
    keys = tuple(gpu.key for gpu in fitting)
    if not fitting:
        message = f"The GPU, {device.shown}, is not in the registry. {_NO_PERCENTAGES}; {_GIVE_FIGURES}."
        return Match(None, "not known", (), message)
    if not all(_same_figures(gpu, fitting[0]) for gpu in fitting):
        message = f"The GPU, {device.shown}, may be {' or '.join(keys)}. {_NO_PERCENTAGES}; {_GIVE_FIGURES}."
        return Match(None, "ambiguous", keys, message)
    names = " or ".join(gpu.name for gpu in fitting)
    told = "its name" if how == "name" else "its memory size, number of units and compute capability"
    same = ", whose figures are the same" if len(fitting) > 1 else ""
    message = f"The trace ran on {names}{same}, told by {told}."
    if peaks_of(fitting[0]) is None:
        message = f"{message} No peaks of it are published. {_NO_PERCENTAGES}; {_GIVE_FIGURES}."
    return Match(fitting[0], how, keys[1:] and keys, message)


def _misfit(device: _Device, named: Gpu) -> Match:
    """Report a device that has the name of a GPU and not its size: a partition, or another part."""
    whole = named.units
    if whole is not None and device.units is not None and device.units < whole.value:
        found = f"has {device.units} units where the whole GPU has {whole.value:.0f}: it is a partition"
        how: How = "partition"
    else:
        found, how = f"doesn't have the memory or units of {named.name}", "not known"
    message = f"The GPU {device.shown} {found}. {_NO_PERCENTAGES}; {_GIVE_FIGURES}."
    return Match(None, how, (), message)


def _device(entry: Mapping[str, Any]) -> _Device:
    name = entry.get("name")
    major, minor = _number(entry, "computeMajor"), _number(entry, "computeMinor", least=0)
    return _Device(
        name=" ".join(name.split()) if isinstance(name, str) else "",
        memory_bytes=_number(entry, "totalGlobalMem"),
        units=_number(entry, "numSms") or _number(entry, "multiProcessorCount"),
        compute_capability=None if major is None or minor is None else f"{major}.{minor}",
    )


def _number(entry: Mapping[str, Any], key: str, least: int = 1) -> int | None:
    value = entry.get(key)
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= least
    return value if is_count else None


def _is_named(names: Iterable[str], name: str) -> bool:
    """Tell whether ``name`` is one of ``names``; drivers add and drop the vendor's name in front."""
    return _bare(name) in map(_bare, names)


def _bare(name: str) -> str:
    bare = name.lower()
    for prefix in _VENDOR_PREFIXES:
        bare = bare.removeprefix(prefix)
    return bare


def _fits(gpu: Gpu, device: _Device) -> bool:
    """Tell whether nothing that is recorded speaks against ``gpu``."""
    memory_fits = device.memory_bytes is None or _memory_fits(gpu, device.memory_bytes)
    units_fit = device.units is None or gpu.units is None or device.units == gpu.units.value
    capabilities = (None, gpu.compute_capability)
    return (
        memory_fits
        and units_fit
        and (not gpu.compute_capability or device.compute_capability in capabilities)
    )


def _is_identified(gpu: Gpu, device: _Device) -> bool:
    """Tell whether memory, units and compute capability are all recorded and all those of ``gpu``."""
    recorded = device.memory_bytes is not None and device.units is not None and device.compute_capability
    known = gpu.units is not None and gpu.compute_capability is not None
    return bool(recorded) and known and _fits(gpu, device)


def _memory_fits(gpu: Gpu, memory_bytes: int) -> bool:
    return _LEAST_MEMORY <= memory_bytes / _GIB / gpu.memory_gb.value <= _MOST_MEMORY


def _same_figures(one: Gpu, other: Gpu) -> bool:
    first, second = peaks_of(one), peaks_of(other)
    if first is None or second is None:
        return first is second
    return (first.bandwidth_gbps, first.tflops) == (second.bandwidth_gbps, second.tflops)
