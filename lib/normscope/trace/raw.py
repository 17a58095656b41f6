"""Events as they stand in the file: the usual form, and any other form made to fit it."""

import math
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import or_
from types import GenericAlias
from typing import Annotated, Any, ClassVar, cast

import msgspec

from normscope.trace.args import decode_args
from normscope.trace.events import EXTERNAL_ID, EXTERNAL_ID_2021, GpuKind, ThreadId
from normscope.trace.problems import ProblemLog

NO_TEXT = msgspec.Raw()
LONGEST_NUMBER = 20
SEQUENCE = "Sequence number"
LONGEST_US = 86_400e6
"""A day. What claims to take longer is a fault of the record."""
FARTHEST_US = 1e17
"""Three thousand years: no clock counts from that long ago."""
PYTHON_CATEGORY = "python_function"
MODULE_PREFIX = "nn.Module"
_MODULE_NAME = f'"{MODULE_PREFIX}'.encode()

NO_TIME = "events had no usable start time or duration and were left out"
NEGATIVE = "events had a negative duration and were left out"
TOO_LONG = "events claimed to take longer than a day and were left out"
TEXT_TIME = "events had their times as text, which was read as numbers"


class AutogradArgs(
    msgspec.Struct, frozen=True, gc=False, rename={"sequence": SEQUENCE, "forward_thread": "Fwd thread id"}
):
    """What ``args`` of an op hold if autograd knows it."""

    sequence: int | None = None
    forward_thread: int | None = None


class LaunchArgs(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename={"external_id": EXTERNAL_ID, "external_id_2021": EXTERNAL_ID_2021},
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
        "external_id": EXTERNAL_ID,
        "blocks_per_sm": "blocks per SM",
        "external_id_2021": EXTERNAL_ID_2021,
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
    """One event of which nothing is kept: it is of no use, or its times can't be used."""


class RawSpan(RawEvent, gc=False):
    """One event with its times, which lie within what a clock can show."""

    name: str
    pid: ThreadId
    tid: ThreadId
    ts: Annotated[float, msgspec.Meta(ge=-FARTHEST_US, le=FARTHEST_US)]
    dur: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_US)]


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
    """One call of a module, or of a Python function that stands near one in the file."""


class RawAnnotation(RawSpan, gc=False):
    """One annotation of the user, or a profiler step."""


class RawProfilerSpan(RawSpan, gc=False):
    """What the profiler says of itself. Its times may be anything, NaN where missing."""


class RawMark(RawSpan, gc=False):
    """One event without a category, such as the end of the window. Its times may be anything, too."""


SHAPES: dict[str, type[RawEvent]] = {
    "cpu_op": RawOp,
    PYTHON_CATEGORY: RawFrame,
    "user_annotation": RawAnnotation,
    "Trace": RawProfilerSpan,
    "kernel": RawKernel,
    "gpu_memcpy": RawMemcpy,
    "gpu_memset": RawMemset,
    **dict.fromkeys(("cuda_runtime", "cuda_driver", "hip_runtime", "xpu_runtime"), RawLaunch),
    **dict.fromkeys(("mtia_runtime", "privateuse1_runtime", "privateuse1_driver"), RawLaunch),
    # Kineto of 2021
    "Operator": RawOp,
    "Runtime": RawLaunch,
    "Kernel": RawKernel,
    "Memcpy": RawMemcpy,
    "Memset": RawMemset,
    **dict.fromkeys(("ac2g", "fwdbwd", "cpu_instant_event", "overhead"), RawEvent),
    # These carry a correlation but are no calls on the host.
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


def _decoder(shapes: dict[str, type[RawEvent]]) -> msgspec.json.Decoder[list[RawEvent]]:
    models = (_tagged(category, shape) for category, shape in shapes.items())
    return msgspec.json.Decoder(GenericAlias(list, (reduce(or_, models),)))


_events = _decoder(SHAPES)
_events_without_modules = _decoder(SHAPES | {PYTHON_CATEGORY: RawEvent})
_NO_LAUNCH = LaunchArgs()
_WITH_ANY_TIMES = (RawProfilerSpan, RawMark)
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
    # Most frames are calls of functions, and of these nothing is needed.
    decoder = _events if _MODULE_NAME in text else _events_without_modules
    try:
        return decoder.decode(text)
    except msgspec.ValidationError:
        pass
    try:
        return [_shaped(event, log) for event in _plain_events.decode(text)]
    except msgspec.ValidationError:
        return [_fitted(event, log) for event in _loose_events.decode(text)]


def subtypes(shape: type[RawEvent]) -> Iterator[type[RawEvent]]:
    """Yield ``shape`` and the types of the events that have it."""
    yield shape
    for subtype in shape.__subclasses__():
        yield from subtypes(subtype)


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


def _shaped(event: _PlainEvent, log: ProblemLog) -> RawEvent:
    """Return what is used of ``event`` in the shape of its category, after counting what is wrong with it."""
    shape = SHAPES.get(event.cat, RawLaunch if event.cat else RawMark)
    is_function = shape is RawFrame and not event.name.startswith(MODULE_PREFIX)
    if is_function or not issubclass(shape, RawSpan):
        return RawEvent()
    args = _args(shape, event.args)
    if args == (_NO_LAUNCH,):
        return RawEvent()
    if shape not in _WITH_ANY_TIMES and (trouble := _trouble(event)):
        log.add(trouble)
        return RawEvent()
    return shape(event.name, event.pid, event.tid, event.ts, event.dur, *args)


def _args(shape: type[RawSpan], text: msgspec.Raw) -> tuple[Any, ...]:
    """Return what is used of ``args`` where ``shape`` has any, else nothing."""
    if issubclass(shape, RawLaunch):
        args = decode_args(_launch_args, text, LaunchArgs)
        return (args if args.correlation is not None else _NO_LAUNCH,)
    if issubclass(shape, RawGpuEvent):
        return (decode_args(_gpu_args, text, GpuArgs),)
    return (text,) if issubclass(shape, RawOp) else ()


def _trouble(event: _PlainEvent) -> str | None:
    """Return what is wrong with the times of ``event``, if anything is."""
    is_placed = -FARTHEST_US <= event.ts <= FARTHEST_US  # false for NaN, too
    if not is_placed or math.isnan(event.dur):
        return NO_TIME
    if event.dur < 0:
        return NEGATIVE
    return TOO_LONG if event.dur > LONGEST_US else None


def _fitted(event: _LooseEvent, log: ProblemLog) -> RawEvent:
    plain = _PlainEvent(
        _text(event.cat),
        _text(event.name),
        _track(event.pid),
        _track(event.tid),
        number(event.ts),
        number(event.dur),
        event.args,
    )
    shaped = _shaped(plain, log)
    if isinstance(shaped, RawSpan) and str in {type(event.ts), type(event.dur)}:
        log.add(TEXT_TIME)
    return shaped


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _track(value: object) -> ThreadId:
    return value if type(value) is int else _text(value)
