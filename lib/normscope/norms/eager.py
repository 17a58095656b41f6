"""Norm calls written out in Python: a chain of small ops that together are one normalization."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set

import msgspec

from normscope.norms.arguments import TYPES, Tensor
from normscope.norms.calls import NormCall, in_backward_pass, is_counted, time_us
from normscope.norms.catalog.catalog import Catalog
from normscope.norms.catalog.rows import Direction, NormRow
from normscope.norms.chain_forms import ANCHORS
from normscope.norms.chains import Chain, find_chains
from normscope.norms.cost import NormCost, norm_cost
from normscope.trace.collector_pause import collector_paused
from normscope.trace.events import CpuOp, OpArgs
from normscope.trace.link import LinkedTrace
from normscope.trace.nesting import NONE

NO_SHAPES = "no shapes recorded"
_RECORDED = {dtype: recorded for recorded, (dtype, _) in reversed(tuple(TYPES.items()))}


@collector_paused()
def eager_calls(linked: LinkedTrace, catalog: Catalog, claimed: Set[int]) -> list[NormCall]:
    """Return the norms among the chains of ops, and their backward passes, of kernels not in ``claimed``."""
    rows = {row.id: row for row in reversed(catalog.rows) if row.how == "eager"}
    anchors = {op for name in ANCHORS for op in linked.ops_named.get(name, ())}
    if not rows or anchors.isdisjoint(linked.op_of):
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
        outer = [step.outer for step in chain.steps]
        return self._call(chain, "forward", outer, [step.op for step in chain.steps])

    def backward(self, chains: Sequence[Chain]) -> Iterator[NormCall]:
        """Yield the backward passes of chains: the kernels of the autograd nodes that their ops made."""
        chain_of = {step.outer: i for i, chain in enumerate(chains) for step in chain.steps}
        if not chain_of or not self.linked.forward_of_sequence:
            return
        taken = {step.op for chain in chains for step in chain.steps}
        backward: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for op in self.events:
            node = NONE if op in taken else self._node(op)
            forward = self.linked.chain(self.linked.forward_op(node))
            owner = next((chain_of[each] for each in forward if each in chain_of), NONE)
            if owner != NONE:
                backward[owner].append((node, op))
        for owner, pairs in backward.items():
            pairs.sort(key=lambda pair: self.ops[pair[1]].ts_us)
            nodes, launching = zip(*pairs, strict=True)
            yield self._call(chains[owner], "backward", nodes, launching)

    def _node(self, op: int) -> int:
        """Return the autograd node that ``op`` works for, -1 for ops of a forward pass that runs in one."""
        ops, parent_of = self.ops, self.linked.parent_of
        node = next((each for each in self.linked.chain(op) if ops[each].sequence is not None), NONE)
        if node == NONE or not ops[node].forward_thread:
            return NONE
        while parent_of[node] != NONE and ops[parent_of[node]].sequence == ops[node].sequence:
            node = parent_of[node]
        return node

    def _call(
        self, chain: Chain, direction: Direction, outer: Sequence[int], launching: Sequence[int]
    ) -> NormCall:
        """Return the call that the ops ``outer`` make, with the kernels of ``launching``."""
        is_forward = direction == "forward"
        row = self.rows[_row_id(chain, direction)]
        name = chain.module or chain.form.name
        first = self.ops[outer[0]]
        gpu_events = self.linked.trace.gpu_events
        events = [event for op in launching for event in self.events[op]]
        kernels = tuple(i for i in events if gpu_events[i].kind == "kernel")
        others = tuple(i for i in events if gpu_events[i].kind != "kernel")
        return NormCall(
            row=row,
            found_by="eager",
            name=f"eager::{name}" if is_forward else f"eager::{name}_backward",
            variant=row.variant,
            direction=direction,
            args=_args(chain.x, chain.weight, chain.bias) if is_forward else _args(chain.y),
            cost=self._cost(row, chain),
            op=outer[0],
            is_recomputed=is_forward and in_backward_pass(self.linked, outer[0]),
            pid=first.pid,
            tid=first.tid,
            ts_us=first.ts_us,
            host_us=max(self.ops[op].end_us for op in outer) - first.ts_us,
            norm_events=kernels,
            helper_events=others,
            norm_us=time_us(gpu_events, kernels),
            helper_us=time_us(gpu_events, others),
            launched_bytes=_launched_bytes(chain) if is_forward else None,
        )

    def _cost(self, row: NormRow, chain: Chain) -> NormCost:
        key = (row.id, chain.axis, chain.x, chain.weight, chain.bias, chain.y)
        if key not in self.costs:
            self.costs[key] = self._worked_out(row, chain)
        return self.costs[key]

    def _worked_out(self, row: NormRow, chain: Chain) -> NormCost:
        """Return the cost of one kernel in place of the chain, with the normalized axis as the last one."""
        if chain.x is None or chain.y is None:
            return NormCost(missing_reason=NO_SHAPES)
        size = chain.x.shape[chain.axis]
        weight, bias = (_flat(parameter, size) for parameter in (chain.weight, chain.bias))
        x, y = (_last(tensor, chain.axis) for tensor in (chain.x, chain.y))
        forward = _args(x, weight, bias, y)
        if row.direction == "backward":
            cost = norm_cost(row, _args(y), (self.rows[_row_id(chain, "forward")], forward))
        else:
            cost = norm_cost(row, forward)
        return msgspec.structs.replace(cost, x_shape=chain.x.shape)


def _launched_bytes(chain: Chain) -> float | None:
    """Return what the kernels of a chain read and write, None where no shapes are recorded."""
    known = [step.small.bytes_moved for step in chain.steps if step.small]
    return float(sum(known)) if known else None


def _row_id(chain: Chain, direction: Direction) -> str:
    forward = f"eager-{chain.form.name.replace('_', '-')}"
    return forward if direction == "forward" else f"{forward}-backward"


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
