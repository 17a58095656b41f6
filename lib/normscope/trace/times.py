"""Times on the GPU: their order, records that are there twice or overrun the next one, the clock's step."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from operator import attrgetter

import msgspec

from normscope.trace.events import GpuEvent, ThreadId
from normscope.trace.problems import ProblemLog

COARSE_US = 1.0
FINE_US = 0.001

REPEATED = "GPU events stood in the trace more than once and were counted once"
OVERRUN = "GPU events claim to end after the next one on their stream has ended"
ZERO = "GPU events have a duration of 0"


def in_order(events: Iterable[GpuEvent]) -> list[GpuEvent]:
    """Return ``events`` by their start; those that start together by duration, stream and name."""
    found = sorted(events, key=attrgetter("ts_us"))
    if any(event.ts_us == following.ts_us for event, following in pairwise(found)):
        found.sort(key=lambda event: (event.ts_us, event.dur_us, str(event.stream), event.name))
    return found


def without_repeats(events: list[GpuEvent], log: ProblemLog) -> list[GpuEvent]:
    """Return ``events``, which are in order, with each that was written more than once only once."""
    pairs = pairwise(events)
    if not any(event.ts_us == other.ts_us and event.dur_us == other.dur_us for event, other in pairs):
        return events
    first: dict[tuple[object, ...], GpuEvent] = {}
    for event in events:
        key = (event.ts_us, event.dur_us, event.pid, event.stream, event.correlation, event.name)
        first.setdefault(key, event)
    log.add(REPEATED, count=len(events) - len(first))
    return list(first.values())


def clip_overruns(events: list[GpuEvent], log: ProblemLog) -> list[GpuEvent]:
    """Return ``events``, which are in order of time, with ``clipped_dur_us`` set where one overruns the next.

    A stream runs one event after the other. With programmatic launches the next may start early, but it can't
    end first; an event that seems to outlast its successor has a wrong end, as ROCm writes now and then.
    """
    streams: dict[tuple[ThreadId, ThreadId], list[int]] = defaultdict(list)
    for index, event in enumerate(events):
        streams[event.pid, event.stream].append(index)
    clipped = list(events)
    for indices in streams.values():
        for index, following in pairwise(indices):
            event, successor = events[index], events[following]
            end_us = event.ts_us + event.dur_us
            if end_us > successor.ts_us > event.ts_us and end_us > successor.ts_us + successor.dur_us:
                duration = successor.ts_us - event.ts_us
                clipped[index] = msgspec.structs.replace(event, clipped_dur_us=duration)
                log.add(OVERRUN)
    log.add(ZERO, count=sum(event.dur_us == 0 for event in events))
    return clipped


def resolution_us(events: Sequence[GpuEvent]) -> float:
    """Return the clock's step in µs: 1.0 where every time is whole, as before PyTorch 2.4, else 0.001."""
    is_coarse = all(event.ts_us.is_integer() and event.dur_us.is_integer() for event in events)
    return COARSE_US if events and is_coarse else FINE_US
