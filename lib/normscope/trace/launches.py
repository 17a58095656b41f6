"""Which launch a GPU event comes from: by correlation id, also where ranks were merged into one file."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean, median

from normscope.trace.events import GpuEvent, Launch, ThreadId
from normscope.trace.nesting import NONE

MOST_CALLS_OF_ZERO = 2
"""A launch and the driver's call inside it may share an id; if more have the id 0, it stands for none."""

Calls = dict[ThreadId, dict[int | None, list[int]]]
"""Of each host process the launches of each correlation id, by time."""


def find_launches(gpu_events: Sequence[GpuEvent], launches: Sequence[Launch]) -> list[int]:
    """Return the index of each GPU event's launch, or -1.

    In merged traces the ranks use the same ids. There each GPU process is paired with the host process that
    explains its events best, and only launches of that one count. The time needed is linear but for sorting,
    also where many launches share an id.
    """
    calls = _calls(gpu_events, launches)
    owners = Counter(correlation for own in calls.values() for correlation in own)
    is_merged = len(owners) < owners.total()
    host_of = _pair_processes(gpu_events, launches, calls) if is_merged else {}
    of_one_host = {
        correlation: indices
        for own in calls.values()
        for correlation, indices in own.items()
        if owners[correlation] == 1 and (not is_merged or len(indices) == 1)
    }
    single = {correlation: indices[0] for correlation, indices in of_one_host.items() if len(indices) == 1}

    def among_several(event: GpuEvent) -> int:
        indices = of_one_host.get(event.correlation)
        if indices is None and event.pid in host_of:
            indices = calls[host_of[event.pid]].get(event.correlation)
        return _latest_before(event, indices, launches) if indices else NONE

    return [
        single[event.correlation] if event.correlation in single else among_several(event)
        for event in gpu_events
    ]


def _calls(gpu_events: Sequence[GpuEvent], launches: Sequence[Launch]) -> Calls:
    """Return the launches with the correlation id of a GPU event."""
    wanted = {event.correlation for event in gpu_events}
    calls: Calls = defaultdict(lambda: defaultdict(list))
    for index, launch in enumerate(launches):
        if launch.correlation in wanted:
            calls[launch.pid][launch.correlation].append(index)
    if any(len(own.get(0, ())) > MOST_CALLS_OF_ZERO for own in calls.values()):
        for own in calls.values():
            own.pop(0, None)
    for own in calls.values():
        for indices in own.values():
            if len(indices) > 1:
                # Of calls at the same time the first one counts, so it comes last.
                indices.sort(key=lambda index: (launches[index].ts_us, -index))
    return calls


def _latest_before(event: GpuEvent, indices: list[int], launches: Sequence[Launch]) -> int:
    """Return the last launch no later than ``event``, or the last of all if there is none."""
    return indices[bisect_right(indices, event.ts_us, key=lambda index: launches[index].ts_us) - 1]


def _pair_processes(
    gpu_events: Sequence[GpuEvent], launches: Sequence[Launch], calls: Calls
) -> dict[ThreadId, ThreadId]:
    """Return the host process of each GPU process.

    A pair is good if many events follow their launch. Of equal pairs those come first that have the same
    place in the order of time: where clocks are off against each other, the shortest delay is the wrong
    pair's. Then the soonest, then the lowest ids go together. A host process is used twice only when all
    are taken.
    """
    delays: dict[tuple[ThreadId, ThreadId], list[float]] = defaultdict(list)
    for event in gpu_events:
        for host, own in calls.items():
            if indices := own.get(event.correlation):
                launch = launches[_latest_before(event, indices, launches)]
                delays[event.pid, host].append(event.ts_us - launch.ts_us)
    known = {correlation for own in calls.values() for correlation in own}
    gpu_place = _places((event.pid, event.ts_us) for event in gpu_events if event.correlation in known)
    host_place = _places(
        (host, launches[index].ts_us)
        for host, own in calls.items()
        for each in own.values()
        for index in each
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
