"""GPU events linked to their launches, the ops around these, and the modules around the ops."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Literal

import msgspec

from normscope.trace.collector_pause import collector_paused
from normscope.trace.events import CpuOp, GpuEvent, Problem, Span, Trace
from normscope.trace.launches import find_launches
from normscope.trace.nesting import NONE, Track, nest, tolerance_us
from normscope.trace.problems import ProblemLog

How = Literal["correlation", "graph", "external id", "none", "outside window"]

GRAPH_LAUNCH = "graphlaunch"
TRUSTED_SHARE = 0.9
"""External ids are believed if at least this share of those that can be checked is right."""

SKEW = "GPU events begin before their launch (clock skew)"
OUTSIDE = "GPU events lie outside the profiled window and are left out of all sums"
UNLINKED = "GPU events have no launch in the trace"


class ModuleTrack(msgspec.Struct, frozen=True):
    """The module calls of one thread, in the order of their starts."""

    starts_us: list[float]
    spans: list[int]


class LinkedTrace(msgspec.Struct, frozen=True):
    """A trace with its links, as indices into the trace's lists; -1 stands for none."""

    trace: Trace
    launch_of: list[int]
    """Per GPU event, its launch."""
    op_of: list[int]
    """Per GPU event, the innermost op around its launch."""
    how: list[How]
    """Per GPU event, how its op was found; ``graph`` where one launch started a whole graph."""
    parent_of: list[int]
    """Per op, the op around it on its thread."""
    module_parent_of: list[int]
    """Per module call, the module call around it."""
    module_tracks: dict[Track, ModuleTrack]
    forward_of_sequence: dict[int, int]
    """The innermost forward op of each sequence number; -1 where several threads used the number."""
    ops_named: dict[str, list[int]]
    """The ops of each name."""
    problems: list[Problem]
    """What was found while linking."""

    def chain(self, op: int) -> Iterator[int]:
        """Yield ``op`` and the ops around it, innermost first."""
        while op != NONE:
            yield op
            op = self.parent_of[op]

    def forward_op(self, op: int) -> int:
        """Return the forward op whose backward pass ``op`` belongs to, or -1."""
        for index in self.chain(op):
            around = self.trace.cpu_ops[index]
            if around.forward_thread and around.sequence is not None:
                return self.forward_of_sequence.get(around.sequence, NONE)
        return NONE

    def module_path(self, op: int) -> tuple[str, ...]:
        """Return the names of the modules around ``op``, else around its forward op, outermost first.

        A forward op that runs again in the backward pass has modules of its own around it.
        """
        own = self._modules_around(self.trace.cpu_ops[op])
        forward = NONE if own else self.forward_op(op)
        return own if forward == NONE else self._modules_around(self.trace.cpu_ops[forward])

    def _modules_around(self, op: CpuOp) -> tuple[str, ...]:
        track = self.module_tracks.get((op.pid, op.tid))
        if track is None:
            return ()
        place = bisect_right(track.starts_us, op.ts_us) - 1
        module = track.spans[place] if place >= 0 else NONE
        names = []
        while module != NONE:
            span = self.trace.modules[module]
            if span.end_us >= op.ts_us:
                names.append(span.name)
            module = self.module_parent_of[module]
        return tuple(reversed(names))


@collector_paused()
def link(trace: Trace) -> LinkedTrace:
    """Link each GPU event to its launch, and through it to the ops and modules around it.

    The correlation id leads from the event to the launch, and the launch's time on its thread to the op. The
    external id is used only for events without a launch, and only if it proves right elsewhere in the trace.
    """
    log = ProblemLog()
    launch_of = find_launches(trace.gpu_events, trace.launches)
    used = sorted({index for index in launch_of if index != NONE})
    place_of = {index: place for place, index in enumerate(used)}
    parent_of, launched_from = nest(trace.cpu_ops, [trace.launches[index] for index in used])
    op_of = [NONE if index == NONE else launched_from[place_of[index]] for index in launch_of]
    how = _how(trace, launch_of)
    _link_by_external_id(trace, op_of, how, parent_of)
    _mark_outside(trace, how)
    log.add(OUTSIDE, count=how.count("outside window"))
    log.add(UNLINKED, count=how.count("none"))
    log.add(SKEW, count=_count_skewed(trace, launch_of))
    module_parents, _ = nest(trace.modules)
    return LinkedTrace(
        trace=trace,
        launch_of=launch_of,
        op_of=op_of,
        how=how,
        parent_of=parent_of,
        module_parent_of=module_parents,
        module_tracks=_module_tracks(trace.modules),
        forward_of_sequence=_forward_ops(trace.cpu_ops),
        ops_named=_ops_named(trace.cpu_ops),
        problems=log.found(),
    )


def _how(trace: Trace, launch_of: list[int]) -> list[How]:
    used = set(launch_of) - {NONE}
    names = {trace.launches[index].name for index in used}
    graph_names = {name for name in names if GRAPH_LAUNCH in name.lower()}
    graphs = {index for index in used if trace.launches[index].name in graph_names}
    started: set[int] = set()
    for index, event in zip(launch_of, trace.gpu_events, strict=True):
        if event.kind == "kernel":
            (graphs if index in started else started).add(index)
    return ["none" if index == NONE else "graph" if index in graphs else "correlation" for index in launch_of]


def _link_by_external_id(trace: Trace, op_of: list[int], how: list[How], parent_of: list[int]) -> None:
    """Fill in the op of events without a launch, if external ids can be trusted in this trace."""
    unlinked = [index for index, way in enumerate(how) if way == "none"]
    if all(trace.gpu_events[index].external_id is None for index in unlinked):
        return
    named = _ops_by_external_id(trace, op_of)
    if not _external_ids_hold(trace.gpu_events, op_of, named, parent_of):
        return
    for index in unlinked:
        op = named[index]
        if op != NONE and trace.cpu_ops[op].ts_us <= trace.gpu_events[index].ts_us:
            op_of[index] = op
            how[index] = "external id"


def _ops_by_external_id(trace: Trace, op_of: list[int]) -> list[int]:
    """Return the one op with each GPU event's external id in the process that launches its events, or -1."""
    pairs = Counter(
        (event.pid, trace.cpu_ops[op].pid)
        for op, event in zip(op_of, trace.gpu_events, strict=True)
        if op != NONE
    )
    host_of = {gpu: host for (gpu, host), _ in reversed(pairs.most_common())}
    ids = [(op.pid, op.external_id) for op in trace.cpu_ops]
    count_of = Counter(ids)
    op_by_id = {each: index for index, each in enumerate(ids) if each[1] is not None and count_of[each] == 1}
    return [
        op_by_id.get((host_of[event.pid], event.external_id), NONE) if event.pid in host_of else NONE
        for event in trace.gpu_events
    ]


def _external_ids_hold(
    events: list[GpuEvent], op_of: list[int], named: list[int], parent_of: list[int]
) -> bool:
    """Tell whether external ids name ops, and not launches as in some traces; not if none can be checked."""
    both = [event for event in events if event.external_id is not None and event.correlation is not None]
    if both and all(event.external_id == event.correlation for event in both):
        return False
    checked = [
        (op, named_op)
        for op, named_op, event in zip(op_of, named, events, strict=True)
        if op != NONE and event.external_id is not None
    ]
    right = sum(named_op != NONE and named_op in (op, parent_of[op]) for op, named_op in checked)
    return bool(checked) and right >= TRUSTED_SHARE * len(checked)


def _mark_outside(trace: Trace, how: list[How]) -> None:
    """Mark the unlinked GPU events that ran before or after the profiled window."""
    if "none" not in how:
        return
    start, end = trace.window_us or (_first_host_time(trace), float("inf"))
    for index, event in enumerate(trace.gpu_events):
        if how[index] == "none" and (event.end_us < start or event.ts_us > end):
            how[index] = "outside window"


def _first_host_time(trace: Trace) -> float:
    hosts = (trace.cpu_ops, trace.launches, trace.annotations, trace.steps)
    return min((event.ts_us for events in hosts for event in events), default=float("-inf"))


def _count_skewed(trace: Trace, launch_of: list[int]) -> int:
    pairs = zip(trace.gpu_events, launch_of, strict=True)
    early = [
        (event.ts_us, trace.launches[index].ts_us)
        for event, index in pairs
        if index != NONE and event.ts_us < trace.launches[index].ts_us
    ]
    return sum(begun_us + tolerance_us(begun_us) < launched_us for begun_us, launched_us in early)


def _module_tracks(modules: list[Span]) -> dict[Track, ModuleTrack]:
    tracks: dict[Track, list[int]] = defaultdict(list)
    for index in sorted(
        range(len(modules)), key=lambda index: (modules[index].ts_us, -modules[index].dur_us)
    ):
        tracks[modules[index].pid, modules[index].tid].append(index)
    return {
        track: ModuleTrack(starts_us=[modules[index].ts_us for index in indices], spans=indices)
        for track, indices in tracks.items()
    }


def _ops_named(ops: list[CpuOp]) -> dict[str, list[int]]:
    named: dict[str, list[int]] = defaultdict(list)
    for index, op in enumerate(ops):
        named[op.name].append(index)
    return named


def _forward_ops(ops: list[CpuOp]) -> dict[int, int]:
    """Return the last op to start with each sequence number: the one for which the autograd node was made."""
    found: dict[int, int] = {}
    threads: dict[int, set[Track]] = defaultdict(set)
    for index, op in enumerate(ops):
        if op.sequence is None or op.forward_thread:
            continue
        threads[op.sequence].add((op.pid, op.tid))
        best = found.get(op.sequence)
        if best is None or (ops[best].ts_us, -ops[best].dur_us) < (op.ts_us, -op.dur_us):
            found[op.sequence] = index
    return {sequence: index if len(threads[sequence]) == 1 else NONE for sequence, index in found.items()}
