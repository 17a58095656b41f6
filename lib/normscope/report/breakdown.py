"""Where the time goes: kernel time by direction and norm variant, as a table."""

import msgspec

from normscope.analysis.models import Operation
from normscope.analysis.upper_bound import sum_words
from normscope.escape import html_text
from normscope.report.results import Report, analyzed, operations_of
from normscope.report.tables import Column, Html, Row, number, table

_COLUMNS = (
    Column("Direction"),
    Column("Variant"),
    Column("Signatures", numeric=True),
    Column("Calls", numeric=True),
    Column("Time (ms)", numeric=True),
    Column("Normalization time (%)", numeric=True),
    Column("GPU time (%)", numeric=True),
)


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """The kernel time of one norm variant in one direction; ``upper_bound`` says which part is one."""

    direction: str
    variant: str
    signatures: int
    calls: int
    time_ms: float
    upper_bound: str


def shares(report: Report) -> tuple[Share, ...]:
    """Return the time by direction and variant, largest first."""
    groups: dict[tuple[str, str], list[Operation]] = {}
    for each in operations_of(report):
        groups.setdefault((each.operation.direction, each.operation.variant), []).append(each.operation)
    found = (
        Share(
            direction=direction,
            variant=variant,
            signatures=len(members),
            calls=sum(member.count for member in members),
            time_ms=sum(member.time_ms for member in members),
            upper_bound=sum_words(members),
        )
        for (direction, variant), members in groups.items()
    )
    return tuple(sorted(found, key=lambda share: -share.time_ms))


def breakdown_html(report: Report) -> Html:
    """Return the table of time by direction and variant; empty if there are no operations."""
    groups = shares(report)
    if not groups:
        return Html("")
    all_ms = sum(share.time_ms for share in groups)
    end_to_end_ms = next(
        (m.hardware.end_to_end_ms for m in analyzed(report) if m.hardware.end_to_end_ms), None
    )
    rows = [
        Row(
            (
                share.direction,
                share.variant,
                f"{share.signatures:,}",
                f"{share.calls:,}",
                _time(share),
                number(_percent(share.time_ms, all_ms), 1),
                number(_percent(share.time_ms, end_to_end_ms)),
            )
        )
        for share in groups
    ]
    return table("Kernel time by direction and variant", _COLUMNS, rows)


def _time(share: Share) -> Html:
    part = f'<span class="ns-sub">of which {html_text(share.upper_bound)}</span>' if share.upper_bound else ""
    return Html(f"{number(share.time_ms, 3)}{part}")


def _percent(part: float, whole: float | None) -> float | None:
    return 100 * part / whole if whole else None
