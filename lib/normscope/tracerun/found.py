"""How the norms of a trace were found: by which rows of the catalog, and those whose launch was cut off."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from math import fsum

import msgspec

from normscope.norms.calls import NormCall
from normscope.norms.catalog.rows import Direction, Evidence, How, Variant

FOUND_BY: Mapping[How, str] = {
    "op": "op",
    "compiled": "name of a compiled kernel",
    "eager": "chain of small ops",
    "kernel": "kernel name",
}
EVIDENCE: Mapping[Evidence, str] = {
    "trace": "seen in a real trace",
    "source": "read in source",
    "unverified": "unverified: names or arguments were never checked against a trace or source",
}
HOW_TO_ADD_ROWS = (
    "A norm that isn't found gets a row in a file of your own, given with --catalog FILE; docs/catalog.md "
    "shows how a row is written."
)


class FiredRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the catalog that norms were found by: how many calls, and the time of their kernels in µs.

    Copies and casts around the norm are not counted. ``is_in_timeline`` is False where the launch lies
    outside the trace.
    """

    row: str
    library: str
    variant: Variant
    direction: Direction
    found_by: How
    evidence: Evidence
    is_in_timeline: bool
    calls: int
    us: float

    @property
    def found(self) -> str:
        """In words, how they were found."""
        return FOUND_BY[self.found_by] + ("" if self.is_in_timeline else ", launch cut off")


class CutOffKernel(msgspec.Struct, frozen=True, kw_only=True):
    """Norm kernels of one name whose launch lies outside the trace: how many, and their time in µs."""

    name: str
    variant: Variant
    direction: Direction
    fuses: tuple[str, ...]
    count: int
    us: float


def fired_rows(calls: Iterable[NormCall]) -> tuple[FiredRow, ...]:
    """Return the rows of the catalog that ``calls`` were found by, the most time first."""
    groups = _grouped(
        calls, lambda call: (call.row.id, call.variant, call.direction, call.found_by, call.is_in_timeline)
    )
    rows = [
        FiredRow(
            row=first.row.id,
            library=first.row.library,
            variant=first.variant,
            direction=first.direction,
            found_by=first.found_by,
            evidence=first.row.evidence,
            is_in_timeline=first.is_in_timeline,
            calls=len(own),
            us=fsum(call.norm_us for call in own),
        )
        for first, own in groups
    ]
    return tuple(sorted(rows, key=lambda row: (-row.us, row.row, row.variant, row.direction)))


def cut_off_kernels(calls: Iterable[NormCall]) -> tuple[CutOffKernel, ...]:
    """Return the norm kernels whose launch was cut off, by name, the most time first."""
    cut_off = (call for call in calls if not call.is_in_timeline)
    groups = _grouped(cut_off, lambda call: (call.name, call.variant, call.direction, call.fuses))
    kernels = [
        CutOffKernel(
            name=first.name,
            variant=first.variant,
            direction=first.direction,
            fuses=first.fuses,
            count=sum(len(call.norm_events) for call in own),
            us=fsum(call.norm_us for call in own),
        )
        for first, own in groups
    ]
    return tuple(sorted(kernels, key=lambda kernel: (-kernel.us, kernel.name)))


def _grouped(
    calls: Iterable[NormCall], key: Callable[[NormCall], Hashable]
) -> Iterable[tuple[NormCall, list[NormCall]]]:
    """Return the first of the calls with the same key, and all of them."""
    groups: dict[Hashable, list[NormCall]] = defaultdict(list)
    for call in calls:
        groups[key(call)].append(call)
    return ((own[0], own) for own in groups.values())
