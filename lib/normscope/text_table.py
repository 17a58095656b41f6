"""Plain text in columns: what a terminal shows."""

from collections.abc import Iterator, Sequence

from normscope.escape import shorten

_WIDEST_CELL = 72
_GAP = "  "


def text_table(
    header: tuple[str, ...], rows: Sequence[tuple[str, ...]], numeric: Sequence[int] = ()
) -> Iterator[str]:
    """Yield the lines of a table whose columns are as wide as they have to be.

    Parameters
    ----------
    header, rows
        The cells; long ones are cut.
    numeric
        Places of the columns that are aligned to the right.
    """
    lines = [tuple(shorten(cell, _WIDEST_CELL) for cell in cells) for cells in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for cells in lines:
        padded = (
            cell.rjust(width) if place in numeric else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        yield _GAP.join(padded).rstrip()
