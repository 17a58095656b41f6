"""Norm calls grouped as the reference groups them: by op, thread, shapes, types, strides and values."""

from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean, median, stdev

import msgspec

from normscope.hardware.registry import Peaks
from normscope.norms.calls import NormCall
from normscope.norms.ops import NORM_OPS
from normscope.trace.events import OpArgs, ThreadId
from normscope.trace.link import LinkedTrace

CATEGORIES = {"forward": "norm_fwd", "backward": "norm_bwd"}


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
    direction: str
    thread: tuple[ThreadId, ThreadId]
    args: OpArgs
    calls: tuple[NormCall, ...]
    modules: tuple[tuple[str, ...], ...]

    @property
    def category(self) -> str:
        """The category that TraceLens' layout has for this direction."""
        return CATEGORIES[self.direction]

    @property
    def first(self) -> NormCall:
        """The first call."""
        return self.calls[0]


def signatures(linked: LinkedTrace, calls: Iterable[NormCall]) -> list[Signature]:
    """Return the signatures of ``calls``, the one with the most kernel time first."""
    groups: dict[tuple[object, ...], list[NormCall]] = {}
    for call in calls:
        groups.setdefault((call.name, call.pid, call.tid, call.raw_args), []).append(call)
    merged: dict[tuple[object, ...], list[NormCall]] = {}
    arguments: dict[tuple[object, ...], OpArgs] = {}
    for (name, pid, tid, _), group in groups.items():
        args = _args(group[0])
        key = (name, pid, tid, repr((args.dims, args.types, args.strides, args.concrete)))
        merged.setdefault(key, []).extend(group)
        arguments[key] = args
    found = [_signature(linked, arguments[key], group) for key, group in merged.items()]
    return sorted(found, key=lambda s: -sum(call.kernel_us for call in s.calls))


def _args(call: NormCall) -> OpArgs:
    try:
        return msgspec.json.decode(call.raw_args, type=OpArgs) if call.raw_args else OpArgs()
    except (ValueError, RecursionError, msgspec.DecodeError):
        return OpArgs()


def _signature(linked: LinkedTrace, args: OpArgs, group: list[NormCall]) -> Signature:
    calls = sorted(group, key=lambda call: call.ts_us)
    first = calls[0]
    return Signature(
        name=first.name,
        direction=NORM_OPS[first.cost_name][0].model.direction,
        thread=(first.pid, first.tid),
        args=args,
        calls=tuple(calls),
        modules=tuple(linked.module_path(call.op) for call in calls),
    )


def spread(values: Sequence[float]) -> Spread:
    """Return the spread of ``values``, of which there is at least one."""
    return Spread(
        total=sum(values),
        mean=fmean(values),
        std=stdev(values) if len(values) > 1 else None,
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


def rates(calls: Iterable[NormCall], amount: float | None, *, norm_only: bool = False) -> Iterator[float]:
    """Yield ``amount`` ÷ time of each call that took time, per µs; nothing where the amount isn't known."""
    if amount is None:
        return
    for call in calls:
        time_us = call.norm_us if norm_only else call.kernel_us
        if time_us > 0:
            yield amount / time_us
