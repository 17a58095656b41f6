"""Repairs of a findings file that need no judgement: table cells, markers, and the numbers beside them.

A repair only ever touches table rows, comments of ours and lines that hold nothing but an impact score, and
writes only what the metrics file says. Where that leaves a choice, such as two operations that fit a row
equally well, it does nothing.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from normscope.validation.check_markers import (
    DETAIL_ESTIMATE,
    MARKER_END,
    P_ITEM,
    VISIBLE,
    VISIBLE_NUMBER,
    begin_marker,
    block_problems,
    is_same_number,
    kind_of,
    own_markers,
)
from normscope.validation.check_structure import DETAILED_ANALYSIS
from normscope.validation.check_tables import (
    VERBATIM_KEYS,
    cells_of,
    data_tables,
    has_columns,
    named_operations,
    wrong_columns,
)
from normscope.validation.facts import Facts, FindingFacts, OperationFacts, cell_text, number_text
from normscope.validation.parse import (
    Candidate,
    Document,
    Item,
    Line,
    Row,
    Section,
    Span,
    Table,
    has_comment_amid_text,
    is_only_comment,
    parse,
    split_lines,
    split_row,
)

Lines = dict[int, tuple[str, ...]]

_IMPACT_LINE = {
    P_ITEM: re.compile(r"\s*\*\*Impact(?:\*\*\s*:|:\s*\*\*)\s*impact_score\s*:\s*\S+\s*"),
    DETAIL_ESTIMATE: re.compile(r"\s*[-*+]\s+(?:Low|High) end impact_score\s*:\s*\S+\s*"),
}


class Repair(msgspec.Struct, frozen=True, kw_only=True):
    """What is done, as a sentence, and by which texts each line is replaced; by none, it is deleted."""

    line: int
    sentence: str
    lines: Lines


def repairs(text: str, facts: Facts, tier: str, scope: str) -> tuple[Repair, ...]:
    """Return the repairs that a findings file needs and that are sure, in the order of lines.

    Candidate comments come first and alone: what else is wrong shows only once they are there.
    """
    doc = parse(text)
    found = _changing(text, _candidate_repairs(doc, facts, tier))
    return found or _changing(text, _finding_repairs(doc, facts, scope))


def apply_repairs(text: str, found: Iterable[Repair]) -> str:
    """Return the text after the repairs; a new line ends as the line does that it stands at."""
    changed = {line: texts for repair in found for line, texts in repair.lines.items()}
    lines = split_lines(text)
    usual = lines[0].newline or "\n" if lines else ""
    return "".join(
        _with_newlines(changed[line.number], line, usual)
        if line.number in changed
        else line.text + line.newline
        for line in lines
    )


def _changing(text: str, found: Iterable[Repair]) -> tuple[Repair, ...]:
    changing = (repair for repair in found if apply_repairs(text, [repair]) != text)
    return tuple(sorted(changing, key=lambda repair: repair.line))


def _with_newlines(texts: Sequence[str], line: Line, usual: str) -> str:
    return (line.newline or usual).join(texts) + line.newline if texts else ""


def _candidate_repairs(doc: Document, facts: Facts, tier: str) -> Iterator[Repair]:
    """Put the right comment above each detailed finding, where the headings show which is which."""
    ranks = [finding.rank for finding in facts.category_findings]
    headings = [line for section in _details(doc) for line in doc.detail_headings if _holds(section, line)]
    if not ranks or len(headings) != len(ranks):
        return
    slots = list(zip(ranks, headings, [_details(doc)[0].line, *headings[:-1]], strict=True))
    owners = {rank: [c for c in doc.candidates if above < c.line < heading] for rank, heading, above in slots}
    if any(c.rank in ranks and c not in owners[c.rank] for c in doc.candidates):
        return  # a comment stands with another heading than its rank says: nobody knows which is right
    for rank, heading, _ in slots:
        comment = f"<!-- reasoning-candidate tier={tier} rank={rank} -->"
        lines: Lines = {candidate.line: () for candidate in owners[rank]}
        lines[heading] = (comment, doc.lines[heading - 1].text)
        is_right = [(c.tier, c.rank, c.is_tidy) for c in owners[rank]] == [(tier, rank, True)]
        if not is_right and _are_only_comments(doc, {*lines} - {heading}):
            yield Repair(line=heading, sentence=f"wrote `{comment}` above the heading", lines=lines)


def _finding_repairs(doc: Document, facts: Facts, scope: str) -> Iterator[Repair]:
    for item in doc.items:
        yield from _marker_repairs(doc, item, facts)
    for candidate in doc.candidates:
        yield from _marker_repairs(doc, candidate, facts)
        yield from _cell_repairs(doc, candidate, facts, scope)


def _marker_repairs(doc: Document, block: Item | Candidate, facts: Facts) -> Iterator[Repair]:
    """Write the marker of a finding anew around its impact lines, with the right numbers."""
    kind, finding = kind_of(block), facts.finding(block.rank)
    stray_ends = {line for line in doc.stray_ends if _holds(block, line)}
    comments = stray_ends | {line for m in own_markers(doc, block) for line in (m.line, m.end)}
    own_lines = doc.lines[block.line - 1 : block.end]
    impact = [line for line in own_lines if _IMPACT_LINE[kind].fullmatch(line.text)]
    is_wrong = stray_ends or any(block_problems(doc, block, facts))
    if any(has_comment_amid_text(line.text) for line in own_lines):
        return  # it may be half of the marker, and what stands around it is prose
    if not (finding and impact and is_wrong and _are_only_comments(doc, comments)):
        return
    first, last = impact[0].number, impact[-1].number
    lines: Lines = dict.fromkeys(comments, ())
    lines |= {line.number: (_with_numbers(line.text, kind, finding),) for line in impact}
    lines[first] = (begin_marker(kind, finding), *lines[first])
    lines[last] = (*lines[last], MARKER_END)
    sentence = f"wrote `{begin_marker(kind, finding)}` and its numbers around the impact lines"
    yield Repair(line=first, sentence=sentence, lines=lines)


def _details(doc: Document) -> list[Section]:
    return [section for section in doc.sections if section.title == DETAILED_ANALYSIS]


def _holds(span: Span, line: int) -> bool:
    return span.line <= line <= span.end


def _are_only_comments(doc: Document, numbers: Iterable[int]) -> bool:
    return all(is_only_comment(doc.lines[number - 1].text) for number in numbers)


def _with_numbers(text: str, kind: str, finding: FindingFacts) -> str:
    """Return an impact line with the numbers of the metrics file; a right number stays as it is written."""

    def right(match: re.Match[str]) -> str:
        key = VISIBLE[kind].get(match[1])
        if key is None or is_same_number(match[2], getattr(finding, key)):
            return match[0]
        return match[0].removesuffix(match[2]) + number_text(getattr(finding, key))

    return VISIBLE_NUMBER.sub(right, text)


def _cell_repairs(doc: Document, candidate: Candidate, facts: Facts, scope: str) -> Iterator[Repair]:
    for table in data_tables(doc, candidate):
        if not has_columns(table, scope):
            continue
        rows = [(row, cells) for row in table.rows if (cells := cells_of(table, row, scope))]
        shown = [
            op for _, cells in rows for op in named_operations(cells, facts) if not wrong_columns(cells, op)
        ]
        for row, cells in rows:
            operations = named_operations(cells, facts)
            if any(not wrong_columns(cells, op) for op in operations):
                continue
            free = [op for op in operations if not any(op is other for other in shown)]
            operation = _surest(cells, free or operations)
            if operation:
                yield _cell_repair(doc, table, row, operation, wrong_columns(cells, operation))


def _surest(cells: dict[str, str], operations: Sequence[OperationFacts]) -> OperationFacts | None:
    """Return the operation that a row shows, or None where it is not sure which one."""
    most = max((_agreement(cells, op) for op in operations), default=0)
    best = [op for op in operations if _agreement(cells, op) == most]
    names = {tuple(cell_text(getattr(op, key)) for key in VERBATIM_KEYS.values()) for op in best}
    return best[0] if len(names) == 1 else None


def _agreement(cells: dict[str, str], operation: OperationFacts) -> int:
    numbers = (
        (cells.get("Time (ms)", cells.get("Trace 1 Time (ms)", "")), operation.time_ms),
        (cells.get("Count", cells.get("Count (T1/T2)", "")).split("/")[0].strip(), operation.count),
    )
    return sum(is_same_number(text, value) for text, value in numbers) - len(wrong_columns(cells, operation))


def _cell_repair(
    doc: Document, table: Table, row: Row, operation: OperationFacts, columns: Sequence[str]
) -> Repair:
    parts = split_row(doc.lines[row.line - 1].text)
    for column in columns:
        parts[table.columns.index(column) + 1] = f" {cell_text(getattr(operation, VERBATIM_KEYS[column]))} "
    sentence = f"copied {', '.join(columns)} from the metrics file"
    return Repair(line=row.line, sentence=sentence, lines={row.line: ("|".join(parts),)})
