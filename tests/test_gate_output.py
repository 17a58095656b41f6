"""A verdict as table, JSON, JUnit XML and Markdown: all that matters is in each, and no name breaks out."""

import json
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from gate_inputs import REAL, compared, group, judged, side
from normscope.compare.gate_output import (
    MAX_LINES,
    check_sentence,
    junit_xml,
    markdown_summary,
    summary_sentence,
    text_lines,
)
from normscope.compare.verdict import Verdict, encode_verdict
from normscope.escape import printable
from report_inputs import HOSTILE_NAMES
from test_schemas import strict_json, validator

MENTION = "@everyone see #1, www.evil.example and https://evil.example"
NAMES = (*HOSTILE_NAMES, MENTION, "`@octocat|`", "\ud800 lone surrogate", "\ufffe", "]]>", "a</code>*b*")
LIMITS = """\
[total]
max_increase_percent = 5
[variant.LayerNorm]
min_efficiency_percent = 30
[[operation]]
name = "*norm"
max_time_ms = 2
"""


def verdict(*, name: str = "aten::native_layer_norm", other: str = "aten::native_layer_norm") -> Verdict:
    """Return 3 breaches (total, a new operation, coverage not), skipped efficiency, passed time."""
    return judged(
        compared(side(group(1100.0, name=name), label="new"), side(group(1000.0, name=other)), [REAL]), LIMITS
    )


PLAIN = verdict()


def hostile(name: str) -> Verdict:
    """Return a verdict in which every text from outside is ``name``, twice, and a breach."""
    bad = group(1100.0, name=name, module=name, arguments=name)
    first = side(bad, group(5.0, name=name, module=name), label=name, gpu=name)
    second = side(group(1000.0, name=f"{name} before"), label=name, gpu=f"{name} too")
    text = "[total]\nmax_increase_percent = 5\n[[operation]]\nname = '*'\nmax_time_ms = 0"
    return judged(compared(first, second), text)


# The terminal.


def test_the_table_starts_with_both_sides_and_the_breaches() -> None:
    lines = list(text_lines(PLAIN))
    assert lines[0].split() == ["input", "GPU", "steps", "norm", "calls", "norm", "time"]
    assert lines[1].split() == ["result", "new", "GPU", "A", "—", "10", "1.1", "ms"]
    assert lines[2].split() == ["baseline", "run", "GPU", "A", "—", "10", "1", "ms"]
    assert lines[5].split() == [
        *("breached", "all", "norms", "max_increase_percent", "5"),
        *("10.00", "%", "1.1", "ms", "1", "ms"),
    ]
    assert [line.split()[0] for line in lines[5:10]] == ["breached", "skipped", "skipped", "passed", "passed"]


def test_the_last_line_is_the_answer() -> None:
    assert list(text_lines(PLAIN))[-1] == (
        "Limits breached: 1 breached, 2 skipped, 2 passed. Norms take 1.1 ms, in the baseline 1 ms (+10.0 %)."
    )
    within = judged(compared(side(group()), side(group())), "[total]\nmax_increase_percent = 0")
    assert summary_sentence(within).startswith("Within the limits: 0 breached, 1 skipped, 2 passed.")


def test_a_long_table_is_cut_and_says_so() -> None:
    many = side(*(group(10.0 + place, name=f"norm {place}") for place in range(100)))
    lines = list(text_lines(judged(compared(many, side(group())), "")))
    # 99 are new, one kind of norm is found, and the coverage isn't known: 101 checks
    assert sum(line.startswith(("breached", "skipped", "passed")) for line in lines) == MAX_LINES == 30
    assert "… and 71 more checks; --json writes all of them" in lines


@pytest.mark.parametrize("name", NAMES)
def test_no_name_reaches_the_terminal_in_more_than_its_cell(name: str) -> None:
    for line in text_lines(hostile(name)):
        assert len(line) < 500
        assert printable(line).isprintable()


# JSON.


@pytest.mark.parametrize("found", [PLAIN, *(hostile(name) for name in NAMES if "\ud800" not in name)])
def test_the_json_fits_its_schema_and_holds_every_check(found: Verdict) -> None:
    document = strict_json(encode_verdict(found))
    validator("verdict").validate(document)
    assert len(document["checks"]) == len(found.checks)
    assert (document["schema_version"], document["outcome"]) == ("1.0", "breached")


def test_the_json_tells_limit_value_and_both_sides() -> None:
    (first, *_) = json.loads(encode_verdict(PLAIN))["checks"]
    assert first == {
        "table": "total",
        "key": "max_increase_percent",
        "what": "all norms",
        "baseline_what": "",
        "where": "",
        "outcome": "breached",
        "limit": 5.0,
        "value": pytest.approx(10.0),
        "unit": "%",
        "result": 1.1,
        "baseline": 1.0,
        "measured_in": "ms",
        "reason": "",
    }


def test_a_label_that_is_no_unicode_is_spelt_out() -> None:
    """A folder's name can be any bytes; Python reads those that are no UTF-8 as lone surrogates."""
    found = judged(compared(side(group(), label="run \udcff"), side(group())), "")
    assert json.loads(encode_verdict(found))["result"]["label"] == "run \\udcff"
    assert "`run \\udcff`" in markdown_summary(found)


# JUnit.


def test_the_junit_file_has_a_case_for_each_check() -> None:
    suites = ElementTree.fromstring(junit_xml(PLAIN))
    (suite,) = suites
    assert (suites.tag, suite.tag) == ("testsuites", "testsuite")
    for each in (suites, suite):
        counts = {key: each.attrib[key] for key in ("tests", "failures", "errors", "skipped")}
        assert counts == {"tests": "5", "failures": "1", "errors": "0", "skipped": "2"}
    cases = [
        (case.attrib["classname"], case.attrib["name"], [child.tag for child in case])
        for case in suite.findall("testcase")
    ]
    assert cases[0] == ("normscope.total", "all norms: max_increase_percent", ["failure"])
    assert cases[1] == ("normscope.variant.LayerNorm", "LayerNorm: min_efficiency_percent", ["skipped"])
    assert cases[3][2] == []
    assert suite.findtext("system-out") == " ".join(PLAIN.notes)
    failure = suite[0][0]
    said = "10.00 % against max_increase_percent 5; result 1.1 ms, baseline 1 ms"
    assert (failure.attrib, failure.text) == ({"type": "max_increase_percent", "message": said}, said)
    assert suite[1][0].attrib["message"] == "min_efficiency_percent: the efficiency isn't known"


@pytest.mark.parametrize("name", NAMES)
def test_the_junit_file_is_valid_whatever_the_names(name: str) -> None:
    found = hostile(name)
    (suite,) = ElementTree.fromstring(junit_xml(found))
    cases = suite.findall("testcase")
    assert len(cases) == len(found.checks)
    tags = {"testsuite", "testcase", "failure", "skipped", "system-out"}
    assert {child.tag for child in suite.iter()} <= tags
    assert all(len(case.attrib["name"]) < 5000 and case.attrib["name"].isprintable() for case in cases)
    if len(name) < 100:
        assert any(printable(name) in case.attrib["name"] for case in cases)


@given(st.text(max_size=40))
def test_the_junit_file_is_valid_for_any_text(name: str) -> None:
    ElementTree.fromstring(junit_xml(hostile(name)))


# Markdown.

GITHUB = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def html_of(markdown: str) -> ElementTree.Element:
    """Return the page that a reader of Markdown makes; it must be well-formed."""
    return ElementTree.fromstring(f"<body>{GITHUB.render(markdown).replace('<br>', '<br/>')}</body>")


def test_the_summary_says_the_answer_first_and_folds_what_is_well() -> None:
    text = markdown_summary(PLAIN)
    lines = text.splitlines()
    assert lines[0] == "### Normalization: 1 of 5 checks breached"
    assert lines[2] == summary_sentence(PLAIN)
    assert "| breached | `all norms` |  | max_increase_percent 5 | 10.00 % | 1.1 ms | 1 ms |  |" in lines
    assert text.index("breached | `all norms`") < text.index("<details><summary>4 other checks</summary>")
    assert text.index("Noise: 1 operation on both sides") < text.index("<details>")
    page = html_of(text)
    assert [len(table.findall("tbody/tr")) for table in page.iter("table")] == [1, 2, 4]
    (details,) = page.iter("details")
    assert len(details.findall("table/tbody/tr")) == 4


def test_the_summary_of_a_result_within_has_no_table_of_breaches() -> None:
    text = markdown_summary(judged(compared(side(group()), side(group())), ""))
    assert text.startswith("### Normalization: within the limits, 2 checks\n")
    assert "| breached |" not in text


@pytest.mark.parametrize("name", [name for name in NAMES if "\ud800" not in name])
def test_a_name_in_the_summary_is_text_in_code_and_nothing_else(name: str) -> None:
    text = markdown_summary(hostile(name))
    page = html_of(text)
    allowed = "body h3 p table thead tbody tr th td code ul li details summary br"
    assert {element.tag for element in page.iter()} <= set(allowed.split())
    rows = [row for table in page.iter("table") for row in table.findall("tbody/tr")]
    assert all(len(row) in (6, 8) for row in rows)
    outside = "".join(
        part for element in page.iter() if element.tag != "code" for part in [element.text or ""]
    )
    outside += "".join(element.tail or "" for element in page.iter())
    assert "evil" not in outside
    assert "@" not in outside
    if len(name) < 40 and "<br>" not in name and name.isprintable():
        shown = ["".join(code.itertext()) for code in page.iter("code")]
        assert name in shown


def test_a_comment_stays_within_what_github_takes() -> None:
    name = "`|" * 40
    many = side(*(group(10.0 + place, name=f"{place}{name}") for place in range(3000)))
    text = markdown_summary(judged(compared(many, many), f'{LIMITS}\n[[operation]]\nname="*"\nmax_time_ms=1'))
    assert len(text) < 65_536
    text = markdown_summary(judged(compared(many, side(group())), ""))
    assert len(text) < 65_536
    (missing,) = re.findall(r"… and ([\d,]+) more, which `--json` writes\.", text)
    shown = text.count("| breached |")
    assert shown + int(missing.replace(",", "")) == 2999


# Sentences.


def test_a_check_without_figures_is_its_reason() -> None:
    comparison = compared(side(group(), group(name="x")), side(group()))
    (found,) = judged(comparison, "").of("breached")
    assert check_sentence(found) == "allow_new: not in the baseline"
