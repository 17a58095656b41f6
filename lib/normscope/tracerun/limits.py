"""What else than memory and arithmetic bounds a norm, as far as the trace and the registry tell.

Every threshold is a figure of this trace or of this GPU: the number of its compute units, the size of its
last-level cache, how short the shortest kernels of the trace are.
"""

import re
from collections.abc import Sequence
from math import prod

import msgspec

from normscope.norms.bare_names import bare_kernel_name
from normscope.norms.calls import NormCall
from normscope.trace.events import GpuEvent, Trace
from normscope.tracerun.peaks import TracedGpu
from normscope.tracerun.signatures import Signature

SHORTEST_SHARE = 0.01
"""The shortest kernels of a trace: as short as this share of them at most."""
FEWEST_KERNELS = 50
"""Fewer other kernels may all be long, and don't tell how short kernels get."""
_ROW_NORMS = ("LayerNorm", "RMSNorm")
_READS_ONCE = re.compile(r"singleread|semiPersist")
"""Batch norm kernels that keep their part of x on the chip."""


class TracedDevice(msgspec.Struct, frozen=True):
    """The figures that limits are told by; None where not known.

    Attributes
    ----------
    multiprocessors
        Streaming multiprocessors or compute units, by device id of the trace; None stands for any device.
    kernels
        All kernels that took time, as duration in µs and index, the shortest first.
    last_level_cache_bytes
        Of the GPU, by the registry.
    bandwidth_gbps
        The peak that figures are held against.
    """

    multiprocessors: dict[int | None, int]
    kernels: Sequence[tuple[float, int]]
    last_level_cache_bytes: int | None
    bandwidth_gbps: float | None


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What bounds the calls of a signature; None where the trace doesn't tell.

    Attributes
    ----------
    bounds
        ``under-filled``: the main kernel starts fewer workgroups than the GPU has compute units.
        ``launch-bound``: the bytes of a call take less at peak bandwidth than the shortest other kernels of
        the trace. ``cache-resident``: the bytes of a call fit the last-level cache. ``two-pass``: inputs are
        read twice by nature.
    main_kernel, main_kernel_percent
        The kernel with most of the time of a call of several kernels, and its share.
    workgroups, workgroup_threads, multiprocessors
        Of the main kernel's launch, where it is the same in all calls, and of the GPU.
    at_peak_us, shortest_kernel_us
        Time of a call's bytes at peak bandwidth, and of the shortest other kernels: no more than a hundredth
        of them are shorter.
    last_level_cache_bytes
        Of the GPU.
    attainable_percent
        Share of the roofline that is left where inputs are read twice from memory.
    """

    bounds: tuple[str, ...]
    main_kernel: str
    main_kernel_percent: float | None
    workgroups: int | None
    workgroup_threads: int | None
    multiprocessors: int | None
    at_peak_us: float | None
    shortest_kernel_us: float | None
    last_level_cache_bytes: int | None
    attainable_percent: float | None


def traced_device(trace: Trace, found: TracedGpu) -> TracedDevice:
    """Return the figures of a trace's GPU that limits are told by."""
    counts: dict[int | None, int] = {d.id: d.multiprocessors for d in trace.info.devices if d.multiprocessors}
    alike: set[int | None] = {*counts.values()} or {found.multiprocessors}
    if len(alike) == 1 and (count := alike.pop()):
        counts[None] = count
    times_us = [event.dur_us if event.kind == "kernel" else 0.0 for event in trace.gpu_events]
    took_time = (index for index, time_us in enumerate(times_us) if time_us > 0)
    return TracedDevice(
        multiprocessors=counts,
        kernels=[(times_us[index], index) for index in sorted(took_time, key=times_us.__getitem__)],
        last_level_cache_bytes=found.last_level_cache_bytes,
        bandwidth_gbps=found.peaks.bandwidth_gbps if found.peaks else None,
    )


def shortest_kernel_us(device: TracedDevice, row: Signature) -> float | None:
    """Return how short the shortest kernels are besides those of ``row``; None where there are only a few.

    Its own are left out: a norm needs less at peak than it takes, so it would always be shorter than itself.
    """
    own = {i for call in row.calls for i in call.norm_events}
    others = len(device.kernels) - len(own)
    if others < FEWEST_KERNELS:
        return None
    left = int(others * SHORTEST_SHARE)
    for duration_us, index in device.kernels:
        if index not in own:
            if not left:
                return duration_us
            left -= 1
    return None


def limits(events: Sequence[GpuEvent], row: Signature, device: TracedDevice) -> Limits:
    """Return what bounds the calls of a signature."""
    call = row.first
    main, share, is_same = _main_kernel(events, row)
    moved = call.cost.bytes_moved
    at_peak_us = moved / (device.bandwidth_gbps * 1e3) if moved and device.bandwidth_gbps else None
    workgroups = prod(main.grid) if main.grid and is_same else None
    multiprocessors = _multiprocessors(device, main)
    shortest_us = shortest_kernel_us(device, row)
    cache = device.last_level_cache_bytes
    attainable = _attainable_percent(call, main.name, device, multiprocessors)
    tests = {
        "under-filled": workgroups is not None and workgroups < (multiprocessors or 0),
        "launch-bound": at_peak_us is not None and at_peak_us < (shortest_us or 0.0),
        "cache-resident": moved is not None and moved <= (cache or 0),
        "two-pass": attainable is not None,
    }
    return Limits(
        bounds=tuple(bound for bound, holds in tests.items() if holds),
        main_kernel=bare_kernel_name(main.name) if share is not None else "",
        main_kernel_percent=share,
        workgroups=workgroups,
        workgroup_threads=prod(main.block) if main.block and is_same else None,
        multiprocessors=multiprocessors,
        at_peak_us=at_peak_us,
        shortest_kernel_us=shortest_us,
        last_level_cache_bytes=cache,
        attainable_percent=attainable,
    )


def _multiprocessors(device: TracedDevice, kernel: GpuEvent) -> int | None:
    """Return how many compute units the GPU has: as listed, else as a launch tells.

    NVIDIA's profiler records how many blocks of a launch each multiprocessor gets.
    """
    listed = device.multiprocessors.get(kernel.device, device.multiprocessors.get(None))
    if listed or not kernel.grid or not kernel.blocks_per_sm:
        return listed
    return round(prod(kernel.grid) / kernel.blocks_per_sm)


def _main_kernel(events: Sequence[GpuEvent], row: Signature) -> tuple[GpuEvent, float | None, bool]:
    """Return the kernel with most of the norm's time, its share where a call has several kernels.

    The last value tells whether all calls launch it alike.
    """
    places = [call.norm_events or call.helper_events for call in row.calls]
    alike = [each for each in places if len(each) == len(places[0])]
    times_us = [sum(events[each[n]].dur_us for each in alike) for n in range(len(places[0]))]
    most = max(range(len(times_us)), key=times_us.__getitem__)
    total_us = sum(times_us)
    share = 100.0 * times_us[most] / total_us if len(times_us) > 1 and total_us else None
    launches = {(events[each[most]].grid, events[each[most]].block) for each in alike}
    return events[places[0][most]], share, len(launches) == 1 and len(alike) == len(places)


def _attainable_percent(
    call: NormCall, kernel_name: str, device: TracedDevice, multiprocessors: int | None
) -> float | None:
    """Return bytes ÷ (bytes + those read a second time) in percent, None where all is read once."""
    moved, again = call.cost.bytes_moved, call.cost.reread_bytes
    if _READS_ONCE.search(kernel_name):
        return None
    if not again and call.variant in _ROW_NORMS and _rows_overflow(call, device, multiprocessors):
        again = call.cost.x_size_bytes
    return 100.0 * moved / (moved + again) if moved and again else None


def _rows_overflow(call: NormCall, device: TracedDevice, multiprocessors: int | None) -> bool:
    """Tell whether the rows that all compute units work on at a time exceed the last-level cache.

    A row is read once for its statistics and once for its values; where the rows at work don't fit the cache,
    the second pass comes from memory.
    """
    row_bytes, cache = call.cost.row_bytes, device.last_level_cache_bytes
    return bool(row_bytes and cache and multiprocessors and row_bytes * multiprocessors > cache)
