"""Work around the norms that nobody names: norms that run twice, copies made for them, counters they keep."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Literal

import msgspec

from normscope.norms.calls import NormCall, is_counted, ops_with_purpose
from normscope.norms.catalog.catalog import Catalog
from normscope.trace.link import LinkedTrace
from normscope.trace.nesting import NONE, Track

OverheadKind = Literal[
    "recomputed",
    "counter",
    "repeated parameters",
    "contiguous copy",
    "cast",
    "prepared tensor",
    "other helper",
]
_COUNTER_OP = "aten::add_"
_COUNTER_KERNEL = "add<long"
_COUNTING_VARIANTS = ("BatchNorm", "SyncBatchNorm", "InstanceNorm")
_COUNTING_MODULES = ("BatchNorm", "InstanceNorm")
# What a helper's kernel is for, by the first of these ops around its launch; the first row that fits.
_BY_OP: tuple[tuple[str, OverheadKind], ...] = (
    ("aten::repeat", "repeated parameters"),
    ("aten::contiguous", "contiguous copy"),
    ("aten::clone", "contiguous copy"),
    ("aten::to", "cast"),
    ("aten::_to_copy", "cast"),
)


class Overhead(msgspec.Struct, frozen=True):
    """One kind of work around the norms.

    Attributes
    ----------
    kind
        ``recomputed``: forward norms that ran again in the backward pass. ``counter``: additions of 1 to
        ``num_batches_tracked``. ``repeated parameters``: copies of them that instance norm makes for every
        sample. ``contiguous copy`` and ``cast``: copies of inputs inside a norm op. ``prepared tensor``:
        copies in an op that only prepares a norm's input. ``other helper``: the rest inside norm ops.
    call_count
        Norm calls that have it; for counters and prepared tensors their own number.
    event_count
        GPU events.
    time_us
        Their summed durations.
    """

    kind: OverheadKind
    call_count: int
    event_count: int
    time_us: float


class Overheads(msgspec.Struct, frozen=True, kw_only=True):
    """The work around the norms of a trace; events are indices into the trace.

    ``helper_events`` and ``counter_events`` are those that belong to no norm call.
    """

    found: tuple[Overhead, ...]
    helper_events: tuple[int, ...]
    counter_events: tuple[int, ...]


def find_overheads(linked: LinkedTrace, catalog: Catalog, calls: Sequence[NormCall]) -> Overheads:
    """Return the work around ``calls``, the kind with the most time first."""
    claimed = {event: call for call in calls for event in (*call.norm_events, *call.helper_events)}
    helpers = _prepared(linked, catalog, claimed)
    counters = _counters(linked, claimed)
    events = linked.trace.gpu_events
    found = [
        _overhead("prepared tensor", len(helpers), [events[i].dur_us for i in helpers]),
        _overhead("counter", len(counters), [events[i].dur_us for i in counters]),
        _recomputed(calls),
        *_inside(linked, calls),
    ]
    return Overheads(
        found=tuple(sorted((o for o in found if o.event_count), key=lambda o: -o.time_us)),
        helper_events=helpers,
        counter_events=counters,
    )


def _overhead(kind: OverheadKind, call_count: int, times_us: Sequence[float]) -> Overhead:
    return Overhead(kind, call_count, len(times_us), sum(times_us))


def _recomputed(calls: Iterable[NormCall]) -> Overhead:
    again = [call for call in calls if call.is_recomputed]
    events = sum(len(call.norm_events) + len(call.helper_events) for call in again)
    return Overhead("recomputed", len(again), events, sum(call.kernel_us for call in again))


def _inside(linked: LinkedTrace, calls: Iterable[NormCall]) -> list[Overhead]:
    """Return the helpers inside norm calls, by what they are for."""
    times_us: dict[OverheadKind, list[float]] = defaultdict(list)
    owners: dict[OverheadKind, set[int]] = defaultdict(set)
    for number, call in enumerate(calls):
        for event in call.helper_events:
            kind = _purpose(linked, event, call)
            times_us[kind].append(linked.trace.gpu_events[event].dur_us)
            owners[kind].add(number)
    return [_overhead(kind, len(owners[kind]), own) for kind, own in times_us.items()]


def _purpose(linked: LinkedTrace, event: int, call: NormCall) -> OverheadKind:
    names = set()
    for op in linked.chain(linked.op_of[event]):
        if op == call.op:
            break
        names.add(linked.trace.cpu_ops[op].name)
    return next((kind for name, kind in _BY_OP if name in names), "other helper")


def _prepared(linked: LinkedTrace, catalog: Catalog, claimed: Mapping[int, NormCall]) -> tuple[int, ...]:
    preparing = ops_with_purpose(linked, catalog, "helper")
    return tuple(
        index
        for index, op in enumerate(linked.op_of if preparing else ())
        if op in preparing and index not in claimed and is_counted(linked, index)
    )


def _counters(linked: LinkedTrace, claimed: Mapping[int, NormCall]) -> tuple[int, ...]:
    """Return the additions to integers that run in a batch norm's module, or right before a batch norm."""
    trace = linked.trace
    candidates = [
        index
        for index, op in enumerate(linked.op_of)
        if op != NONE
        and index not in claimed
        and trace.cpu_ops[op].name == _COUNTER_OP
        and _COUNTER_KERNEL in trace.gpu_events[index].name
        and linked.how[index] != "graph"
        and is_counted(linked, index)
    ]
    found = {index for index in candidates if _in_counting_module(linked, index)}
    counting = {index for index, call in claimed.items() if _counts(call)}
    if counting and len(found) < len(candidates):
        following = _following(linked)
        found.update(index for index in candidates if following.get(index, NONE) in counting)
    return tuple(sorted(found))


def _counts(call: NormCall) -> bool:
    return call.variant in _COUNTING_VARIANTS and call.direction == "forward"


def _in_counting_module(linked: LinkedTrace, index: int) -> bool:
    path = linked.module_path(linked.op_of[index])
    return bool(path) and any(word in path[-1] for word in _COUNTING_MODULES)


def _following(linked: LinkedTrace) -> dict[int, int]:
    """Return for each GPU event the one that was launched after it on the same thread."""
    launches = linked.trace.launches
    threads: dict[Track, list[tuple[float, int]]] = defaultdict(list)
    for index, launch in enumerate(linked.launch_of):
        if launch != NONE:
            call = launches[launch]
            threads[call.pid, call.tid].append((call.ts_us, index))
    found: dict[int, int] = {}
    for launched in threads.values():
        launched.sort()
        found.update((first, second) for (_, first), (_, second) in pairwise(launched))
    return found
