"""The bytes of a trace: a file or a stream, compressed or not as its content says, in pieces."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from isal import isal_zlib

from normscope.errors import InputError
from normscope.trace.problems import ProblemLog

Progress = Callable[[int, int | None], None]

GZIP_MAGIC = b"\x1f\x8b"
PLAIN_PIECE = 1 << 17
GZIP_PIECE = 1 << 15
"""Read this much of a gzip file at a time; traces shrink about twentyfold."""
LARGEST_PIECE = 1 << 17
GZIP_WBITS = 31
GZIP_TRAILER = 8

CUT_GZIP = "place where the gzip data ends too early; what comes before it was read"
BROKEN_GZIP = "place where the gzip data is damaged; what comes before it was read"
TRAILING_BYTES = "bytes after the end of the gzip data were ignored"


@contextmanager
def opened(source: Path | BinaryIO) -> Iterator[tuple[BinaryIO, int | None]]:
    """Yield the open file of ``source`` and its size in bytes, if that is known."""
    if not isinstance(source, Path):
        yield source, None
        return
    try:
        with source.open("rb") as file:
            yield file, source.stat().st_size
    except OSError as error:
        message = f"{source} can't be read ({error.strerror or error}); give the path of a profiler trace."
        raise InputError(message) from error


def standard_input() -> BinaryIO:
    """Return standard input as bytes."""
    return sys.stdin.buffer


def pieces(
    file: BinaryIO, size: int | None, log: ProblemLog, on_progress: Progress | None
) -> Iterator[bytes]:
    """Yield the content of ``file`` in pieces, decompressed if it is gzip; what is broken goes to ``log``."""
    start = _read(file, PLAIN_PIECE if size is None else GZIP_PIECE)
    done = 0

    def compressed() -> Iterator[bytes]:
        nonlocal done
        piece = start
        wanted = GZIP_PIECE if start.startswith(GZIP_MAGIC) else PLAIN_PIECE
        while piece:
            done += len(piece)
            if on_progress:
                on_progress(done, size)
            yield piece
            piece = _read(file, wanted)

    return _gunzip(compressed(), log) if start.startswith(GZIP_MAGIC) else compressed()


def _read(file: BinaryIO, size: int) -> bytes:
    try:
        return file.read(size) or b""
    except OSError as error:
        message = (
            f"The trace can't be read on ({error.strerror or error}); check the disk or copy the file anew."
        )
        raise InputError(message) from error


def _trailer_apart(compressed: Iterator[bytes]) -> Iterator[bytes]:
    """Cut each piece before its last bytes, so that a wrong checksum there costs no content."""
    for piece in compressed:
        yield piece[:-GZIP_TRAILER]
        yield piece[-GZIP_TRAILER:]


def _gunzip(compressed: Iterator[bytes], log: ProblemLog) -> Iterator[bytes]:
    """Yield the content of every gzip member, one after the other."""
    member = None
    offset = 0
    for fed in _trailer_apart(compressed):
        data = fed
        while data:
            if member is None:
                if not data.startswith(GZIP_MAGIC[: len(data)]):
                    rest = len(data.lstrip(b"\0")) + sum(map(len, compressed))
                    log.add(TRAILING_BYTES, offset, rest)
                    return
                member = isal_zlib.decompressobj(wbits=GZIP_WBITS)
            try:
                content = member.decompress(data, LARGEST_PIECE)
            except isal_zlib.error:  # type: ignore[misc]  # its stub declares no base class
                log.add(BROKEN_GZIP, offset)
                return
            if content:
                yield content
                offset += len(content)
            data = member.unused_data if member.eof else member.unconsumed_tail
            member = None if member.eof else member
    if member is not None:
        log.add(CUT_GZIP, offset)
