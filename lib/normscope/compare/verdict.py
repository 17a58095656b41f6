"""The verdict of a gate: what was checked, against which limit, and how it came out."""

from typing import Literal

import msgspec

from normscope.compare.models import SideKind

SCHEMA_VERSION = "1.0"

Outcome = Literal["passed", "breached", "skipped"]
Unit = Literal["%", "ms", "points"]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One limit, held against one thing it concerns.

    Attributes
    ----------
    table, key
        Where the file of limits sets it, or by default would, such as ``variant.LayerNorm`` and
        ``max_increase_percent``.
    what, baseline_what
        What it concerns: all norms, a variant, an operation, the coverage; and what the baseline calls the
        operation, empty where it is the same.
    where
        What tells the operation from others: direction, arguments, module; empty for all else.
    outcome
        ``skipped`` where it can't be told, or there is nothing to tell; ``reason`` says why.
    limit, value
        The limit, and what is held against it, both in ``unit``; None for what is only allowed or not, and
        for a value that isn't known.
    result, baseline, measured_in
        The same quantity on both sides, None where not known or there is none.
    reason
        A remark; empty where the figures say it all.
    """

    table: str
    key: str
    what: str
    baseline_what: str = ""
    where: str = ""
    outcome: Outcome
    limit: float | None = None
    value: float | None = None
    unit: Unit | None = None
    result: float | None = None
    baseline: float | None = None
    measured_in: Unit | None = None
    reason: str = ""


class SideSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One side in figures.

    Attributes
    ----------
    label, kind, gpu, steps, end_to_end_ms
        As in the comparison.
    operations, calls, norm_time_ms
        How many groups of like calls, how many calls, and their kernel time, as recorded.
    """

    label: str
    kind: SideKind
    gpu: str | None
    steps: int
    end_to_end_ms: float | None
    operations: int
    calls: int
    norm_time_ms: float | None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a gate found.

    Attributes
    ----------
    outcome
        ``breached`` where any check is.
    result, baseline
        The two sides.
    time_ms, baseline_time_ms
        Kernel time of all norms, the baseline's scaled as ``scale`` and ``normalized`` say; None where not
        known.
    scale, normalized
        Factor on the baseline's times, and what both sides were brought to.
    notes
        Sentences that a reader of the figures must know.
    checks
        Breaches first, then what was skipped, then what passed; in each, in the order of the file of limits.
    """

    schema_version: str = SCHEMA_VERSION
    outcome: Literal["within", "breached"]
    result: SideSummary
    baseline: SideSummary
    time_ms: float | None
    baseline_time_ms: float | None
    scale: float
    normalized: Literal["as recorded", "per step", "per call"]
    notes: tuple[str, ...]
    checks: tuple[Check, ...]

    def of(self, outcome: Outcome) -> tuple[Check, ...]:
        """Return the checks that came out so."""
        return tuple(check for check in self.checks if check.outcome == outcome)


def encode_verdict(verdict: Verdict) -> bytes:
    """Return the bytes of the JSON verdict: UTF-8, two spaces of indent, a final newline."""
    return msgspec.json.format(msgspec.json.encode(verdict), indent=2) + b"\n"
