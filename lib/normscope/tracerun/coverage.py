"""Where the GPU kernel time of a trace went: to norms, to other ops, or to nothing that can be named."""

import msgspec

from normscope.norms.calls import NormCall, is_counted
from normscope.norms.kernel_names import is_norm_kernel
from normscope.trace.link import LinkedTrace
from normscope.trace.nesting import NONE


class Group(msgspec.Struct, frozen=True):
    """Kernels of one kind: how many, and their time in µs."""

    what: str
    count: int
    time_us: float


class Coverage(msgspec.Struct, frozen=True):
    """All kernel time of a trace in groups that add up to it; a kernel is in one group."""

    total_count: int
    total_us: float
    groups: tuple[Group, ...]


NORM = "norm ops"
HELPER = "copies and casts under norm ops"
NORM_UNMODELED = "kernels with a norm's name under ops without a model"
OTHER_OPS = "other ops"
NORM_WITHOUT_OP = "kernels with a norm's name that no op launched"
GRAPH = "graph launches"
WITHOUT_OP = "kernels that no op launched"
OUTSIDE = "kernels outside the profiled window"
GROUPS = (NORM, HELPER, NORM_UNMODELED, OTHER_OPS, NORM_WITHOUT_OP, GRAPH, WITHOUT_OP, OUTSIDE)


def coverage(linked: LinkedTrace, calls: list[NormCall]) -> Coverage:
    """Return how the kernel time of a trace is attributed; kernels only, with their times as recorded."""
    owner = {i: NORM for call in calls for i in call.norm_events}
    owner |= {i: HELPER for call in calls for i in call.helper_events}
    counts = dict.fromkeys(GROUPS, 0)
    times_us = dict.fromkeys(GROUPS, 0.0)
    for index, event in enumerate(linked.trace.gpu_events):
        if event.kind == "kernel":
            group = owner.get(index) or _group(linked, index, event.name)
            counts[group] += 1
            times_us[group] += event.dur_us
    groups = tuple(Group(what, counts[what], times_us[what]) for what in GROUPS if counts[what])
    return Coverage(sum(counts.values()), sum(times_us.values()), groups)


def _group(linked: LinkedTrace, index: int, name: str) -> str:
    if not is_counted(linked, index):
        return OUTSIDE
    if linked.op_of[index] != NONE and linked.how[index] != "graph":
        return NORM_UNMODELED if is_norm_kernel(name) else OTHER_OPS
    if is_norm_kernel(name):
        return NORM_WITHOUT_OP
    return GRAPH if linked.how[index] == "graph" else WITHOUT_OP
