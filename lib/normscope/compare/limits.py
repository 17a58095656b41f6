"""The limits of a gate: a TOML file, checked key by key before anything is compared."""

import difflib
import math
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

import msgspec
import tomli

from normscope.analysis.models import Direction, Variant
from normscope.compare.models import CallGroup
from normscope.errors import InputError
from normscope.escape import printable, shorten

HOW_TO_WRITE = "docs/limits.md lists every table and key"

NotNegative = Annotated[float, msgspec.Meta(ge=0)]
Percent = Annotated[float, msgspec.Meta(ge=0, le=100)]
Pattern = Annotated[str, msgspec.Meta(min_length=1)]


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file: whatever it doesn't list is a mistake."""


class TimeLimits(_Table, frozen=True, kw_only=True):
    """What norms may cost; None sets no limit.

    Attributes
    ----------
    max_increase_percent, max_increase_ms
        How much longer than in the baseline.
    max_time_ms
        Kernel time of the result.
    min_efficiency_percent
        Share of the roofline.
    max_impact_score
        Share of end-to-end GPU time that closing the gap to the roofline would save, in percent.
    only_if_significant
        The increases count only differences that exceed the spread of the calls.
    """

    max_increase_percent: NotNegative | None = None
    max_increase_ms: NotNegative | None = None
    max_time_ms: NotNegative | None = None
    min_efficiency_percent: Percent | None = None
    max_impact_score: Percent | None = None
    only_if_significant: bool = False

    def given(self) -> dict[str, float]:
        """Return the limits that are set, by their keys."""
        values = {key: getattr(self, key) for key in LIMIT_KEYS}
        return {key: value for key, value in values.items() if value is not None}


LIMIT_KEYS = tuple(name for name in TimeLimits.__struct_fields__ if name != "only_if_significant")


class OperationLimits(TimeLimits, frozen=True, kw_only=True):
    """Limits that hold for each operation that fits, on its own.

    Attributes
    ----------
    name, module, arguments
        Shell patterns (``*``, ``?``, ``[seq]``) for the whole text, with regard to case.
    direction, variant
        Exactly these.
    """

    name: Pattern
    direction: Direction | None = None
    variant: Variant | None = None
    module: Pattern | None = None
    arguments: Pattern | None = None

    def fits(self, group: CallGroup) -> bool:
        """Tell whether these limits hold for ``group``."""
        exact = ((self.direction, group.direction), (self.variant, group.variant))
        patterns = (
            (self.name, group.name),
            (self.module, group.module),
            (self.arguments, group.arguments or ""),
        )
        return all(wanted in (None, given) for wanted, given in exact) and all(
            pattern is None or fnmatchcase(text, pattern) for pattern, text in patterns
        )


class CoverageLimits(_Table, frozen=True, kw_only=True):
    """What may appear, vanish, or be left without an owner.

    Attributes
    ----------
    allow_new, allow_vanished
        Operations of only one side.
    allow_lost_coverage
        Kinds of norms that are no longer found, and a growing share of kernels that nothing explains.
    max_unattributed_percent
        Share of kernel time that nothing explains.
    max_unattributed_increase_percent
        How much that share may grow before coverage counts as lost, in percentage points.
    """

    allow_new: bool = False
    allow_vanished: bool = True
    allow_lost_coverage: bool = False
    max_unattributed_percent: Percent | None = None
    max_unattributed_increase_percent: Percent = 1.0


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """A file of limits."""

    total: TimeLimits = TimeLimits()
    variant: Mapping[Variant, TimeLimits] = {}
    operation: tuple[OperationLimits, ...] = ()
    coverage: CoverageLimits = CoverageLimits()


_TABLES = tuple(Limits.__struct_fields__)
_VARIANTS: tuple[str, ...] = get_args(Variant)
_T = TypeVar("_T", TimeLimits, OperationLimits, CoverageLimits)


def read_limits(path: Path) -> Limits:
    """Read a file of limits.

    Raises
    ------
    InputError
        It can't be read, isn't TOML, or has an unknown key or a wrong value; the message names table and key.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        message = (
            f"the limits {path.name} can't be read ({error.strerror}); check the file's name and permissions"
        )
        raise InputError(message) from None
    except UnicodeDecodeError:
        message = f"the limits {path.name} are no UTF-8 text; save the file as UTF-8"
        raise InputError(message) from None
    return parse_limits(text, path.name)


def parse_limits(text: str, label: str) -> Limits:
    """Return the limits that a TOML text sets.

    Parameters
    ----------
    text
        TOML.
    label
        How messages call the file.

    Raises
    ------
    InputError
        As :func:`read_limits`.
    """
    try:
        raw = tomli.loads(text)
    except (ValueError, RecursionError) as error:
        raise _wrong(label, f"are no valid TOML: {error}") from None
    _refuse_unknown(raw, _TABLES, "table", "", label)
    return Limits(
        total=_limiting(raw["total"], TimeLimits, "[total]", label) if "total" in raw else TimeLimits(),
        variant=dict(_variants(raw.get("variant", {}), label)),
        operation=tuple(_operations(raw.get("operation", []), label)),
        coverage=_table(raw.get("coverage", {}), CoverageLimits, "[coverage]", label),
    )


def _variants(raw: object, label: str) -> Iterator[tuple[Any, TimeLimits]]:
    if not isinstance(raw, dict):
        raise _wrong(label, f"have a wrong [variant]: write one table a variant, as [variant.{_VARIANTS[1]}]")
    _refuse_unknown(raw, _VARIANTS, "variant", " in [variant]", label)
    for name, values in raw.items():
        yield name, _limiting(values, TimeLimits, f"[variant.{name}]", label)


def _operations(raw: object, label: str) -> Iterator[OperationLimits]:
    if not isinstance(raw, list):
        raise _wrong(label, "have a wrong [operation]: write each as [[operation]], in double brackets")
    for number, values in enumerate(raw, start=1):
        yield _limiting(values, OperationLimits, f"[[operation]] number {number}", label)


def _limiting(raw: object, kind: type[_T], title: str, label: str) -> _T:
    """Return a table that was written for its limits, and refuse one that has none."""
    found = _table(raw, kind, title, label)
    if isinstance(found, TimeLimits) and not found.given():
        raise _wrong(label, f"set no limit in {title}: give one of {', '.join(LIMIT_KEYS)}")
    return found


def _table(raw: object, kind: type[_T], title: str, label: str) -> _T:
    if not isinstance(raw, dict):
        raise _wrong(label, f"have a wrong {title}: it must be a table")
    _refuse_unknown(raw, kind.__struct_fields__, "key", f" in {title}", label)
    for key, value in raw.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise _wrong(label, f"have a wrong value of {key} in {title}: {value} is no limit")
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$.")
        key = f" of {place.rstrip('`')}" if place else ""
        raise _wrong(label, f"have a wrong value{key} in {title}: {shorten(what, 120)}") from None


def _refuse_unknown(
    raw: Mapping[str, Any], known: tuple[str, ...], noun: str, place: str, label: str
) -> None:
    for name in raw:
        if name not in known:
            nearest = difflib.get_close_matches(name[:100], known, n=1)
            hint = f", did you mean {nearest[0]}?" if nearest else ""
            shown = printable(shorten(name, 60))
            raise _wrong(label, f"have an unknown {noun} {shown!r}{place}{hint} (known: {', '.join(known)})")


def _wrong(label: str, complaint: str) -> InputError:
    return InputError(f"the limits {label} {complaint}; {HOW_TO_WRITE}")
