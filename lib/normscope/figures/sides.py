"""How the two sides of a comparison look in every figure, and the axes they share."""

from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from normscope.compare.models import Comparison
from normscope.figures.labels import name_label
from normscope.figures.style import BLACK, GREY, log_axis

SIDE_COLOURS = {1: "#d55e00", 2: "#0072b2"}
SIDE_MARKERS = {1: "o", 2: "D"}
_LOG_FROM = 20.0
_LABEL_WIDTH = 40


def mark(side: int, *, filled: bool = True, size: float = 8.0) -> dict[str, Any]:
    """Return the look of a mark of that side; a hollow one is no real difference."""
    colour = SIDE_COLOURS[side]
    return {
        "marker": SIDE_MARKERS[side],
        "markersize": size if side == 1 else 0.85 * size,
        "markerfacecolor": colour if filled else "white",
        "markeredgecolor": colour,
        "markeredgewidth": 1.6,
        "linestyle": "",
    }


def side_handles(comparison: Comparison, filled: tuple[int, ...] = (1, 2)) -> list[Artist]:
    """Return the legend entries of both sides with the names of the inputs, those not ``filled`` hollow."""
    labels = {1: comparison.first.label, 2: comparison.second.label}
    return [
        Line2D(
            [],
            [],
            label=f"trace {side}: {name_label(label, _LABEL_WIDTH)}",
            **mark(side, filled=side in filled),
        )
        for side, label in labels.items()
    ]


def write_beside(axes: Axes, place: int, text: str, *, is_real: bool) -> None:
    """Write what a pair says at the right of its row, bold where it is a real difference."""
    axes.annotate(
        text, (1.02, place), xycoords=("axes fraction", "data"), va="center", fontsize=10,
        fontweight="bold" if is_real else "normal", color=BLACK if is_real else GREY, annotation_clip=False,
    )  # fmt: skip


def fitting_axis(axes: Axes, values: Sequence[float], label: str, text: Callable[[float], str]) -> None:
    """Make the horizontal axis logarithmic where the positive values span a factor of 20, else from 0."""
    known = [value for value in values if value > 0]
    if known and max(known) / min(known) >= _LOG_FROM:
        log_axis(axes.xaxis, (min(known) / 1.6, max(known) * 1.2), label, text)
    else:
        axes.set_xlim(0, 1.08 * max(known, default=1.0))
        axes.set_xlabel(label)
