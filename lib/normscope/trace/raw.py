"""Events as they stand in the file: the usual form, and any other form made to fit it."""

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from normscope.trace.events import ThreadId
from normscope.trace.problems import ProblemLog

NO_TEXT = msgspec.Raw()
LONGEST_NUMBER = 20

TEXT_TIME = "events had their times as text, which was read as numbers"

Args = TypeVar("Args", bound=msgspec.Struct)

_EXTERNAL_ID = "External id"
_EXTERNAL_ID_2021 = "external id"


class RawEvent(msgspec.Struct, gc=False):
    """One event as profilers write it. A time is NaN where it is missing; ``args`` stays text."""

    cat: str = ""
    name: str = ""
    pid: ThreadId = ""
    tid: ThreadId = ""
    ts: float = math.nan
    dur: float = math.nan
    args: msgspec.Raw = NO_TEXT


class _LooseEvent(msgspec.Struct, gc=False):
    """One event whose fields may be anything."""

    cat: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = None
    args: msgspec.Raw = NO_TEXT


class OpIds(
    msgspec.Struct,
    gc=False,
    rename={
        "external_id": _EXTERNAL_ID,
        "sequence": "Sequence number",
        "forward_thread": "Fwd thread id",
        "external_id_2021": _EXTERNAL_ID_2021,
    },
):
    """What ``args`` of an op holds beside its inputs."""

    external_id: int | None = None
    sequence: int | None = None
    forward_thread: int | None = None
    external_id_2021: int | None = None


class LaunchIds(
    msgspec.Struct, gc=False, rename={"external_id": _EXTERNAL_ID, "external_id_2021": _EXTERNAL_ID_2021}
):
    """What is used of a launch's ``args``."""

    external_id: int | None = None
    correlation: int | None = None
    external_id_2021: int | None = None
    kernel: str | None = None


class GpuArgs(
    msgspec.Struct,
    gc=False,
    rename={
        "external_id": _EXTERNAL_ID,
        "blocks_per_sm": "blocks per SM",
        "external_id_2021": _EXTERNAL_ID_2021,
    },
):
    """What is used of a GPU event's ``args``."""

    external_id: int | None = None
    device: int | None = None
    stream: int | None = None
    correlation: int | None = None
    blocks_per_sm: float | None = None
    grid: tuple[int, ...] | None = None
    block: tuple[int, ...] | None = None
    external_id_2021: int | None = None


_events = msgspec.json.Decoder(list[RawEvent])
_loose_events = msgspec.json.Decoder(list[_LooseEvent])


def decode_events(text: bytes | bytearray, log: ProblemLog) -> Sequence[RawEvent]:
    """Return the events of a JSON list.

    Raises
    ------
    ValueError, RecursionError
        If ``text`` is not JSON, is nested too deeply, or holds something else than objects.
    """
    try:
        return _events.decode(text)
    except msgspec.ValidationError:
        return [_fitted(event, log) for event in _loose_events.decode(text)]


def loose_args(text: msgspec.Raw, model: type[Args]) -> Args:
    """Return the entries of ``args`` that ``model`` has a field for and that are of its type."""
    try:
        entries = msgspec.json.decode(text)
    except (ValueError, RecursionError, msgspec.DecodeError):
        return model()
    if not isinstance(entries, dict):
        return model()
    usable = {}
    for field in msgspec.structs.fields(model):
        try:
            value = msgspec.convert(entries.get(field.encode_name), field.type, strict=False)
        except (ValueError, msgspec.ValidationError):
            continue
        usable[field.name] = value
    return model(**usable)


def whole(value: object) -> int | None:
    """Return ``value`` if it is a whole number, be it written as text, else None."""
    if type(value) is int:
        return value
    if type(value) is str and value.isdecimal() and len(value) < LONGEST_NUMBER:
        return int(value)
    return None


def number(value: object) -> float:
    """Return ``value`` as a finite number, be it written as text, else NaN."""
    if not isinstance(value, int | float | str) or type(value) is bool:
        return math.nan
    try:
        result = float(value)
    except (ValueError, OverflowError):
        return math.nan
    return result if math.isfinite(result) else math.nan


def _fitted(event: _LooseEvent, log: ProblemLog) -> RawEvent:
    if type(event.ts) is str or type(event.dur) is str:
        log.add(TEXT_TIME)
    return RawEvent(
        _text(event.cat),
        _text(event.name),
        _track(event.pid),
        _track(event.tid),
        number(event.ts),
        number(event.dur),
        event.args,
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _track(value: object) -> ThreadId:
    return value if type(value) is int else _text(value)
