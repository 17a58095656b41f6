"""The coverage of a trace as plain text: what a terminal shows."""

from collections.abc import Iterator, Sequence

from normscope.escape import MISSING
from normscope.text_table import text_table
from normscope.tracerun.coverage import TITLES, UPPER_BOUND, Coverage, Group, GroupName
from normscope.tracerun.examine import Examined
from normscope.tracerun.found import EVIDENCE, HOW_TO_ADD_ROWS, FiredRow, fired_rows


def coverage_text(label: str, found: Examined) -> Iterator[str]:
    """Yield the lines that show what all kernel time of a trace belongs to, and how its norms were found."""
    covered = found.coverage
    yield f"All kernel time of {label}"
    yield ""
    yield from text_table(
        ("group", "kernels", "time (ms)", "share (%)"),
        [
            *(_cells(_title(name, group), group.count, group.us, covered) for name, group in covered.groups),
            _cells("All kernels", covered.all_kernels, covered.all_kernels_us, covered),
        ],
        numeric=(1, 2, 3),
    )
    if covered.compiled_fused or covered.unlinked.upper_bound_us:
        yield f"(*) An {UPPER_BOUND}."
    yield ""
    yield f"Forward norms that ran again in the backward pass: {covered.recomputed_forward_calls:,} calls"
    yield f"Kernels of any kind without a launch: {covered.unlinked_kernels_of_any_kind:,}"
    yield from _rows(fired_rows(found.calls))


def _title(name: GroupName, group: Group) -> str:
    if group.how is not None:
        return f"{TITLES[name]}, {group.how} (*)"
    if group.upper_bound_us:
        return f"{TITLES[name]}, partly compiled (*)"
    return f"{TITLES[name]}, {group.norms:,} norms" if group.norms is not None else TITLES[name]


def _cells(title: str, count: int, time_us: float, covered: Coverage) -> tuple[str, ...]:
    share = covered.percent(time_us)
    return title, f"{count:,}", f"{time_us / 1e3:,.3f}", MISSING if share is None else f"{share:.2f}"


def _rows(rows: Sequence[FiredRow]) -> Iterator[str]:
    if not rows:
        return
    yield ""
    yield "How the norms were found, by the rows of the catalog"
    yield ""
    yield from text_table(
        ("row", "library", "variant", "direction", "found by", "calls", "time (ms)", "evidence"),
        [
            (
                *(row.row, row.library, row.variant, row.direction, row.found),
                *(f"{row.calls:,}", f"{row.us / 1e3:,.3f}", row.evidence),
            )
            for row in rows
        ],
        numeric=(5, 6),
    )
    if any(row.evidence == "unverified" for row in rows):
        yield ""
        yield f"{EVIDENCE['unverified'].capitalize()}."
    yield ""
    yield HOW_TO_ADD_ROWS
