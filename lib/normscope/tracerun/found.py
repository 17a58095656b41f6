"""How the norms of a trace were found: by which rows of the catalog, and those whose launch was cut off."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from math import fsum

import msgspec

from normscope.norms.bare_names import bare_kernel_name
from normscope.norms.calls import NormCall
from normscope.norms.catalog.rows import Direction, Evidence, How, Variant
from normscope.norms.kernel_calls import NO_NAME
from normscope.trace.events import GpuEvent

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
CUT_OFF = "launch cut off"
BOUNDED = "upper bound"
HOW_TO_ADD_ROWS = (
    "A norm that isn't found gets a row in a file of your own, given with --catalog FILE; docs/catalog.md "
    "shows how a row is written."
)


class FiredRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the catalog that norms were found by: how many calls, and the time of their kernels in µs.

    Copies and casts around the norm are not counted. ``is_in_timeline`` is False where the launch lies
    outside the trace, and the time an upper bound where ``is_upper_bound``: other work is fused into the
    kernels.
    """

    row: str
    library: str
    variant: Variant
    direction: Direction
    found_by: How
    evidence: Evidence
    is_in_timeline: bool
    is_upper_bound: bool
    calls: int
    us: float

    @property
    def found(self) -> str:
        """In words, how they were found."""
        cut_off = "" if self.is_in_timeline else CUT_OFF
        bounded = BOUNDED if self.is_upper_bound else ""
        return ", ".join(filter(None, (FOUND_BY[self.found_by], cut_off, bounded)))


class CutOffKernel(msgspec.Struct, frozen=True, kw_only=True):
    """Norm kernels of one name whose launch lies outside the trace: how many, and their time in µs.

    The time is an upper bound where ``is_upper_bound``: a compiler put other work into the same kernels.
    """

    name: str
    variant: Variant
    direction: Direction
    fuses: tuple[str, ...]
    is_upper_bound: bool
    count: int
    us: float


def fired_rows(calls: Iterable[NormCall]) -> tuple[FiredRow, ...]:
    """Return the rows of the catalog that ``calls`` were found by, the most time first."""
    groups: dict[Hashable, list[NormCall]] = defaultdict(list)
    for call in calls:
        kind = (call.row.id, call.variant, call.direction, call.found_by)
        groups[*kind, call.is_in_timeline, call.is_upper_bound].append(call)
    rows = [
        FiredRow(
            row=own[0].row.id,
            library=own[0].row.library,
            variant=own[0].variant,
            direction=own[0].direction,
            found_by=own[0].found_by,
            evidence=own[0].row.evidence,
            is_in_timeline=own[0].is_in_timeline,
            is_upper_bound=own[0].is_upper_bound,
            calls=len(own),
            us=fsum(call.norm_us for call in own),
        )
        for own in groups.values()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.us, row.row, row.variant, row.direction)))


def cut_off_kernels(events: Sequence[GpuEvent], calls: Iterable[NormCall]) -> tuple[CutOffKernel, ...]:
    """Return the norm kernels whose launch was cut off, by their own name, the most time first.

    A norm may run in several kernels, so that their names tell more than that of the call.
    """
    groups: dict[tuple[str, Variant, Direction, tuple[str, ...], bool], list[float]] = defaultdict(list)
    for call in calls:
        for event in () if call.is_in_timeline else (events[i] for i in call.norm_events):
            name = bare_kernel_name(event.name) or NO_NAME
            groups[name, call.variant, call.direction, call.fuses, call.is_upper_bound].append(event.dur_us)
    kernels = [
        CutOffKernel(
            name=name,
            variant=variant,
            direction=direction,
            fuses=fuses,
            is_upper_bound=is_upper_bound,
            count=len(times_us),
            us=fsum(times_us),
        )
        for (name, variant, direction, fuses, is_upper_bound), times_us in groups.items()
    ]
    return tuple(sorted(kernels, key=lambda kernel: (-kernel.us, kernel.name)))
