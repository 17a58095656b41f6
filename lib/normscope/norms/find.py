"""Every norm of a trace, found in the order of how much is known about it; no kernel belongs to two."""

from collections.abc import Iterable

from normscope.norms.calls import NormCall
from normscope.norms.catalog.catalog import Catalog
from normscope.norms.compiled import compiled_calls
from normscope.norms.eager import eager_calls
from normscope.norms.kernel_calls import kernel_calls
from normscope.norms.op_calls import op_calls
from normscope.trace.link import LinkedTrace

_FINDERS = (compiled_calls, eager_calls, kernel_calls)


def find_norms(linked: LinkedTrace, catalog: Catalog) -> list[NormCall]:
    """Return the norm calls of a trace by time: those of norm ops, of compilers, of chains, of kernel names.

    Each finder only sees the kernels that those before it left.
    """
    calls = op_calls(linked, catalog)
    claimed = set(_events(calls))
    for find in _FINDERS:
        found = find(linked, catalog, claimed)
        claimed.update(_events(found))
        calls += found
    return sorted(calls, key=lambda call: (call.ts_us, call.op))


def _events(calls: Iterable[NormCall]) -> Iterable[int]:
    return (event for call in calls for event in (*call.norm_events, *call.helper_events))
