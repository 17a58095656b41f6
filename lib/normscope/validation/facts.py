"""What a findings file must repeat: the ranks, numbers and names of its metrics file.

The metrics file may be normscope's or the reference's own, which lacks our keys and can hold ``NaN``; so only
the keys that a findings file repeats are read here.
"""

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from normscope import escape
from normscope.errors import InputError
from normscope.validation.placeholders import placeholders

METRICS_SUFFIX = "_metrics.json"
FINDINGS_SUFFIX = "_findings.md"

_SHORTENED_LENGTH = 75  # a shorter beginning of a name might be that of several

Number = int | float | None
Text = str | float | None  # a float is the NaN that the reference writes for a missing cell


class OperationFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The names of one operation."""

    name: Text = None
    args: Text = None
    launcher_path: Text = None
    kernel_name_trunc: Text = None
    time_ms: Number = None
    count: Number = None


class FindingFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The rank and the impact of one finding, in percent of end-to-end time."""

    rank: int
    impact_score: Number
    impact_score_low: Number
    impact_score_high: Number


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """One metrics file. ``lookalikes`` are the parts of its names that look like unfilled placeholders."""

    status: Literal["OK", "ERROR"]
    comparison_scope: Literal["standalone", "comparative"] | None = None
    reason: Literal["missing", "failed"] | None = None
    operations: tuple[OperationFacts, ...] = ()
    category_findings: tuple[FindingFacts, ...] = ()
    lookalikes: frozenset[str] = frozenset()

    def finding(self, rank: int | None) -> FindingFacts | None:
        """Return the finding of that rank, or None."""
        return next((finding for finding in self.category_findings if finding.rank == rank), None)


def find_metrics(findings_path: Path) -> Path | None:
    """Return the metrics file that belongs to a findings file, or None.

    It lies in a folder ``category_data``, next to the findings file's folder as in a run directory, else next
    to the findings file. For ``<category>_findings.md`` it is ``<category>_metrics.json``; for a file of
    another name it is the folder's only metrics file.
    """
    home = findings_path.absolute().parent
    for folder in (home.parent / "category_data", home / "category_data"):
        if findings_path.name.endswith(FINDINGS_SUFFIX):
            named = folder / (findings_path.name.removesuffix(FINDINGS_SUFFIX) + METRICS_SUFFIX)
            found = [named] if named.is_file() else []
        else:
            found = [p for p in folder.glob("*" + METRICS_SUFFIX) if p.name != "kernel_fusion_metrics.json"]
        if len(found) == 1:
            return found[0]
    return None


def load_facts(path: Path) -> Facts:
    """Read a metrics file.

    Raises
    ------
    InputError
        It can't be read, or isn't a metrics file.
    """
    try:
        raw = json.loads(path.read_bytes().decode("utf-8"))
        facts = msgspec.convert(raw, Facts)
        seen = frozenset(found for text in _strings(raw) for found in placeholders(text))
    except OSError as error:
        message = (
            f"{path}: the metrics file can't be read ({error.strerror}); run `normscope analyze` to write it"
        )
        raise InputError(message) from None
    except (ValueError, OverflowError, RecursionError) as error:
        reason = escape.shorten(escape.printable(str(error)), 200)
        message = f"{path}: this is not a metrics file ({reason}); run `normscope analyze` to write it again"
        raise InputError(message) from None
    return msgspec.structs.replace(facts, lookalikes=seen)


def number_text(value: Number) -> str:
    """Return a number as the metrics file writes it."""
    return json.dumps(value)


def is_missing(value: Text) -> bool:
    """Tell whether the metrics file has no text here."""
    return not isinstance(value, str) or not value


def cell_text(value: Text) -> str:
    """Return the table cell of a name of the metrics file, safe for Markdown."""
    return escape.MISSING if is_missing(value) else escape.markdown(str(value))


def is_verbatim(cell: str, value: Text) -> bool:
    """Tell whether a table cell shows ``value`` as the metrics file has it.

    A dash always does: it leaves the name out and claims nothing. So does ``nan`` where the file has ``NaN``.
    """
    if cell == escape.MISSING:
        return True
    if isinstance(value, float) and math.isnan(value):
        return cell == "nan"
    return not is_missing(value) and _is_read_as(readings(cell), value)


def operations_named(cell: str, operations: Sequence[OperationFacts]) -> tuple[OperationFacts, ...]:
    """Return the operations whose name a table cell shows, whole or, when it is long, its beginning."""
    wanted = readings(cell)
    return tuple(op for op in operations if _is_named(wanted, op.name))


def readings(cell: str) -> tuple[str, ...]:
    """Return the names that a table cell may mean: escaped by normscope, written as they are, or as code."""
    plain = cell.replace("\\|", "|")
    return escape.from_markdown(plain), plain, plain.removeprefix("`").removesuffix("`")


def _is_named(wanted: tuple[str, ...], name: Text) -> bool:
    if not isinstance(name, str) or not name:
        return escape.MISSING in wanted
    return _is_read_as(wanted, name) or any(
        len(shown) >= _SHORTENED_LENGTH and escape.shorten(name, len(shown)) == shown for shown in wanted
    )


def _is_read_as(wanted: tuple[str, ...], value: Text) -> bool:
    return isinstance(value, str) and (value in wanted or value.strip(" \t") in wanted)


def _strings(value: object) -> Iterator[str]:
    pending = [value]
    while pending:
        match pending.pop():
            case str() as text:
                yield text
            case list() as values:
                pending.extend(values)
            case dict() as values:
                pending.extend(values.values())
