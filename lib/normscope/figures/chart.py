"""What a figure is, and how it becomes files that are the same for the same data."""

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from normscope.escape import printable
from normscope.figures.style import PNG_DPI, plain_settings

Cell = str | int | float | None

_PNG_COMPRESSION = 3  # as small as level 6 for such pictures, and faster
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure with everything a report needs of it.

    Attributes
    ----------
    name
        The stem of its file names.
    title
        The message, a sentence without a full stop; the figure shows it too.
    alt
        The finding in one to three plain sentences, for a reader who doesn't see the figure.
    figure
        The drawn figure; its layout is done.
    header, rows
        The data behind it, full names included; the header gives the units. ``None`` is "not known".
    """

    name: str
    title: str
    alt: str
    figure: Figure
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def render_png(chart: Chart) -> bytes:
    """Return the figure as PNG, 150 dots per inch, without a time, a path or a version in it."""
    metadata = {"Software": None, "Title": chart.title, "Description": chart.alt}
    return _rendered(chart, "png", metadata, pil_kwargs={"compress_level": _PNG_COMPRESSION})


def render_svg(chart: Chart) -> bytes:
    """Return the figure as SVG, without a time, a path or a version in it.

    Text is drawn as outlines: the file looks the same where DejaVu Sans is not installed. The words are in
    the title, the alternative text and the data.
    """
    title, alt = printable(chart.title), printable(chart.alt)
    return _rendered(chart, "svg", {"Date": None, "Creator": None, "Title": title, "Description": alt})


def _rendered(
    chart: Chart,
    file_format: str,
    metadata: dict[str, Any],
    **options: Any,  # noqa: ANN401 - handed on to matplotlib
) -> bytes:
    buffer = io.BytesIO()
    with plain_settings():
        chart.figure.savefig(buffer, format=file_format, dpi=PNG_DPI, metadata=metadata, **options)
    return buffer.getvalue()


def render_csv(chart: Chart) -> bytes:
    r"""Return the data as RFC 4180 CSV in UTF-8: a header, then the rows, lines ending in ``\r\n``.

    A text that a spreadsheet would run as a formula gets an apostrophe before it.
    """
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer)
    writer.writerow(map(_inert, chart.header))
    writer.writerows(map(_inert, row) for row in chart.rows)
    return buffer.getvalue().encode("utf-8", errors="backslashreplace")


def _inert(cell: Cell) -> Cell:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA_STARTS) else cell


RENDERERS = {".png": render_png, ".svg": render_svg, ".csv": render_csv}


def save_chart(chart: Chart, folder: Path) -> tuple[Path, ...]:
    """Write ``<name>.png``, ``<name>.svg`` and ``<name>.csv`` into ``folder``, which is made if need be.

    Returns
    -------
    tuple of Path
        The files, in that order. Their bytes are the same for the same chart.

    Raises
    ------
    OSError
        The folder can't be made or written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = tuple(folder / f"{chart.name}{suffix}" for suffix in RENDERERS)
    for path, render in zip(paths, RENDERERS.values(), strict=True):
        path.write_bytes(render(chart))
    return paths
