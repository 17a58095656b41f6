"""Rules on impact markers: their form, their place, and the numbers in and beside them."""

import re
from collections.abc import Iterable, Iterator

from normscope.validation.facts import Facts, FindingFacts, Number, number_text
from normscope.validation.parse import Candidate, Document, Item, Marker, Span, has_comment_amid_text, within
from normscope.validation.problem import Problem, quoted

P_ITEM = "p_item"
DETAIL_ESTIMATE = "detail_estimate"
TOP_OPS = "top_ops"  # no marker of a finding: it may stand anywhere, and its attributes are free
MARKER_END = "<!-- impact-end -->"
# Per kind: which key of the finding stands in which attribute, and after which words in the text.
ATTRIBUTES = {
    P_ITEM: {"low": "impact_score_low", "mid": "impact_score", "high": "impact_score_high"},
    DETAIL_ESTIMATE: {"low": "impact_score_low", "high": "impact_score_high"},
}
VISIBLE = {
    P_ITEM: {"impact_score": "impact_score"},
    DETAIL_ESTIMATE: {
        "Low end impact_score": "impact_score_low",
        "High end impact_score": "impact_score_high",
    },
}
VISIBLE_NUMBER = re.compile(r"((?:Low end |High end )?impact_score)\*{0,2}\s*:[*\s]*(\S+)")

_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,3})?")
_NOT_QUANTIFIABLE = re.compile(r"not quantifiable from trace data", re.IGNORECASE)
_CLOSE_IT = f"add the line `{MARKER_END}` after the impact lines"


def marker_problems(doc: Document, facts: Facts | None) -> Iterator[Problem]:
    """Check every marker of the file."""
    for item in doc.items:
        yield from block_problems(doc, item, facts)
    for candidate in doc.candidates:
        if within(doc.markers, candidate) or not says_not_quantifiable(doc, candidate):
            yield from block_problems(doc, candidate, facts)
    blocks = (*doc.items, *doc.candidates)
    for marker in doc.markers:
        is_free = marker.attributes.get("kind") == TOP_OPS
        if is_free and not marker.is_paired:
            yield Problem(marker.line, "the impact marker has no end", _CLOSE_IT)
        elif not is_free and not _is_inside(marker.line, blocks):
            yield Problem(
                marker.line, "the impact marker belongs to no finding", "move it to one or delete it"
            )
    for each in doc.lines:
        if has_comment_amid_text(each.text):
            yield Problem(
                each.number, "a marker comment stands amid other text", "put it on a line of its own"
            )
    for line in doc.stray_ends:
        message = "the end marker has no `impact-begin` before it"
        yield Problem(line, message, "add the begin marker, or delete this line")


def block_problems(doc: Document, block: Item | Candidate, facts: Facts | None) -> Iterator[Problem]:
    """Check that one finding has one marker of its kind, well formed, with the right numbers."""
    kind = kind_of(block)
    finding = facts.finding(block.rank) if facts else None
    markers = own_markers(doc, block)
    if len(markers) != 1:
        count = f"has {len(markers)} {kind} markers" if markers else f"has no {kind} marker"
        message = f"the finding of rank {block.rank} {count}; it needs one"
        yield Problem(block.line, message, f"write `{begin_marker(kind, finding)}` before its impact lines")
    for marker in markers:
        yield from _form_problems(marker, kind)
        yield from _attribute_problems(marker, kind, finding)
        if marker.is_paired:
            yield from _visible_problems(doc, marker, kind, finding)


def kind_of(block: Item | Candidate) -> str:
    """Return the kind of marker that a P-item or a candidate has."""
    return P_ITEM if isinstance(block, Item) else DETAIL_ESTIMATE


def own_markers(doc: Document, block: Span) -> tuple[Marker, ...]:
    """Return the markers of a finding, of whatever kind they claim to be, but not the free ones."""
    return tuple(m for m in within(doc.markers, block) if m.attributes.get("kind") != TOP_OPS)


def begin_marker(kind: str, finding: FindingFacts | None) -> str:
    """Return the begin marker of a finding, or its form where the numbers are not known."""
    numbers = " ".join(
        f"{name}={number_text(getattr(finding, key)) if finding else '…'}"
        for name, key in ATTRIBUTES[kind].items()
    )
    return f"<!-- impact-begin kind={kind} {numbers} -->"


def says_not_quantifiable(doc: Document, block: Span) -> bool:
    """Tell whether a detailed finding says that its impact can't be quantified."""
    return any(_NOT_QUANTIFIABLE.search(line.text) for line in doc.lines[block.line - 1 : block.end])


def is_same_number(text: str, value: Number) -> bool:
    """Tell whether a text of the file is a number of the metrics file."""
    return text == number_text(value) or (
        value is not None and _NUMBER.fullmatch(text) is not None and float(text) == value
    )


def _form_problems(marker: Marker, kind: str) -> Iterator[Problem]:
    claimed = marker.attributes.get("kind")
    if claimed is None:
        yield Problem(marker.line, "the impact marker has no kind", f"write kind={kind}")
    elif claimed not in ATTRIBUTES:
        yield Problem(
            marker.line, f"the impact marker has the unknown kind {quoted(claimed)}", f"write kind={kind}"
        )
    elif claimed != kind:
        message = f"a marker of kind {claimed} has no place here"
        yield Problem(marker.line, message, f"write kind={kind}")
    if not marker.is_paired:
        yield Problem(marker.line, "the impact marker has no end", _CLOSE_IT)
    if not marker.is_tidy:
        message = "a comment of the impact marker isn't closed, or isn't alone on its line"
        yield Problem(
            marker.line, message, "put each of the two comments on a line of its own and end it with `-->`"
        )


def _attribute_problems(marker: Marker, kind: str, finding: FindingFacts | None) -> Iterator[Problem]:
    given = {name: marker.attributes.get(name) for name in ATTRIBUTES[kind]}
    nulls = [name for name, text in given.items() if text == "null"]
    if nulls and len(nulls) < len(given):
        message = f"the impact marker mixes null ({', '.join(nulls)}) with numbers"
        yield Problem(marker.line, message, f"write `{begin_marker(kind, finding)}`")
        return
    for name, text in given.items():
        value = getattr(finding, ATTRIBUTES[kind][name]) if finding else None
        wanted = number_text(value) if finding else "a number"
        if text is None:
            yield Problem(marker.line, f"the impact marker has no {name}", f"add {name}={wanted}")
        elif finding and not is_same_number(text, value):
            message = f"the impact marker has {name}={quoted(text)}, the metrics file {wanted}"
            yield Problem(marker.line, message, f"write {name}={wanted}")
        elif not finding and text != "null" and not _NUMBER.fullmatch(text):
            yield Problem(marker.line, f"{name}={quoted(text)} is no number", f"write {name}={wanted}")


def _visible_problems(
    doc: Document, marker: Marker, kind: str, finding: FindingFacts | None
) -> Iterator[Problem]:
    found = [
        (line.number, match[1], match[2])
        for line in doc.lines[marker.line : marker.end - 1]
        for match in VISIBLE_NUMBER.finditer(line.text)
    ]
    for words, key in VISIBLE[kind].items():
        places = [(line, text) for line, name, text in found if name == words]
        wanted = number_text(getattr(finding, key)) if finding else "…"
        if len(places) != 1:
            message = f"the impact marker encloses {len(places) or 'no'} `{words}:` instead of one"
            yield Problem(marker.line, message, f"write `{words}: {wanted}` in it")
        for line, text in places:
            if finding and not is_same_number(text, getattr(finding, key)):
                message = f"`{words}` is {quoted(text)}, in the metrics file it is {wanted}"
                yield Problem(line, message, f"write {wanted}")


def _is_inside(line: int, blocks: Iterable[Span]) -> bool:
    return any(block.line <= line <= block.end for block in blocks)
