"""Which versions of each file of ours can be read: any other is refused, and never misread."""

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from normscope import __version__
from normscope.errors import InputError
from normscope.escape import printable, shorten

KNOWN_VERSIONS: Mapping[str, tuple[str, ...]] = {
    "results of a report": ("1.0",),
    "summary of a trace": ("1.0",),
    "baseline": ("1.0",),
    "comparison": ("1.0",),
}
"""Oldest first; a version joins the list when its files can be read as they were meant."""

_Model = TypeVar("_Model")


class _Versioned(msgspec.Struct):
    schema_version: str


def read_versioned(data: bytes, model: type[_Model], *, what: str, where: str) -> _Model:
    """Return what a file of ours holds.

    Parameters
    ----------
    data
        The bytes of the file, JSON.
    model
        What it holds.
    what
        Its kind: a key of ``KNOWN_VERSIONS``.
    where
        Its name, for the message.

    Raises
    ------
    InputError
        It is of another version, or not such a file.
    """
    try:
        check_version(msgspec.json.decode(data, type=_Versioned).schema_version, what=what, where=where)
        return msgspec.json.decode(data, type=model)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = f"{where} doesn't read as the {what} ({error}); write it again with this normscope"
        raise InputError(message) from None


def check_version(version: str, *, what: str, where: str) -> None:
    """Make sure that a version is one that can be read; see `read_versioned`."""
    known = KNOWN_VERSIONS[what]
    if version in known:
        return
    shown = printable(shorten(version, 20)) or "none"
    if _parts(version) > _parts(known[-1]):
        remedy = f"of a newer normscope than this one, {__version__}; update normscope"
    else:
        remedy = "which this normscope doesn't read; write it again with this one"
    verb = "have" if what.startswith("results") else "has"
    message = f"{where}: the {what} {verb} schema version {shown}, {remedy}"
    raise InputError(message)


def _parts(version: str) -> tuple[int, ...]:
    """Return the numbers of a version; what isn't a version is older than any."""
    numbers = version.split(".")
    is_version = all(number.isascii() and number.isdigit() and len(number) < 10 for number in numbers)
    return tuple(map(int, numbers)) if is_version else ()
