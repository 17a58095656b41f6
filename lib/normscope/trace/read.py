"""A profiler trace, from a file or a stream, with what was found wrong in it."""

from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO, Literal

from normscope.errors import InputError
from normscope.trace.collect import Collector
from normscope.trace.collector_pause import collector_paused
from normscope.trace.decode import CUT, TraceText
from normscope.trace.events import DeviceProperties, Trace, TraceInfo
from normscope.trace.problems import ProblemLog
from normscope.trace.repair import UNREADABLE
from normscope.trace.source import BROKEN_GZIP, CUT_GZIP, Progress, opened, pieces, standard_input
from normscope.trace.times import clip_overruns, in_order, resolution_us, without_repeats

_DEVICE_KEYS = {
    "id": "id",
    "memory_bytes": "totalGlobalMem",
    "compute_major": "computeMajor",
    "compute_minor": "computeMinor",
    "multiprocessors": "numSms",
}


def read_trace(source: Path | BinaryIO | Literal["-"], on_progress: Progress | None = None) -> Trace:
    """Read a Kineto trace in Chrome's JSON format, plain or gzip, an object or a bare list of events.

    Parameters
    ----------
    source
        Path, open binary file, or ``-`` for standard input.
    on_progress
        Called with the bytes of the file read so far and its size, or None where that is unknown.

    Returns
    -------
    Trace
        The events that are used, times in µs. Broken events are mended where that is safe, else left out;
        ``problems`` counts both. A trace that breaks off is read up to there and marked ``truncated``.

    Raises
    ------
    InputError
        If the file can't be read, is no trace, or not one of its events can be read.
    """
    log = ProblemLog()
    label = str(source) if isinstance(source, Path) else "The trace"
    with collector_paused(), opened(standard_input() if source == "-" else source) as (file, size):
        text = TraceText(pieces(file, size, log, on_progress), log, label)
        collector = Collector(log)
        for events in text.batches():
            collector.take(events)
    broken = [offset for what in (UNREADABLE, CUT) if (offset := log.first_offset(what)) is not None]
    if broken and not collector.event_count:
        message = (
            f"{label} is broken or cut at byte {min(broken)}, and no event can be read; record it again."
        )
        raise InputError(message)
    return _trace(text, collector, log)


def _trace(text: TraceText, collector: Collector, log: ProblemLog) -> Trace:
    by_time = attrgetter("ts_us")
    gpu_events = without_repeats(in_order(collector.gpu_events), log)
    start, end = collector.window_start_us, collector.window_end_us
    return Trace(
        gpu_events=clip_overruns(gpu_events, log),
        launches=collector.launches,
        cpu_ops=collector.cpu_ops,
        annotations=sorted(collector.annotations, key=by_time),
        steps=sorted(collector.steps, key=by_time),
        modules=collector.modules,
        info=TraceInfo(devices=_devices(text.metadata.pop("deviceProperties", None)), metadata=text.metadata),
        problems=log.found(),
        event_count=collector.event_count,
        window_us=(start, end) if start < end else None,
        bytes_read=text.bytes_read,
        truncated=text.truncated or bool(log.count(CUT_GZIP) or log.count(BROKEN_GZIP)),
        resolution_us=resolution_us(gpu_events),
    )


def _devices(entries: object) -> tuple[DeviceProperties, ...]:
    if not isinstance(entries, list):
        return ()
    return tuple(_device(entry) for entry in entries if isinstance(entry, dict))


def _device(entry: dict[str, Any]) -> DeviceProperties:
    numbers = {field: entry.get(key) for field, key in _DEVICE_KEYS.items()}
    name = entry.get("name")
    return DeviceProperties(
        name=name if isinstance(name, str) else None,
        **{field: number for field, number in numbers.items() if type(number) is int},
    )
