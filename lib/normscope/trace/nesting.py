"""Which op lies in which, and which op a launch was made from: by time, thread by thread."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

from normscope.trace.events import CpuOp, Launch, Span, ThreadId

NONE = -1
"""Index that stands for "there is none"."""
ROUNDING_STEPS = 4

Track = tuple[ThreadId, ThreadId]
Timed = CpuOp | Span

# Start, minus the duration, external id, name, index. A span sorts after those around it; of two with the
# same times the one recorded first is the outer one. A launch has 1.0 for the duration, so that it sorts
# after the spans that start with it, its end for the external id, and minus 1 minus its index.
_Item = tuple[float, float, float, str, int]
_LAUNCH = 1.0


def tolerance_us(latest_us: float) -> float:
    """Return by how much the end of a span may be off, in µs, near the time ``latest_us``.

    Times are 64-bit floats. Counted from the epoch they keep a quarter of a µs only, so that a child may seem
    to end after its parent. A start is never off against another one: rounding keeps the order.
    """
    return ROUNDING_STEPS * math.ulp(latest_us)


def nest(spans: Sequence[Timed], launches: Sequence[Launch] = ()) -> tuple[list[int], list[int]]:
    """Return the index of each span's parent, and of the innermost span around each launch; -1 for none.

    A span lies in another one of its process and thread that starts no later and ends no earlier. A launch
    lies in the innermost span within which it starts. The time needed grows with the number of spans, however
    deep they are nested.
    """
    parents = [NONE] * len(spans)
    launched_from = [NONE] * len(launches)
    tracks: dict[Track, list[_Item]] = defaultdict(list)
    for index, span in enumerate(spans):
        recorded = (span.external_id or 0) if type(span) is CpuOp else 0
        tracks[span.pid, span.tid].append((span.ts_us, -span.dur_us, recorded, span.name, index))
    for index, call in enumerate(launches):
        end = call.ts_us + call.dur_us
        tracks[call.pid, call.tid].append((call.ts_us, _LAUNCH, end, "", -1 - index))
    for items in tracks.values():
        items.sort()
        for index, around in _sweep(items):
            if index < 0:
                launched_from[-1 - index] = around
            else:
                parents[index] = around
    return parents, launched_from


def _sweep(items: list[_Item]) -> Iterator[tuple[int, int]]:
    """Yield each item of one thread, in the order of time, with the innermost span around it."""
    slack = tolerance_us(items[-1][0])
    open_spans: list[tuple[float, float, int]] = []
    for start, minus_duration, launch_end, _, index in items:
        end = launch_end if minus_duration == _LAUNCH else start - minus_duration
        while open_spans:
            around_end, around_start, _ = open_spans[-1]
            ended = start >= around_end and (end > around_end + slack or start > around_start)
            overlaps = index >= 0 and end > around_end + slack
            if not ended and not overlaps:
                break
            open_spans.pop()
        yield index, open_spans[-1][2] if open_spans else NONE
        if index >= 0:
            open_spans.append((end, start, index))
