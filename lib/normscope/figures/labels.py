"""Short names that fit a figure, and numbers with their units.

A figure has little room and one font, so a name is shortened in its middle and holds only characters that
the font has. The full name stands in the data beside the figure.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache

from matplotlib.font_manager import findfont, get_font

from normscope.escape import printable
from normscope.findings import wording

FONT = "DejaVu Sans"
UNDRAWABLE = "□"
NAME_WIDTH = 38


@cache
def _drawable_code_points() -> frozenset[int]:
    return frozenset(get_font(findfont(FONT, fallback_to_default=False)).get_charmap())


def drawable(text: str) -> str:
    r"""Return ``text`` on one line, with nothing that the font of the figures can't draw.

    Control and format characters are spelt out, marks that stack on a letter are dropped, and a character
    that the font lacks becomes ``□``, so that drawing never warns.

    Examples
    --------
    >>> drawable("norm\n漢字")
    'norm\\n□□'
    """
    known = _drawable_code_points()
    composed = printable(unicodedata.normalize("NFC", text))
    kept = (c for c in composed if not unicodedata.category(c).startswith("M"))
    return "".join(c if ord(c) in known else UNDRAWABLE for c in kept)


def shorten_middle(text: str, width: int = NAME_WIDTH) -> str:
    """Return ``text`` with its middle left out, at most ``width`` characters: names differ at their ends.

    Examples
    --------
    >>> shorten_middle("aten::native_batch_norm_backward", 21)
    'aten::nati…m_backward'
    """
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"


def name_label(name: str, width: int = NAME_WIDTH) -> str:
    """Return a name from outside as one short line that the figures can draw."""
    # Cut before the characters are looked at: a name may be very long, and each may be spelt out.
    label = shorten_middle(drawable(shorten_middle(name, 4 * width)), width)
    return label if label.strip() else "(no name)"


def number_duplicates(labels: Sequence[str]) -> tuple[str, ...]:
    """Return the labels, all different: equal ones get a running number in their order.

    Examples
    --------
    >>> number_duplicates(["norm", "add", "norm"])
    ('norm #1', 'add', 'norm #2')
    """
    repeated = {label for label, times in Counter(labels).items() if times > 1}
    taken = set(labels) - repeated
    last_number: Counter[str] = Counter()
    result = []
    for label in labels:
        candidate = label
        while label in repeated and (candidate == label or candidate in taken):
            last_number[label] += 1
            candidate = f"{label} #{last_number[label]}"
        taken.add(candidate)
        result.append(candidate)
    return tuple(result)


def percent(value: float) -> str:
    """Return a percentage with two or three significant digits; it says 100% only where all is meant.

    Examples
    --------
    >>> percent(2.28), percent(43.8), percent(99.97), percent(0)
    ('2.3%', '44%', '>99%', '0%')
    """
    if 99 < value < 100:
        return ">99%"
    if value < 1:
        return f"{value:.2g}%"
    if value >= 1e7:
        return f"{value:.3g}%"
    return f"{value:.1f}%" if value < 10 else f"{value:,.0f}%"


def percent_range(low: float, high: float) -> str:
    """Return two percentages as one range, or as one number where they read the same.

    Examples
    --------
    >>> percent_range(8.3, 11.1), percent_range(2.0, 2.0)
    ('8.3–11%', '2.0%')
    """
    first, last = percent(low), percent(high)
    return last if first == last else f"{first.removesuffix('%')}–{last}"


_TIME_UNITS = ((1000.0, 1e-3, "s"), (1.0, 1.0, "ms"), (0.0, 1e3, "µs"))


def duration(time_ms: float) -> str:
    """Return a time, given in ms, in the unit that reads best.

    Examples
    --------
    >>> duration(0.04), duration(13.934), duration(1234)
    ('40 µs', '13.9 ms', '1.23 s')
    """
    factor, unit = next((f, u) for least, f, u in _TIME_UNITS if time_ms >= least)
    return f"{time_ms * factor:.3g} {unit}"


def plain_number(value: float) -> str:
    """Return a number for an axis, without an exponent as long as it is short.

    Examples
    --------
    >>> plain_number(0.01), plain_number(1000.0), plain_number(1e9)
    ('0.01', '1,000', '1e+09')
    """
    return f"{value:,.0f}" if 1000 <= value < 1e7 else f"{value:g}"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural where it needs it.

    Examples
    --------
    >>> counted(1, "operation"), counted(4, "operation")
    ('1 operation', '4 operations')
    """
    return wording.counted(number, noun)


def joined(sentences: Iterable[str]) -> str:
    """Return the sentences that are not empty, as one paragraph."""
    return " ".join(filter(None, sentences))


def significant(value: float | None) -> float | None:
    """Return a derived number with six significant digits, or ``None`` where there is none."""
    return None if value is None else float(f"{value:.6g}")
