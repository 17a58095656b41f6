"""Method of a trace's report: what bounds an operation and what else its row can say, with the thresholds."""

from collections.abc import Callable, Sequence

from msgspec import UNSET

from normscope.analysis.limit_phrases import binary_size, duration_us
from normscope.analysis.models import Limits, Operation
from normscope.report.tables import Html, facts

_UNDER_FILLED = (
    "The launch of the main kernel, the one with most of a call's time, starts fewer workgroups (thread "
    "blocks) than the GPU has compute units (streaming multiprocessors), so the others have nothing to "
    "do. Workgroups are as the trace recorded them, compute units as the trace lists its device, or as "
    "the registry does"
)
_LAUNCH_BOUND = (
    "At peak bandwidth, the bytes of a call would take less time than the shortest kernels of the trace: "
    "what counts is starting the kernel. One in a hundred of the trace's kernels is shorter than its "
    "shortest kernels"
)
_CACHE_RESIDENT = (
    "The bytes of a call fit the last-level cache of the GPU, as the registry gives it, so they may come "
    "from there. More than 100% of the roofline, whose roof is the bandwidth of memory, is no error then"
)
_READ_TWICE = (
    "The kernel reads inputs twice, for the statistics and for the result: as batch norm in training and "
    "group norm do, and norms over rows so long that those at work at a time exceed the last-level cache."
    " Bytes count each input once, so bytes ÷ (bytes + those read again) of the roofline is attainable "
    "where the second reading comes from memory."
)
_ROWS = (
    (
        "Upper bound (≤)",
        "A compiler fused the norm with other work in one kernel, whose time is shown: the norm itself takes "
        "at most as long. What it is fused with is read from the kernel's name. Bytes, bandwidth and "
        "efficiency are those of the whole kernel.",
    ),
    (
        "Unfused",
        "The norm runs as a chain of small kernels, and its time is that of all of them. Its efficiency "
        "refers to the bytes that one fused kernel would move; those that the chain moves are beside them.",
    ),
    (
        "Found by kernel name",
        "The trace has no op for the kernel, as in a replayed graph, so its shapes and bytes are known only "
        "where a capture of the graph tells them.",
    ),
    (
        "Unverified",
        "Neither a trace nor source code confirms the rule that told the norm.",
    ),
)


def limits_html(operations: Sequence[Operation]) -> Html:
    """Return what bounds an operation, each bound with its threshold; empty where no limits are known."""
    known = [operation.limits for operation in operations if operation.limits is not UNSET]
    if not known:
        return Html("")
    units = _here(known, lambda each: each.multiprocessors, lambda count: f"{count:,.0f} compute units")
    shortest = _here(known, lambda each: each.shortest_kernel_us, duration_us)
    cache = _here(known, lambda each: each.last_level_cache_bytes, binary_size)
    bounds = (
        ("Under-filled", f"{_UNDER_FILLED}{units}."),
        ("Launch-bound", f"{_LAUNCH_BOUND}{shortest}."),
        ("Cache-resident", f"{_CACHE_RESIDENT}{cache}."),
        ("Two-pass", _READ_TWICE),
    )
    return Html(f"<h3>What bounds an operation</h3>\n{facts([*bounds, *_ROWS])}")


def _here(
    known: Sequence[Limits], figure: Callable[[Limits], float | None], text: Callable[[float], str]
) -> str:
    """Return the threshold of this trace in words, empty where it is not known."""
    values = [value for value in map(figure, known) if value is not None]
    return f"; here {text(values[0])}" if values else ""
