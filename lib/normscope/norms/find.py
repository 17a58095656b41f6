"""Every norm of a trace, found in the order of how much is known about it; no kernel belongs to two."""

from collections.abc import Iterable, Sequence

from normscope.norms.calls import NormCall
from normscope.norms.capture import Capture, captures_in
from normscope.norms.catalog.catalog import Catalog
from normscope.norms.compiled import compiled_calls
from normscope.norms.eager import eager_calls
from normscope.norms.kernel_calls import kernel_calls
from normscope.norms.op_calls import op_calls
from normscope.norms.replay import needs_captures, with_captured_shapes
from normscope.trace.link import LinkedTrace

_FINDERS = (compiled_calls, eager_calls, kernel_calls)


def find_norms(linked: LinkedTrace, catalog: Catalog, captures: Sequence[Capture] = ()) -> list[NormCall]:
    """Return the norm calls of a trace by time: those of norm ops, of compilers, of chains, of kernel names.

    Each finder only sees the kernels that those before it left. For norms that a graph replayed, the captures
    of graphs in the trace itself and those in ``captures`` tell the shapes.
    """
    calls = op_calls(linked, catalog)
    claimed = set(_events(calls))
    for find in _FINDERS:
        found = find(linked, catalog, claimed)
        claimed.update(_events(found))
        calls += found
    if needs_captures(linked, calls):
        calls = with_captured_shapes(linked, calls, [*captures_in(linked, catalog), *captures])
    return sorted(calls, key=lambda call: (call.ts_us, call.op))


def _events(calls: Iterable[NormCall]) -> Iterable[int]:
    return (event for call in calls for event in (*call.norm_events, *call.helper_events))
