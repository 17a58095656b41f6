"""Raw events to the events that are used: checked, sorted by kind, names shared."""

import math
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from normscope.trace.events import CpuOp, GpuEvent, GpuKind, Launch, Span, ThreadId
from normscope.trace.problems import ProblemLog
from normscope.trace.raw import GpuArgs, LaunchIds, OpIds, RawEvent, loose_args, whole

LONGEST_US = 86_400e6
"""A day. What claims to take longer is a fault of the record."""
FARTHEST_US = 1e17
"""Three thousand years: no clock counts from that long ago."""
PYTHON_CATEGORY = "python_function"
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

GPU_KINDS: dict[str, GpuKind] = {
    "kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "gpu_memset": "memset",
    # Kineto of 2021
    "Kernel": "kernel",
    "Memcpy": "memcpy",
    "Memset": "memset",
}
PASSED_OVER = (
    "ac2g",
    "fwdbwd",
    "cpu_instant_event",
    "overhead",
    # These carry a correlation but are no calls on the host.
    "gpu_user_annotation",
    "cuda_sync",
)

Args = TypeVar("Args", bound=msgspec.Struct)
_op_ids = msgspec.json.Decoder(OpIds)
_launch_ids = msgspec.json.Decoder(LaunchIds)
_gpu_args = msgspec.json.Decoder(GpuArgs)


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
        self._takers: dict[str, Callable[[RawEvent], None]] = {
            "cpu_op": self._take_op,
            "Operator": self._take_op,
            "user_annotation": self._take_annotation,
            "Trace": self._take_profiler_span,
            "": self._take_mark,
            **dict.fromkeys(GPU_KINDS, self._take_gpu_event),
            **dict.fromkeys(PASSED_OVER, _pass_over),
        }

    def take(self, events: Iterable[RawEvent]) -> None:
        """Keep what is used of ``events``."""
        takers, take_other = self._takers, self._take_launch
        frames = count = 0
        for event in events:
            count += 1
            category = event.cat
            if category == PYTHON_CATEGORY:
                frames += 1
                if event.name.startswith(MODULE_PREFIX):
                    self._take_span(event, self.modules)
            else:
                takers.get(category, take_other)(event)
        self.python_frames += frames
        self.event_count += count

    def _take_op(self, event: RawEvent) -> None:
        if not self._has_times(event):
            return
        text = event.args
        ids = _decoded(_op_ids, text, OpIds)
        name = event.name
        self.cpu_ops.append(
            CpuOp(
                self._names.setdefault(name, name),
                event.ts,
                event.dur,
                event.pid,
                event.tid,
                ids.external_id if ids.external_id is not None else ids.external_id_2021,
                ids.sequence,
                ids.forward_thread,
                bytes(text),
            )
        )

    def _take_launch(self, event: RawEvent) -> None:
        ids = _decoded(_launch_ids, event.args, LaunchIds)
        if ids.correlation is None or not self._has_times(event):
            return
        name, kernel = event.name, ids.kernel
        self.launches.append(
            Launch(
                self._names.setdefault(name, name),
                event.ts,
                event.dur,
                event.pid,
                event.tid,
                ids.correlation,
                ids.external_id if ids.external_id is not None else ids.external_id_2021,
                kernel if kernel is None else self._names.setdefault(kernel, kernel),
            )
        )

    def _take_gpu_event(self, event: RawEvent) -> None:
        if event.ts == 0 and event.dur == 0:
            self._log.add(LOST_RECORD)
            return
        if not self._has_times(event):
            return
        args = _decoded(_gpu_args, event.args, GpuArgs)
        stream = _stream(event.tid) if args.stream is None else args.stream
        name = self._names.setdefault(event.name, event.name)
        key = (event.ts, event.dur, event.pid, stream, args.correlation, name)
        if key in self._seen:
            self._log.add(REPEATED)
            return
        self._seen.add(key)
        self.gpu_events.append(
            GpuEvent(
                GPU_KINDS[event.cat],
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

    def _take_annotation(self, event: RawEvent) -> None:
        self._take_span(event, self.steps if event.name.startswith(STEP_PREFIX) else self.annotations)

    def _take_span(self, event: RawEvent, spans: list[Span]) -> None:
        if self._has_times(event):
            name = self._names.setdefault(event.name, event.name)
            spans.append(Span(name, event.ts, event.dur, event.pid, event.tid))

    def _take_profiler_span(self, event: RawEvent) -> None:
        if event.name.startswith(PROFILER_SPAN_PREFIX) and event.ts < self.window_start_us:
            self.window_start_us = event.ts

    def _take_mark(self, event: RawEvent) -> None:
        if event.name == WINDOW_END and event.ts > self.window_end_us:
            self.window_end_us = event.ts

    def _has_times(self, event: RawEvent) -> bool:
        """Tell whether start and duration can be used, after counting why not."""
        is_placed = -FARTHEST_US <= event.ts <= FARTHEST_US  # false for NaN, too
        if is_placed and 0 <= event.dur <= LONGEST_US:
            return True
        if not is_placed or math.isnan(event.dur):
            self._log.add(NO_TIME)
        else:
            self._log.add(NEGATIVE if event.dur < 0 else TOO_LONG)
        return False


def _pass_over(event: RawEvent) -> None:
    """Leave ``event`` out: it is of no use here."""


def _decoded(decoder: msgspec.json.Decoder[Args], text: msgspec.Raw, model: type[Args]) -> Args:
    """Return what is used of ``args``; an entry that is not of its type counts as missing."""
    try:
        return decoder.decode(text)
    except (ValueError, RecursionError, msgspec.DecodeError):
        return loose_args(text, model)


def _stream(track: ThreadId) -> ThreadId:
    """Return a stream's number; Kineto of 2021 wrote ``stream 7``."""
    found = whole(track.removeprefix(STREAM_PREFIX)) if isinstance(track, str) else track
    return track if found is None else found
