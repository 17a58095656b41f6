"""Repairs a findings file in place, as far as that needs no judgement."""

from pathlib import Path

import msgspec

from normscope.files import write_atomically
from normscope.validation.facts import Facts
from normscope.validation.repair import apply_repairs, repairs
from normscope.validation.validate import check_options, errors_of, facts_for, find_problems, read_findings

MOST_ROUNDS = 2


class FixResult(msgspec.Struct, frozen=True):
    """What was repaired, and what is still wrong; one sentence each."""

    changed: tuple[str, ...]
    passed: bool
    errors: tuple[str, ...]


def fix_findings_file(
    path: Path | str,
    tier: str = "compute",
    comparison_scope: str = "standalone",
    metrics_path: Path | str | None = None,
) -> FixResult:
    """Repair a findings file and validate it again, at most twice.

    Repaired are the table cells that must be verbatim, lost or broken markers, their numbers, and the impact
    scores beside them. Every other line keeps its bytes. The file is replaced in one step, and only when
    something changed.

    Parameters
    ----------
    path, tier, comparison_scope, metrics_path
        As in :func:`normscope.validation.validate.validate_findings_file`.

    Returns
    -------
    FixResult
        ``changed`` names the lines as they are numbered when the repair is made; ``errors`` is what the
        validator says of the file afterwards.

    Raises
    ------
    InputError
        The findings file or the metrics file can't be read.
    UsageError
        No such tier or scope.
    ExportError
        The repaired file can't be written.
    """
    check_options(tier, comparison_scope)
    findings_path = Path(path)
    data = read_findings(findings_path)
    facts = facts_for(findings_path, metrics_path)
    repaired, changed = _repaired(data, facts, tier, comparison_scope)
    if repaired != data:
        write_atomically(findings_path, repaired)
    errors = errors_of(repaired, facts, tier, comparison_scope)
    return FixResult(changed=changed, passed=not errors, errors=tuple(errors))


def _repaired(data: bytes, facts: Facts | None, tier: str, scope: str) -> tuple[bytes, tuple[str, ...]]:
    """Return the repaired file and the sentences about it."""
    changed: list[str] = []
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return data, ()
    for _ in range(MOST_ROUNDS):
        if facts is None or not find_problems(text, facts, tier, scope):
            break
        found = repairs(text, facts, tier, scope)
        changed += [f"line {repair.line}: {repair.sentence}." for repair in found]
        text = apply_repairs(text, found)
    return text.encode("utf-8"), tuple(changed)
