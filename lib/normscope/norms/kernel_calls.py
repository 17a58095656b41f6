"""Norm calls found by the names of kernels alone.

So are graph replays, bare Triton and pybind launches, traces without ops, kernels whose launch lies outside
the trace, and ops that the catalog doesn't have. Their time is known, and nothing is invented about bytes.

Kernels that are pieces of one norm, come from the same place and follow each other directly on a stream are
one call, and every other kernel is one of its own: an op without a row may run several norms and other work
between them. A call is named after such an op, without one after the kernel that tells what the norm is.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence, Set

from normscope.norms.bare_names import bare_kernel_name
from normscope.norms.calls import NormCall, launched_within, time_us
from normscope.norms.catalog.catalog import Catalog
from normscope.norms.catalog.rows import NormRow
from normscope.norms.cost import NormCost
from normscope.norms.kernel_names import KernelNorm, read_kernel
from normscope.norms.kernel_pieces import followers, leading_pieces, main_piece
from normscope.trace.events import OpArgs
from normscope.trace.link import LinkedTrace
from normscope.trace.nesting import NONE

NO_OP = "no op of the trace launched it"
IN_GRAPH = "a graph launched it, and no capture of that graph is given"
OUTSIDE_LAUNCH = "its launch lies outside the trace"
ONLY_AROUND = "of the ops around its launch the catalog knows none as a norm"
OP_WITHOUT_ROW = "the catalog has no row for the op that launched it"
NO_NORM_BY_ITSELF = "for the catalog, the op that launched it is no norm by itself"
KERNEL_NAME = "kernel-name"
NO_LIBRARY = "not known"
NO_NAME = "kernel without a name"

# What stands around other work and is no op of its own: autograd's evaluation and its nodes for built-in ops,
# regions of compilers, optimizers, wrappers of whole models.
_AROUND_WORK = re.compile(
    r"autograd::engine::|\w+Backward\d+\Z|Checkpoint|CompiledFunction|Torch-Compiled Region"
    r"|(## )?Call CompiledFxGraph|ProfilerStep|Optimizer\.|DistributedDataParallel"
    r"|FullyShardedDataParallel|FSDP::|_OperationFuser"
)


def kernel_calls(linked: LinkedTrace, catalog: Catalog, claimed: Set[int]) -> list[NormCall]:
    """Return the norm kernels that belong to no call in ``claimed``, as calls."""
    names = {event.name for event in linked.trace.gpu_events}
    norm_names = {name for name in names if catalog.is_norm_kernel(name)}
    kernels = [
        index
        for index, event in enumerate(linked.trace.gpu_events)
        if event.name in norm_names and event.kind == "kernel" and index not in claimed
    ]
    if not kernels:
        return []
    is_within = launched_within(linked)
    groups = list(_joined(linked, kernels))
    count_of = Counter(_named_op(linked, indices[0]) for indices in groups)
    return [
        _call(
            linked,
            catalog,
            indices,
            is_in_timeline=is_within(indices[0]),
            is_whole_op=count_of[_named_op(linked, indices[0])] == 1,
        )
        for indices in groups
    ]


def is_in_graph(linked: LinkedTrace, event: int) -> bool:
    """Tell whether a GPU event was started by the launch of a graph, and not by one of its own."""
    return linked.how[event] == "graph"


def _named_op(linked: LinkedTrace, index: int) -> int:
    """Return the op that launched a kernel and says what it is, -1 where none does."""
    op = linked.op_of[index]
    if op == NONE or is_in_graph(linked, index) or not linked.trace.cpu_ops[op].name:
        return NONE
    return NONE if _AROUND_WORK.match(linked.trace.cpu_ops[op].name) else op


def _joined(linked: LinkedTrace, kernels: Sequence[int]) -> Iterator[list[int]]:
    """Yield ``kernels`` in groups that are one norm each."""
    events = linked.trace.gpu_events
    left, next_of = dict.fromkeys(kernels), followers(events, kernels)
    for index in kernels:
        if index not in left:
            continue
        chain = [index]
        while (after := next_of.get(chain[-1], NONE)) in left and _go_together(linked, index, after):
            chain.append(after)
            if leading_pieces([events[i].name for i in chain]) < len(chain):
                chain.pop()
                break
        for each in chain:
            del left[each]
        yield chain


def _go_together(linked: LinkedTrace, first: int, other: int) -> bool:
    """Tell whether one op can have launched both: in the same graph, from the same place, or both unknown."""
    graphs = [linked.launch_of[i] if is_in_graph(linked, i) else NONE for i in (first, other)]
    return (
        graphs[0] == graphs[1]
        and linked.op_of[first] == linked.op_of[other]
        and linked.how[first] == linked.how[other]
    )


def _call(
    linked: LinkedTrace, catalog: Catalog, indices: Sequence[int], *, is_in_timeline: bool, is_whole_op: bool
) -> NormCall:
    """Return the call of the kernels ``indices``; the time of an op with several calls is none of theirs."""
    trace = linked.trace
    events = [trace.gpu_events[i] for i in indices]
    main = events[main_piece([event.name for event in events])]
    row, told = _row(catalog, main.name)
    first = indices[0]
    named = _named_op(linked, first)
    op = trace.cpu_ops[named] if named != NONE else None
    where = op or events[0]
    return NormCall(
        row=row,
        found_by="kernel",
        name=op.name if op else bare_kernel_name(main.name) or NO_NAME,
        variant=told.variant if told else row.variant,
        direction=told.direction if told else row.direction,
        fuses=told.fuses if told and told.fuses else row.fuses,
        args=op.args() if op else OpArgs(),
        cost=NormCost(missing_reason=_missing_reason(linked, catalog, first, is_in_timeline=is_in_timeline)),
        op=NONE if is_in_graph(linked, first) else linked.op_of[first],
        pid=where.pid,
        tid=op.tid if op else events[0].stream,
        ts_us=where.ts_us,
        host_us=op.dur_us if op and is_whole_op else None,
        norm_events=tuple(indices),
        norm_us=time_us(trace.gpu_events, indices),
        is_in_timeline=is_in_timeline,
    )


def _missing_reason(linked: LinkedTrace, catalog: Catalog, index: int, *, is_in_timeline: bool) -> str:
    if is_in_graph(linked, index):
        return IN_GRAPH
    if (op := _named_op(linked, index)) != NONE:
        return NO_NORM_BY_ITSELF if catalog.of_op(linked.trace.cpu_ops[op].name) else OP_WITHOUT_ROW
    if linked.op_of[index] != NONE:
        return ONLY_AROUND
    return NO_OP if is_in_timeline else OUTSIDE_LAUNCH


def _row(catalog: Catalog, name: str) -> tuple[NormRow, KernelNorm | None]:
    """Return the row of a kernel, one made for it where the catalog has none, and what its name tells."""
    row, told = catalog.of_kernel(name), read_kernel(name)
    if row is not None:
        return row, told
    generic = NormRow(
        id=KERNEL_NAME,
        library=NO_LIBRARY,
        variant=told.variant if told else "Other",
        how="kernel",
        evidence="unverified",
        source="the words in the kernel's name",
    )
    return generic, told
