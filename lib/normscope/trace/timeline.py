"""How the GPU spent its time: computing, communicating, copying, idle."""

from collections.abc import Iterable

import msgspec

from normscope.trace.events import GpuEvent
from normscope.trace.link import LinkedTrace
from normscope.trace.nesting import NONE

Interval = tuple[float, float]

COMMUNICATION = ("nccl", "rccl")
US_PER_MS = 1000.0
HIP_MEMSET = "hipMemset"


class Timeline(msgspec.Struct, frozen=True):
    """Time on the GPU in ms. Overlapping events are counted once: each figure is the length of a union."""

    total_ms: float
    """From the start of the first event to the end of the last."""
    computation_ms: float
    exposed_communication_ms: float
    """Communication while nothing was computed."""
    exposed_memcpy_ms: float
    """Copying while nothing was computed or communicated."""
    busy_ms: float
    idle_ms: float
    communication_ms: float
    memcpy_ms: float
    counted_events: int
    left_out_events: int
    """Events without a launch in the trace, memsets of ROCm, and events outside the profiled window."""


def gpu_timeline(linked: LinkedTrace) -> Timeline:
    """Return how the GPU spent its time, as TraceLens counts it.

    Counted are the events whose launch is in the trace, or all if none has one, with their times as recorded:
    an overrun is not clipped. Memsets are computation, except those of ROCm, which TraceLens does not link.
    """
    events = _counted(linked)
    names = {event.name for event in events if event.kind == "kernel"}
    communicating = {name for name in names if _communicates(name)}
    computation: list[Interval] = []
    communication: list[Interval] = []
    copies: list[Interval] = []
    for event in events:
        is_communication = event.kind == "kernel" and event.name in communicating
        kind = copies if event.kind == "memcpy" else communication if is_communication else computation
        kind.append((event.ts_us, event.ts_us + event.dur_us))
    computing = union_us(computation)
    computing_or_communicating = union_us(computation + communication)
    everything = computation + communication + copies
    busy = union_us(everything)
    first = min((start for start, _ in everything), default=0.0)
    total = max((end for _, end in everything), default=0.0) - first
    return Timeline(
        total_ms=total / US_PER_MS,
        computation_ms=computing / US_PER_MS,
        exposed_communication_ms=(computing_or_communicating - computing) / US_PER_MS,
        exposed_memcpy_ms=(busy - computing_or_communicating) / US_PER_MS,
        busy_ms=busy / US_PER_MS,
        idle_ms=(total - busy) / US_PER_MS,
        communication_ms=union_us(communication) / US_PER_MS,
        memcpy_ms=union_us(copies) / US_PER_MS,
        counted_events=len(events),
        left_out_events=len(linked.trace.gpu_events) - len(events),
    )


def union_us(intervals: Iterable[Interval]) -> float:
    """Return the length of the union of ``intervals``, each a start and an end in µs."""
    covered = 0.0
    reached = float("-inf")
    for start, end in sorted(intervals):
        if end > reached:
            covered += end - (start if start > reached else reached)
            reached = end
    return covered


def _counted(linked: LinkedTrace) -> list[GpuEvent]:
    events, launches, launch_of = linked.trace.gpu_events, linked.trace.launches, linked.launch_of
    if all(launch == NONE for launch in launch_of):
        return [event for event, how in zip(events, linked.how, strict=True) if how != "outside window"]
    return [
        event
        for event, launch in zip(events, launch_of, strict=True)
        if launch != NONE and not (event.kind == "memset" and launches[launch].name.startswith(HIP_MEMSET))
    ]


def _communicates(kernel_name: str) -> bool:
    name = kernel_name.lower()
    return any(word in name for word in COMMUNICATION)
