"""Work beside the norms that nobody names: copies made for them, and counters that they keep."""

from collections.abc import Sequence, Set

import msgspec

from normscope.norms.calls import NormCall, is_counted
from normscope.norms.catalog.catalog import Catalog
from normscope.trace.link import LinkedTrace
from normscope.trace.nesting import NONE


class Overheads(msgspec.Struct, frozen=True, kw_only=True):
    """GPU events beside the norm calls, as indices into the trace."""

    helper_events: tuple[int, ...]
    """Copies under an op that only prepares tensors for a norm."""
    bookkeeping_events: tuple[int, ...]
    """Additions of 1 to ``num_batches_tracked``."""


def find_overheads(linked: LinkedTrace, catalog: Catalog, calls: Sequence[NormCall]) -> Overheads:
    """Return the work beside ``calls`` that belongs to norms all the same."""
    claimed = {event for call in calls for event in (*call.norm_events, *call.helper_events)}
    return Overheads(
        helper_events=_helpers(linked, catalog, claimed),
        bookkeeping_events=_counters(linked, claimed),
    )


def _helpers(linked: LinkedTrace, catalog: Catalog, claimed: Set[int]) -> tuple[int, ...]:
    ops = linked.trace.cpu_ops
    is_helper = {
        op: any(catalog.purpose(ops[i].name) == "helper" for i in linked.chain(op))
        for op in set(linked.op_of)
        if op != NONE
    }
    return tuple(
        index
        for index, op in enumerate(linked.op_of)
        if op != NONE and index not in claimed and is_helper[op] and is_counted(linked, index)
    )


def _counters(linked: LinkedTrace, claimed: Set[int]) -> tuple[int, ...]:
    """Return the additions to 0-d counters that ran just before a batch norm or in its module."""
    return ()
