"""Rules on sections, ranks and labels of a findings file, and on what must not be in it."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from normscope import escape
from normscope.validation.facts import Facts
from normscope.validation.parse import Candidate, Document, Item, Label, within, without_comments
from normscope.validation.placeholders import is_gap, placeholders
from normscope.validation.problem import Problem, quoted

RECOMMENDATIONS = "Recommendations"
DETAILED_ANALYSIS = "Detailed Analysis"
SECTIONS = (RECOMMENDATIONS, DETAILED_ANALYSIS)
ITEM_LABELS = ("Insight", "Action", "Impact")
DETAIL_LABELS = ("Identification", "Data", "Reasoning for Slowdown", "Resolution", "Impact estimate")

_NO_OPERATIONS = re.compile(r"\bno normali[sz]ation operations?\b.{0,20}\bfound\b", re.IGNORECASE)
_STATUS_ERROR = re.compile(r"[>#*_\s-]*Status[*_\s]*:[*_\s]*ERROR\b.*")


def section_problems(doc: Document) -> Iterator[Problem]:
    """Check that the two sections are there once each, in order, and last in the file."""
    titles = [section.title for section in doc.sections]
    for title in SECTIONS:
        if title not in titles:
            message = f"the section `## {title}` is missing"
            yield Problem(max(len(doc.lines), 1), message, f"add the line `## {title}`")
        elif titles.count(title) > 1:
            second = [section.line for section in doc.sections if section.title == title][1]
            yield Problem(second, f"`## {title}` is there a second time", "keep one of the two")
    if not {*SECTIONS} <= {*titles}:
        return
    first = min(map(titles.index, SECTIONS))
    if titles[first] != RECOMMENDATIONS:
        message = f"`## {DETAILED_ANALYSIS}` stands before `## {RECOMMENDATIONS}`"
        yield Problem(doc.sections[first].line, message, "swap the two sections")
    for section in doc.sections[first:]:
        if section.title not in SECTIONS:
            message = f"the section {quoted(section.title)} stands after `## {titles[first]}`"
            yield Problem(section.line, message, "move it up: the two sections of the contract come last")


def finding_problems(doc: Document, facts: Facts | None, tier: str) -> Iterator[Problem]:
    """Check that every finding of the metrics file has one P-item and one candidate, by rank and in place."""
    expected = [finding.rank for finding in facts.category_findings] if facts else None
    for spans, title, what, form in (
        (doc.items, RECOMMENDATIONS, "P-item", "`### P{}: <title>`"),
        (
            doc.candidates,
            DETAILED_ANALYSIS,
            "candidate",
            f"`<!-- reasoning-candidate tier={tier} rank={{}} -->`",
        ),
    ):
        start = next((section.line for section in doc.sections if section.title == title), 1)
        yield from _rank_problems(spans, expected, start, what, form)
        yield from _place_problems(doc, spans, title, what)
    if len(doc.items) != len(doc.candidates):
        message = f"there are {len(doc.items)} P-items and {len(doc.candidates)} candidates"
        yield Problem(1, message, "give each finding one of each")
    for candidate in doc.candidates:
        if candidate.tier != tier:
            message = f"the candidate has tier {quoted(candidate.tier or '')} instead of {tier}"
            yield Problem(candidate.line, message, f"write tier={tier}")
        if not candidate.is_tidy:
            message = "the candidate comment isn't closed, or isn't alone on its line"
            yield Problem(candidate.line, message, "put it on a line of its own and end it with `-->`")


def label_problems(doc: Document) -> Iterator[Problem]:
    """Check that every finding has its labels once each, filled, and those of the details in order."""
    for item in doc.items:
        yield from _label_problems(within(doc.labels, item), ITEM_LABELS, item)
    for candidate in doc.candidates:
        labels = within(doc.labels, candidate)
        yield from _label_problems(labels, DETAIL_LABELS, candidate)
        places = [DETAIL_LABELS.index(label.name) for label in labels if label.name in DETAIL_LABELS]
        if places != sorted(places):
            line = next(label.line for label in labels if label.name in DETAIL_LABELS)
            order = ", ".join(DETAIL_LABELS)
            yield Problem(line, "the labels of this finding are out of order", f"the order is: {order}")


def placeholder_problems(doc: Document, facts: Facts | None) -> Iterator[Problem]:
    """Check that no placeholder is left in the prose; a part of a name of the metrics file is none."""
    names = facts.lookalikes if facts else frozenset()
    in_tables = {line for table in doc.tables for line in range(table.line, table.end + 1)}
    for line in doc.lines:
        if line.number in in_tables:
            continue
        for found in placeholders(escape.from_markdown(without_comments(line.text))):
            if found not in names:
                yield Problem(line.number, f"the placeholder {quoted(found)} was left unfilled", "fill it in")


def failure_problems(doc: Document, facts: Facts) -> Iterator[Problem]:
    """Check that a file on missing data or a failed analysis says so and holds no finding."""
    says_missing = any(_NO_OPERATIONS.search(line.text) for line in doc.lines)
    says_failed = any(_STATUS_ERROR.fullmatch(line.text) for line in doc.lines)
    # The reference doesn't tell the two apart in its metrics file; either sentence will do then.
    if facts.reason == "missing" and not says_missing:
        yield _no_operations_problem()
    elif facts.reason != "missing" and not (says_failed or (facts.reason is None and says_missing)):
        yield Problem(1, "the analysis failed, and the file doesn't say so", "add the line `Status: ERROR`")
    for span in (*doc.items, *doc.candidates, *doc.markers, *doc.tables):
        message = "the file holds a finding, but the metrics file says that nothing was analyzed"
        yield Problem(span.line, message, "delete the finding")


def status_problems(doc: Document, facts: Facts) -> Iterator[Problem]:
    """Check that a successful analysis isn't called failed, and one of nothing says that it found nothing."""
    for line in doc.lines:
        if _STATUS_ERROR.fullmatch(line.text):
            yield Problem(line.number, "the file says ERROR, but the analysis succeeded", "delete this line")
    if not facts.operations and not any(_NO_OPERATIONS.search(line.text) for line in doc.lines):
        yield _no_operations_problem()


def _no_operations_problem() -> Problem:
    message = "there are no normalization operations, and the file doesn't say so"
    return Problem(1, message, "add the line `No normalization operations found in trace.`")


def _rank_problems(
    spans: Sequence[Item] | Sequence[Candidate], expected: list[int] | None, start: int, what: str, form: str
) -> Iterator[Problem]:
    """Compare the ranks with those of the metrics file, or with 1, 2, 3… where there is none."""
    wanted = list(range(1, len(spans) + 1)) if expected is None else expected
    counts = Counter(span.rank for span in spans)
    for rank in wanted:
        if not counts[rank]:
            yield Problem(start, f"the finding of rank {rank} has no {what}", f"add {form.format(rank)}")
    seen = set()
    for span in spans:
        if span.rank not in wanted:
            message = f"the {what} of rank {span.rank} belongs to no finding of the metrics file"
            yield Problem(span.line, message, f"delete it or correct its number; the ranks are {wanted}")
        elif span.rank in seen:
            yield Problem(span.line, f"the {what} of rank {span.rank} is there again", "keep one of the two")
        seen.add(span.rank)
    ranks = [span.rank for span in spans]
    if sorted(ranks, key=str) == sorted(wanted, key=str) and ranks != wanted:
        yield Problem(
            spans[0].line, f"the {what}s stand in the order {ranks}", f"order them by rank: {wanted}"
        )


def _place_problems(
    doc: Document, spans: Sequence[Item] | Sequence[Candidate], title: str, what: str
) -> Iterator[Problem]:
    sections = [section for section in doc.sections if section.title == title]
    for span in spans:
        if sections and not any(section.line < span.line <= section.end for section in sections):
            message = f"the {what} of rank {span.rank} stands outside of `## {title}`"
            yield Problem(span.line, message, "move it into that section")


def _label_problems(
    labels: Sequence[Label], names: Sequence[str], finding: Item | Candidate
) -> Iterator[Problem]:
    counts = Counter(label.name for label in labels)
    for name in names:
        if not counts[name]:
            message = f"the label **{name}** is missing from the finding of rank {finding.rank}"
            yield Problem(finding.line, message, f"add a line `**{name}:** …`")
    for label in labels:
        if label.name in names and counts[label.name] > 1:
            yield Problem(
                label.line, f"the label **{label.name}** is there more than once", "keep one of them"
            )
        if label.name in names and is_gap(label.text) and not label.has_more:
            yield Problem(label.line, f"there is no text after **{label.name}**", "write it")
