"""Reading ``<category>_ops.csv`` into columns of text, and single columns into numbers.

A table of a hundred thousand rows has to be read in seconds, so the unit of work is the column, and the csv
module does the parsing: importing pandas alone takes longer than a whole analysis.
"""

import csv
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import StringIO
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from normscope.errors import InputError
from normscope.escape import printable, shorten

if TYPE_CHECKING:
    import _csv

# What pandas reads as a missing value, so that a table means the same here as in TraceLens.
MISSING_CELLS = frozenset(
    (
        *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
        *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
    )
)

LARGEST_NUMBER = 1e18
"""Nothing a profiler measures is larger; a table that says so is wrong, and sums of it could overflow."""
SMALLEST_NUMBER = 1e-18
"""What is nearer to zero than this is zero."""

Cells = list[str | None]


class OpsTable(msgspec.Struct, frozen=True):
    """The cells of an ops table by column; a missing cell is ``None``.

    ``lines`` holds, for each row, the line of the file on which it ends.
    """

    path: Path
    columns: dict[str, Cells]
    lines: list[int]

    def __len__(self) -> int:
        return len(self.lines)

    def text(self, column: str) -> Cells:
        """Return the cells of ``column``, all missing where the table has no such column."""
        return self.columns.get(column) or [None] * len(self)

    def numbers(self, column: str) -> list[float | None]:
        """Return the cells of ``column`` as numbers, infinite or undefined ones as missing.

        Raises
        ------
        InputError
            A cell holds something else, or a number that nothing measures; the message names file, line and
            column.
        """
        cells = self.text(column)
        if None not in cells:  # the usual column, and five times as fast
            with suppress(ValueError):
                values: list[float] = list(map(float, cells))  # type: ignore[arg-type]  # none is missing
                sizes = list(map(abs, values))
                if all(map(isfinite, values)) and max(sizes, default=0.0) <= LARGEST_NUMBER:
                    sized = zip(values, sizes, strict=True)
                    return [value if size >= SMALLEST_NUMBER else 0.0 for value, size in sized]
        return [None if cell is None else self._number(cell, row, column) for row, cell in enumerate(cells)]

    def _number(self, cell: str, row: int, column: str) -> float | None:
        try:
            value = float(cell)
        except ValueError:
            raise self.complaint(row, column, "is not a number") from None
        if not isfinite(value):
            return None
        if abs(value) > LARGEST_NUMBER:
            raise self.complaint(row, column, "is more than anything measures")
        return value if abs(value) >= SMALLEST_NUMBER else 0.0

    def complaint(self, row: int, column: str, problem: str) -> InputError:
        """Return the error that says what is wrong with one cell."""
        cell = printable((self.text(column)[row] or "")[:60])
        return InputError(
            f"{self.path.name}, line {self.lines[row]}, column '{column}': '{cell}' {problem}; "
            "correct the cell or write the table again"
        )


def read_ops_table(path: Path, wanted: frozenset[str]) -> OpsTable:
    """Read the ``wanted`` columns of an ops table.

    Parameters
    ----------
    path
        A CSV file with a header line, UTF-8, with or without a byte order mark.
    wanted
        Names of the columns to keep; those that the file lacks are left out.

    Raises
    ------
    InputError
        The file can't be read as such a table; the message names file, line or byte, and column.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"{path.name}: byte {error.start} is not valid UTF-8; write the table again as UTF-8"
        raise InputError(message) from None
    except OSError as error:
        message = f"{path.name}: can't be read ({error.strerror}); check the path and its permissions"
        raise InputError(message) from None
    return _parse(path, text, wanted)


def _parse(path: Path, text: str, wanted: frozenset[str]) -> OpsTable:
    reader = csv.reader(StringIO(text, newline=""), strict=True)
    with long_fields():
        try:
            header = [name.strip().replace("μ", "µ") for name in next(reader, [])]
            places = {name: header.index(name) for name in header if name in wanted}
            if not places and any(reader):
                raise InputError(_no_known_column(path, header))
            rows, lines = _rows(path, reader, header, list(places.values()))
        except csv.Error as error:
            message = (
                f"{path.name}, line {reader.line_num}: not a valid CSV row ({error}); write the table again"
            )
            raise InputError(message) from None
    cells = zip(*rows, strict=True) if rows else [()] * len(places)
    columns = {name: _with_missing(column) for name, column in zip(places, cells, strict=True)}
    return OpsTable(path, columns, lines)


def _no_known_column(path: Path, header: list[str]) -> str:
    shown = printable(shorten(",".join(header), 80))
    return (
        f"{path.name}, line 1: the header '{shown}' names no column of an ops table, such as name; "
        "write the table with a header, and with commas between the cells"
    )


def _with_missing(column: Iterable[str]) -> Cells:
    return [None if cell in MISSING_CELLS else cell for cell in column]


def _rows(
    path: Path, reader: "_csv.Reader", header: list[str], places: list[int]
) -> tuple[list[list[str]], list[int]]:
    """Return the cells at ``places`` of every row, and the line on which each row ends."""
    width = len(header)
    rows: list[list[str]] = []
    lines: list[int] = []
    for row in reader:
        if not row:
            continue
        if len(row) != width:
            last = printable(header[min(len(row), width) - 1])[:60]
            message = (
                f"{path.name}, line {reader.line_num}: {len(row)} cells, but the header has {width} (last "
                f"matching column '{last}'); the file may be cut off, so write the table again"
            )
            raise InputError(message)
        rows.append([row[i] for i in places])
        lines.append(reader.line_num)
    return rows, lines


def is_absent(path: Path) -> bool:
    """Tell whether there is nothing at ``path``; what is there but can't be looked at isn't absent."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


@contextmanager
def long_fields() -> Iterator[None]:
    """Lift the csv module's limit of 131,072 characters a cell: call stacks can be longer."""
    limit = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(limit)
