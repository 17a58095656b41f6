"""A trace read and linked, its norms found, and all its kernel time attributed."""

from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from normscope.errors import NoGpuActivityError
from normscope.norms.calls import NormCall
from normscope.norms.catalog.catalog import load_catalog
from normscope.norms.find import find_norms
from normscope.norms.overheads import find_overheads
from normscope.trace.collector_pause import collector_paused
from normscope.trace.link import LinkedTrace, link
from normscope.trace.read import read_trace
from normscope.trace.source import Progress
from normscope.tracerun.coverage import Coverage, coverage


class NormSources(msgspec.Struct, frozen=True):
    """What a user gives to find more norms: a file of rows, and a folder of captured graphs."""

    catalog: Path | None = None
    capture: Path | None = None


class Examined(msgspec.Struct, frozen=True):
    """A linked trace, its norm calls, and what all its kernel time belongs to."""

    linked: LinkedTrace
    calls: Sequence[NormCall]
    coverage: Coverage


def examine(
    source: Path | BinaryIO | None,
    *,
    label: str,
    norms: NormSources,
    on_progress: Progress | None = None,
) -> Examined:
    """Read a profiler trace and find every norm in it; raises as `write_trace_run` does.

    Parameters
    ----------
    source
        The trace file, an open binary file, or None for standard input.
    label
        The trace's name for people: no path.
    norms
        What the user gives to find more norms.
    on_progress
        Called with bytes read and the size of the file, or None.
    """
    with collector_paused():
        return _examine(source, label, norms, on_progress)


def _examine(
    source: Path | BinaryIO | None, label: str, norms: NormSources, on_progress: Progress | None
) -> Examined:
    catalog = load_catalog(norms.catalog)  # before the trace, which takes longer
    trace = read_trace("-" if source is None else source, on_progress)
    if not trace.gpu_events:
        what = f"{label} breaks off: what there is of it" if trace.truncated else label
        message = (
            f"{what} holds {trace.event_count:,} events and none of them on a GPU; record it again on a "
            "machine with a GPU, with ProfilerActivity.CUDA (which covers ROCm) among the activities"
        )
        raise NoGpuActivityError(message)
    linked = link(trace)
    calls = find_norms(linked, catalog)  # lead: wire captures, read_captures(norms.capture, catalog)
    overheads = find_overheads(linked, catalog, calls)
    return Examined(linked, calls, coverage(linked, catalog, calls, overheads))
