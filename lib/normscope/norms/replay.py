"""Shapes for the norms that a graph replayed, from the captures of graphs.

A capture of the same kernels for another batch size looks the same, so the captures of all batch sizes have
to be given: where several fit, nothing is guessed. Kernels that start one workgroup for each row tell the
number of rows, which refuses a capture of another batch size or confirms it; where none does, ``shapes_from``
says by what alone the capture was matched.
"""

import math
from collections.abc import Mapping, Sequence

import msgspec

from normscope.norms.calls import NormCall
from normscope.norms.capture import Capture
from normscope.norms.catalog.rows import RESIDUAL_ADD
from normscope.norms.kernel_calls import is_in_graph
from normscope.trace.link import LinkedTrace
from normscope.trace.nesting import NONE

BY_NAMES = "matched by the names of kernels only"
BY_ORDER = "matched by the order of norms only"
NOT_IN_CAPTURE = "a graph launched it, and the capture of that graph has no norm op for it"

# ROCm's own kernels for copies and fills, which are launched as such.
_OWN_KERNEL = "__amd_rocclr_"
# These norms run on the kernels of another one.
_RUNS_AS: Mapping[str, str] = {"InstanceNorm": "BatchNorm", "SyncBatchNorm": "BatchNorm"}
_UNKNOWN = "Other"

_Matched = list[tuple[NormCall, list[int]]]
"""Norms of a capture, each with the places of the calls that replay it."""


class _Graph(msgspec.Struct):
    """One replay: its kernels as indices of GPU events, and the places of its norm calls, both by time."""

    kernels: list[int] = []
    calls: list[int] = []


class _Replay(msgspec.Struct, frozen=True):
    """What a capture is held against.

    ``names`` are those of all kernels. For each norm call, ``places`` are its kernels among them, and
    ``rows`` how many rows these tell it has, None where they don't.
    """

    names: tuple[str, ...]
    places: tuple[tuple[int, ...], ...]
    rows: tuple[int | None, ...]


def with_captured_shapes(
    linked: LinkedTrace, calls: Sequence[NormCall], captures: Sequence[Capture]
) -> list[NormCall]:
    """Return ``calls`` with op, inputs and cost from the captures for those that a graph replayed.

    A capture fits a replay if its launches are the replay's kernels: by name where the names are recorded,
    else by their number and by the norms among them. One that contradicts the rows that the replay's kernels
    tell is refused. Shapes are only taken where all that fit agree on them.

    Parameters
    ----------
    linked
        The trace of the replays.
    calls
        All norm calls of the trace.
    captures
        The captured graphs; without any, ``calls`` are returned as they are.
    """
    if not captures:
        return list(calls)
    known: dict[_Replay, tuple[_Matched, str, str]] = {}
    result = dict(enumerate(calls))
    for graph in _graphs(linked, calls).values():
        own = [calls[i] for i in graph.calls]
        replay = _replay(linked, graph, own)
        if replay not in known:
            known[replay] = _best(captures, own, replay)
        matched, label, reason = known[replay]
        for i in graph.calls:
            result[i] = _without_shapes(calls[i], reason)
        for norm, members in matched:
            first, *others = (graph.calls[i] for i in members)
            result[first] = _with_shapes([calls[i] for i in (first, *others)], norm, label)
            for other in others:
                del result[other]
    return list(result.values())


def is_confirmed(shapes_from: str) -> bool:
    """Tell whether the kernels of a replay confirm the batch size of the capture that its shapes are from."""
    return not shapes_from.endswith((f"({BY_NAMES})", f"({BY_ORDER})"))


def needs_captures(linked: LinkedTrace, calls: Sequence[NormCall]) -> bool:
    """Tell whether a graph replayed any of ``calls``."""
    return any(is_replayed(linked, call) for call in calls)


def is_replayed(linked: LinkedTrace, call: NormCall) -> bool:
    """Tell whether a graph replayed a call."""
    return (
        call.found_by in ("kernel", "compiled")
        and bool(call.norm_events)
        and is_in_graph(linked, call.norm_events[0])
    )


def _graphs(linked: LinkedTrace, calls: Sequence[NormCall]) -> dict[int, _Graph]:
    """Return the replays with norm calls, by their launch."""
    graphs: dict[int, _Graph] = {}
    for place, call in enumerate(calls):
        if is_replayed(linked, call):
            graphs.setdefault(linked.launch_of[call.norm_events[0]], _Graph()).calls.append(place)
    for index, event in enumerate(linked.trace.gpu_events):
        graph = graphs.get(linked.launch_of[index])
        if graph is not None and event.kind == "kernel" and not event.name.startswith(_OWN_KERNEL):
            graph.kernels.append(index)
    for graph in graphs.values():
        graph.calls.sort(key=lambda place: calls[place].norm_events)
    return graphs


def _replay(linked: LinkedTrace, graph: _Graph, calls: Sequence[NormCall]) -> _Replay:
    place_of = {event: place for place, event in enumerate(graph.kernels)}
    return _Replay(
        names=tuple(linked.trace.gpu_events[i].name for i in graph.kernels),
        places=tuple(tuple(place_of.get(event, NONE) for event in call.norm_events) for call in calls),
        rows=tuple(_rows_told(linked, call) for call in calls),
    )


def _rows_told(linked: LinkedTrace, call: NormCall) -> int | None:
    """Return the rows of a call, where its kernel starts one workgroup for each; None elsewhere."""
    if not call.row.workgroup_per_row:
        return None
    events = (linked.trace.gpu_events[i] for i in call.norm_events)
    told = {math.prod(event.grid) for event in events if event.grid and call.row.names_kernel(event.name)}
    return told.pop() if len(told) == 1 else None


def _best(
    captures: Sequence[Capture], calls: Sequence[NormCall], replay: _Replay
) -> tuple[_Matched, str, str]:
    """Return the norms of the captures that fit, whose they are, and why other calls have no shapes."""
    fitting: dict[str, tuple[_Matched, str]] = {}
    count = refused = 0
    for capture in captures:
        matched = _match(capture, calls, replay)
        if matched is None:
            continue
        checks = _checks(matched, replay.rows)
        if not all(checks):
            refused += 1
            continue
        count += 1
        shapes = [(norm.name, norm.args.dims, norm.args.types, norm.cost) for norm, _ in matched]
        alone = BY_ORDER if None in capture.kernels else BY_NAMES
        label = capture.label if checks else f"{capture.label} ({alone})"
        fitting.setdefault(repr(shapes), (matched, label))
    if len(fitting) == 1:
        return *next(iter(fitting.values())), NOT_IN_CAPTURE
    if fitting:
        return [], "", f"a graph launched it, and {count} captured graphs with different shapes fit it"
    others = f"; {refused} would but for the number of rows" if refused else ""
    return [], "", f"a graph launched it, and none of the captured graphs ({len(captures)}) fits it{others}"


def _checks(matched: _Matched, rows: Sequence[int | None]) -> list[bool]:
    """Return, for each call whose kernel tells its rows, whether its norm in the capture has as many."""
    return [
        rows[i] == norm.cost.x_size_bytes // norm.cost.row_bytes
        for norm, members in matched
        if norm.cost.row_bytes and norm.cost.x_size_bytes is not None
        for i in members
        if rows[i] is not None
    ]


def _match(capture: Capture, calls: Sequence[NormCall], replay: _Replay) -> _Matched | None:
    """Return the norms of ``capture`` with their calls, None where it doesn't fit."""
    if len(capture.kernels) != len(replay.names):
        return None
    if None not in capture.kernels:
        return _by_place(capture, replay.places) if capture.kernels == replay.names else None
    return _by_order(capture.norms, calls)


def _by_place(capture: Capture, places: Sequence[tuple[int, ...]]) -> _Matched:
    """Match where the kernels are the same one by one: the place of a kernel is that of its launch."""
    owner = {place: number for number, norm in enumerate(capture.norms) for place in norm.norm_events}
    members: dict[int, list[int]] = {}
    for call, own in enumerate(places):
        found = {owner.get(place, NONE) for place in own}
        if len(found) == 1 and found != {NONE}:
            members.setdefault(found.pop(), []).append(call)
    return [(capture.norms[number], own) for number, own in members.items()]


def _by_order(norms: Sequence[NormCall], calls: Sequence[NormCall]) -> _Matched | None:
    """Match one call to each norm, or as many as it has launches; all have to agree with their norm."""
    matched: _Matched = []
    one_each = len(norms) == len(calls)
    at = 0
    for norm in norms:
        members: list[int] = []
        kernels = 0
        while at < len(calls) and (not members if one_each else kernels < len(norm.norm_events)):
            members.append(at)
            kernels += len(calls[at].norm_events)
            at += 1
        fits_number = kernels <= len(norm.norm_events) if one_each else kernels == len(norm.norm_events)
        if not fits_number or not all(_agree(norm, calls[i]) for i in members):
            return None
        matched.append((norm, members))
    return matched if at == len(calls) else None


def _agree(norm: NormCall, call: NormCall) -> bool:
    if "compiled" in (norm.found_by, call.found_by):
        return norm.name == call.name
    variants = {_RUNS_AS.get(each.variant, each.variant) for each in (norm, call)}
    return (
        (len(variants) == 1 or _UNKNOWN in variants)
        and norm.direction == call.direction
        and (RESIDUAL_ADD in norm.fuses) == (RESIDUAL_ADD in call.fuses)
    )


def _with_shapes(calls: Sequence[NormCall], norm: NormCall, label: str) -> NormCall:
    """Return the calls of one norm as one call, with what its op in the capture tells."""
    return msgspec.structs.replace(
        calls[0],
        row=norm.row,
        name=norm.name,
        variant=norm.variant,
        direction=norm.direction,
        fuses=norm.fuses,
        args=norm.args,
        cost=norm.cost,
        op_chain=norm.op_chain,
        norm_events=tuple(event for call in calls for event in call.norm_events),
        norm_us=sum(call.norm_us for call in calls),
        shapes_from=label,
    )


def _without_shapes(call: NormCall, reason: str) -> NormCall:
    return msgspec.structs.replace(call, cost=msgspec.structs.replace(call.cost, missing_reason=reason))
