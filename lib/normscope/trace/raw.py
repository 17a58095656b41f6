"""Events as they stand in the file: the usual form, and any other form made to fit it."""

import math
from collections.abc import Sequence
from functools import reduce
from operator import or_
from types import GenericAlias
from typing import Any, ClassVar, TypeVar, cast

import msgspec

from normscope.trace.events import GpuKind, ThreadId
from normscope.trace.problems import ProblemLog

NO_TEXT = msgspec.Raw()
LONGEST_NUMBER = 20

TEXT_TIME = "events had their times as text, which was read as numbers"

Args = TypeVar("Args", bound=msgspec.Struct)

_EXTERNAL_ID = "External id"
_EXTERNAL_ID_2021 = "external id"


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


class LaunchArgs(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename={"external_id": _EXTERNAL_ID, "external_id_2021": _EXTERNAL_ID_2021},
):
    """What is used of a launch's ``args``."""

    external_id: int | None = None
    correlation: int | None = None
    external_id_2021: int | None = None
    kernel: str | None = None


class GpuArgs(
    msgspec.Struct,
    frozen=True,
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


class RawEvent(msgspec.Struct, gc=False):
    """One event as profilers write it; of a category that is of no use, nothing is kept."""


class RawSpan(RawEvent, gc=False):
    """One event with a name and times. A time is NaN where it is missing."""

    name: str = ""
    pid: ThreadId = ""
    tid: ThreadId = ""
    ts: float = math.nan
    dur: float = math.nan


class RawOp(RawSpan, gc=False):
    """One op; its ``args`` stay text."""

    args: msgspec.Raw = NO_TEXT


class RawLaunch(RawSpan, gc=False):
    """One event of any other category: a call on the host, if it has a correlation id."""

    args: LaunchArgs = LaunchArgs()


class RawGpuEvent(RawSpan, gc=False):
    """One event on the GPU."""

    kind: ClassVar[GpuKind]
    args: GpuArgs = GpuArgs()


class RawKernel(RawGpuEvent, gc=False):
    """One kernel."""

    kind: ClassVar[GpuKind] = "kernel"


class RawMemcpy(RawGpuEvent, gc=False):
    """One copy."""

    kind: ClassVar[GpuKind] = "memcpy"


class RawMemset(RawGpuEvent, gc=False):
    """One memset."""

    kind: ClassVar[GpuKind] = "memset"


class RawFrame(RawSpan, gc=False):
    """One call of a Python function or a module."""


class RawAnnotation(RawSpan, gc=False):
    """One annotation of the user, or a profiler step."""


class RawProfilerSpan(RawSpan, gc=False):
    """What the profiler says of itself."""


class RawMark(RawSpan, gc=False):
    """One event without a category, such as the end of the window."""


SHAPES: dict[str, type[RawEvent]] = {
    "cpu_op": RawOp,
    "python_function": RawFrame,
    "user_annotation": RawAnnotation,
    "Trace": RawProfilerSpan,
    "kernel": RawKernel,
    "gpu_memcpy": RawMemcpy,
    "gpu_memset": RawMemset,
    **dict.fromkeys(("cuda_runtime", "cuda_driver", "hip_runtime", "xpu_runtime"), RawLaunch),
    # Kineto of 2021
    "Operator": RawOp,
    "Runtime": RawLaunch,
    "Kernel": RawKernel,
    "Memcpy": RawMemcpy,
    "Memset": RawMemset,
    # The last two carry a correlation but are no calls on the host.
    **dict.fromkeys(("ac2g", "fwdbwd", "cpu_instant_event", "overhead"), RawEvent),
    **dict.fromkeys(("gpu_user_annotation", "cuda_sync"), RawEvent),
}
"""What is read of the events of each category. Those of any other one are read more slowly, as launches."""


class _PlainEvent(msgspec.Struct, gc=False):
    """One event of any category."""

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


def _tagged(category: str, shape: type[RawEvent]) -> type[RawEvent]:
    """Return ``shape`` as the decoder wants it, which tells by the category what it meets."""
    name = f"{shape.__name__}_{category}"
    model = msgspec.defstruct(name, (), bases=(shape,), tag_field="cat", tag=category, gc=False)
    return cast(type[RawEvent], model)


MODELS: dict[str, type[RawEvent]] = {category: _tagged(category, shape) for category, shape in SHAPES.items()}
"""The type of what is read of each category in `SHAPES`."""

_any_model = reduce(or_, MODELS.values())
_events: msgspec.json.Decoder[list[RawEvent]] = msgspec.json.Decoder(GenericAlias(list, (_any_model,)))
_plain_events = msgspec.json.Decoder(list[_PlainEvent])
_loose_events = msgspec.json.Decoder(list[_LooseEvent])
_launch_args = msgspec.json.Decoder(LaunchArgs)
_gpu_args = msgspec.json.Decoder(GpuArgs)


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
        pass
    try:
        plain = _plain_events.decode(text)
    except msgspec.ValidationError:
        plain = [_fitted(event, log) for event in _loose_events.decode(text)]
    return [_shaped(event) for event in plain]


def decode_args(decoder: msgspec.json.Decoder[Args], text: msgspec.Raw, model: type[Args]) -> Args:
    """Return what is used of ``args``; an entry that is not of its type counts as missing."""
    try:
        return decoder.decode(text)
    except (ValueError, RecursionError, msgspec.DecodeError):
        return _loose_args(text, model)


def _loose_args(text: msgspec.Raw, model: type[Args]) -> Args:
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


def _shaped(event: _PlainEvent) -> RawEvent:
    """Return what is used of ``event`` in the shape of its category."""
    shape = MODELS.get(event.cat, RawLaunch if event.cat else RawMark)
    if not issubclass(shape, RawSpan):
        return shape()
    fields = event.name, event.pid, event.tid, event.ts, event.dur
    if issubclass(shape, RawLaunch):
        return shape(*fields, decode_args(_launch_args, event.args, LaunchArgs))
    if issubclass(shape, RawGpuEvent):
        return shape(*fields, decode_args(_gpu_args, event.args, GpuArgs))
    return shape(*fields, event.args) if issubclass(shape, RawOp) else shape(*fields)


def _fitted(event: _LooseEvent, log: ProblemLog) -> _PlainEvent:
    if type(event.ts) is str or type(event.dur) is str:
        log.add(TEXT_TIME)
    return _PlainEvent(
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
