"""Whether a findings file keeps its contract, and agrees with its metrics file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args

from normscope import escape
from normscope.errors import InputError, UsageError
from normscope.validation.check_markers import marker_problems
from normscope.validation.check_structure import (
    failure_problems,
    finding_problems,
    label_problems,
    placeholder_problems,
    section_problems,
    status_problems,
)
from normscope.validation.check_tables import table_problems
from normscope.validation.facts import Facts, find_metrics, load_facts
from normscope.validation.parse import Document, parse
from normscope.validation.problem import Problem

Tier = Literal["compute", "system", "fusion"]
ComparisonScope = Literal["standalone", "comparative"]


def validate_findings_file(
    path: Path | str,
    tier: str = "compute",
    comparison_scope: str = "standalone",
    metrics_path: Path | str | None = None,
) -> tuple[bool, list[str]]:
    """Check a findings file against the contract and against its metrics file.

    Parameters
    ----------
    path
        The findings file, as in ``<run>/category_findings/<category>_findings.md``.
    tier
        The tier its candidates must have: ``compute``, ``system`` or ``fusion``.
    comparison_scope
        ``standalone`` or ``comparative``; says which columns the tables must have.
    metrics_path
        The metrics file. Without it, ``<run>/category_data/<category>_metrics.json``, or, for a file that is
        not in a run directory, the one in a folder ``category_data`` beside it.

    Returns
    -------
    passed : bool
    errors : list of str
        One sentence each, in the order of lines: ``line N: what is wrong; what to do``. Without a metrics
        file the first one says so: the rest of the file is checked, but it doesn't pass.

    Raises
    ------
    InputError
        The findings file or the metrics file can't be read.
    UsageError
        No such tier or scope.
    """
    check_options(tier, comparison_scope)
    findings_path = Path(path)
    data = read_findings(findings_path)
    facts = facts_for(findings_path, metrics_path)
    errors = errors_of(data, facts, tier, comparison_scope)
    return not errors, errors


def errors_of(data: bytes, facts: Facts | None, tier: str, scope: str) -> list[str]:
    """Return the errors of a findings file, given as bytes, as sentences."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = f"byte offset {error.start} holds 0x{data[error.start]:02x}, which is not UTF-8"
        return [str(Problem(line, byte, "save the file as UTF-8"))]
    return [str(problem) for problem in find_problems(text, facts, tier, scope)]


def find_problems(text: str, facts: Facts | None, tier: str, scope: str) -> list[Problem]:
    """Return what is wrong in the text of a findings file, in the order of lines.

    Parameters
    ----------
    text
        The findings file.
    facts
        What its metrics file says, or None where there is none.
    tier, scope
        As in :func:`validate_findings_file`.
    """
    return sorted(set(_problems(parse(text), facts, tier, scope)))


def _problems(doc: Document, facts: Facts | None, tier: str, scope: str) -> Iterator[Problem]:
    yield from placeholder_problems(doc, facts)
    if facts and facts.status == "ERROR":
        yield from failure_problems(doc, facts)
        return
    yield from section_problems(doc)
    if facts is None:
        message = "there is no metrics file, so numbers and names could not be checked"
        yield Problem(1, message, "run `normscope analyze`, or say where the metrics file is")
    else:
        yield from status_problems(doc, facts)
        yield from _scope_problems(facts, scope)
    if facts is None or facts.category_findings:
        yield from finding_problems(doc, facts, tier)
        yield from label_problems(doc)
        yield from table_problems(doc, facts, scope)
        yield from marker_problems(doc, facts)


def _scope_problems(facts: Facts, scope: str) -> Iterator[Problem]:
    if facts.comparison_scope not in (None, scope):
        message = f"the metrics file is {facts.comparison_scope}, but the file is checked as {scope}"
        yield Problem(1, message, f"check it with the scope {facts.comparison_scope}")


def check_options(tier: str, scope: str) -> None:
    """Make sure that tier and scope are known.

    Raises
    ------
    UsageError
        One of them isn't.
    """
    for what, given, known in (
        ("tier", tier, get_args(Tier)),
        ("comparison scope", scope, get_args(ComparisonScope)),
    ):
        if given not in known:
            message = f"there is no {what} {escape.printable(str(given))!r}; use one of {', '.join(known)}"
            raise UsageError(message)


def read_findings(path: Path) -> bytes:
    """Read a findings file.

    Raises
    ------
    InputError
        It can't be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        message = f"{path}: there is no such findings file; run `normscope findings` to write it"
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        message = f"{path}: the findings file can't be read ({reason}); give the path of a readable file"
    raise InputError(escape.printable(message))


def facts_for(findings_path: Path, metrics_path: Path | str | None) -> Facts | None:
    """Read the metrics file of a findings file; None where none was named and none is found.

    Raises
    ------
    InputError
        The metrics file can't be read or isn't one.
    """
    path = Path(metrics_path) if metrics_path is not None else find_metrics(findings_path)
    return load_facts(path) if path else None
