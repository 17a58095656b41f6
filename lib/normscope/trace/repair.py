"""Events out of broken JSON: what can be read is read, the rest is left out and counted."""

import json
import math
import re
from bisect import bisect_left
from itertools import pairwise
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
ESCAPE = re.compile(r'\\(?:u[0-9a-fA-F]{4}|["\\/bfnrt])|(\\)')
LOOSE = re.compile(
    r'("(?:[^"\\]|\\.)*")|[-+]?\b(?:nan|inf(?:inity)?)\b|,(?=\s*[}\]])', re.IGNORECASE | re.DOTALL
)
SURROGATE = re.compile("[\ud800-\udfff]")
UNDECODED = re.compile("[\udc80-\udcff]")
MOST_DIGITS = 300
LONGEST_EVENT = 1 << 22
"""Wait for the end of an event until it has this many characters; then it counts as broken."""

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


_stretches = msgspec.json.Decoder(list[msgspec.Raw])
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


def _is_cut_short(text: str, start: int) -> bool:
    """Tell whether ``text`` ends before the value that begins at ``start``, which is sound so far."""
    try:
        _lenient.raw_decode(text, start)
    except json.JSONDecodeError as error:
        return error.pos >= len(text)
    except (ValueError, RecursionError):
        pass
    return False


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
        self._original = data.decode("utf-8", "surrogateescape")
        self._text, self._lone = _double_backslashes(self._original)
        self._holds_undecoded = UNDECODED.search(self._original) is not None
        self._offset = offset
        self._log = log
        self._position = 0
        if not (self._lone and self._read_at_once()):
            while self._read_next(last):
                pass

    @property
    def rest(self) -> bytes:
        """What was not read, as it stands in the file."""
        return self._original[self._place(self._position) :].encode("utf-8", "surrogateescape")

    @property
    def position(self) -> int:
        """Where reading stopped, in bytes from the start of the file."""
        return self._offset_of(self._position)

    def _read_at_once(self) -> bool:
        """Read the whole stretch, if nothing but backslashes is wrong with it; return whether it was so."""
        try:
            text = f"[{self._text}]".encode()
            self.events = list(decode_events(text, self._log))
            stretches = _stretches.decode(text)
        except (ValueError, RecursionError, msgspec.DecodeError):
            return False
        end = 0
        for stretch in stretches:
            start = SPACE.match(self._text, end).end()  # type: ignore[union-attr]
            end = start + len(str(memoryview(stretch), "utf-8"))
            self._note_backslashes(start, end)
        self._position = len(self._text)
        return True

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
        # What looks like the end of the last event may be an entry's of a list inside it.
        if not last and len(text) - start < LONGEST_EVENT and _is_cut_short(text, start):
            return False
        boundary = EVENT_END.search(text, start)
        if boundary is None:
            return False
        self._keep(self._repaired(text[start : boundary.start() + 1]), start, boundary.end())
        return True

    def _keep(self, value: object, start: int, end: int) -> None:
        self._position = end
        event = self._as_event(value)
        if event is None:
            self._note(UNREADABLE, start)
            return
        self._note_backslashes(start, end)
        if self._holds_undecoded and UNDECODED.search(self._text, start, end):
            self._note(NOT_UTF8, start)
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
        """Return the event of ``text`` without what JSON does not allow, or None."""
        mended = _drop_loose(text)
        found = read_value(mended)
        if found is None or found[1] != len(mended):
            return None
        self._note(NOT_JSON, self._position)
        return found[0]

    def _note_backslashes(self, start: int, end: int) -> None:
        first = bisect_left(self._lone, start)
        if first < len(self._lone) and self._lone[first] < end:
            self._note(BACKSLASHES, start)

    def _note(self, what: str, start: int) -> None:
        """Count ``what``; the place, slow to find, is asked for only the first time."""
        self._log.add(what, None if self._log.count(what) else self._offset_of(start))

    def _offset_of(self, position: int) -> int:
        before = self._original[: self._place(position)]
        return self._offset + len(before.encode("utf-8", "surrogateescape"))

    def _place(self, position: int) -> int:
        """Return where in the original text ``position`` is."""
        return position - bisect_left(self._lone, position)


def _double_backslashes(text: str) -> tuple[str, list[int]]:
    """Return ``text`` with its lone backslashes doubled, and where in the result each pair begins."""
    lone = [match.start() for match in ESCAPE.finditer(text) if match[1]] if "\\" in text else []
    if not lone:
        return text, lone
    stretches = [text[start:end] for start, end in pairwise([0, *lone, len(text)])]
    return "\\".join(stretches), [place + before for before, place in enumerate(lone)]


def _drop_loose(text: str) -> str:
    """Turn ``nan`` and ``inf`` outside strings into null, and drop commas before a closing bracket."""
    return LOOSE.sub(lambda match: match[1] or ("" if match[0] == "," else "null"), text)
