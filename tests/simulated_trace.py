"""A small reader of traces for the tests of the simulated one, written apart from the library's own."""

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from normscope.sample.truth import Truth, sample_truth

Event = dict[str, Any]
Trace = dict[str, Any]
Calls = dict[tuple[str, tuple[Any, ...]], list[list[Event]]]
# The floats of the file hold µs since 5e9 to within a quarter of a ns.
EPSILON_US = 0.002
UNFUSED = {row.op for row in sample_truth() if row.found_as == "unfused"}


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

    This is an own small reader: kernel to launch by correlation, launch to the ops around it by time. The
    kernels of an unfused norm are those of a call of its module; its name and arguments are those of the
    module and of the first op in it.
    """
    kernels = {event["args"]["correlation"]: event for event in of(trace, "kernel")}
    kernels_of: dict[int, list[Event]] = defaultdict(list)
    called: dict[int, tuple[str, Event]] = {}
    for span, ancestors in with_ancestors(of(trace, "cpu_op", "cuda_runtime", "python_function")):
        kernel = kernels.get(span["args"].get("correlation"))
        call = norm_call(ancestors) if kernel is not None else None
        if kernel is not None and call is not None:
            name, around, first = call
            called.setdefault(id(around), (name, first))
            kernels_of[id(around)].append(kernel)
    found = defaultdict(list)
    for number, own in kernels_of.items():
        name, op = called[number]
        found[name, freeze(op["args"].get("Input Dims"), op["args"].get("Input type"))].append(own)
    return found


def norm_call(ancestors: list[Event]) -> tuple[str, Event, Event] | None:
    """Return the name of the norm around something, the event that is the whole call, and its first op."""
    ops = [event for event in ancestors if event["cat"] == "cpu_op"]
    norms = [op for op in ops if is_norm(op["name"])]
    if norms:
        return norms[0]["name"], norms[0], norms[0]
    modules = [event for event in ancestors if unfused_norm(event["name"])]
    return (unfused_norm(modules[-1]["name"]), modules[-1], ops[0]) if modules and ops else None


def unfused_norm(name: str) -> str:
    """Return how the truth calls the unfused norm whose module has this name, nothing for another."""
    found = f"eager::{name.removeprefix('nn.Module: ').rpartition('_')[0]}"
    return found if found in UNFUSED else ""


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
