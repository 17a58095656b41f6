"""Norm calls found by their op: one for each outermost norm op on a thread, with all its kernels.

A norm op calls others (``aten::batch_norm`` > ``_batch_norm_impl_index`` > ``native_batch_norm``),
and one call launches several kernels. Counting by name would count a call three times and its kernels once or
thrice; so a kernel belongs to the outermost norm op around its launch, and to nothing else.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from normscope.norms.calls import NormCall, in_backward_pass, is_counted, time_us
from normscope.norms.catalog.catalog import Catalog
from normscope.norms.catalog.rows import RESIDUAL_ADD, NormRow, Variant
from normscope.norms.chain_ops import chain_bytes
from normscope.norms.cost import NormCost, describing_op, norm_cost
from normscope.norms.kernel_names import read_kernel
from normscope.norms.shared_args import SharedArgs
from normscope.trace.events import CpuOp, OpArgs
from normscope.trace.link import LinkedTrace
from normscope.trace.nesting import NONE

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


def op_calls(linked: LinkedTrace, catalog: Catalog) -> list[NormCall]:
    """Return the calls of norm ops that have GPU events, by the start of their op.

    Times are the durations as recorded, in µs; events outside the profiled window belong to no call, nor do
    those of a graph that was launched inside an op: it may hold any work.
    """
    return _Finder(linked, catalog).calls()


class _Finder:
    """The search through one trace: what was worked out for one call serves the next like it."""

    def __init__(self, linked: LinkedTrace, catalog: Catalog) -> None:
        self.linked = linked
        self.catalog = catalog
        self.ops: Sequence[CpuOp] = linked.trace.cpu_ops
        self.norm_names = {name for name in linked.ops_named if catalog.is_norm_op(name)}
        self.norm_ops = {op for name in self.norm_names for op in linked.ops_named[name]}
        self.args = SharedArgs()
        self.costs: dict[tuple[object, ...], tuple[NormRow, NormCost]] = {}

    def calls(self) -> list[NormCall]:
        owner_of = self._outermost_norms()
        events: dict[int, list[int]] = defaultdict(list)
        for index, op in enumerate(self.linked.op_of):
            owner = owner_of.get(op, NONE)
            if owner != NONE and self.linked.how[index] != "graph" and is_counted(self.linked, index):
                events[owner].append(index)
        found = (self._call(owner, indices) for owner, indices in events.items())
        return sorted(filter(None, found), key=lambda call: (call.ts_us, call.op))

    def _outermost_norms(self) -> dict[int, int]:
        """Return the outermost norm op around each op that launched something, -1 where there is none."""
        owner_of = self._owners()
        known: dict[int, int] = {NONE: NONE}
        for launcher in set(self.linked.op_of):
            op = launcher
            while op not in known and op not in self.norm_ops:
                op = self.linked.parent_of[op]
            known[launcher] = known[op] if op in known else owner_of[op]
        return known

    def _owners(self) -> dict[int, int]:
        """Return the outermost norm op around each norm op, be it itself.

        An op that does more than a norm is the owner only where no norm op lies in it.
        """
        owner_of: dict[int, int] = {NONE: NONE}
        for norm_op in self.norm_ops:
            path = []
            op = norm_op
            while op not in owner_of:
                path.append(op)
                op = self._norm_above(op)
            found = owner_of[op]
            for each in reversed(path):
                if found == NONE or self._does_more(found):
                    found = each
                owner_of[each] = found
        return owner_of

    def _norm_above(self, op: int) -> int:
        """Return the next norm op around a norm op, -1 where there is none."""
        above = self.linked.parent_of[op]
        while above != NONE and above not in self.norm_ops:
            above = self.linked.parent_of[above]
        return above

    def _does_more(self, op: int) -> bool:
        return self.catalog.of_op(self.ops[op].name)[0].kernels_only

    def _call(self, owner: int, indices: list[int]) -> NormCall | None:
        indices = self._of_the_norm(owner, indices)
        if not indices:
            return None
        chains = {op: self._chain_to(op, owner) for op in {self.linked.op_of[i] for i in indices}}
        is_sum = self.catalog.of_op(self.ops[owner].name)[0].sums_pieces
        norm_chain = self._pieces(owner, chains.values()) if is_sum else self._deepest(chains.values())
        helpers = {op for op, chain in chains.items() if self._is_helper(chain)}
        norm, helper = self._split(indices, helpers)
        outer, shown = self.ops[owner], self.ops[self._shown(norm_chain)]
        row, cost = self._sum(norm_chain) if is_sum else self._cost(norm_chain)
        return NormCall(
            row=row,
            found_by="op",
            name=shown.name,
            variant=self._variant(row, cost, norm),
            direction=row.direction,
            fuses=_fused(row, cost),
            args=self.args.of(self._last_named(norm_chain, shown.name)),
            cost=cost,
            op=owner,
            op_chain=tuple(self.ops[i].name for i in norm_chain),
            is_recomputed=row.direction == "forward" and in_backward_pass(self.linked, owner),
            pid=outer.pid,
            tid=outer.tid,
            ts_us=outer.ts_us,
            host_us=shown.dur_us,
            norm_events=norm,
            helper_events=helper,
            norm_us=time_us(self.linked.trace.gpu_events, norm),
            helper_us=time_us(self.linked.trace.gpu_events, helper),
            launched_bytes=self._launched_bytes(norm_chain[-1], (*norm, *helper)),
        )

    def _of_the_norm(self, owner: int, indices: list[int]) -> list[int]:
        """Return the events of the norm itself where ``owner`` also does other work, else all of them."""
        rows, events = self.catalog.of_op(self.ops[owner].name), self.linked.trace.gpu_events
        if rows[0].kernels_only:
            return [i for i in indices if self._is_norm_kernel(rows, events[i].name)]
        if rows[0].sums_pieces:
            return [i for i in indices if self._norms(self._chain_to(self.linked.op_of[i], owner)[1:])]
        return indices

    def _is_norm_kernel(self, rows: Sequence[NormRow], name: str) -> bool:
        return self.catalog.is_norm_kernel(name) or any(row.names_kernel(name) for row in rows)

    def _launched_bytes(self, innermost: int, indices: Sequence[int]) -> float | None:
        """Return what the kernels move of a norm op that does its work in small ops; None for other ops."""
        if not self.catalog.of_op(self.ops[innermost].name)[0].wrapper:
            return None
        events = self.linked.trace.gpu_events
        return chain_bytes(self.linked, {self.linked.op_of[i] for i in indices if events[i].kind == "kernel"})

    def _cost(self, chain: Sequence[int]) -> tuple[NormRow, NormCost]:
        """Return what the call of ``chain`` (norm ops, outermost first) computes and costs."""
        named = [(self.ops[i].name, self.args.of(self.ops[i])) for i in chain]
        forward = self._forward(chain[0]) if self.catalog.of_op(named[-1][0])[0].from_forward else None
        known = [*named, *([(forward[0].id, forward[1])] if forward else [])]
        key = tuple((name, id(args)) for name, args in known)
        if key not in self.costs:
            place = describing_op(self.catalog, named)
            name, args = named[-1 if place is None else place]
            row = self.catalog.layout(name, args.types)
            self.costs[key] = (row or self.catalog.of_op(name)[0], norm_cost(row, args, forward))
        return self.costs[key]

    def _sum(self, pieces: Sequence[int]) -> tuple[NormRow, NormCost]:
        """Return the row of the first op of ``pieces`` and what the others, its pieces, cost together.

        The last piece applies the parameters, so it tells them; the first of a backward pass has the mask.
        """
        owner = self.ops[pieces[0]]
        row = self.catalog.of_op(owner.name)[0]
        found = [self._cost([piece]) for piece in pieces[1:]]
        costs = [cost for _, cost in found]
        reason = next((cost.missing_reason for cost in costs if cost.missing_reason), None)
        return row, msgspec.structs.replace(
            costs[-1],
            bytes_moved=_total(cost.bytes_moved for cost in costs),
            flops=_total(cost.flops for own, cost in found if own.flops),
            training=row.training,
            output_mask=costs[0].output_mask,
            missing_reason=reason,
        )

    def _variant(self, row: NormRow, cost: NormCost, kernels: Sequence[int]) -> Variant:
        """Return which normalization a call is: an argument tells, or the kernels of an op that does more."""
        if row.kernels_only:
            told = read_kernel(self.linked.trace.gpu_events[kernels[0]].name)
            if told is not None and told.variant != "Other":
                return told.variant
        return cost.variant or row.variant

    def _forward(self, op: int) -> tuple[NormRow, OpArgs] | None:
        """Return row and inputs of the norm op whose backward pass ``op`` is."""
        for index in self.linked.chain(self.linked.forward_op(op)):
            args = self.args.of(self.ops[index])
            row = self.catalog.layout(self.ops[index].name, args.types)
            if row is not None and row.purpose == "norm":
                return row, args
        return None

    def _chain_to(self, op: int, owner: int) -> list[int]:
        """Return the ops from ``owner`` down to ``op``."""
        chain = []
        for each in self.linked.chain(op):
            chain.append(each)
            if each == owner:
                break
        return chain[::-1]

    def _deepest(self, chains: Iterable[list[int]]) -> list[int]:
        return max(map(self._norms, chains), key=len)

    def _pieces(self, owner: int, chains: Iterable[list[int]]) -> list[int]:
        """Return ``owner`` and the innermost norm ops of ``chains`` by time."""
        pieces = {self._norms(chain)[-1] for chain in chains}
        return [owner, *sorted(pieces, key=lambda op: self.ops[op].ts_us)]

    def _norms(self, chain: list[int]) -> list[int]:
        return [i for i in chain if i in self.norm_ops]

    def _is_helper(self, chain: list[int]) -> bool:
        """Tell whether a helper op stands below the last norm op of ``chain``, or that op only prepares."""
        names = [self.ops[i].name for i in chain]
        last_norm = max(place for place, name in enumerate(names) if name in self.norm_names)
        below = names[last_norm + 1 :]
        return names[last_norm] == _ONLY_PREPARES or any(
            name in HELPER_OPS or self.catalog.purpose(name) == "helper" for name in below
        )

    def _split(self, indices: list[int], helpers: set[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the events of the norm itself and those of its helpers; copies and memsets are helpers."""
        norm: list[int] = []
        helper: list[int] = []
        for i in indices:
            is_helper = self.linked.op_of[i] in helpers or self.linked.trace.gpu_events[i].kind != "kernel"
            (helper if is_helper else norm).append(i)
        return tuple(norm), tuple(helper)

    def _last_named(self, norm_chain: list[int], name: str) -> CpuOp:
        """Return the innermost op of that name: under autocast an op calls itself with other types."""
        return next(self.ops[i] for i in reversed(norm_chain) if self.ops[i].name == name)

    def _shown(self, norm_chain: list[int]) -> int:
        child = _NAMED_AFTER_CHILD.get(self.ops[norm_chain[0]].name)
        return next((i for i in norm_chain if self.ops[i].name == child), norm_chain[0])


def _total(amounts: Iterable[float | None]) -> float | None:
    """Return the sum, None where one amount is not known."""
    known = list(amounts)
    return sum(filter(None, known)) if None not in known else None


def _fused(row: NormRow, cost: NormCost) -> tuple[str, ...]:
    """Return what is fused in, without the residual where the row has one that this call lacks."""
    lacks_residual = "residual" in row.optional_roles and cost.has_residual is False
    return tuple(work for work in row.fuses if work != RESIDUAL_ADD or not lacks_residual)
