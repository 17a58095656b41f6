"""A small reader of traces for the tests of the simulated one, written apart from the library's own."""

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from normscope.sample.truth import Truth

Event = dict[str, Any]
Trace = dict[str, Any]
Calls = dict[tuple[str, tuple[Any, ...]], list[list[Event]]]
# The floats of the file hold µs since 5e9 to within a quarter of a ns.
EPSILON_US = 0.002


def read(text: str | bytes) -> Trace:
    found: Trace = json.loads(text)
    return found


def of(trace: Trace, *categories: str) -> list[Event]:
    return [event for event in trace["traceEvents"] if event.get("cat") in categories]


def end(event: Event) -> float:
    return float(event["ts"] + event["dur"])


def with_ancestors(events: Iterable[Event]) -> list[tuple[Event, list[Event]]]:
    """Give every span of every thread those around it, the outermost first; spans must nest."""
    found = []
    threads = defaultdict(list)
    for event in events:
        threads[event["pid"], event["tid"]].append(event)
    for spans in threads.values():
        open_spans: list[Event] = []
        for span in sorted(spans, key=lambda event: (event["ts"], -event["dur"])):
            while open_spans and end(open_spans[-1]) <= span["ts"]:
                open_spans.pop()
            if open_spans:
                assert end(span) <= end(open_spans[-1]) + EPSILON_US
            found.append((span, list(open_spans)))
            open_spans.append(span)
    return found


def norm_calls(trace: Trace) -> Calls:
    """Find the kernels of every call of a norm, by outermost norm op and the arguments of that op.

    This is an own small reader: kernel to launch by correlation, launch to the ops around it by time.
    """
    kernels = {event["args"]["correlation"]: event for event in of(trace, "kernel")}
    kernels_of: dict[int, list[Event]] = defaultdict(list)
    ops = {}
    for span, ancestors in with_ancestors(of(trace, "cpu_op", "cuda_runtime")):
        kernel = kernels.get(span["args"].get("correlation"))
        norms = [op for op in ancestors if is_norm(op["name"])]
        if kernel is not None and norms:
            kernels_of[norms[0]["args"]["External id"]].append(kernel)
            ops[norms[0]["args"]["External id"]] = norms[0]
    found = defaultdict(list)
    for number, own in kernels_of.items():
        op = ops[number]
        found[op["name"], freeze(op["args"].get("Input Dims"), op["args"].get("Input type"))].append(own)
    return found


def is_norm(name: str) -> bool:
    return "norm" in name and not name.startswith("autograd")


def freeze(dims: list[list[int]] | None, types: list[str] | None) -> tuple[Any, ...]:
    return () if dims is None or types is None else (tuple(map(tuple, dims)), tuple(types))


def found_for(row: Truth, calls: Calls) -> list[list[Event]]:
    """Return the kernels of each call of ``row``, found by its op, its shape and whether it has a weight."""
    matching = []
    for (name, arguments), found in calls.items():
        if name != row.op:
            continue
        shape = arguments[0][0] if arguments else None
        if row.kind == "layer_norm_unrecorded":
            is_row = shape is None
        else:
            has_weight = bool(arguments) and "instance_norm" not in row.kind
            is_row = shape == row.shape and (
                row.direction == "forward" or has_weight == (arguments[1][2] != "")
            )
        if is_row:
            matching += found
    return matching


def is_copy(kernel: Event) -> bool:
    return "direct_copy_kernel" in kernel["name"]
