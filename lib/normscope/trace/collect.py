"""Raw events to the events that are used: checked, sorted by kind, names shared."""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from normscope.trace.events import CpuOp, GpuEvent, Launch, Span, ThreadId
from normscope.trace.problems import ProblemLog
from normscope.trace.raw import (
    MODELS,
    OpIds,
    RawAnnotation,
    RawEvent,
    RawFrame,
    RawGpuEvent,
    RawLaunch,
    RawMark,
    RawOp,
    RawProfilerSpan,
    RawSpan,
    decode_args,
    whole,
)

LONGEST_US = 86_400e6
"""A day. What claims to take longer is a fault of the record."""
FARTHEST_US = 1e17
"""Three thousand years: no clock counts from that long ago."""
MODULE_PREFIX = "nn.Module"
STEP_PREFIX = "ProfilerStep#"
PROFILER_SPAN_PREFIX = "PyTorch Profiler"
WINDOW_END = "Record Window End"
STREAM_PREFIX = "stream "

NO_TIME = "events had no usable start time or duration and were left out"
NEGATIVE = "events had a negative duration and were left out"
TOO_LONG = "events claimed to take longer than a day and were left out"
LOST_RECORD = "GPU events had neither a start time nor a duration (lost records) and were left out"
REPEATED = "GPU events stood in the trace more than once and were counted once"

TimedEvent = TypeVar("TimedEvent", bound=RawSpan)

_op_ids = msgspec.json.Decoder(OpIds)


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

    def take(self, events: Sequence[RawEvent]) -> None:
        """Keep what is used of ``events``."""
        self.event_count += len(events)
        groups: dict[type[RawEvent], list[RawEvent]] = defaultdict(list)
        for event in events:
            groups[type(event)].append(event)
        for model, group in groups.items():
            if take := _TAKERS.get(model):
                take(self, group)

    def _take_frames(self, frames: list[RawFrame]) -> None:
        self.python_frames += len(frames)
        self.modules += self._spans([frame for frame in frames if frame.name.startswith(MODULE_PREFIX)])

    def _take_ops(self, ops: list[RawOp]) -> None:
        shared = self._names.setdefault
        for op in self._timed(ops):
            text = op.args
            ids = decode_args(_op_ids, text, OpIds)
            self.cpu_ops.append(
                CpuOp(
                    shared(op.name, op.name),
                    op.ts,
                    op.dur,
                    op.pid,
                    op.tid,
                    ids.external_id if ids.external_id is not None else ids.external_id_2021,
                    ids.sequence,
                    ids.forward_thread,
                    bytes(text),
                )
            )

    def _take_launches(self, calls: list[RawLaunch]) -> None:
        shared = self._names.setdefault
        for call in self._timed([call for call in calls if call.args.correlation is not None]):
            args = call.args
            self.launches.append(
                Launch(
                    shared(call.name, call.name),
                    call.ts,
                    call.dur,
                    call.pid,
                    call.tid,
                    args.correlation,  # type: ignore[arg-type]  # those without one were left out
                    args.external_id if args.external_id is not None else args.external_id_2021,
                    args.kernel and shared(args.kernel, args.kernel),
                )
            )

    def _take_gpu_events(self, events: list[RawGpuEvent]) -> None:
        recorded = [event for event in events if event.ts != 0 or event.dur != 0]
        self._log.add(LOST_RECORD, count=len(events) - len(recorded))
        for event in self._timed(recorded):
            args = event.args
            stream = _stream(event.tid) if args.stream is None else args.stream
            name = self._names.setdefault(event.name, event.name)
            key = (event.ts, event.dur, event.pid, stream, args.correlation, name)
            if key in self._seen:
                self._log.add(REPEATED)
                continue
            self._seen.add(key)
            self.gpu_events.append(
                GpuEvent(
                    event.kind,
                    name,
                    event.ts,
                    event.dur,
                    event.pid,
                    stream,
                    args.device,
                    args.correlation,
                    args.external_id if args.external_id is not None else args.external_id_2021,
                    args.grid,
                    args.block,
                    args.blocks_per_sm,
                )
            )

    def _take_annotations(self, annotations: list[RawAnnotation]) -> None:
        for span in self._spans(annotations):
            (self.steps if span.name.startswith(STEP_PREFIX) else self.annotations).append(span)

    def _take_profiler_spans(self, spans: list[RawProfilerSpan]) -> None:
        starts = [span.ts for span in spans if span.name.startswith(PROFILER_SPAN_PREFIX)]
        self.window_start_us = min([self.window_start_us, *starts])

    def _take_marks(self, marks: list[RawMark]) -> None:
        ends = [mark.ts for mark in marks if mark.name == WINDOW_END]
        self.window_end_us = max([self.window_end_us, *ends])

    def _spans(self, events: Sequence[RawSpan]) -> list[Span]:
        shared = self._names.setdefault
        return [
            Span(shared(event.name, event.name), event.ts, event.dur, event.pid, event.tid)
            for event in self._timed(events)
        ]

    def _timed(self, events: Sequence[TimedEvent]) -> Sequence[TimedEvent]:
        """Return those whose start and duration can be used, after counting why not of the others."""
        timed = [
            event
            for event in events
            if 0 <= event.dur <= LONGEST_US and -FARTHEST_US <= event.ts <= FARTHEST_US
        ]
        if len(timed) < len(events):
            for event in events:
                if trouble := _trouble(event):
                    self._log.add(trouble)
        return timed


def _trouble(event: RawSpan) -> str | None:
    """Return what is wrong with the times of ``event``, if anything is."""
    is_placed = -FARTHEST_US <= event.ts <= FARTHEST_US  # false for NaN, too
    if not is_placed or math.isnan(event.dur):
        return NO_TIME
    if event.dur < 0:
        return NEGATIVE
    return TOO_LONG if event.dur > LONGEST_US else None


def _stream(track: ThreadId) -> ThreadId:
    """Return a stream's number; Kineto of 2021 wrote ``stream 7``."""
    found = whole(track.removeprefix(STREAM_PREFIX)) if isinstance(track, str) else track
    return track if found is None else found


_TAKERS: dict[type[RawEvent], Callable[[Collector, list[Any]], None]] = {
    model: taker
    for shape, taker in (
        (RawOp, Collector._take_ops),
        (RawLaunch, Collector._take_launches),
        (RawGpuEvent, Collector._take_gpu_events),
        (RawFrame, Collector._take_frames),
        (RawAnnotation, Collector._take_annotations),
        (RawProfilerSpan, Collector._take_profiler_spans),
        (RawMark, Collector._take_marks),
    )
    for model in (shape, *MODELS.values())
    if issubclass(model, shape)
}
