"""A verdict for each reader: terminal, build server (JUnit XML) and pull request (Markdown).

Names of ops, modules and devices are from outside. The terminal's lines are made printable where they are
printed; the other two are escaped here.
"""

from collections.abc import Iterable, Iterator, Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from normscope.compare.verdict import Check, Outcome, SideSummary, Unit, Verdict
from normscope.escape import MISSING, markdown, markdown_code, printable, shorten
from normscope.text_table import text_table

MAX_LINES = 30
MAX_MARKDOWN = 20_000  # characters of each table; a comment on GitHub holds 65,536

_LONGEST_NAME = 48
_LONGEST_MESSAGE = 300
_SIDES = ("", "input", "GPU", "steps", "norm calls", "norm time")
_CHECKS = ("", "what", "where", "limit", "value", "result", "baseline", "remark")
_NUMERIC_SIDES = (3, 4, 5)
_NUMERIC_CHECKS = (4, 5, 6)
_NAMES = frozenset({"what", "where", "input", "GPU"})
_OUTCOMES: tuple[Outcome, ...] = ("breached", "skipped", "passed")


def text_lines(verdict: Verdict) -> Iterator[str]:
    """Yield the lines that show a verdict in a terminal, breaches first."""
    yield from text_table(_SIDES, _side_rows(verdict), _NUMERIC_SIDES)
    yield ""
    shown = verdict.checks[:MAX_LINES]
    yield from text_table(_CHECKS, [_cells(check) for check in shown], _NUMERIC_CHECKS)
    if len(verdict.checks) > len(shown):
        yield f"… and {len(verdict.checks) - len(shown):,} more checks; --json writes all of them"
    yield ""
    yield from verdict.notes
    yield summary_sentence(verdict)


def summary_sentence(verdict: Verdict) -> str:
    """Return the answer in one sentence, free of names: how many checks came out how, and the times."""
    counts = ", ".join(f"{len(verdict.of(outcome)):,} {outcome}" for outcome in _OUTCOMES)
    word = "Within the limits" if verdict.outcome == "within" else "Limits breached"
    return f"{word}: {counts}.{_times(verdict)}"


def _times(verdict: Verdict) -> str:
    now, then = verdict.time_ms, verdict.baseline_time_ms
    if now is None or then is None or not then > 0:
        return ""
    percent = 100.0 * (now - then) / then
    return f" Norms take {_figure(now, 'ms')}, in the baseline {_figure(then, 'ms')} ({percent:+.1f} %)."


def check_sentence(check: Check) -> str:
    """Return what came out of a check as a clause, such as a build server shows it."""
    if check.limit is None or check.value is None:
        return f"{check.key}: {check.reason}" if check.reason else check.key
    sides = [
        f"{name} {_figure(figure, check.measured_in)}"
        for name, figure in (("result", check.result), ("baseline", check.baseline))
        if figure is not None
    ]
    said = f"{_figure(check.value, check.unit)} against {_limit(check)}"
    return "; ".join(filter(None, (said, ", ".join(sides), check.reason)))


def junit_xml(verdict: Verdict) -> bytes:
    """Return the verdict as JUnit XML: a test case for each check."""
    counts = {
        "tests": str(len(verdict.checks)),
        "failures": str(len(verdict.of("breached"))),
        "errors": "0",
        "skipped": str(len(verdict.of("skipped"))),
        "time": "0",
    }
    suites = Element("testsuites", {"name": "normscope check", **counts})
    suite = SubElement(suites, "testsuite", {"name": "normscope check", **counts})
    for check in verdict.checks:
        _add_case(suite, check)
    SubElement(suite, "system-out").text = printable(" ".join(verdict.notes))
    indent(suites)
    return bytes(tostring(suites, encoding="UTF-8", xml_declaration=True)) + b"\n"


def _add_case(suite: Element, check: Check) -> None:
    where = f" ({shorten(check.where, _LONGEST_MESSAGE)})" if check.where else ""
    name = f"{_named(check, _LONGEST_MESSAGE)}{where}: {check.key}"
    case = SubElement(
        suite,
        "testcase",
        {"classname": f"normscope.{check.table}", "name": printable(name), "time": "0"},
    )
    message = printable(shorten(check_sentence(check), _LONGEST_MESSAGE))
    if check.outcome == "breached":
        SubElement(case, "failure", {"type": check.key, "message": message}).text = message
    elif check.outcome == "skipped":
        SubElement(case, "skipped", {"message": message})


def markdown_summary(verdict: Verdict) -> str:
    """Return the verdict as Markdown that fits a comment on a pull request: the answer first, details folded.

    Names are in code, where no reader takes them for markup, a mention or a link.
    """
    breached = verdict.of("breached")
    parts = [f"### Normalization: {_headline(verdict)}", "", summary_sentence(verdict), ""]
    if breached:
        parts += [*_markdown_checks(breached), ""]
    parts += [*_markdown_table(_SIDES, _side_rows(verdict), _NUMERIC_SIDES), ""]
    parts += [f"- {note}" for note in verdict.notes]
    others = verdict.checks[len(breached) :]
    if others:
        summary = f"{len(others):,} other check{'' if len(others) == 1 else 's'}"
        parts += [
            "",
            f"<details><summary>{summary}</summary>",
            "",
            *_markdown_checks(others),
            "",
            "</details>",
        ]
    return "\n".join(parts) + "\n"


def _headline(verdict: Verdict) -> str:
    count, whole = len(verdict.of("breached")), len(verdict.checks)
    of_all = f"{whole:,} check{'' if whole == 1 else 's'}"
    return f"{count:,} of {of_all} breached" if count else f"within the limits, {of_all}"


def _markdown_checks(checks: Sequence[Check]) -> list[str]:
    lines: list[str] = []
    size = 0
    for line in _markdown_table(_CHECKS, map(_cells, checks), _NUMERIC_CHECKS):
        size += len(line) + 1
        if size > MAX_MARKDOWN:
            missing = len(checks) - (len(lines) - 2)
            return [*lines, "", f"… and {missing:,} more, which `--json` writes."]
        lines.append(line)
    return lines


def _markdown_table(
    header: tuple[str, ...], rows: Iterable[tuple[str, ...]], numeric: Sequence[int]
) -> Iterator[str]:
    yield _row(header)
    yield _row(["--:" if place in numeric else ":--" for place in range(len(header))])
    for cells in rows:
        yield _row(
            [_code(cell) if name in _NAMES else cell for name, cell in zip(header, cells, strict=True)]
        )


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _code(text: str) -> str:
    """Return text of strangers as code, in a cell."""
    if not text or text == MISSING:
        return text
    is_plain = "|" not in text and markdown_code(text) == f"`{text}`"
    return f"`{text}`" if is_plain else f"<code>{markdown(text)}</code>"


def _side_rows(verdict: Verdict) -> list[tuple[str, ...]]:
    return [_side_cells("result", verdict.result), _side_cells("baseline", verdict.baseline)]


def _side_cells(role: str, side: SideSummary) -> tuple[str, ...]:
    steps = f"{side.steps:,}" if side.steps else MISSING
    names = (shorten(side.label, _LONGEST_NAME), shorten(side.gpu or MISSING, _LONGEST_NAME))
    return role, *names, steps, f"{side.calls:,}", _figure(side.norm_time_ms, "ms")


def _cells(check: Check) -> tuple[str, ...]:
    return (
        check.outcome,
        _named(check, _LONGEST_NAME),
        shorten(check.where, _LONGEST_NAME),
        _limit(check),
        _figure(check.value, check.unit),
        _figure(check.result, check.measured_in),
        _figure(check.baseline, check.measured_in),
        check.reason,
    )


def _named(check: Check, width: int) -> str:
    what, before = shorten(check.what, width), shorten(check.baseline_what, width)
    return f"{what} (baseline: {before})" if before else what


def _limit(check: Check) -> str:
    return check.key if check.limit is None else f"{check.key} {check.limit:g}"


def _figure(value: float | None, unit: Unit | None) -> str:
    if value is None or unit is None:
        return MISSING
    return f"{value:,.2f} {unit}" if abs(value) >= 10 else f"{value:.4g} {unit}"
