"""HTML tables: every cell escaped once, numbers aligned, rows that can be linked to, wide ones scrolling."""

import re
from collections.abc import Iterable, Sequence
from math import isfinite

import msgspec

from normscope.escape import MISSING, html_text, shorten

NAME_WIDTH = 60
_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)


class Html(str):
    """Text that is HTML already; any other ``str`` is escaped where it is put into a page."""

    __slots__ = ()


Cell = str | Html


class Column(msgspec.Struct, frozen=True):
    """The header of a column. ``title`` names the unit; ``numeric`` columns are right-aligned."""

    title: str
    numeric: bool = False


class Row(msgspec.Struct, frozen=True):
    """The cells of a row, in the order of the columns, and the id that links can lead to."""

    cells: tuple[Cell, ...]
    anchor: str | None = None


def safe(text: Cell) -> Html:
    """Return ``text`` as HTML: as it is if it is :class:`Html`, else escaped."""
    return text if isinstance(text, Html) else Html(html_text(text))


def number(value: float | None, decimals: int = 2) -> str:
    """Return ``value`` with thousands separators, or a dash where it is not known.

    Examples
    --------
    >>> number(1234.5, 1), number(None)
    ('1,234.5', '—')
    """
    return MISSING if value is None or not isfinite(value) else f"{value:z,.{decimals}f}"


def percent(value: float | None, decimals: int = 2) -> str:
    """Return ``value`` with a percent sign, or a dash where it is not known."""
    text = number(value, decimals)
    return text if text == MISSING else f"{text}%"


def count_of(amount: int, singular: str, plural: str | None = None) -> str:
    """Return an amount with its noun.

    Examples
    --------
    >>> count_of(1, "call"), count_of(1200, "call"), count_of(2, "category", "categories")
    ('1 call', '1,200 calls', '2 categories')
    """
    return f"{amount:,} {singular if amount == 1 else plural or singular + 's'}"


def name(text: str | None, width: int = NAME_WIDTH) -> Html:
    """Return a name, shortened where it is longer than ``width``, with the full name one click away."""
    if not text:
        return Html(MISSING)
    if len(text) <= width:
        return safe(text)
    short, full = html_text(shorten(text, width)), html_text(text)
    return Html(f'<details class="ns-name"><summary>{short}</summary><span>{full}</span></details>')


def table(caption: str, columns: Sequence[Column], rows: Iterable[Row], *, wide: bool = False) -> Html:
    """Return a table in a container of its own that scrolls sideways and can be focused.

    Parameters
    ----------
    caption
        What the table shows; read out by screen readers and shown above it.
    columns
        The headers.
    rows
        As many cells in each as there are columns.
    wide
        Whether the table has so many columns that it is printed on paper turned sideways.
    """
    head = "".join(f'<th scope="col"{_class(column)}>{safe(column.title)}</th>' for column in columns)
    body = "\n".join(_row(columns, row) for row in rows)
    return scrolling(
        Html(
            f"<table>\n<caption>{safe(caption)}</caption>\n<thead><tr>{head}</tr></thead>\n"
            f"<tbody>\n{body}\n</tbody>\n</table>"
        ),
        caption,
        wide=wide,
    )


def scrolling(content: Html, label: str, *, wide: bool = False) -> Html:
    """Return ``content`` in a focusable container that scrolls sideways."""
    kind = "ns-scroll ns-wide" if wide else "ns-scroll"
    return Html(
        f'<div class="{kind}" tabindex="0" role="region" aria-label="{html_text(label)}">\n{content}\n</div>'
    )


def scroll_tables(html: str) -> str:
    """Put every table of rendered Markdown into a container that scrolls."""
    return _TABLE.sub(lambda found: scrolling(Html(found.group()), "Table"), html)


def facts(pairs: Iterable[tuple[str, Cell]]) -> Html:
    """Return a list of terms and what they are."""
    items = "\n".join(f"<dt>{safe(term)}</dt><dd>{safe(value)}</dd>" for term, value in pairs)
    return Html(f'<dl class="ns-facts">\n{items}\n</dl>')


def bullets(items: Iterable[Cell]) -> Html:
    """Return a bulleted list."""
    return Html("<ul>\n" + "\n".join(f"<li>{safe(item)}</li>" for item in items) + "\n</ul>")


def paragraph(text: Cell) -> Html:
    """Return a paragraph."""
    return Html(f"<p>{safe(text)}</p>")


def folded(summary: str, content: Html) -> Html:
    """Return ``content`` folded under a line that unfolds it."""
    return Html(f"<details>\n<summary>{safe(summary)}</summary>\n{content}\n</details>")


def link(anchor: str, text: str) -> Html:
    """Return a link to the element of the page whose id is ``anchor``."""
    return Html(f'<a href="#{html_text(anchor)}">{safe(text)}</a>')


def _class(column: Column) -> str:
    return ' class="ns-number"' if column.numeric else ""


def _row(columns: Sequence[Column], row: Row) -> str:
    anchor = f' id="{html_text(row.anchor)}"' if row.anchor else ""
    cells = "".join(
        f"<td{_class(column)}>{safe(cell)}</td>" for column, cell in zip(columns, row.cells, strict=True)
    )
    return f"<tr{anchor}>{cells}</tr>"
