"""Raw events to the events that are used: checked, sorted by kind, names shared."""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from normscope.trace.args import decode_args
from normscope.trace.events import CpuOp, GpuEvent, Launch, Span, ThreadId
from normscope.trace.problems import ProblemLog
from normscope.trace.raw import (
    MODULE_PREFIX,
    SEQUENCE,
    AutogradArgs,
    RawAnnotation,
    RawEvent,
    RawFrame,
    RawGpuEvent,
    RawLaunch,
    RawMark,
    RawOp,
    RawProfilerSpan,
    RawSpan,
    subtypes,
    whole,
)

STEP_PREFIX = "ProfilerStep#"
PROFILER_SPAN_PREFIX = "PyTorch Profiler"
WINDOW_END = "Record Window End"
STREAM_PREFIX = "stream "
_SEQUENCE = f'"{SEQUENCE}"'.encode()
_UNKNOWN = AutogradArgs()
_autograd_args = msgspec.json.Decoder(AutogradArgs)

LOST_RECORD = "GPU events had neither a start time nor a duration (lost records) and were left out"


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
        self.window_start_us = math.inf
        self.window_end_us = -math.inf
        self._log = log
        self._names: dict[str, str] = {}

    def take(self, events: Sequence[RawEvent]) -> None:
        """Keep what is used of ``events``."""
        groups: dict[_Taker, list[RawEvent]] = defaultdict(list)
        for event in events:
            if take := _TAKERS.get(type(event)):
                groups[take].append(event)
        for take, group in groups.items():
            take(self, group)
        self.event_count += len(events)

    def _take_frames(self, frames: list[RawFrame]) -> None:
        self.modules += self._spans([frame for frame in frames if frame.name.startswith(MODULE_PREFIX)])

    def _take_ops(self, ops: list[RawOp]) -> None:
        shared = self._names.setdefault
        for op in ops:
            # For short texts, joining copies faster than bytes() does, and find() is faster than ``in``.
            text = b"".join((op.args,))
            is_numbered = text.find(_SEQUENCE) >= 0
            known = decode_args(_autograd_args, text, AutogradArgs) if is_numbered else _UNKNOWN
            self.cpu_ops.append(
                CpuOp(
                    shared(op.name, op.name),
                    op.ts,
                    op.dur,
                    op.pid,
                    op.tid,
                    known.sequence,
                    known.forward_thread,
                    text,
                )
            )

    def _take_launches(self, calls: list[RawLaunch]) -> None:
        shared = self._names.setdefault
        for call in calls:
            args = call.args
            if args.correlation is None:
                continue
            self.launches.append(
                Launch(
                    shared(call.name, call.name),
                    call.ts,
                    call.dur,
                    call.pid,
                    call.tid,
                    args.correlation,
                    args.external_id if args.external_id is not None else args.external_id_2021,
                    args.kernel and shared(args.kernel, args.kernel),
                )
            )

    def _take_gpu_events(self, events: list[RawGpuEvent]) -> None:
        shared = self._names.setdefault
        for event in events:
            if event.ts == 0 and event.dur == 0:
                self._log.add(LOST_RECORD)
                continue
            args = event.args
            stream = _stream(event.tid) if args.stream is None else args.stream
            self.gpu_events.append(
                GpuEvent(
                    event.kind,
                    shared(event.name, event.name),
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
            for event in events
        ]


def _stream(track: ThreadId) -> ThreadId:
    """Return a stream's number; Kineto of 2021 wrote ``stream 7``."""
    found = whole(track.removeprefix(STREAM_PREFIX)) if isinstance(track, str) else track
    return track if found is None else found


_Taker = Callable[[Collector, list[Any]], None]
_TAKERS: dict[type[RawEvent], _Taker] = {
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
    for model in subtypes(shape)
}
