"""The logical norm calls of a trace: one for each outermost norm op on a thread, with all its kernels.

A norm op calls others (``aten::batch_norm`` > ``_batch_norm_impl_index`` > ``native_batch_norm``),
and one call launches several kernels. Counting by name would count a call three times and its kernels once or
thrice; so a kernel belongs to the outermost norm op around its launch, and to nothing else.
"""

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from normscope.norms.cost import NormCost, describing_op, norm_cost
from normscope.norms.models import Direction, Model
from normscope.norms.ops import NORM_OPS, is_norm_op, select_layout
from normscope.trace.events import CpuOp, GpuEvent, OpArgs, ThreadId
from normscope.trace.link import LinkedTrace
from normscope.trace.nesting import NONE
from normscope.trace.timeline import HIP_MEMSET

# Ops that prepare or move tensors for a norm: their kernels are overhead of the call, not the norm itself.
HELPER_OPS = frozenset(
    (
        *("aten::copy_", "aten::_to_copy", "aten::to", "aten::contiguous", "aten::clone", "aten::repeat"),
        *("aten::fill_", "aten::zero_", "aten::zeros", "aten::expand", "aten::cat", "aten::reshape"),
    )
)
# This op leaves the norm to a batch norm below it; what it launches itself are copies of its parameters.
_ONLY_PREPARES = "aten::instance_norm"
# The reference names a call after its outermost op, but for these, which it names after the op below.
_NAMED_AFTER_CHILD = {"aten::rms_norm": "aten::_fused_rms_norm"}
_Costs = dict[str, tuple[Model, NormCost]]
_AUTOGRAD = "autograd::engine::evaluate_function"


class NormCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One call of a normalization, with the GPU events under it as indices into the trace.

    ``op`` is the outermost norm op, ``op_chain`` the names of the norm ops from there inwards. The reference
    reports the call under the name and the inputs of ``shown_op``, while ``cost`` comes from the op of the
    chain that sees the tensors as they are normalized. ``is_recomputed`` marks a forward norm that ran again
    in the backward pass, as activation checkpointing does.
    """

    op: int
    shown_op: int
    name: str
    op_chain: tuple[str, ...]
    direction: Direction
    is_recomputed: bool
    cost: NormCost
    model: Model
    pid: ThreadId
    tid: ThreadId
    ts_us: float
    norm_events: tuple[int, ...]
    helper_events: tuple[int, ...]
    norm_us: float
    helper_us: float

    @property
    def kernel_us(self) -> float:
        """Time of everything under the call, as the reference counts it."""
        return self.norm_us + self.helper_us


def norm_calls(linked: LinkedTrace) -> list[NormCall]:
    """Return the norm calls of a trace that have GPU events, by the start of their op.

    Times are the durations as recorded, in µs; events outside the profiled window belong to no call.
    """
    owner_of = _outermost_norms(linked)
    events: dict[int, list[int]] = defaultdict(list)
    for index, op in enumerate(linked.op_of):
        if (owner := owner_of.get(op, NONE)) != NONE and is_counted(linked, index):
            events[owner].append(index)
    costs: _Costs = {}
    calls = [_call(linked, owner, indices, costs) for owner, indices in events.items()]
    return sorted(calls, key=lambda call: (call.ts_us, call.op))


def is_counted(linked: LinkedTrace, event: int) -> bool:
    """Tell whether a GPU event counts: not outside the profiled window, and no memset of ROCm.

    The reference doesn't link the latter, which PyTorch's libraries start beside their kernels.
    """
    launch = linked.launch_of[event]
    is_memset = linked.trace.gpu_events[event].kind == "memset"
    if is_memset and launch != NONE and linked.trace.launches[launch].name.startswith(HIP_MEMSET):
        return False
    return linked.how[event] != "outside window"


def _outermost_norms(linked: LinkedTrace) -> dict[int, int]:
    """Return the outermost norm op around each op that launched something, and around those outside it."""
    ops, parent_of = linked.trace.cpu_ops, linked.parent_of
    known: dict[int, int] = {NONE: NONE}
    for launcher in set(linked.op_of):
        path = []
        op = launcher
        while op not in known:
            path.append(op)
            op = parent_of[op]
        found = known[op]
        for each in reversed(path):
            found = each if found == NONE and is_norm_op(ops[each].name) else found
            known[each] = found
    return known


def _cost(chain: Sequence[CpuOp], costs: _Costs) -> tuple[Model, NormCost]:
    """Return what the call of ``chain`` (norm ops, outermost first) computes and costs; equal ones once."""
    named = [(op.name, op.args()) for op in chain]  # the recorded text differs from call to call
    key = repr(named)
    if key not in costs:
        place = describing_op(named)
        name, args = named[place] if place is not None else (named[-1][0], OpArgs())
        layout = select_layout(name, args.types) or NORM_OPS[name][0]
        costs[key] = (layout.model, norm_cost(name, args))
    return costs[key]


def _call(linked: LinkedTrace, owner: int, indices: list[int], costs: _Costs) -> NormCall:
    trace = linked.trace
    chains = {op: _chain_to(linked, op, owner) for op in {linked.op_of[i] for i in indices}}
    norm_chain = max((_norms(trace.cpu_ops, chain) for chain in chains.values()), key=len)
    helpers = {op for op, chain in chains.items() if _is_helper(trace.cpu_ops, chain)}
    norm, helper = _split(linked, indices, helpers)
    outer = trace.cpu_ops[owner]
    shown = _shown(trace.cpu_ops, norm_chain)
    model, cost = _cost([trace.cpu_ops[i] for i in norm_chain], costs)
    return NormCall(
        op=owner,
        shown_op=shown,
        name=trace.cpu_ops[shown].name,
        op_chain=tuple(trace.cpu_ops[i].name for i in norm_chain),
        direction=model.direction,
        is_recomputed=model.direction == "forward" and _in_backward_pass(linked, owner),
        cost=cost,
        model=model,
        pid=outer.pid,
        tid=outer.tid,
        ts_us=outer.ts_us,
        norm_events=norm,
        helper_events=helper,
        norm_us=_time_us(trace.gpu_events, norm),
        helper_us=_time_us(trace.gpu_events, helper),
    )


def _chain_to(linked: LinkedTrace, op: int, owner: int) -> list[int]:
    """Return the ops from ``owner`` down to ``op``."""
    chain = []
    for each in linked.chain(op):
        chain.append(each)
        if each == owner:
            break
    return chain[::-1]


def _norms(ops: Sequence[CpuOp], chain: list[int]) -> list[int]:
    return [i for i in chain if is_norm_op(ops[i].name)]


def _is_helper(ops: Sequence[CpuOp], chain: list[int]) -> bool:
    """Tell whether a helper op stands below the last norm op of ``chain``, or that op only prepares."""
    names = [ops[i].name for i in chain]
    last_norm = max(place for place, name in enumerate(names) if is_norm_op(name))
    return names[last_norm] == _ONLY_PREPARES or any(name in HELPER_OPS for name in names[last_norm + 1 :])


def _split(
    linked: LinkedTrace, indices: list[int], helpers: set[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the events of the norm itself and those of its helpers; copies and memsets are helpers."""
    norm: list[int] = []
    helper: list[int] = []
    for i in indices:
        is_helper = linked.op_of[i] in helpers or linked.trace.gpu_events[i].kind != "kernel"
        (helper if is_helper else norm).append(i)
    return tuple(norm), tuple(helper)


def _shown(ops: Sequence[CpuOp], norm_chain: list[int]) -> int:
    child = _NAMED_AFTER_CHILD.get(ops[norm_chain[0]].name)
    return next((i for i in norm_chain if ops[i].name == child), norm_chain[0])


def _in_backward_pass(linked: LinkedTrace, op: int) -> bool:
    return any(linked.trace.cpu_ops[i].name.startswith(_AUTOGRAD) for i in linked.chain(op))


def _time_us(events: Sequence[GpuEvent], indices: Sequence[int]) -> float:
    return sum(events[i].dur_us for i in indices)
