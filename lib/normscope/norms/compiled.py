"""Norm calls in kernels that a compiler made and named after the ops it fused.

TorchInductor calls a Triton kernel ``triton_red_fused_add_native_layer_norm_view_3``: the kind of kernel, the
ATen ops in it in alphabetical order, a number. The op of the same name has the kernel's tensors as inputs.
"""

import re
from collections import defaultdict
from collections.abc import Sequence, Set
from functools import lru_cache
from math import prod

from normscope.norms import arguments
from normscope.norms.arguments import LARGEST, Tensor, UnknownArgument
from normscope.norms.calls import NormCall, in_backward_pass, launched_within, time_us
from normscope.norms.catalog.catalog import Catalog
from normscope.norms.catalog.rows import NormRow
from normscope.norms.cost import NormCost
from normscope.norms.shared_args import SharedArgs
from normscope.trace.events import OpArgs
from normscope.trace.link import LinkedTrace
from normscope.trace.nesting import NONE

_PREFIX = "triton_"
# Triton itself adds what it knows of the arguments to the number: ``_0d1d2d3de``.
COMPILED = re.compile(r"triton_(?:[a-z]{2,4}_)?fused_(?P<ops>\w+?)(?:_\d[0-9a-z]*)?\Z")
# Names of more than one word, the longest first; what is left of a kernel's name is split at each underscore.
_LONG_NAMES = re.compile(
    r"native_layer_norm_backward|native_layer_norm|native_group_norm_backward|native_group_norm"
    r"|_native_batch_norm_legit_no_training|_native_batch_norm_legit_functional|_native_batch_norm_legit"
    r"|native_batch_norm_backward|native_batch_norm|_fused_rms_norm_backward|_fused_rms_norm|rms_norm"
    r"|_to_copy|_unsafe_view|native_dropout_backward|native_dropout|_softmax|slice_scatter|index_put"
    r"|constant_pad_nd|masked_fill|scalar_tensor|clamp_min|clamp_max|logical_not|threshold_backward"
    r"|gelu_backward|tanh_backward|silu_backward|convolution_backward|embedding_dense_backward"
)
_RMS_PARTS = ("mean", "pow", "rsqrt", "mul")
# Views move nothing.
_VIEWS = frozenset(
    (
        *("view", "_unsafe_view", "reshape", "transpose", "permute", "t", "unsqueeze", "squeeze", "expand"),
        *("slice", "split", "chunk", "select", "alias", "detach", "as", "unbind", "getitem"),
    )
)
NOT_TOLD = "work that its name does not tell"
ANOTHER_ADD = "possibly another add"
NO_INPUTS = OpArgs()
NO_ARGUMENTS = "no tensors recorded for the compiled kernel"


def compiled_calls(linked: LinkedTrace, catalog: Catalog, claimed: Set[int]) -> list[NormCall]:
    """Return the calls of compiled norm kernels that belong to no call in ``claimed``."""
    finder = _Finder(linked, catalog)
    names = {event.name for event in linked.trace.gpu_events}
    norm_names = {name for name in names if name.startswith(_PREFIX) and finder.row(name) is not None}
    events: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index, event in enumerate(linked.trace.gpu_events):
        if event.name in norm_names and event.kind == "kernel" and index not in claimed:
            own = _own_op(linked, index)
            events[own, NONE if own != NONE else index].append(index)
    return [finder.call(own, indices) for (own, _), indices in events.items()]


class _Finder:
    """The search through one trace: what was worked out for one call serves the next like it."""

    def __init__(self, linked: LinkedTrace, catalog: Catalog) -> None:
        self.linked = linked
        self.is_within = launched_within(linked)
        self.rows = [row for row in catalog.rows if row.how == "compiled"]
        self.row_of: dict[str, NormRow | None] = {}
        self.args = SharedArgs()
        self.costs: dict[int, NormCost] = {}

    def row(self, name: str) -> NormRow | None:
        """Return the first row that a compiled kernel's name fits, None for other kernels."""
        if name not in self.row_of:
            self.row_of[name] = next((row for row in self.rows if row.names_kernel(name)), None)
        return self.row_of[name]

    def cost(self, args: OpArgs) -> NormCost:
        """Return the cost of a kernel with the shared inputs ``args``."""
        if id(args) not in self.costs:
            self.costs[id(args)] = compiled_cost(args)
        return self.costs[id(args)]

    def call(self, own: int, indices: list[int]) -> NormCall:
        """Return the call of the op ``own``, or of a kernel without one."""
        linked, trace = self.linked, self.linked.trace
        event = trace.gpu_events[indices[0]]
        row = self.row(event.name)
        assert row is not None  # noqa: S101 - these were picked by it
        op = trace.cpu_ops[own] if own != NONE else None
        args = self.args.of(op) if op else NO_INPUTS
        around = own if own != NONE else linked.op_of[indices[0]]
        return NormCall(
            row=row,
            found_by="compiled",
            name=event.name,
            variant=row.variant,
            direction=row.direction,
            fuses=fused_ops(event.name),
            args=args,
            cost=self.cost(args),
            op=around,
            is_recomputed=row.direction == "forward" and around != NONE and in_backward_pass(linked, around),
            pid=op.pid if op else event.pid,
            tid=op.tid if op else event.stream,
            ts_us=op.ts_us if op else event.ts_us,
            host_us=op.dur_us if op else None,
            norm_events=tuple(indices),
            norm_us=time_us(trace.gpu_events, indices),
            is_in_timeline=self.is_within(indices[0]),
        )


def compiled_cost(args: OpArgs) -> NormCost:
    """Return what a compiled kernel moves: all its tensors, as `tensor_bytes` counts them."""
    moved, largest, reason = tensor_bytes(args)
    return NormCost(
        bytes_moved=moved,
        x_shape=largest.shape if largest else None,
        dtype=largest.dtype if largest else None,
        compute_spec=f"vector_{largest.dtype}" if largest else None,
        missing_reason=reason,
    )


@lru_cache(maxsize=65536)
def fused_ops(name: str) -> tuple[str, ...]:
    """Return what else a compiled norm kernel computes, by its name; views, which move nothing, left out.

    Examples
    --------
    >>> fused_ops("triton_red_fused_add_mul_native_layer_norm_view_3")
    ('add', 'mul')
    >>> fused_ops("triton_per_fused__to_copy_add_mean_mul_pow_rsqrt_0")
    ('_to_copy', 'possibly another add')
    """
    match = COMPILED.match(name)
    if match is None:
        return (NOT_TOLD,)
    rest = match["ops"]
    found = [each.group() for each in _LONG_NAMES.finditer(rest)]
    words = [*found, *filter(None, _LONG_NAMES.sub("_", rest).split("_"))]
    others = [word for word in words if "_norm" not in word and word not in _VIEWS]
    if any("_norm" in word for word in words):
        return tuple(sorted(others))
    extra = [word for word in others if word not in (*_RMS_PARTS, "add")]
    return (*sorted(extra), ANOTHER_ADD)


def tensor_bytes(args: OpArgs) -> tuple[float | None, Tensor | None, str | None]:
    """Return the bytes of a compiled kernel's tensors, the largest of them, and why they can't be told.

    Each tensor counts once, and no more of it than the kernel has points to work on, which are the sizes that
    follow the tensors: of a tensor that is sliced in the kernel the whole is recorded. The record doesn't say
    which tensors are written, so one that is updated in place counts once, too.
    """
    if not isinstance(args.types, Sequence) or isinstance(args.types, str) or not args.types:
        return None, None, NO_ARGUMENTS
    try:
        found = [arguments.tensor(args, i) for i in range(len(args.types))]
    except UnknownArgument as unknown:
        return None, None, str(unknown)
    tensors = [tensor for tensor in found if tensor is not None]
    if not tensors:
        return None, None, NO_ARGUMENTS
    points = _points(args, found) or LARGEST
    used = [min(tensor.elements, points) for tensor in tensors]
    total = sum(count * tensor.element_bytes for count, tensor in zip(used, tensors, strict=True))
    return float(total), tensors[used.index(max(used))], None


def _points(args: OpArgs, tensors: Sequence[Tensor | None]) -> int | None:
    """Return the number of points that the kernel works on, None where it isn't recorded."""
    last = max(place for place, tensor in enumerate(tensors) if tensor is not None)
    try:
        sizes = [arguments.integer(args, place) for place in range(last + 1, len(tensors))]
    except UnknownArgument:
        return None
    return prod(sizes) if sizes else None


def _own_op(linked: LinkedTrace, index: int) -> int:
    """Return the op that stands for the kernel, -1 where none does."""
    op = linked.op_of[index]
    name = linked.trace.gpu_events[index].name
    return op if op != NONE and linked.trace.cpu_ops[op].name == name else NONE
