"""The baseline file: a side without the times of its calls, as JSON that is small enough to commit.

Figures are rounded, and what is empty is left out, so that a new baseline differs from the last one only
where something changed.
"""

import math
from collections.abc import Iterator
from typing import Any

import msgspec

from normscope.compare.models import SCHEMA_VERSION, CallGroup, Side
from normscope.errors import InputError
from normscope.escape import printable, shorten

READABLE_VERSIONS = (SCHEMA_VERSION,)
"""Versions that :func:`decode_baseline` reads, the newest last."""

_TIME_DIGITS = 9  # significant; totals must not move by rounding
_OTHER_DIGITS = 6
_EXACT = frozenset({"total_us"})
_EMPTY: tuple[Any, ...] = (None, "", [], {})
_MAKE_ANEW = "make it anew with `normscope baseline`"


class _Head(msgspec.Struct, frozen=True):
    """What every version of the file has."""

    kind: str = ""
    schema_version: Any = None


def encode_baseline(side: Side) -> bytes:
    """Return the bytes of a baseline: UTF-8 JSON, two spaces of indent, a final newline.

    Parameters
    ----------
    side
        Of any kind; the times of single calls are left out.
    """
    groups = tuple(msgspec.structs.replace(group, times_us=()) for group in side.groups)
    plain = msgspec.to_builtins(msgspec.structs.replace(side, kind="baseline", groups=groups))
    return msgspec.json.format(msgspec.json.encode(_tidy(plain)), indent=2) + b"\n"


def is_baseline(data: bytes) -> bool:
    """Tell whether JSON text is meant as a baseline, of whatever version."""
    try:
        head = msgspec.json.decode(data, type=_Head)
    except (msgspec.DecodeError, RecursionError):
        return False
    return head.kind == "baseline"


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
    if not is_baseline(data):
        message = f"{label} is no baseline of normscope; {_MAKE_ANEW}"
        raise InputError(message)
    version = msgspec.json.decode(data, type=_Head).schema_version
    if version not in READABLE_VERSIONS:
        shown = printable(shorten(str(version), 40))
        message = (
            f"the baseline {label} has the version {shown}, which this normscope doesn't know "
            f"(it reads {', '.join(READABLE_VERSIONS)}); {_MAKE_ANEW}, or use a newer normscope"
        )
        raise InputError(message)
    try:
        side = msgspec.json.decode(data, type=Side)
    except (msgspec.DecodeError, RecursionError) as error:
        message = f"the baseline {label} is damaged ({shorten(str(error), 150)}); {_MAKE_ANEW}"
        raise InputError(message) from None
    for complaint in _complaints(side):
        message = f"the baseline {label} is damaged ({complaint}); {_MAKE_ANEW}"
        raise InputError(message)
    return side


def _tidy(value: Any, key: str = "") -> Any:  # noqa: ANN401 - any JSON
    """Round figures and leave out what is empty: reading fills it in again."""
    if isinstance(value, float):
        return _rounded(value, _TIME_DIGITS if key in _EXACT else _OTHER_DIGITS)
    if isinstance(value, list | tuple):
        return [_tidy(each) for each in value]
    if isinstance(value, dict):
        return {name: _tidy(each, name) for name, each in value.items() if _is_worth_saying(name, each)}
    return value


def _is_worth_saying(name: str, value: object) -> bool:
    return name == "groups" or (value not in _EMPTY and value != ())


def _rounded(value: float, digits: int) -> float | None:
    """Return the nearest number of so many significant digits; what is no number isn't known."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


def _complaints(side: Side) -> Iterator[str]:
    """Yield what can't be true of a side."""
    if side.steps < 0:
        yield "a negative number of steps"
    if any(us < 0 for us in side.coverage_us.values()):
        yield "negative kernel time"
    for place, group in enumerate(side.groups):
        if group.count < 1 or any(figure < 0 for figure in _figures(group)):
            yield f"groups[{place}] has a negative figure or no calls"


def _figures(group: CallGroup) -> Iterator[float]:
    optional = (group.std_us, group.efficiency_percent, group.bytes_moved_per_call)
    yield from (group.total_us, group.mean_us, *group.times_us)
    yield from (figure for figure in optional if figure is not None)
