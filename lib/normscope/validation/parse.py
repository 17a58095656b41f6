"""A findings file as flat structs with line numbers, for the validator and the fixer.

Lines are counted from 1, as editors do. The reading is by line: every element of a findings file begins on a
line of its own, and a name from outside never begins one: the renderer puts it behind words or a pipe.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec

_LINE = re.compile(r"([^\r\n]*)(\r\n|\n|\r|$)")
_SECTION = re.compile(r" {0,3}##\s(.*)")
_ITEM = re.compile(r" {0,3}###\s+P([0-9]{1,9})\s*:(.*)")
_DETAIL_HEADING = re.compile(r" {0,3}####\s+\S.*")
_LABEL = re.compile(r"\*\*([^*:]{1,60})(?:\*\*\s*:|:\s*\*\*)(.*)")
_MARKER = re.compile(r"\s*<!--\s*impact-(begin|end)\b(.*?)(-->|$)")
_CANDIDATE = re.compile(r"\s*<!--\s*reasoning-candidate\b(.*?)(-->|$)")
_CODE_SPAN = re.compile(r"`[^`]*`")
_OUR_COMMENT = re.compile(r"<!--\s*(?:impact-|reasoning-candidate)")
_COMMENT = re.compile(r"<!--.*?(?:-->|$)")
_ATTRIBUTE = re.compile(r"(?<![\w-])([\w-]+)=(\S+)")
_RULE_CELL = re.compile(r":?-+:?")
_UNESCAPED_PIPE = re.compile(r"(?<!\\)\|")


class Line(msgspec.Struct, frozen=True):
    """One line: its number, its text and the newline that ends it (empty at the end of the file)."""

    number: int
    text: str
    newline: str


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """Something that begins on ``line`` and ends with line ``end``, both included."""

    line: int
    end: int


class Section(Span, frozen=True, kw_only=True):
    """A ``## title`` and what it holds."""

    title: str


class Item(Span, frozen=True, kw_only=True):
    """A ``### P<rank>: title`` of the recommendations."""

    rank: int
    title: str


class Candidate(Span, frozen=True, kw_only=True):
    """A ``reasoning-candidate`` comment and the detailed finding under it; a lost attribute is None.

    ``is_tidy`` as in :class:`Marker`.
    """

    tier: str | None
    rank: int | None
    is_tidy: bool


class Label(Span, frozen=True, kw_only=True):
    """A ``**name:** text`` line; ``has_more`` tells that text follows below that line."""

    name: str
    text: str
    has_more: bool


class Marker(Span, frozen=True, kw_only=True):
    """An impact marker from its begin to its end comment; without an end, ``end`` equals ``line``.

    ``is_tidy`` is false when a comment of it isn't closed or shares its line with other text.
    """

    attributes: dict[str, str]
    is_paired: bool
    is_tidy: bool


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a table; ``cells`` are as written, without the space around them."""

    line: int
    cells: tuple[str, ...]


class Table(Span, frozen=True, kw_only=True):
    """A pipe table."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A whole findings file. ``stray_ends`` are the lines of end markers that close nothing."""

    lines: tuple[Line, ...]
    sections: tuple[Section, ...]
    items: tuple[Item, ...]
    candidates: tuple[Candidate, ...]
    detail_headings: tuple[int, ...]
    labels: tuple[Label, ...]
    markers: tuple[Marker, ...]
    stray_ends: tuple[int, ...]
    tables: tuple[Table, ...]


S = TypeVar("S", bound=Span)


def parse(text: str) -> Document:
    """Read a findings file; any text is one, however broken."""
    lines = split_lines(text)
    sections = _matches(_SECTION, lines)
    items = _matches(_ITEM, lines)
    candidates = {line.number: m for line in lines if (m := _CANDIDATE.match(line.text))}
    headings = _matches(_DETAIL_HEADING, lines)
    labels = {
        line.number: m for line in lines if (m := _LABEL.fullmatch(without_comments(line.text).strip()))
    }
    last = len(lines)
    blocks = {*sections, *items}
    markers, stray_ends = _markers(lines, {*blocks, *candidates})
    return Document(
        lines=lines,
        sections=tuple(
            Section(line=n, end=e, title=sections[n][1].strip()) for n, e in _ends(sections, sections, last)
        ),
        items=tuple(
            Item(line=n, end=e, rank=int(items[n][1]), title=items[n][2].strip())
            for n, e in _ends(items, {*blocks, *candidates}, last)
        ),
        candidates=tuple(
            _candidate(lines[n - 1], e, candidates[n])
            for n, e in _ends(candidates, {*blocks, *candidates}, last)
        ),
        detail_headings=tuple(headings),
        labels=tuple(
            _label(lines, n, e, labels[n])
            for n, e in _ends(labels, {*labels, *blocks, *candidates, *headings}, last)
        ),
        markers=markers,
        stray_ends=stray_ends,
        tables=tuple(_tables(lines)),
    )


def within(spans: Iterable[S], block: Span) -> tuple[S, ...]:
    """Return the spans that begin inside ``block``."""
    return tuple(span for span in spans if block.line <= span.line <= block.end)


def split_lines(text: str) -> tuple[Line, ...]:
    """Return the lines of ``text``; joined again, text and newline, they are the text."""
    found = [m for m in _LINE.finditer(text) if m[0]]
    return tuple(Line(number, m[1], m[2]) for number, m in enumerate(found, start=1))


def split_row(text: str) -> list[str]:
    r"""Return what stands between the pipes of a table row; ``\|`` is no such pipe.

    The first and the last part are what stands before the first and after the last pipe.
    """
    return _UNESCAPED_PIPE.split(text)


def without_comments(text: str) -> str:
    """Return ``text`` without the HTML comments that begin in it."""
    return _COMMENT.sub("", text)


def is_only_comment(text: str) -> bool:
    """Tell whether a line is one HTML comment, closed or not, and nothing else."""
    stripped = text.strip()
    return stripped.startswith("<!--") and stripped.count("<!--") == 1 and not without_comments(stripped)


def has_comment_amid_text(text: str) -> bool:
    """Tell whether a comment of ours stands behind other text of its line; a code span may quote one."""
    return "<!--" in text and _OUR_COMMENT.search(_CODE_SPAN.sub("``", text).lstrip(), 1) is not None


def _matches(pattern: re.Pattern[str], lines: Sequence[Line]) -> dict[int, re.Match[str]]:
    return {line.number: m for line in lines if (m := pattern.fullmatch(line.text.removeprefix("\ufeff")))}


def _ends(starts: Iterable[int], stops: Iterable[int], last: int) -> Iterator[tuple[int, int]]:
    """Give each start its last line: the one before the next stop, or ``last``."""
    ordered = sorted({*stops, last + 1}, reverse=True)
    for start in sorted(starts):
        while ordered[-1] <= start:
            ordered.pop()
        yield start, ordered[-1] - 1


def _candidate(line: Line, end: int, match: re.Match[str]) -> Candidate:
    attributes = dict(_ATTRIBUTE.findall(match[1]))
    rank = attributes.get("rank", "")
    return Candidate(
        line=line.number,
        end=end,
        is_tidy=bool(match[2]) and is_only_comment(line.text),
        tier=attributes.get("tier"),
        rank=int(rank) if re.fullmatch(r"[0-9]{1,9}", rank) else None,
    )


def _label(lines: Sequence[Line], line: int, end: int, match: re.Match[str]) -> Label:
    below = any(without_comments(each.text).strip() for each in lines[line:end])
    return Label(line=line, end=end, name=match[1].strip(), text=match[2].strip(), has_more=below)


def _markers(lines: Sequence[Line], borders: set[int]) -> tuple[tuple[Marker, ...], tuple[int, ...]]:
    """Pair the begin and end comments; a pair never spans the border between two findings."""
    markers: list[Marker] = []
    stray_ends: list[int] = []
    opened: Marker | None = None
    for line in lines:
        if opened and line.number in borders:
            markers.append(opened)
            opened = None
        match = _MARKER.match(line.text)
        tidy = match is not None and bool(match[3]) and is_only_comment(line.text)
        if match and match[1] == "begin":
            markers.extend(filter(None, [opened]))
            attributes = dict(_ATTRIBUTE.findall(match[2]))
            opened = Marker(
                line=line.number, end=line.number, attributes=attributes, is_paired=False, is_tidy=tidy
            )
        elif match and opened:
            markers.append(_closed(opened, line.number, tidy=tidy))
            opened = None
        elif match:
            stray_ends.append(line.number)
    markers.extend(filter(None, [opened]))
    return tuple(markers), tuple(stray_ends)


def _closed(marker: Marker, end: int, *, tidy: bool) -> Marker:
    return msgspec.structs.replace(marker, end=end, is_paired=True, is_tidy=marker.is_tidy and tidy)


def _tables(lines: Sequence[Line]) -> Iterator[Table]:
    index = 0
    while index + 1 < len(lines):
        header, rule = lines[index], lines[index + 1]
        if not (_is_row(header) and _is_rule(rule)):
            index += 1
            continue
        end = index + 2
        while end < len(lines) and _is_row(lines[end]):
            end += 1
        rows = tuple(Row(line=line.number, cells=_cells(line.text)) for line in lines[index + 2 : end])
        yield Table(line=header.number, end=lines[end - 1].number, columns=_cells(header.text), rows=rows)
        index = end


def _is_row(line: Line) -> bool:
    return line.text.lstrip().startswith("|")


def _is_rule(line: Line) -> bool:
    cells = _cells(line.text) if _is_row(line) else ()
    return bool(cells) and all(map(_RULE_CELL.fullmatch, cells))


def _cells(row: str) -> tuple[str, ...]:
    parts = split_row(row.strip(" \t"))[1:]
    closed = parts[:-1] if parts and not parts[-1].strip(" \t") else parts
    return tuple(part.strip(" \t") for part in closed)
