"""Norm calls written out in Python: a chain of small ops that together are one normalization."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

import msgspec

from normscope.norms.arguments import TYPES, Tensor
from normscope.norms.calls import NormCall, in_backward_pass, is_counted, time_us
from normscope.norms.catalog.catalog import Catalog
from normscope.norms.catalog.rows import NormRow
from normscope.norms.chain_ops import chain_bytes
from normscope.norms.chains import Chain, find_chains
from normscope.norms.cost import NormCost, norm_cost
from normscope.trace.events import CpuOp, OpArgs
from normscope.trace.link import LinkedTrace
from normscope.trace.nesting import NONE

NO_SHAPES = "no shapes recorded"
_RECORDED = {dtype: recorded for recorded, (dtype, _) in reversed(TYPES.items())}


def eager_calls(linked: LinkedTrace, catalog: Catalog, claimed: Set[int]) -> list[NormCall]:
    """Return the chains of ops that are norms, of kernels in no call in ``claimed``, and their backward passes."""
    rows = {row.id: row for row in reversed(catalog.rows) if row.how == "eager"}
    if not rows:
        return []
    events = _events_of_ops(linked, claimed)
    finder = _Finder(linked, rows, events)
    chains = find_chains(linked, list(events))
    return [*map(finder.forward, chains), *finder.backward(chains)]


def _events_of_ops(linked: LinkedTrace, claimed: Set[int]) -> dict[int, list[int]]:
    """Return the unclaimed GPU events of each op that launched some itself; those of graphs have no op."""
    events: dict[int, list[int]] = defaultdict(list)
    for index, op in enumerate(linked.op_of):
        if op != NONE and index not in claimed and linked.how[index] != "graph" and is_counted(linked, index):
            events[op].append(index)
    return events


class _Finder:
    """Makes calls of the chains of one trace; what one costs serves the next like it."""

    def __init__(
        self, linked: LinkedTrace, rows: Mapping[str, NormRow], events: Mapping[int, list[int]]
    ) -> None:
        self.linked = linked
        self.ops: Sequence[CpuOp] = linked.trace.cpu_ops
        self.rows = rows
        self.events = events
        self.costs: dict[tuple[object, ...], NormCost] = {}

    def forward(self, chain: Chain) -> NormCall:
        """Return the call of a chain."""
        row = self.rows[_row_id(chain)]
        first = chain.steps[0].outer
        launching = [step.op for step in chain.steps]
        return self._call(
            row,
            name=f"eager::{chain.module or chain.form.name}",
            args=_args(chain.x, chain.weight, chain.bias),
            cost=self._cost(row, chain),
            span=(first, chain.steps[-1].outer),
            events=[event for op in launching for event in self.events[op]],
            launched_bytes=chain_bytes(self.linked, launching) if chain.x else None,
        )

    def backward(self, chains: Sequence[Chain]) -> Iterator[NormCall]:
        """Yield the backward passes of chains: the kernels of the autograd nodes that their ops made."""
        chain_of = {step.outer: i for i, chain in enumerate(chains) for step in chain.steps}
        if not chain_of:
            return
        taken = {step.op for chain in chains for step in chain.steps}
        launching: dict[int, list[int]] = defaultdict(list)
        for op in self.events:
            forward = NONE if op in taken else self.linked.forward_op(op)
            owner = next((chain_of[each] for each in self.linked.chain(forward) if each in chain_of), NONE)
            if owner != NONE:
                launching[owner].append(op)
        for owner, ops in launching.items():
            yield self._backward_call(chains[owner], sorted(ops, key=lambda op: self.ops[op].ts_us))

    def _backward_call(self, chain: Chain, launching: Sequence[int]) -> NormCall:
        row = self.rows[f"{_row_id(chain)}-backward"]
        nodes = [self._node(op) for op in launching]
        return self._call(
            row,
            name=f"eager::{chain.module or chain.form.name}_backward",
            args=_args(chain.y),
            cost=self._cost(row, chain),
            span=(nodes[0], max(nodes, key=lambda op: self.ops[op].end_us)),
            events=[event for op in launching for event in self.events[op]],
        )

    def _node(self, op: int) -> int:
        """Return the autograd node around an op of a backward pass."""
        nodes = [i for i in self.linked.chain(op) if self.ops[i].forward_thread]
        same = [i for i in nodes if self.ops[i].sequence == self.ops[nodes[0]].sequence]
        return same[-1]

    def _call(
        self,
        row: NormRow,
        *,
        name: str,
        args: OpArgs,
        cost: NormCost,
        span: tuple[int, int],
        events: Sequence[int],
        launched_bytes: float | None = None,
    ) -> NormCall:
        first, last = (self.ops[op] for op in span)
        gpu_events = self.linked.trace.gpu_events
        kernels = tuple(i for i in events if gpu_events[i].kind == "kernel")
        others = tuple(i for i in events if gpu_events[i].kind != "kernel")
        return NormCall(
            row=row,
            found_by="eager",
            name=name,
            variant=row.variant,
            direction=row.direction,
            args=args,
            cost=cost,
            op=span[0],
            is_recomputed=row.direction == "forward" and in_backward_pass(self.linked, span[0]),
            pid=first.pid,
            tid=first.tid,
            ts_us=first.ts_us,
            host_us=last.end_us - first.ts_us,
            norm_events=kernels,
            helper_events=others,
            norm_us=time_us(gpu_events, kernels),
            helper_us=time_us(gpu_events, others),
            launched_bytes=launched_bytes,
        )

    def _cost(self, row: NormRow, chain: Chain) -> NormCost:
        key = (row.id, chain.axis, chain.x, chain.weight, chain.bias, chain.y)
        if key not in self.costs:
            self.costs[key] = self._worked_out(row, chain)
        return self.costs[key]

    def _worked_out(self, row: NormRow, chain: Chain) -> NormCost:
        """Return what one kernel in place of the chain would cost, with the normalized axis as the last one."""
        if chain.x is None or chain.y is None:
            return NormCost(missing_reason=NO_SHAPES)
        size = chain.x.shape[chain.axis]
        weight, bias = (_flat(parameter, size) for parameter in (chain.weight, chain.bias))
        x, y = (_last(tensor, chain.axis) for tensor in (chain.x, chain.y))
        forward = _args(x, weight, bias, y)
        if row.direction == "backward":
            cost = norm_cost(row, _args(y), (self.rows[_row_id(chain)], forward))
        else:
            cost = norm_cost(row, forward)
        return msgspec.structs.replace(cost, x_shape=chain.x.shape)


def _row_id(chain: Chain) -> str:
    return f"eager-{chain.form.name.replace('_', '-')}"


def _args(*tensors: Tensor | None) -> OpArgs:
    """Return inputs as the profiler would record them."""
    return OpArgs(
        dims=[list(tensor.shape) if tensor else [] for tensor in tensors],
        types=[_RECORDED[tensor.dtype] if tensor else "" for tensor in tensors],
        concrete=[""] * len(tensors),
    )


def _last(tensor: Tensor, axis: int) -> Tensor:
    shape = (*tensor.shape[:axis], *tensor.shape[axis + 1 :], tensor.shape[axis])
    return msgspec.structs.replace(tensor, shape=shape)


def _flat(parameter: Tensor | None, size: int) -> Tensor | None:
    """Return a parameter along the normalized axis without its axes of size 1."""
    if parameter is None or parameter.elements != size:
        return parameter
    return msgspec.structs.replace(parameter, shape=(size,))
