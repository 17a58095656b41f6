"""Events out of broken JSON: what can be read is read, the rest is left out and counted."""

import json
import math
import re
from typing import Any

import msgspec

from normscope.trace.problems import ProblemLog
from normscope.trace.raw import RawEvent, decode_events

EVENT_KEYS = "ph|cat|name|pid|tid|ts|dur|args|s|bp"
"""The keys that an event may begin with. Not ``id``, with which the entries of deviceProperties begin."""

# Where an event ends: another one follows, or the list is closed. A quote that opens a key can't lie inside a
# valid string, so in a sound file only a list of objects inside an event could look the same.
EVENT_END = re.compile(
    rf'\}}(?:\s*+(?:,\s*+)?(?=\{{\s*"(?:{EVENT_KEYS})"\s*:)|(?=\s*\]\s*(?:\}}(?!\s*[,}}\]])|,\s*"\w|\Z)))',
)
INNER_LIST_END = re.compile(r"\]\s*\}\s*[,}\]]")
SPACE = re.compile(r"[\s,]*")
ESCAPE = re.compile(r'\\(?:u[0-9a-fA-F]{4}|["\\/bfnrt])|\\')
LOOSE = re.compile(
    r'("(?:[^"\\]|\\.)*")|[-+]?\b(?:nan|inf(?:inity)?)\b|,(?=\s*[}\]])', re.IGNORECASE | re.DOTALL
)
SURROGATE = re.compile("[\ud800-\udfff]")
UNDECODED = re.compile("[\udc80-\udcff]")
MOST_DIGITS = 300

UNREADABLE = "events could not be read and were left out"
BACKSLASHES = "events held lone backslashes, which were kept as they are"
NOT_JSON = "events held numbers or commas that JSON does not allow, which were read as null or left out"
NOT_UTF8 = "events held bytes that are not UTF-8, which were replaced"


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


def _integer(text: str) -> int | float | None:
    if len(text) > MOST_DIGITS:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**64 else float(number)


_lenient = json.JSONDecoder(
    strict=False, parse_float=_finite, parse_int=_integer, parse_constant=lambda _: None
)


def read_value(text: str, start: int = 0) -> tuple[object, int] | None:
    """Return the JSON value that begins at ``start`` and where it ends, or None if there is none.

    Control characters, NaN and numbers of any size are accepted; what is no finite number becomes None.
    """
    try:
        return _lenient.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None


def printable_entries(entries: dict[str, Any]) -> dict[str, Any]:
    """Return ``entries`` without halves of UTF-16 pairs, which no file can be written with."""
    try:
        text = json.dumps(entries, ensure_ascii=False)
        return (
            entries if text.isascii() else dict(json.loads(SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)))
        )
    except RecursionError:
        return {}


class Salvage:
    """The readable events of a stretch of the event list.

    Parameters
    ----------
    data
        Text from the start of an event on.
    offset
        Place of ``data`` in the file, in bytes.
    log
        Takes what was repaired or left out.
    last
        Whether the file ends with ``data``; else an event that is cut at its end is left in ``rest``.
    """

    def __init__(self, data: bytes, offset: int, log: ProblemLog, *, last: bool) -> None:
        self.events: list[RawEvent] = []
        self.ended = False
        """Whether the list is closed, and ``rest`` begins with the closing bracket."""
        self._text = data.decode("utf-8", "surrogateescape")
        self._holds_undecoded = UNDECODED.search(self._text) is not None
        self._offset = offset
        self._log = log
        self._position = 0
        while self._read_next(last):
            pass

    @property
    def rest(self) -> bytes:
        """What was not read."""
        return self._text[self._position :].encode("utf-8", "surrogateescape")

    @property
    def position(self) -> int:
        """Where reading stopped, in bytes from the start of the file."""
        return self._offset_of(self._position)

    def _read_next(self, last: bool) -> bool:
        """Read one event, or pass over one; return whether there may be more."""
        text = self._text
        start = self._position = SPACE.match(text, self._position).end()  # type: ignore[union-attr]
        if start == len(text):
            return False
        if text[start] == "]" and not INNER_LIST_END.match(text, start):
            self.ended = True
            return False
        found = read_value(text, start)
        if found:
            self._keep(found[0], start, found[1])
            return True
        boundary = EVENT_END.search(text, start)
        if boundary is None:
            return False
        self._keep(self._repaired(text[start : boundary.start() + 1]), start, boundary.end())
        return True

    def _keep(self, value: object, start: int, end: int) -> None:
        self._position = end
        event = self._as_event(value)
        if event is None:
            self._log.add(UNREADABLE, self._offset_of(start))
            return
        if self._holds_undecoded and UNDECODED.search(self._text, start, end):
            self._log.add(NOT_UTF8, self._offset_of(start))
        self.events.append(event)

    def _as_event(self, value: object) -> RawEvent | None:
        if not isinstance(value, dict):
            return None
        try:
            text = json.dumps([value], ensure_ascii=False)
            return decode_events(SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text).encode(), self._log)[0]
        except (ValueError, RecursionError, msgspec.DecodeError):
            return None

    def _repaired(self, text: str) -> object:
        """Return the event of ``text`` with the usual faults mended, or None."""
        for what, mended in (
            (BACKSLASHES, _double_backslashes(text)),
            (NOT_JSON, _drop_loose(text)),
            (NOT_JSON, _drop_loose(_double_backslashes(text))),
        ):
            found = read_value(mended)
            if found and found[1] == len(mended):
                self._log.add(what, self._offset_of(self._position))
                return found[0]
        return None

    def _offset_of(self, position: int) -> int:
        return self._offset + len(self._text[:position].encode("utf-8", "surrogateescape"))


def _double_backslashes(text: str) -> str:
    return ESCAPE.sub(lambda match: match[0] if len(match[0]) > 1 else "\\\\", text)


def _drop_loose(text: str) -> str:
    """Turn ``nan`` and ``inf`` outside strings into null, and drop commas before a closing bracket."""
    return LOOSE.sub(lambda match: match[1] or ("" if match[0] == "," else "null"), text)
