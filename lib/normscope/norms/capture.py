"""Shapes for the kernels of a graph from the capture of that graph.

While a graph is captured, its ops run on the host: the profiler records them and their launches, and no
kernels. A replay records its kernels under one launch, and no ops. Where a capture tells the same sequence of
kernels as a replay, its ops tell the inputs of the replay's norms (``replay.py``).
"""

import math
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path

import msgspec

from normscope.errors import InputError
from normscope.norms.calls import NormCall
from normscope.norms.catalog.catalog import Catalog
from normscope.norms.compiled import compiled_calls
from normscope.norms.op_calls import op_calls
from normscope.trace.events import GpuEvent, Launch, ThreadId
from normscope.trace.link import LinkedTrace, link
from normscope.trace.nesting import NONE, nest
from normscope.trace.read import read_trace

SAME_TRACE = "in this trace"
FILES = ("*.json", "*.json.gz")

_KERNEL_LAUNCH = re.compile(r"(?i)launch\w{0,40}?kernel")
_BEGIN, _END = "streambegincapture", "streamendcapture"
_COMPILED = "triton_"
_Span = tuple[float, float]


class Capture(msgspec.Struct, frozen=True):
    """One captured graph.

    Attributes
    ----------
    label
        Which one it is, for the reader: the file, and its number where the file holds several.
    norms
        Its norms in the order of their launches. Their ``norm_events`` are places in ``kernels``.
    kernels
        The name of the kernel of each launch, None where the profiler didn't record it, as on CUDA.
    """

    label: str
    norms: tuple[NormCall, ...] = ()
    kernels: tuple[str | None, ...] = ()


def read_captures(folder: Path, catalog: Catalog) -> list[Capture]:
    """Return the captured graphs in the traces of a folder (``*.json``, ``*.json.gz``), by file name.

    A file in which no launch was captured counts as one graph without norms.

    Raises
    ------
    InputError
        The folder isn't there or holds no trace, or one of the traces can't be read.
    """
    try:
        files = sorted({file for pattern in FILES for file in folder.glob(pattern) if file.is_file()})
    except OSError as error:
        message = f"the folder of captures {folder.name} can't be read ({error.strerror}); check it."
        raise InputError(message) from None
    if not files:
        what = "holds no trace (*.json or *.json.gz)" if folder.is_dir() else "is no folder"
        message = f"{folder} {what}; give the folder of the traces that were recorded during graph capture."
        raise InputError(message)
    found: list[Capture] = []
    for file in files:
        found += captures_in(link(read_trace(file)), catalog, file.name) or [Capture(file.name)]
    return found


def captures_in(linked: LinkedTrace, catalog: Catalog, label: str = SAME_TRACE) -> list[Capture]:
    """Return the graphs that were captured while ``linked`` was recorded, by the start of their capture.

    They are told by the calls that begin and end a capture. In a trace without these, the launches of each
    thread that started nothing count as one graph.
    """
    launches = _captured_launches(linked)
    regions = _by_region(linked.trace.launches, launches)
    if not regions:
        return []
    _, around = nest(linked.trace.cpu_ops, [linked.trace.launches[i] for i in launches])
    op_of = dict(zip(launches, around, strict=True))
    numbered = len(regions) > 1
    return [
        _capture(linked, catalog, region, op_of, f"{label}, graph {number}" if numbered else label)
        for number, region in enumerate(regions, 1)
    ]


def _captured_launches(linked: LinkedTrace) -> list[int]:
    """Return the launches of kernels that started nothing, by time, each once."""
    launches = linked.trace.launches
    ran = {(launches[i].pid, launches[i].correlation) for i in linked.launch_of if i != NONE}
    first: dict[tuple[ThreadId, int], int] = {}
    for index in sorted(range(len(launches)), key=lambda i: launches[i].ts_us):
        launch = launches[index]
        if _KERNEL_LAUNCH.search(launch.name) and (launch.pid, launch.correlation) not in ran:
            first.setdefault((launch.pid, launch.correlation), index)
    return list(first.values())


def _by_region(launches: Sequence[Launch], captured: Sequence[int]) -> list[list[int]]:
    """Return the captured launches of each graph. Those outside the captures of their process are left out.

    Autograd launches from a thread of its own while another one captures, so the thread doesn't matter.
    """
    spans = _captures(launches)
    groups: dict[tuple[ThreadId, ThreadId | float], list[int]] = {}
    for index in captured:
        launch = launches[index]
        if not spans:
            groups.setdefault((launch.pid, launch.tid), []).append(index)
            continue
        own = spans.get(launch.pid, [])
        place = bisect_right(own, (launch.ts_us, math.inf)) - 1
        if place >= 0 and launch.ts_us <= own[place][1]:
            groups.setdefault((launch.pid, own[place][0]), []).append(index)
    return list(groups.values())


def _captures(launches: Sequence[Launch]) -> dict[ThreadId, list[_Span]]:
    """Return start and end of the captures of each process, by time.

    One that is cut off tells no graph, nor do two at the same time.
    """
    marks = [
        (launch.ts_us, is_begin, launch)
        for launch in launches
        if (is_begin := _BEGIN in (name := launch.name.lower())) or _END in name
    ]
    begun: dict[tuple[ThreadId, ThreadId], float] = {}
    found: dict[ThreadId, list[_Span]] = {}
    for ts_us, is_begin, launch in sorted(marks, key=lambda mark: mark[0]):
        track = (launch.pid, launch.tid)
        if is_begin:
            begun[track] = ts_us
            found.setdefault(launch.pid, [])
        elif track in begun:
            found[launch.pid].append((begun.pop(track), ts_us))
    return {pid: _apart(sorted(spans)) for pid, spans in found.items()}


def _apart(spans: Sequence[_Span]) -> list[_Span]:
    """Return those of ``spans``, which are sorted, that overlap no other."""
    ends = list(accumulate((end for _, end in spans), max, initial=-math.inf))
    starts = [*(start for start, _ in spans[1:]), math.inf]
    return [
        span
        for span, before, after in zip(spans, ends, starts, strict=False)
        if before < span[0] and span[1] < after
    ]


def _capture(
    linked: LinkedTrace, catalog: Catalog, region: Sequence[int], op_of: Mapping[int, int], label: str
) -> Capture:
    """Return the captured graph of some launches: its norms are found as if each launch had a kernel."""
    trace = linked.trace
    kernels = [trace.launches[i].kernel for i in region]
    events = [
        GpuEvent(
            kind="kernel",
            name=kernel or _name_of_compiled(linked, op_of[i]),
            ts_us=trace.launches[i].ts_us,
            dur_us=0.0,
            pid=trace.launches[i].pid,
            stream=trace.launches[i].tid,
            correlation=trace.launches[i].correlation,
        )
        for i, kernel in zip(region, kernels, strict=True)
    ]
    captured = msgspec.structs.replace(
        linked,
        trace=msgspec.structs.replace(trace, gpu_events=events),
        launch_of=list(region),
        op_of=[op_of[i] for i in region],
        how=["correlation"] * len(region),
    )
    norms = op_calls(captured, catalog)
    norms += compiled_calls(captured, catalog, {event for norm in norms for event in norm.norm_events})
    ordered = sorted((norm for norm in norms if norm.norm_events), key=lambda norm: norm.norm_events)
    return Capture(label, tuple(ordered), tuple(kernels))


def _name_of_compiled(linked: LinkedTrace, op: int) -> str:
    """Return the name of a compiled kernel, which its op has too; nothing for others."""
    name = linked.trace.cpu_ops[op].name if op != NONE else ""
    return name if name.startswith(_COMPILED) else ""
