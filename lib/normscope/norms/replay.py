"""Shapes for the norms that a graph replayed, from the captures of graphs.

A capture of the same kernels for another batch size looks the same, so the captures of all batch sizes have
to be given: where several fit, nothing is guessed.
"""

from collections.abc import Mapping, Sequence

import msgspec

from normscope.norms.calls import NormCall
from normscope.norms.capture import Capture
from normscope.norms.catalog.rows import RESIDUAL_ADD
from normscope.norms.kernel_calls import is_in_graph
from normscope.trace.link import LinkedTrace
from normscope.trace.nesting import NONE

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


def with_captured_shapes(
    linked: LinkedTrace, calls: Sequence[NormCall], captures: Sequence[Capture]
) -> list[NormCall]:
    """Return ``calls`` with op, inputs and cost from the captures for those that a graph replayed.

    A capture fits a replay if its launches are the replay's kernels: by name where the names are recorded,
    else by their number and by the norms among them. Shapes are only taken where all that fit agree on them.

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
    known: dict[tuple[object, ...], tuple[_Matched, str, str]] = {}
    result = dict(enumerate(calls))
    for graph in _graphs(linked, calls).values():
        names = tuple(linked.trace.gpu_events[i].name for i in graph.kernels)
        own = [calls[i] for i in graph.calls]
        place_of = {event: place for place, event in enumerate(graph.kernels)}
        places = tuple(tuple(place_of.get(event, NONE) for event in call.norm_events) for call in own)
        if (names, places) not in known:
            known[names, places] = _best(captures, own, names, places)
        matched, label, reason = known[names, places]
        for i in graph.calls:
            result[i] = _without_shapes(calls[i], reason)
        for norm, members in matched:
            first, *others = (graph.calls[i] for i in members)
            result[first] = _with_shapes([calls[i] for i in (first, *others)], norm, label)
            for other in others:
                del result[other]
    return list(result.values())


def needs_captures(linked: LinkedTrace, calls: Sequence[NormCall]) -> bool:
    """Tell whether a graph replayed any of ``calls``."""
    return any(_is_replayed(linked, call) for call in calls)


def _is_replayed(linked: LinkedTrace, call: NormCall) -> bool:
    return (
        call.found_by in ("kernel", "compiled")
        and bool(call.norm_events)
        and is_in_graph(linked, call.norm_events[0])
    )


def _graphs(linked: LinkedTrace, calls: Sequence[NormCall]) -> dict[int, _Graph]:
    """Return the replays with norm calls, by their launch."""
    graphs: dict[int, _Graph] = {}
    for place, call in enumerate(calls):
        if _is_replayed(linked, call):
            graphs.setdefault(linked.launch_of[call.norm_events[0]], _Graph()).calls.append(place)
    for index, event in enumerate(linked.trace.gpu_events):
        graph = graphs.get(linked.launch_of[index])
        if graph is not None and event.kind == "kernel" and not event.name.startswith(_OWN_KERNEL):
            graph.kernels.append(index)
    for graph in graphs.values():
        graph.calls.sort(key=lambda place: calls[place].norm_events)
    return graphs


def _best(
    captures: Sequence[Capture],
    calls: Sequence[NormCall],
    names: tuple[str, ...],
    places: Sequence[tuple[int, ...]],
) -> tuple[_Matched, str, str]:
    """Return the norms of the captures that fit, the label of the first, and why other calls have none."""
    fitting: dict[str, tuple[_Matched, str]] = {}
    count = 0
    for capture in captures:
        matched = _match(capture, calls, names, places)
        if matched is not None:
            count += 1
            shapes = [(norm.name, norm.args.dims, norm.args.types, norm.cost) for norm, _ in matched]
            fitting.setdefault(repr(shapes), (matched, capture.label))
    if len(fitting) == 1:
        return *next(iter(fitting.values())), NOT_IN_CAPTURE
    if fitting:
        return [], "", f"a graph launched it, and {count} captured graphs with different shapes fit it"
    return [], "", f"a graph launched it, and none of the captured graphs ({len(captures)}) fits it"


def _match(
    capture: Capture,
    calls: Sequence[NormCall],
    names: tuple[str, ...],
    places: Sequence[tuple[int, ...]],
) -> _Matched | None:
    """Return the norms of ``capture`` with their calls, None where it doesn't fit."""
    if len(capture.kernels) != len(names):
        return None
    if None not in capture.kernels:
        return _by_place(capture, places) if capture.kernels == names else None
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
