"""The comparison that a run directory of the comparative scope holds, read and checked."""

from collections.abc import Iterator
from math import isfinite
from pathlib import Path

import msgspec

from normscope.compare.models import COMPARISON_FILE, CallGroup, Comparison
from normscope.errors import InputError
from normscope.inputs.versions import read_versioned

_PLACE = f"category_data/{COMPARISON_FILE}"
_REMEDY = "compare the two again with `normscope compare`"


class ComparisonData(msgspec.Struct, frozen=True):
    """A comparison, and the file as it is."""

    comparison: Comparison
    content: bytes


def read_comparison(run_dir: Path) -> ComparisonData | None:
    """Return the comparison of a run directory, None where it holds none.

    Raises
    ------
    InputError
        The file can't be read, is of another version, or contradicts itself.
    """
    path = run_dir / "category_data" / COMPARISON_FILE
    if not path.is_file():
        return None
    try:
        content = path.read_bytes()
    except OSError as error:
        message = f"{_PLACE} can't be read ({error.strerror}); check its permissions"
        raise InputError(message) from None
    return ComparisonData(decode_comparison(content), content)


def decode_comparison(content: bytes) -> Comparison:
    """Return the comparison that ``content`` is the JSON of.

    Raises
    ------
    InputError
        It is not one, is of another version, or contradicts itself.
    """
    compared = read_versioned(content, Comparison, what="comparison", where=_PLACE)
    wrong = next(_contradictions(compared), None)
    if wrong:
        message = f"{_PLACE} contradicts itself ({wrong}); {_REMEDY}"
        raise InputError(message)
    return compared


def _contradictions(compared: Comparison) -> Iterator[str]:
    """Return what can't be, such as a place without a group or a negative time."""
    sides = (
        (
            "first",
            compared.first,
            [*compared.only_first, *(i for pair in compared.pairs for i in pair.first)],
        ),
        ("second", compared.second, [*compared.only_second, *(i for p in compared.pairs for i in p.second)]),
    )
    for name, side, places in sides:
        if sorted(places) != list(range(len(side.groups))):
            yield f"not every group of the {name} side is in one pair or alone"
        if not all(map(_is_sound, side.groups)) or not _is_time(side.end_to_end_ms or 0.0):
            yield f"a time or count of the {name} side is negative or not a number"
        if not _is_time(side.peak_bandwidth_tbs or 0.0):
            yield f"the peak of the {name} side is negative or not a number"
    if not all(pair.first and pair.second for pair in compared.pairs):
        yield "a pair has one side only"
    if not all(_is_time(us) for pair in compared.pairs for us in (pair.time1_us, pair.time2_us)):
        yield "the time of a pair is negative or not a number"
    if not _is_time(compared.scale) or not compared.scale:
        yield "the scale is not a positive number"


def _is_sound(group: CallGroup) -> bool:
    return group.count > 0 and all(map(_is_time, (group.total_us, group.mean_us, *group.times_us)))


def _is_time(value: float) -> bool:
    return isfinite(value) and value >= 0
