"""Norm calls found by the name of a kernel alone: each kernel is a call of its own.

So are graph replays, bare Triton and pybind launches, traces of the GPU alone, and kernels whose launch lies
outside the trace. Their time is known, and nothing is invented about their bytes.
"""

from collections.abc import Set

from normscope.norms.bare_names import bare_kernel_name
from normscope.norms.calls import NormCall, is_counted
from normscope.norms.catalog.catalog import Catalog
from normscope.norms.catalog.rows import NormRow
from normscope.norms.cost import NormCost
from normscope.norms.kernel_names import KernelNorm, read_kernel
from normscope.trace.events import OpArgs
from normscope.trace.link import LinkedTrace
from normscope.trace.nesting import NONE

NO_OP = "no op of the trace launched it"
OP_WITHOUT_ROW = "the catalog has no row for the op that launched it"
KERNEL_NAME = "kernel-name"


def kernel_calls(linked: LinkedTrace, catalog: Catalog, claimed: Set[int]) -> list[NormCall]:
    """Return the norm kernels that belong to no call in ``claimed``, each as a call."""
    has_launches = any(launch != NONE for launch in linked.launch_of)
    return [
        _call(linked, catalog, index, has_launches=has_launches)
        for index, event in enumerate(linked.trace.gpu_events)
        if event.kind == "kernel" and index not in claimed and catalog.is_norm_kernel(event.name)
    ]


def _call(linked: LinkedTrace, catalog: Catalog, index: int, *, has_launches: bool) -> NormCall:
    trace = linked.trace
    event = trace.gpu_events[index]
    row, told = _row(catalog, event.name)
    op = linked.op_of[index] if linked.how[index] != "graph" else NONE
    is_linked = not has_launches or linked.launch_of[index] != NONE
    return NormCall(
        row=row,
        found_by="kernel",
        name=bare_kernel_name(event.name) or "kernel without a name",
        variant=told.variant if told else row.variant,
        direction=told.direction if told else row.direction,
        fuses=told.fuses if told and told.fuses else row.fuses,
        args=OpArgs(),
        cost=NormCost(missing_reason=NO_OP if op == NONE else OP_WITHOUT_ROW),
        op=op,
        pid=event.pid,
        tid=event.stream,
        ts_us=event.ts_us,
        host_us=None,
        norm_events=(index,),
        norm_us=event.dur_us,
        is_in_timeline=is_linked and is_counted(linked, index),
    )


def _row(catalog: Catalog, name: str) -> tuple[NormRow, KernelNorm | None]:
    """Return the row of a kernel, one made for it where the catalog has none, and what its name tells."""
    row, told = catalog.of_kernel(name), read_kernel(name)
    if row is not None:
        return row, told
    generic = NormRow(
        id=KERNEL_NAME,
        library="not known",
        variant=told.variant if told else "Other",
        how="kernel",
        evidence="unverified",
        source="the words in the kernel's name",
    )
    return generic, told
