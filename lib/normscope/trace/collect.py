"""Raw events to the events that are used: checked, sorted by kind, names shared."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from normscope.trace.events import CpuOp, GpuEvent, GpuKind, Launch, Span, ThreadId
from normscope.trace.problems import ProblemLog
from normscope.trace.raw import RawArgs, RawEvent

LONGEST_US = 86_400e6
"""A day. What claims to take longer is a fault of the record."""
MODULE_PREFIX = "nn.Module"
STEP_PREFIX = "ProfilerStep#"
PROFILER_SPAN_PREFIX = "PyTorch Profiler"
WINDOW_END = "Record Window End"

NO_TIME = "events had no usable start time or duration and were left out"
NEGATIVE = "events had a negative duration and were left out"
TOO_LONG = "events claimed to take longer than a day and were left out"
LOST_RECORD = "GPU events had neither a start time nor a duration (lost records) and were left out"
TEXT_TIME = "events had their times as text, which was read as numbers"
REPEATED = "GPU events stood in the trace more than once and were counted once"

GPU_KINDS: dict[Any, GpuKind] = {
    "kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "gpu_memset": "memset",
    # Kineto of 2021
    "Kernel": "kernel",
    "Memcpy": "memcpy",
    "Memset": "memset",
}

_read_args = msgspec.json.Decoder(RawArgs).decode
NO_ARGS = RawArgs()
LONGEST_NUMBER = 20


class Collector:
    """Takes batches of raw events and keeps what is used of them."""

    def __init__(self, log: ProblemLog) -> None:
        self.gpu_events: list[GpuEvent] = []
        self.launches: list[Launch] = []
        self.cpu_ops: list[CpuOp] = []
        self.annotations: list[Span] = []
        self.steps: list[Span] = []
        self.modules: list[Span] = []
        self.event_count = 0
        self.python_frames = 0
        self.window_start_us = math.inf
        self.window_end_us = -math.inf
        self._log = log
        self._names: dict[str, str] = {}
        self._seen: set[tuple[Any, ...]] = set()
        self._takers: dict[Any, Callable[[RawEvent], None]] = {
            "cpu_op": self._take_op,
            "Operator": self._take_op,
            "user_annotation": self._take_annotation,
            "Trace": self._take_profiler_span,
            None: self._take_mark,
            **dict.fromkeys(GPU_KINDS, self._take_gpu_event),
            # No call on the host, though some of these carry a correlation.
            **dict.fromkeys(
                ("ac2g", "fwdbwd", "cpu_instant_event", "gpu_user_annotation", "cuda_sync", "overhead"),
                _pass_over,
            ),
        }

    def take(self, events: Iterable[RawEvent]) -> None:
        """Keep what is used of ``events``."""
        takers = self._takers
        take_other = self._take_launch
        frames = count = 0
        for event in events:
            count += 1
            category = event.cat
            if category == "python_function":
                frames += 1
                name = event.name
                if type(name) is str and name.startswith(MODULE_PREFIX):
                    self._take_module(event)
            elif type(category) is str or category is None:
                takers.get(category, take_other)(event)
        self.python_frames += frames
        self.event_count += count

    def _take_op(self, event: RawEvent) -> None:
        times = self._times(event)
        if times is None:
            return
        args = _args_of(event)
        self.cpu_ops.append(
            CpuOp(
                self._name(event.name),
                *times,
                _track(event.pid),
                _track(event.tid),
                _whole(args.external_id, args.external_id_2021),
                _whole(args.sequence),
                _whole(args.forward_thread),
                bytes(event.args),
            )
        )

    def _take_launch(self, event: RawEvent) -> None:
        args = _args_of(event)
        correlation = _whole(args.correlation)
        if correlation is None:
            return
        times = self._times(event)
        if times is None:
            return
        external_id = _whole(args.external_id, args.external_id_2021)
        name = self._name(event.name)
        self.launches.append(
            Launch(name, *times, _track(event.pid), _track(event.tid), correlation, external_id)
        )

    def _take_gpu_event(self, event: RawEvent) -> None:
        times = self._times(event)
        if times is None:
            return
        if times == (0.0, 0.0):
            self._log.add(LOST_RECORD)
            return
        args = _args_of(event)
        stream = args.stream if type(args.stream) is int else event.tid
        pid = _track(event.pid)
        correlation = _whole(args.correlation)
        name = self._name(event.name)
        key = (times, pid, _track(stream), correlation, name)
        if key in self._seen:
            self._log.add(REPEATED)
            return
        self._seen.add(key)
        self.gpu_events.append(
            GpuEvent(
                GPU_KINDS[event.cat],
                name,
                *times,
                pid,
                _track(stream),
                _whole(args.device),
                correlation,
                _whole(args.external_id, args.external_id_2021),
                _sizes(args.grid),
                _sizes(args.block),
                _number(args.blocks_per_sm),
                _number(args.warps_per_sm),
            )
        )

    def _take_module(self, event: RawEvent) -> None:
        self._take_span(event, self.modules)

    def _take_annotation(self, event: RawEvent) -> None:
        is_step = type(event.name) is str and event.name.startswith(STEP_PREFIX)
        self._take_span(event, self.steps if is_step else self.annotations)

    def _take_span(self, event: RawEvent, spans: list[Span]) -> None:
        times = self._times(event)
        if times:
            spans.append(Span(self._name(event.name), *times, _track(event.pid), _track(event.tid)))

    def _take_profiler_span(self, event: RawEvent) -> None:
        start = _number(event.ts)
        if start is not None and self._name(event.name).startswith(PROFILER_SPAN_PREFIX):
            self.window_start_us = min(self.window_start_us, start)

    def _take_mark(self, event: RawEvent) -> None:
        end = _number(event.ts)
        if event.name == WINDOW_END and end is not None:
            self.window_end_us = max(self.window_end_us, end)

    def _name(self, name: object) -> str:
        """Return the one copy of ``name`` that is kept."""
        if type(name) is not str:
            return "" if name is None else str(name)
        return self._names.setdefault(name, name)

    def _times(self, event: RawEvent) -> tuple[float, float] | None:
        """Return start and duration in µs, or None after counting why they are unusable."""
        ts, dur = event.ts, event.dur
        if type(ts) is not float or type(dur) is not float:
            if type(ts) is str or type(dur) is str:
                self._log.add(TEXT_TIME)
            ts, dur = _number(ts), _number(dur)
            if ts is None or dur is None:
                self._log.add(NO_TIME)
                return None
        if 0 <= dur <= LONGEST_US:
            return ts, dur
        self._log.add(NEGATIVE if dur < 0 else TOO_LONG)
        return None


def _pass_over(event: RawEvent) -> None:
    """Leave ``event`` out: it is of no use here."""


def _args_of(event: RawEvent) -> RawArgs:
    try:
        return _read_args(event.args)
    except (ValueError, RecursionError, msgspec.DecodeError):
        return NO_ARGS


def _whole(*values: object) -> int | None:
    """Return the first of ``values`` that is a whole number, be it written as text."""
    for value in values:
        if type(value) is int:
            return value
        if type(value) is str and value.isdecimal() and len(value) < LONGEST_NUMBER:
            return int(value)
    return None


def _number(value: object) -> float | None:
    """Return ``value`` as a finite float, be it written as text; None if it is none."""
    if not isinstance(value, int | float | str) or type(value) is bool:
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _sizes(value: object) -> tuple[int, ...] | None:
    if type(value) is list and all(type(size) is int for size in value):
        return tuple(value)
    return None


def _track(value: object) -> ThreadId:
    """Return a process, thread or stream; ``stream 7``, as Kineto of 2021 wrote it, is 7."""
    if type(value) is int:
        return value
    text = "" if value is None else str(value)
    number = text.removeprefix("stream ")
    return int(number) if number.isdecimal() and len(number) < LONGEST_NUMBER else text
