"""Where the GPU kernel time of a trace went: to norms, by how they were found, or to something else."""

import re
from collections.abc import Mapping, Sequence
from math import fsum
from typing import Literal

import msgspec

from normscope.norms.calls import NormCall, ops_with_purpose
from normscope.norms.catalog.catalog import Catalog
from normscope.norms.overheads import Overheads
from normscope.trace.link import How, LinkedTrace
from normscope.trace.nesting import NONE

COVERAGE_FILE = "coverage.json"
SCHEMA_VERSION = "1.0"

GroupName = Literal[
    "explicit",
    "compiled_fused",
    "eager_decomposed",
    "unlinked",
    "helper_copies",
    "bookkeeping_adds",
    "not_a_norm_layer",
    "other_ops",
    "other_graph_kernels",
    "other_kernels_without_op",
    "outside_window",
]
TITLES: Mapping[GroupName, str] = {
    "explicit": "Norm ops and kernels with a norm's name",
    "compiled_fused": "Norms inside compiled kernels",
    "eager_decomposed": "Norms written out in Python (unfused)",
    "unlinked": "Norm kernels whose launch was cut off",
    "helper_copies": "Copies and casts made for norms",
    "bookkeeping_adds": "Counters kept by batch norm",
    "not_a_norm_layer": "Called norm, but no normalization layer",
    "other_ops": "Other ops",
    "other_graph_kernels": "Other kernels of replayed graphs",
    "other_kernels_without_op": "Other kernels without an op",
    "outside_window": "Outside the profiled window",
}
"""Every group in words, in the order in which they are shown."""
NORM_GROUPS: tuple[GroupName, ...] = ("explicit", "compiled_fused", "eager_decomposed", "unlinked")
UPPER_BOUND = "upper bound: the norm is fused with other work"

_BY_FOUND: Mapping[str, GroupName] = {
    "op": "explicit",
    "kernel": "explicit",
    "compiled": "compiled_fused",
    "eager": "eager_decomposed",
}
_NORM_OP = re.compile(r"native_(?:layer|group|batch)_norm(?:_backward)?|rms_norm(?:_backward)?")
_IN_PYTHON = "compiled-rms-norm-in-python"


class Group(msgspec.Struct, frozen=True, omit_defaults=True):
    """Kernels of one kind.

    Attributes
    ----------
    count, us
        How many kernels, and their summed time in µs.
    norms
        For norms written out in Python: how many norms the kernels make up.
    how
        For compiled kernels: by what they were told.
    upper_bound_us
        For norms whose launch was cut off: the part of the time that is an upper bound, if any.
    """

    count: int
    us: float
    norms: int | None = None
    how: str | None = None
    upper_bound_us: float | None = None


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """All kernel time of a trace in groups that add up to it; a kernel is in exactly one group.

    Attributes
    ----------
    all_kernels, all_kernels_us
        The whole: how many kernels, and their summed time in µs.
    explicit
        Kernels of norm ops, and kernels that carry a norm's name.
    compiled_fused
        Kernels that a compiler made of a norm and other work: an upper bound of the norm's time.
    eager_decomposed
        Small kernels that together are a norm written out in Python.
    unlinked
        Norm kernels whose launch lies outside the profiled window; compiled ones are among them, whose time
        is an upper bound.
    helper_copies
        Copies and casts that prepare a norm's tensors.
    bookkeeping_adds
        Additions to the counter that batch norm keeps.
    not_a_norm_layer
        Kernels of ops that have a norm's name and are something else, such as a vector's length.
    other_ops, other_graph_kernels, other_kernels_without_op, outside_window
        No norms: under an op, of a replayed graph, under no op, before or after the profiled window.
    recomputed_forward_calls
        Forward norms that ran again in the backward pass, as activation checkpointing makes them.
    unlinked_kernels_of_any_kind
        Kernels without a launch, in a trace that has launches.
    """

    schema_version: str = SCHEMA_VERSION
    all_kernels: int
    all_kernels_us: float
    explicit: Group
    compiled_fused: tuple[Group, ...]
    eager_decomposed: Group
    unlinked: Group
    helper_copies: Group
    bookkeeping_adds: Group
    not_a_norm_layer: Group
    other_ops: Group
    other_graph_kernels: Group
    other_kernels_without_op: Group
    outside_window: Group
    recomputed_forward_calls: int
    unlinked_kernels_of_any_kind: int

    @property
    def groups(self) -> tuple[tuple[GroupName, Group], ...]:
        """Every group that has a kernel, with its name, in the order of `TITLES`."""
        return tuple((name, group) for name in TITLES for group in self._of(name) if group.count)

    def us(self, *names: GroupName) -> float:
        """Return the time of some groups in µs."""
        return fsum(group.us for name in names for group in self._of(name))

    def count(self, *names: GroupName) -> int:
        """Return the number of kernels in some groups."""
        return sum(group.count for name in names for group in self._of(name))

    def percent(self, time_us: float) -> float | None:
        """Return a time as a share of all kernel time in percent, None where there is none."""
        return 100 * time_us / self.all_kernels_us if self.all_kernels_us else None

    def _of(self, name: GroupName) -> tuple[Group, ...]:
        found: Group | tuple[Group, ...] = getattr(self, name)
        return (found,) if isinstance(found, Group) else found


def coverage(
    linked: LinkedTrace, catalog: Catalog, calls: Sequence[NormCall], overheads: Overheads
) -> Coverage:
    """Return how the kernel time of a trace is attributed; kernels only, with their times as recorded."""
    times_us: dict[_Kind, list[float]] = {}
    for event, kind in _kinds(linked, catalog, calls, overheads).items():
        times_us.setdefault(kind, []).append(linked.trace.gpu_events[event].dur_us)
    fused = [_group(times, how) for (name, how), times in times_us.items() if name == "compiled_fused"]
    groups = {name: _group(times_us.get((name, None), ())) for name in TITLES if name != "compiled_fused"}
    chains = sum(call.found_by == "eager" for call in calls)
    groups["eager_decomposed"] = msgspec.structs.replace(groups["eager_decomposed"], norms=chains)
    bounded_us = _cut_off_upper_bound_us(linked, calls)
    groups["unlinked"] = msgspec.structs.replace(groups["unlinked"], upper_bound_us=bounded_us)
    return Coverage(
        schema_version=SCHEMA_VERSION,
        all_kernels=sum(group.count for group in (*groups.values(), *fused)),
        all_kernels_us=fsum(group.us for group in (*groups.values(), *fused)),
        compiled_fused=tuple(sorted(fused, key=lambda group: (-group.us, group.how))),
        recomputed_forward_calls=sum(call.is_recomputed for call in calls),
        unlinked_kernels_of_any_kind=_unlinked(linked),
        **groups,
    )


def _cut_off_upper_bound_us(linked: LinkedTrace, calls: Sequence[NormCall]) -> float | None:
    """Return the time of compiled norm kernels whose launch was cut off; None where there are none."""
    own = {i for call in calls if not call.is_in_timeline and call.is_upper_bound for i in call.norm_events}
    return fsum(linked.trace.gpu_events[i].dur_us for i in own) if own else None


_Kind = tuple[GroupName, str | None]
_HELPER: _Kind = ("helper_copies", None)
_BY_LINK: Mapping[str, _Kind] = {
    "outside window": ("outside_window", None),
    "graph": ("other_graph_kernels", None),
}
_NO_OP: _Kind = ("other_kernels_without_op", None)
_ONLY_CALLED_NORM: _Kind = ("not_a_norm_layer", None)
_OTHER_OP: _Kind = ("other_ops", None)


def _group(times_us: Sequence[float], how: str | None = None) -> Group:
    return Group(len(times_us), fsum(times_us), how=how)


def _kinds(
    linked: LinkedTrace, catalog: Catalog, calls: Sequence[NormCall], overheads: Overheads
) -> dict[int, _Kind]:
    """Return the group of every kernel, and by what it was told where that makes a group of its own."""
    kinds = _other_kinds(linked, catalog)
    of_norms: dict[int, _Kind] = {}
    for call in calls:
        group = _BY_FOUND[call.found_by] if call.is_in_timeline else "unlinked"
        how = how_told(call) if group == "compiled_fused" else None
        of_norms |= dict.fromkeys(call.norm_events, (group, how))
        of_norms |= dict.fromkeys(call.helper_events, _HELPER)
    of_norms |= dict.fromkeys(overheads.helper_events, _HELPER)
    of_norms |= dict.fromkeys(overheads.counter_events, ("bookkeeping_adds", None))
    # Copies and memsets are events of norms, too, but no kernels.
    kinds |= {event: kind for event, kind in of_norms.items() if event in kinds}
    return kinds


def _other_kinds(linked: LinkedTrace, catalog: Catalog) -> dict[int, _Kind]:
    """Return the group of every kernel as if there were no norms."""
    only_called_norm = ops_with_purpose(linked, catalog, "not a norm layer")

    def kind(how: How, op: int) -> _Kind:
        if how in _BY_LINK:
            return _BY_LINK[how]
        if op == NONE:
            return _NO_OP
        return _ONLY_CALLED_NORM if op in only_called_norm else _OTHER_OP

    return {
        index: kind(linked.how[index], linked.op_of[index])
        for index, event in enumerate(linked.trace.gpu_events)
        if event.kind == "kernel"
    }


def how_told(call: NormCall) -> str:
    """Return by what the norm in a compiled kernel was told."""
    if found := _NORM_OP.search(call.name):
        return f"{found.group()} in the name"
    return "mean+pow+rsqrt" if call.row.id == _IN_PYTHON else f"catalog row {call.row.id}"


def _unlinked(linked: LinkedTrace) -> int:
    """Count the kernels without a launch, in a trace that has launches."""
    if all(launch == NONE for launch in linked.launch_of):
        return 0
    pairs = zip(linked.trace.gpu_events, linked.launch_of, strict=True)
    return sum(event.kind == "kernel" and launch == NONE for event, launch in pairs)
