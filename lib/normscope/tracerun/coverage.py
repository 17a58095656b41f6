"""Where the GPU kernel time of a trace went: to norms, by how they were found, or to something else."""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from normscope.norms.calls import NormCall
from normscope.norms.catalog.catalog import Catalog
from normscope.norms.overheads import Overheads
from normscope.trace.link import LinkedTrace
from normscope.trace.nesting import NONE

COVERAGE_FILE = "coverage.json"

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
"""Groups of kernels; the names up to ``not_a_norm_layer`` are those of the reference figures."""
GROUPS: tuple[GroupName, ...] = GroupName.__args__  # type: ignore[attr-defined]
NORM_GROUPS: tuple[GroupName, ...] = ("explicit", "compiled_fused", "eager_decomposed", "unlinked")
_BY_FOUND: Mapping[str, GroupName] = {
    "op": "explicit",
    "kernel": "explicit",
    "compiled": "compiled_fused",
    "eager": "eager_decomposed",
}


class Group(msgspec.Struct, frozen=True):
    """Kernels of one kind: how many, and their time in µs."""

    name: GroupName
    count: int
    us: float
    norms: int | None = None
    """Norms that the kernels belong to, where that is another number."""
    how: str | None = None
    """By what they were told, where there is more than one way."""


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """All kernel time of a trace in groups that add up to it; a kernel is in one group."""

    schema_version: str = "1.0"
    all_kernels: int
    all_kernels_us: float
    groups: tuple[Group, ...]
    recomputed_forward_calls: int
    unlinked_kernels_of_any_kind: int

    def us(self, *names: GroupName) -> float:
        """Return the time of some groups in µs."""
        return sum(group.us for group in self.groups if group.name in names)


def coverage(
    linked: LinkedTrace, catalog: Catalog, calls: Sequence[NormCall], overheads: Overheads
) -> Coverage:
    """Return how the kernel time of a trace is attributed; kernels only, with their times as recorded."""
    owner: dict[int, tuple[GroupName, str | None]] = {}
    for call in calls:
        group = _BY_FOUND[call.found_by] if call.is_in_timeline else "unlinked"
        owner |= dict.fromkeys(call.norm_events, (group, how_told(call)))
        owner |= dict.fromkeys(call.helper_events, ("helper_copies", None))
    owner |= dict.fromkeys(overheads.helper_events, ("helper_copies", None))
    owner |= dict.fromkeys(overheads.counter_events, ("bookkeeping_adds", None))
    counts: dict[tuple[GroupName, str | None], list[float]] = {}
    for index, event in enumerate(linked.trace.gpu_events):
        if event.kind == "kernel":
            key = owner.get(index) or (_other(linked, catalog, index), None)
            entry = counts.setdefault(key, [0, 0.0])
            entry[0] += 1
            entry[1] += event.dur_us
    chains = sum(call.found_by == "eager" for call in calls)
    groups = tuple(
        Group(name, int(count), us, chains if name == "eager_decomposed" else None, how)
        for (name, how), (count, us) in sorted(
            counts.items(), key=lambda item: (GROUPS.index(item[0][0]), -item[1][1])
        )
    )
    return Coverage(
        all_kernels=sum(group.count for group in groups),
        all_kernels_us=sum(group.us for group in groups),
        groups=groups,
        recomputed_forward_calls=sum(call.is_recomputed for call in calls),
        unlinked_kernels_of_any_kind=_unlinked(linked),
    )


def how_told(call: NormCall) -> str | None:
    """Return by what a compiled norm was told, None for others."""
    if call.found_by != "compiled":
        return None
    in_python = call.row.id == "compiled-rms-norm-in-python"
    return "mean+pow+rsqrt" if in_python else f"{call.row.variant} op in the name"


def _other(linked: LinkedTrace, catalog: Catalog, index: int) -> GroupName:
    if linked.how[index] == "outside window":
        return "outside_window"
    if linked.how[index] == "graph":
        return "other_graph_kernels"
    op = linked.op_of[index]
    if op == NONE:
        return "other_kernels_without_op"
    names = (linked.trace.cpu_ops[i].name for i in linked.chain(op))
    return "not_a_norm_layer" if any(catalog.purpose(n) == "not a norm layer" for n in names) else "other_ops"


def _unlinked(linked: LinkedTrace) -> int:
    if all(launch == NONE for launch in linked.launch_of):
        return 0
    pairs = zip(linked.trace.gpu_events, linked.launch_of, strict=True)
    return sum(event.kind == "kernel" and launch == NONE for event, launch in pairs)
