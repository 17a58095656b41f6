"""Which op lies in which, and which op a launch was made from: by time, thread by thread."""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from normscope.trace.events import CpuOp, Launch, Span, ThreadId

NONE = -1
"""Index that stands for "there is none"."""
ROUNDING_STEPS = 4

Track = tuple[ThreadId, ThreadId]
Timed = CpuOp | Span

# Start, minus the duration, the op or the span's name, index. A span sorts after those around it; of two ops
# with the same times the one recorded first is the outer one. A launch has 1.0 for the duration, so that it
# sorts after the spans that start with it, its end for the op, and minus 1 minus its index.
_Item = tuple[float, float, Any, int]
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
        own = span if type(span) is CpuOp else span.name
        tracks[span.pid, span.tid].append((span.ts_us, -span.dur_us, own, index))
    for index, call in enumerate(launches):
        end = call.ts_us + call.dur_us
        tracks[call.pid, call.tid].append((call.ts_us, _LAUNCH, end, -1 - index))
    for items in tracks.values():
        items.sort()
        _sweep(items, parents, launched_from)
    return parents, launched_from


def _sweep(items: list[_Item], parents: list[int], launched_from: list[int]) -> None:
    """Fill in the innermost span around each item of one thread, given in the order of time."""
    slack = tolerance_us(items[-1][0])
    outer: list[tuple[float, float, int]] = []
    around_end, around_start, around = math.inf, -math.inf, NONE
    for start, minus_duration, launch_end, index in items:
        is_span = index >= 0
        end = start - minus_duration if is_span else launch_end
        while (start >= around_end and (end > around_end + slack or start > around_start)) or (
            is_span and end > around_end + slack
        ):
            around_end, around_start, around = outer.pop()
        if is_span:
            parents[index] = around
            outer.append((around_end, around_start, around))
            around_end, around_start, around = end, start, index
        else:
            launched_from[-1 - index] = around
