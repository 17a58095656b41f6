"""A trace's JSON in pieces, as batches of raw events, so that memory follows what is kept of them."""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from normscope.errors import InputError
from normscope.trace.problems import ProblemLog
from normscope.trace.raw import RawEvent, decode_events
from normscope.trace.repair import EVENT_KEYS, Salvage, printable_entries, read_value

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
EVENT_LIST = re.compile(rb'"traceEvents"\s*:\s*(\[|[^\s])')
BETWEEN_EVENTS = re.compile(rb'\}\s*,\s*(?=\{\s*"(?:%b)"\s*:)' % EVENT_KEYS.encode())
WINDOWS = (1 << 11, 1 << 14)
"""Look for the last boundary between events in so many bytes first."""
LARGEST_TAIL = 1 << 24

CUT = "place where the trace breaks off; what comes before it was read"
TRAILING = "bytes after the end of the trace were ignored"
METADATA = "parts of the text around the events could not be read"


class TraceText:
    """The text of one trace, read once from front to back by `batches`."""

    def __init__(self, pieces: Iterator[bytes], log: ProblemLog, label: str) -> None:
        self.metadata: dict[str, Any] = {}
        self.truncated = False
        self.bytes_read = 0
        self._pieces = self._counted(pieces)
        self._log = log
        self._label = label
        self._is_object = True

    def batches(self) -> Iterator[Sequence[RawEvent]]:
        """Yield the events, many at a time; afterwards the other attributes are known."""
        buffer = self._read_head()
        while piece := next(self._pieces, b""):
            before: bytearray = buffer
            last: bytes | bytearray = piece
            cut = _last_boundary(last, 0)
            if cut is None:
                # The piece lies within an event, or one ends where it begins.
                checked = max(0, len(buffer) - WINDOWS[-1])
                buffer += piece
                before, last = bytearray(), buffer
                cut = _last_boundary(last, checked)
            if cut is None:
                continue
            end = cut.start() + 1
            text = b"".join((b"[", before, memoryview(last)[:end], b"]"))
            events, left, ended = self._decode(text, len(before) + len(last))
            yield events
            buffer = bytearray(left + last[end:] if left else last[cut.end() :])
            if ended:
                break
        final = Salvage(bytes(buffer), self.bytes_read - len(buffer), self._log, last=True)
        yield final.events
        self._read_tail(final)

    def _counted(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self.bytes_read += len(piece)
            yield piece

    def _decode(self, text: bytes, behind: int) -> tuple[Sequence[RawEvent], bytes, bool]:
        """Return the events of the list ``text``, what is left of it, and whether it ended before its end.

        ``behind`` is how many bytes before the end of what was read the first event begins.
        """
        try:
            return decode_events(text, self._log), b"", False
        except (ValueError, RecursionError, msgspec.DecodeError):
            salvage = Salvage(text[1:-1], self.bytes_read - behind, self._log, last=False)
            return salvage.events, salvage.rest, salvage.ended

    def _read_head(self) -> bytearray:
        """Read up to the list of events and return what was read of the list itself."""
        buffer = bytearray()
        searched = 0
        while piece := next(self._pieces, b""):
            buffer += piece.lstrip(BYTE_ORDER_MARK + b" \t\r\n") if not buffer else piece
            if buffer.startswith(b"["):
                self._is_object = False
                return buffer[1:]
            if buffer and not buffer.startswith(b"{"):
                start = bytes(buffer[:12])
                message = f"{self._label} is not JSON (it begins with {start!r}); give a profiler trace."
                raise InputError(message)
            found = EVENT_LIST.search(buffer, searched)
            searched = max(0, len(buffer) - WINDOWS[-1])
            if found and found[1] == b"[":
                self._note_metadata(bytes(buffer[: found.start()]) + b'"traceEvents": []}', complete=True)
                return buffer[found.end() :]
            if found:
                where = self.bytes_read - len(buffer) + found.start(1)
                message = (
                    f"{self._label} has no list as its traceEvents (byte {where}); record the trace again."
                )
                raise InputError(message)
        raise InputError(self._no_events(buffer))

    def _no_events(self, buffer: bytearray) -> str:
        if not self.bytes_read:
            return f"{self._label} is empty; record the trace again."
        if not buffer:
            return f"{self._label} holds only white space; record the trace again."
        if read_value(buffer.decode("utf-8", "replace")):
            return (
                f"{self._label} has no traceEvents, so it is no profiler trace; give one of torch.profiler."
            )
        return (
            f"{self._label} breaks off or is broken before its traceEvents begin ({self.bytes_read} bytes)."
        )

    def _read_tail(self, final: Salvage) -> None:
        """Read what follows the events, or note that the trace breaks off."""
        if not final.ended:
            self.truncated = True
            self._log.add(CUT, final.position)
            return
        tail = bytearray(final.rest[1:])
        while len(tail) < LARGEST_TAIL and (piece := next(self._pieces, b"")):
            tail += piece
        unread = sum(map(len, self._pieces))
        end = 0
        if self._is_object:
            entries = tail.lstrip(b" \t\r\n,")
            # The brace stands for what came before, so one byte less was read of the tail.
            end = len(tail) - len(entries) + self._note_metadata(b"{" + entries, complete=False) - 1
        trailing = len(tail[end:].strip(b"\0 \t\r\n")) + unread
        self._log.add(TRAILING, self.bytes_read - trailing, trailing)

    def _note_metadata(self, text: bytes, *, complete: bool) -> int:
        """Keep the entries of the object ``text``, and return its length in bytes."""
        decoded = text.decode("utf-8", "surrogateescape")
        entries, end = read_value(decoded) or (None, 0)
        if isinstance(entries, dict):
            entries.pop("traceEvents", None)
            self.metadata |= printable_entries(entries)
            return len(decoded[:end].encode("utf-8", "surrogateescape"))
        if complete:
            self._log.add(METADATA)
        else:
            self.truncated = True
            self._log.add(CUT, self.bytes_read)
        return len(text)


def _last_boundary(buffer: bytes | bytearray, start: int) -> re.Match[bytes] | None:
    """Return the last place between two events that begins at ``start`` or later."""
    for window in (*WINDOWS, len(buffer)):
        found = deque(BETWEEN_EVENTS.finditer(buffer, max(start, len(buffer) - window)), maxlen=1)
        if found:
            return found[0]
    return None
