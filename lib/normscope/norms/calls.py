"""A norm call: one logical call of a normalization, however it was found, with all its kernels."""

from collections.abc import Callable, Sequence

import msgspec

from normscope.norms.catalog.catalog import Catalog
from normscope.norms.catalog.rows import Direction, How, NormRow, Purpose, Variant
from normscope.norms.cost import NormCost
from normscope.trace.events import GpuEvent, OpArgs, ThreadId
from normscope.trace.link import LinkedTrace
from normscope.trace.nesting import NONE
from normscope.trace.timeline import HIP_MEMSET

AUTOGRAD = "autograd::engine::evaluate_function"


class NormCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One call of a normalization, with its GPU events as indices into the trace.

    Attributes
    ----------
    row
        The row of the catalog that it fits.
    found_by
        ``op``: a norm op launched its kernels. ``compiled``: a compiler's kernel, named after what it fused.
        ``eager``: a chain of small ops. ``kernel``: the name of a kernel and nothing else.
    name
        What the tables call it: the op, the compiled kernel, the module of a chain, or the bare kernel name.
    variant, direction, fuses
        As the row has them, made exact by the kernel's name where there is no op.
    args
        The inputs that the tables show.
    cost
        Bytes and FLOPs, from the op that sees the tensors as they are normalized.
    op
        The outermost op of the call, or -1.
    op_chain
        Names of the norm ops from there inwards.
    is_recomputed
        A forward norm that ran again in the backward pass, as activation checkpointing does.
    pid, tid, ts_us, host_us
        Where and when it ran on the host; for a kernel without an op, on the GPU, and ``host_us`` is None.
    norm_events, helper_events, norm_us, helper_us
        The kernels of the norm itself, and the copies, casts and memsets around it.
    launched_bytes
        What the kernels of a chain really move; None elsewhere, or where not known.
    is_in_timeline
        False for kernels whose launch lies outside the trace: end-to-end time doesn't hold them.
    shapes_from
        The capture of the graph that replayed the kernels, where it tells op, inputs and cost, and by what
        alone it was matched where nothing confirms its batch size; else None.
    """

    row: NormRow
    found_by: How
    name: str
    variant: Variant
    direction: Direction
    fuses: tuple[str, ...] = ()
    args: OpArgs
    cost: NormCost
    op: int = NONE
    op_chain: tuple[str, ...] = ()
    is_recomputed: bool = False
    pid: ThreadId
    tid: ThreadId
    ts_us: float
    host_us: float | None
    norm_events: tuple[int, ...]
    helper_events: tuple[int, ...] = ()
    norm_us: float
    helper_us: float = 0.0
    launched_bytes: float | None = None
    is_in_timeline: bool = True
    shapes_from: str | None = None

    @property
    def kernel_us(self) -> float:
        """Time of everything under the call, as the reference counts it."""
        return self.norm_us + self.helper_us

    @property
    def is_upper_bound(self) -> bool:
        """Whether other work is fused into the kernels, so that the norm alone takes less."""
        return self.found_by == "compiled" and bool(self.fuses)


def is_counted(linked: LinkedTrace, event: int) -> bool:
    """Tell whether a GPU event counts: not outside the profiled window, and no memset of ROCm.

    The reference doesn't link the latter, which PyTorch's libraries start beside their kernels.
    """
    if linked.how[event] == "outside window":
        return False
    if linked.trace.gpu_events[event].kind != "memset":
        return True
    launch = linked.launch_of[event]
    return launch == NONE or not linked.trace.launches[launch].name.startswith(HIP_MEMSET)


def launched_within(linked: LinkedTrace) -> Callable[[int], bool]:
    """Return a test of GPU events: whether end-to-end time holds them.

    It holds those whose launch is in the trace, or all where the trace has no launch, as in a trace of the
    GPU alone; none outside the profiled window.
    """
    has_launches = any(launch != NONE for launch in linked.launch_of)
    return lambda event: is_counted(linked, event) and (not has_launches or linked.launch_of[event] != NONE)


def ops_with_purpose(linked: LinkedTrace, catalog: Catalog, purpose: Purpose) -> set[int]:
    """Return the ops that launched something and lie in, or are, an op that is for ``purpose``."""
    names = [name for name in linked.ops_named if catalog.purpose(name) == purpose]
    if not names:
        return set()
    wanted = {op for name in names for op in linked.ops_named[name]}
    launching = set(linked.op_of) - {NONE}
    return {op for op in launching if any(i in wanted for i in linked.chain(op))}


def in_backward_pass(linked: LinkedTrace, op: int) -> bool:
    """Tell whether an op runs inside an autograd node."""
    return any(linked.trace.cpu_ops[i].name.startswith(AUTOGRAD) for i in linked.chain(op))


def time_us(events: Sequence[GpuEvent], indices: Sequence[int]) -> float:
    """Return the summed durations of some GPU events, as recorded."""
    return sum(events[i].dur_us for i in indices)
