"""Which launch a GPU event comes from: by correlation id, also where ranks were merged into one file."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean, median

from normscope.trace.events import GpuEvent, Launch, ThreadId
from normscope.trace.nesting import NONE


def find_launches(gpu_events: Sequence[GpuEvent], launches: Sequence[Launch]) -> list[int]:
    """Return the index of each GPU event's launch, or -1.

    In merged traces the ranks use the same ids. There each GPU process is paired with the host process that
    explains its events best, and only launches of that one count.
    """
    wanted = {event.correlation for event in gpu_events}
    candidates: dict[int, list[int]] = defaultdict(list)
    for index, launch in enumerate(launches):
        if launch.correlation in wanted:
            candidates[launch.correlation].append(index)
    is_merged = any(
        len(indices) > 1 and len({launches[index].pid for index in indices}) > 1
        for indices in candidates.values()
    )
    host_of = _pair_processes(gpu_events, launches, candidates) if is_merged else None
    return [_launch_of(event, launches, candidates, host_of) for event in gpu_events]


def _launch_of(
    event: GpuEvent,
    launches: Sequence[Launch],
    candidates: dict[int, list[int]],
    host_of: dict[ThreadId, ThreadId] | None,
) -> int:
    indices = candidates.get(event.correlation, ()) if event.correlation is not None else ()
    if len(indices) > 1 and host_of is not None:
        host = host_of.get(event.pid)
        indices = [index for index in indices if launches[index].pid == host]
    if len(indices) <= 1:
        return indices[0] if indices else NONE
    before = [index for index in indices if launches[index].ts_us <= event.ts_us]
    return max(before or indices, key=lambda index: launches[index].ts_us)


def _pair_processes(
    gpu_events: Sequence[GpuEvent], launches: Sequence[Launch], candidates: dict[int, list[int]]
) -> dict[ThreadId, ThreadId]:
    """Return the host process of each GPU process.

    A pair is good if many events follow their launch. Of equal pairs those come first that have the same
    place in the order of time: where clocks are off against each other, the shortest delay is the wrong
    pair's. Then the soonest, then the lowest ids go together. A host process is used twice only when all
    are taken.
    """
    delays: dict[tuple[ThreadId, ThreadId], list[float]] = defaultdict(list)
    for event in gpu_events:
        for index in candidates.get(event.correlation, ()) if event.correlation is not None else ():
            delays[event.pid, launches[index].pid].append(event.ts_us - launches[index].ts_us)
    gpu_place = _places((event.pid, event.ts_us) for event in gpu_events if event.correlation in candidates)
    host_place = _places(
        (launches[index].pid, launches[index].ts_us) for each in candidates.values() for index in each
    )
    is_comparable = len(gpu_place) == len(host_place)

    def quality(
        pair: tuple[ThreadId, ThreadId],
    ) -> tuple[int, int, float, tuple[str, int], tuple[str, int]]:
        gpu, host = pair
        after = [delay for delay in delays[pair] if delay >= 0]
        apart = abs(gpu_place[gpu] - host_place[host]) if is_comparable else 0
        return -len(after), apart, median(after) if after else 0.0, _order(gpu), _order(host)

    host_of: dict[ThreadId, ThreadId] = {}
    taken: set[ThreadId] = set()
    ranked = sorted(delays, key=quality)
    for gpu, host in ranked:
        if gpu not in host_of and host not in taken:
            host_of[gpu] = host
            taken.add(host)
    for gpu, host in ranked:
        host_of.setdefault(gpu, host)
    return host_of


def _places(moments: Iterable[tuple[ThreadId, float]]) -> dict[ThreadId, int]:
    """Return the place of each process in the order of the mean time of what it did."""
    times_us: dict[ThreadId, list[float]] = defaultdict(list)
    for process, ts_us in moments:
        times_us[process].append(ts_us)
    ordered = sorted(times_us, key=lambda process: (fmean(times_us[process]), _order(process)))
    return {process: place for place, process in enumerate(ordered)}


def _order(process: ThreadId) -> tuple[str, int]:
    return (process, 0) if isinstance(process, str) else ("", process)
