"""How all figures look: colours, markers, sizes, and the frame they share.

Colours are those of Okabe and Ito, which people with a colour-vision deficiency can tell apart; a marker or a
hatch says the same once more, so that a figure reads in greyscale. The background is opaque and light: a
figure is a card that stays readable on a dark page.
"""

import math
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, TypeVar

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from normscope.analysis.models import Direction, Variant
from normscope.figures.labels import FONT

_FEW_DECADES = 2.0
_LEAST_RATIO = 20.0

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

PNG_DPI = 150
WIDTH_INCHES = 8.0
_TITLE_CHARACTERS = 64
_UNIT_GAP = re.compile(r"(?<=\d) (?=(?:[KMGT]?B|[µm]?s)\b)")  # a number and its unit stay on one line
_EXPLANATION_CHARACTERS = 84
_NOTE_CHARACTERS = 96
_TITLE_FONT: dict[str, Any] = {"fontsize": 14, "fontweight": "bold"}

BLACK = "#222222"
GREY = "#6b6b6b"
PALE = "#d9d9d9"
ALARM = "#a40000"

AREA_NOTE = "Area of a mark: kernel time."

_SETTINGS = {
    "font.family": FONT,
    "font.size": 12,
    "axes.labelsize": 12,
    "xtick.labelsize": 11,
    "ytick.labelsize": 11,
    "legend.fontsize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.axisbelow": True,
    "text.color": BLACK,
    "text.parse_math": False,  # a name with $ in it is no formula
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.hashsalt": "normscope",  # else ids are random and two runs differ
    "svg.fonttype": "path",
    "hatch.linewidth": 0.8,
}


class VariantStyle(NamedTuple):
    """Colour, marker and hatch of a norm variant."""

    colour: str
    marker: str
    hatch: str


class DirectionStyle(NamedTuple):
    """The outline that tells a direction, and its width in points."""

    edge: str
    width: float


VARIANTS: dict[Variant, VariantStyle] = {
    "BatchNorm": VariantStyle("#0072b2", "o", ""),
    "LayerNorm": VariantStyle("#e69f00", "s", "//"),
    "GroupNorm": VariantStyle("#009e73", "^", ".."),
    "InstanceNorm": VariantStyle("#cc79a7", "D", "xx"),
    "RMSNorm": VariantStyle("#56b4e9", "v", "\\\\"),
    "Other": VariantStyle("#999999", "P", "--"),
}

DIRECTIONS: dict[Direction, DirectionStyle] = {
    "forward": DirectionStyle("white", 0.8),
    "backward": DirectionStyle("black", 1.8),
    "unknown": DirectionStyle(GREY, 0.8),
}


def plain_settings() -> AbstractContextManager[None]:
    """Return a context with matplotlib's own defaults and the style of the figures.

    A reader's ``matplotlibrc`` has no say, so the same data give the same bytes everywhere.
    """
    settings: dict[Any, Any] = dict(mpl.rcParamsDefault)
    settings.pop("backend")
    return mpl.rc_context(settings | _SETTINGS)


def new_figure(title: str, height_inches: float) -> Figure:
    """Return an empty figure with its message on top."""
    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.07)
    figure = Figure(figsize=(WIDTH_INCHES, height_inches), dpi=PNG_DPI, layout=layout)
    FigureCanvasAgg(figure)
    wrapped = textwrap.fill(_UNIT_GAP.sub("\u00a0", title), _TITLE_CHARACTERS)
    figure.suptitle(wrapped, x=0.013, ha="left", **_TITLE_FONT)
    return figure


def message_figure(title: str, explanation: str) -> Figure:
    """Return a figure that says in words why there is nothing to draw."""
    figure = Figure(figsize=(WIDTH_INCHES, 1.4), dpi=PNG_DPI)
    FigureCanvasAgg(figure)
    figure.text(0.013, 0.72, textwrap.fill(title, _TITLE_CHARACTERS), va="center", **_TITLE_FONT)
    figure.text(0.013, 0.3, textwrap.fill(explanation, _EXPLANATION_CHARACTERS), va="center")
    return figure


def settle(figure: Figure) -> Figure:
    """Lay the figure out once and keep the result, so that every format shares it."""
    if engine := figure.get_layout_engine():
        engine.execute(figure)
    figure.set_layout_engine(None)
    return figure


def legend_below(
    figure: Figure, handles: Sequence[Artist], notes: Sequence[str] = (), columns: int = 4
) -> None:
    """Put the notes and the legend under the axes, where they hide nothing."""
    figure.legend(
        handles=list(handles),
        title=textwrap.fill(" ".join(filter(None, notes)), _NOTE_CHARACTERS) or None,
        title_fontsize=10,
        alignment="left",
        loc="outside lower left",
        ncols=columns,
        frameon=False,
    )


def marker_handles(variants: Iterable[Variant], directions: Iterable[Direction]) -> list[Artist]:
    """Return legend entries for the variants and directions that occur, in the order of the tables."""
    shapes = [
        _dot(name, style.colour, style.marker, style.colour, 0.8)
        for name, style in _present(VARIANTS, variants)
    ]
    outlines = [
        _dot(name if name != "unknown" else "direction unknown", PALE, "o", style.edge, style.width)
        for name, style in _present(DIRECTIONS, directions)
    ]
    return shapes + outlines


def anomaly_handle(label: str) -> Artist:
    """Return the legend entry of hollow points."""
    return _dot(label, "white", "o", ALARM, 1.8)


def bar_handles(variants: Iterable[Variant]) -> list[Artist]:
    """Return legend entries for the bars of the variants that occur."""
    return [
        Patch(facecolor=style.colour, edgecolor="white", hatch=style.hatch * 2, label=name)
        for name, style in _present(VARIANTS, variants)
    ]


def _present(table: Mapping[_Key, _Value], keys: Iterable[_Key]) -> list[tuple[_Key, _Value]]:
    wanted = set(keys)
    return [(key, value) for key, value in table.items() if key in wanted]


def _dot(label: str, face: str, marker: str, edge: str, width: float) -> Artist:
    return Line2D(
        [], [], linestyle="", marker=marker, markersize=9,
        markerfacecolor=face, markeredgecolor=edge, markeredgewidth=width, label=label,
    )  # fmt: skip


def grid(axes: Axes, axis: str) -> None:
    """Draw the thin grid of one axis or of ``both``."""
    axes.grid(visible=True, which="major", axis=axis, color=PALE, linewidth=0.7)  # type: ignore[arg-type]


def rows_axis(axes: Axes, labels: Sequence[str]) -> None:
    """Give the rows of a figure their labels, the first one at the top, and the grid across them."""
    axes.set_yticks(range(len(labels)), labels, linespacing=1.15)
    axes.set_ylim(len(labels) - 0.45, -0.55)
    axes.tick_params(axis="y", length=0)
    grid(axes, "x")


def line_handle(label: str) -> Artist:
    """Return the legend entry of a black line."""
    return Line2D([], [], color=BLACK, label=label)


def log_axis(
    axis: XAxis | YAxis, limits: tuple[float, float], label: str, text: Callable[[float], str]
) -> None:
    """Make an axis logarithmic around ``limits``, with a few round ticks, written by ``text``.

    Limits that lie close together are moved apart: matplotlib finds no round ticks between them.
    """
    widen = max(1.0, math.sqrt(_LEAST_RATIO * limits[0] / limits[1]))
    limits = limits[0] / widen, limits[1] * widen
    decades = math.log10(limits[1]) - math.log10(limits[0])
    axis.axes.set(**{f"{axis.axis_name}scale": "log", f"{axis.axis_name}lim": limits})
    axis.set_label_text(label)
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if decades < _FEW_DECADES else (1.0,), numticks=8))
    axis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
    axis.set_minor_locator(NullLocator())
