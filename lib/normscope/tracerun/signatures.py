"""Norm calls grouped as the reference groups them: by op, thread, shapes, types, strides and values."""

import math
from collections.abc import Iterable, Sequence
from statistics import median

import msgspec

from normscope.hardware.registry import Peaks
from normscope.norms.calls import NormCall
from normscope.trace.events import OpArgs, ThreadId
from normscope.trace.link import LinkedTrace
from normscope.trace.nesting import NONE

CATEGORIES = {"forward": "norm_fwd", "backward": "norm_bwd"}
LEAST_CLOCK_STEPS = 10
"""A rate is known only where the kernel time is at least this many steps of the trace's clock."""
_DEEPEST_ARGUMENT = 8

Inputs = tuple[str | None, str | None, str | None, str | None]
"""Shapes, types, strides and values as Python literals, the way TraceLens writes them; None: not recorded."""


class Spread(msgspec.Struct, frozen=True):
    """How a figure is spread over the calls; ``std`` is the sample's, None for a single call."""

    total: float
    mean: float
    std: float | None
    median: float
    least: float
    most: float


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """Calls that differ in nothing but time."""

    name: str
    category: str
    thread: tuple[ThreadId, ThreadId]
    inputs: Inputs
    calls: tuple[NormCall, ...]
    modules: tuple[tuple[str, ...], ...]
    kernel_us: float
    """Time of everything under all calls."""
    resolution_us: float

    @property
    def first(self) -> NormCall:
        """The first call."""
        return self.calls[0]


def signatures(linked: LinkedTrace, calls: Iterable[NormCall]) -> list[Signature]:
    """Return the signatures of ``calls``, the one with the most kernel time first."""
    inputs: dict[str, Inputs] = {}
    texts: dict[int, str] = {}  # calls that are alike share their recorded inputs
    groups: dict[tuple[object, ...], list[NormCall]] = {}
    for call in calls:
        if (same := id(call.args)) not in texts:
            texts[same] = repr(call.args)
        text = texts[same]  # cheaper than the literals, which equal calls share
        if text not in inputs:
            inputs[text] = _inputs(call.args)
        # Equal outer arguments can hide different work below: autocast turns one type into another.
        alike = (call.name, call.direction, call.pid, call.tid, call.row.id, call.fuses, call.cost)
        key = (*alike, _launches(linked, call), text)
        groups.setdefault(key, []).append(call)
    found = [_signature(linked, inputs[str(key[-1])], group) for key, group in groups.items()]
    return sorted(found, key=lambda row: -row.kernel_us)


def _launches(linked: LinkedTrace, call: NormCall) -> object:
    """Return the launches of a call without shapes, which tell calls of different sizes apart; else None."""
    if call.cost.x_shape is not None:
        return None
    events = (linked.trace.gpu_events[i] for i in call.norm_events)
    return tuple((event.grid, event.block) for event in events)


def _inputs(args: OpArgs) -> Inputs:
    return _literal(args.dims), _literal(args.types), _literal(args.strides), _literal(args.concrete)


def _literal(value: object) -> str | None:
    return None if value is None else repr(_as_tuples(value, _DEEPEST_ARGUMENT))


def _as_tuples(value: object, depth: int) -> object:
    """Return nested lists as tuples; what is nested deeper than any argument, and objects, become None."""
    if isinstance(value, list):
        return tuple(_as_tuples(entry, depth - 1) for entry in value) if depth else None
    return None if isinstance(value, dict) else value


def _signature(linked: LinkedTrace, inputs: Inputs, group: list[NormCall]) -> Signature:
    calls = sorted(group, key=lambda call: call.ts_us)
    first = calls[0]
    return Signature(
        name=first.name,
        category=CATEGORIES[first.direction],
        thread=(first.pid, first.tid),
        inputs=inputs,
        calls=tuple(calls),
        modules=tuple(() if call.op == NONE else linked.module_path(call.op) for call in calls),
        kernel_us=math.fsum(call.kernel_us for call in calls),
        resolution_us=linked.trace.resolution_us,
    )


def spread(values: Sequence[float]) -> Spread:
    """Return the spread of ``values``, of which there is at least one."""
    total = math.fsum(values)
    mean = total / len(values)
    squares = math.fsum((value - mean) ** 2 for value in values)
    return Spread(
        total=total,
        mean=mean,
        std=math.sqrt(squares / (len(values) - 1)) if len(values) > 1 else None,
        median=median(values),
        least=min(values),
        most=max(values),
    )


class Roofline(msgspec.Struct, frozen=True):
    """The least time that a call can take, and what sets it."""

    time_us: float
    bound: str


def roofline(call: NormCall, peaks: Peaks | None) -> Roofline | None:
    """Return bytes ÷ peak bandwidth or FLOPs ÷ peak rate, whichever takes longer; None where not known.

    A compute rate that the peaks lack can't bound the call: norms do about one FLOP per byte.
    """
    moved = call.cost.bytes_moved
    if peaks is None or not moved:
        return None
    memory_us = moved / (peaks.bandwidth_gbps * 1e3)
    tflops = peaks.tflops.get(call.cost.compute_spec or "")
    compute_us = (call.cost.flops or 0.0) / (tflops * 1e6) if tflops else 0.0
    if compute_us > memory_us:
        return Roofline(compute_us, "COMPUTE_BOUND")
    return Roofline(memory_us, "MEMORY_BOUND")


def is_too_short(row: Signature) -> bool:
    """Tell whether the trace's clock is too coarse for the kernel times of ``row`` to give a rate."""
    return row.kernel_us / len(row.calls) < LEAST_CLOCK_STEPS * row.resolution_us


def rates(row: Signature, amount: float | None, *, norm_only: bool = False) -> Spread | None:
    """Return the spread of ``amount`` ÷ time over the calls that took time, per µs; None where not known."""
    if amount is None or is_too_short(row):
        return None
    times_us = [call.norm_us if norm_only else call.kernel_us for call in row.calls]
    found = [amount / time_us for time_us in times_us if time_us > 0]
    return spread(found) if found else None
