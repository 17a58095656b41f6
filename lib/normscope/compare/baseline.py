"""The baseline file: a side without the times of its calls, as JSON that is small enough to commit.

Figures are rounded, and what is empty is left out, so that a new baseline differs from the last one only
where something changed.
"""

import math
from collections.abc import Iterator
from typing import Any

import msgspec

from normscope.compare.models import CallGroup, Side
from normscope.errors import InputError
from normscope.escape import printable
from normscope.inputs.versions import read_versioned

_TIME_DIGITS = 9  # significant; totals must not move by rounding
_OTHER_DIGITS = 6
_TIMES = frozenset({"total_us"})
_EMPTY: tuple[Any, ...] = (None, "", (), [], {})
_IMPLIED = frozenset({"has_time"})  # a baseline without it is refused
_REQUIRED = frozenset(
    field.name for model in (Side, CallGroup) for field in msgspec.structs.fields(model) if field.required
)


def encode_baseline(side: Side) -> bytes:
    """Return the bytes of a baseline: UTF-8 JSON, two spaces of indent, a final newline.

    Parameters
    ----------
    side
        Of any kind; the times of single calls are left out.

    Raises
    ------
    InputError
        A figure of the side makes no sense, so that nothing could be compared with it.
    """
    for complaint in _complaints(side):
        message = f"{side.label} can't be a baseline: {complaint}"
        raise InputError(message)
    groups = tuple(msgspec.structs.replace(group, times_us=()) for group in side.groups)
    bare = msgspec.structs.replace(side, label=printable(side.label), kind="baseline", groups=groups)
    return msgspec.json.format(msgspec.json.encode(_tidy(msgspec.to_builtins(bare))), indent=2) + b"\n"


def decode_baseline(data: bytes, label: str) -> Side:
    """Read back what :func:`encode_baseline` wrote.

    Parameters
    ----------
    data
        Content of the file.
    label
        What messages call it.

    Raises
    ------
    InputError
        It is no baseline, one of an unknown version, or its figures make no sense.
    """
    side = read_versioned(data, Side, what="baseline", where=label)
    for complaint in _complaints(side):
        message = f"{label} is damaged: {complaint}; write it again with `normscope baseline`"
        raise InputError(message)
    return side


def _tidy(value: Any, key: str = "") -> Any:  # noqa: ANN401 - any JSON
    """Round figures and leave out what is empty: reading fills it in again."""
    if isinstance(value, float):
        return float(f"{value:.{_TIME_DIGITS if key in _TIMES else _OTHER_DIGITS}g}")
    if isinstance(value, list | tuple):
        return [_tidy(each) for each in value]
    if isinstance(value, dict):
        return {
            name: _tidy(each, name)
            for name, each in value.items()
            if name in _REQUIRED or (name not in _IMPLIED and each not in _EMPTY)
        }
    return value


def _complaints(side: Side) -> Iterator[str]:
    """Yield what can't be true of a side."""
    if side.steps < 0:
        yield "its number of steps is negative"
    unknown = sum(not group.has_time for group in side.groups)
    if unknown:
        yield f"the kernel time of {unknown:,} operation{'' if unknown == 1 else 's'} isn't known"
    for name, us in side.coverage_us.items():
        if not _is_time(us):
            yield f"the kernel time of {name} is {us}"
    for place, group in enumerate(side.groups):
        if group.count < 1:
            yield f"groups[{place}] has no calls"
        for name, figure in _figures(group):
            if not _is_time(figure):
                yield f"{name} of groups[{place}] is {figure}"


def _is_time(figure: float) -> bool:
    return 0 <= figure < math.inf


def _figures(group: CallGroup) -> Iterator[tuple[str, float]]:
    for name in ("total_us", "mean_us", "std_us", "efficiency_percent", "bytes_moved_per_call"):
        figure = getattr(group, name)
        if figure is not None:
            yield name, figure
