"""The findings validator: the reference's verdicts, and what ours checks beyond it."""

import csv
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from findings_inputs import (
    NASTY_NAMES,
    STANDALONE_HEADER,
    finding,
    metrics,
    metrics_files,
    operation,
    render,
    write_run,
)
from normscope.analysis.analyze import analyze_category
from normscope.analysis.models import CategoryMetrics, encode_metrics
from normscope.errors import InputError, UsageError
from normscope.findings.render import render_findings
from normscope.validation.facts import Facts, find_metrics, load_facts
from normscope.validation.placeholders import placeholders
from normscope.validation.validate import find_problems, validate_findings_file

COPIED = Path(__file__).parent / "data" / "findings"

# Where ours differs from the reference on purpose, by file name, with the reason. Nothing else may differ.
BETTER_THAN_REFERENCE = {
    "impact_numbers_changed": "contract 9.4: the marker numbers must equal those of the metrics file",
}
NEEDS_FINDINGS = frozenset({"impact_numbers_changed"})  # a file without findings has no number to change

ONE = metrics([operation()], [finding()])
TWO = metrics(
    [operation(), operation(name="aten::layer_norm", time_ms=0.5)],
    [finding(1), finding(2, 0.5, 0.6, 0.7)],
)


def golden_cases(root: Path) -> Iterator[tuple[Path, str, bool, bool]]:
    """Give every golden file with its scope, its verdict, and whether its metrics have findings."""
    for case, entry in json.loads((root / "verdicts.json").read_text(encoding="utf-8")).items():
        facts = load_facts(root / case / "category_data" / entry["metrics"])
        for name, verdict in entry["files"].items():
            path = root / case / f"{name}.md"
            yield path, entry["comparison_scope"], verdict["passes"], bool(facts.category_findings)


def check_verdicts(root: Path) -> int:
    """Compare all verdicts; returns how many were compared."""
    cases = list(golden_cases(root))
    for path, scope, passes, has_findings in cases:
        is_better = path.stem in BETTER_THAN_REFERENCE and (has_findings or path.stem not in NEEDS_FINDINGS)
        passed, errors = validate_findings_file(path, "compute", scope)
        assert passed == (passes and not is_better), (str(path), errors)
        assert passed == (not errors)
        assert all(re.match(r"line [1-9]\d*: .+; .+", error) for error in errors), errors
    return len(cases)


def facts_of(source: dict[str, Any]) -> Facts:
    return msgspec.convert(source, Facts)


def problems(text: str, source: dict[str, Any] = ONE, scope: str = "standalone") -> list[str]:
    return [str(p) for p in find_problems(text, facts_of(source), "compute", scope)]


def line_of(text: str, part: str) -> int:
    """Return the number of the first line that holds ``part``."""
    return next(n for n, line in enumerate(text.split("\n"), start=1) if part in line)


def test_the_copied_verdicts_of_the_reference_agree() -> None:
    assert check_verdicts(COPIED) == 5 * 34


def test_all_verdicts_of_the_reference_agree(shared: Path) -> None:
    assert check_verdicts(shared / "conformance" / "findings") == 15 * 34


def test_each_listed_exception_is_a_real_one(shared: Path) -> None:
    for name in BETTER_THAN_REFERENCE:
        differing = [
            path
            for path, scope, passes, _ in golden_cases(shared / "conformance" / "findings")
            if path.stem == name and validate_findings_file(path, "compute", scope)[0] != passes
        ]
        assert differing


def test_a_valid_file_has_no_problem() -> None:
    assert problems(render(ONE)) == []
    assert problems(render(TWO), TWO) == []


def test_the_metrics_are_found_in_a_run_directory(tmp_path: Path) -> None:
    path = write_run(tmp_path, ONE, render(ONE))
    assert validate_findings_file(path, "compute", "standalone") == (True, [])
    assert validate_findings_file(str(path)) == (True, [])


def test_the_metrics_of_another_category_are_not_taken(tmp_path: Path) -> None:
    path = write_run(tmp_path, ONE, render(ONE))
    other = path.with_name("norm_bwd_findings.md")
    other.write_text(render(ONE), encoding="utf-8")
    assert find_metrics(path) == tmp_path / "category_data" / "norm_fwd_metrics.json"
    assert find_metrics(other) is None


def test_a_file_of_another_name_takes_the_only_metrics_file_and_no_fusion_file(tmp_path: Path) -> None:
    path = write_run(tmp_path, ONE, render(ONE)).rename(tmp_path / "mine.md")
    (tmp_path / "category_data" / "kernel_fusion_metrics.json").write_text("{}", encoding="utf-8")
    assert validate_findings_file(path) == (True, [])
    (tmp_path / "category_data" / "norm_bwd_metrics.json").write_text("{}", encoding="utf-8")
    assert find_metrics(path) is None


def test_without_metrics_the_structure_is_checked_but_the_file_never_passes(tmp_path: Path) -> None:
    path = tmp_path / "norm_fwd_findings.md"
    path.write_text(render(ONE), encoding="utf-8")
    passed, errors = validate_findings_file(path)
    assert not passed
    assert [e for e in errors if "there is no metrics file" in e] == errors
    path.write_text(render(ONE).replace("**Insight**", "**Finding**"), encoding="utf-8")
    assert any("**Insight** is missing" in e for e in validate_findings_file(path)[1])


# (what is done to the file, old, new, what the message says, a part of the line it points at)
BREAKS: tuple[tuple[str, str, str, str, str], ...] = (
    ("no recommendations", "## Recommendations", "## Advice", "`## Recommendations` is missing", ""),
    ("a later section", "**Resolution:**", "## Notes\n\n**Resolution:**", "stands after", "## Notes"),
    ("a section twice", "## Detailed", "## Recommendations\n\n## Detailed", "a second time", ""),
    ("no insight", "**Insight**", "**Finding**", "**Insight** is missing", "### P1"),
    ("empty insight", "aten::batch_norm is slow.", "", "no text after **Insight**", "**Insight**"),
    ("an ellipsis for an action", "Use another kernel.", "…", "no text after **Action**", "**Action**"),
    ("wrong rank", "### P1:", "### P2:", "rank 2 belongs to no finding", "### P2"),
    ("wrong candidate rank", "rank=1", "rank=7", "rank 7 belongs to no finding", "rank=7"),
    ("no candidate rank", " rank=1", "", "rank None belongs to no finding", "reasoning-candidate"),
    ("wrong tier", "tier=compute", "tier=fusion", 'has tier "fusion"', "tier=fusion"),
    ("unclosed candidate", "rank=1 -->", "rank=1", "isn't closed", "reasoning-candidate"),
    ("labels swapped", "**Resolution:**", "**Data:**", "more than once", "**Data:**"),
    ("a marker number", "low=1.5 mid", "low=1.51 mid", "low=1.5", "kind=p_item"),
    (
        "a visible number",
        "**Impact**: impact_score: 1.75",
        "**Impact**: impact_score: 9",
        "1.75",
        "**Impact**",
    ),
    ("a visible low end", "Low end impact_score: 1.5", "Low end impact_score: 2", "it is 1.5", "- Low end"),
    ("a number as a word", "mid=1.75", "mid=high", 'mid="high"', "kind=p_item"),
    ("all null", "low=1.5 high=2.0", "low=null high=null", 'low="null"', "kind=detail_estimate"),
    ("null mixed", "low=1.5 high=2.0", "low=null high=2.0", "mixes null", "kind=detail_estimate"),
    ("no kind", "kind=p_item ", "", "has no kind", "impact-begin"),
    ("unknown kind", "kind=p_item", "kind=p_thing", "unknown kind", "p_thing"),
    ("kind of elsewhere", "kind=p_item", "kind=detail_estimate", "no place here", "impact-begin"),
    ("unclosed marker", "high=2.0 -->", "high=2.0", "isn't closed", "kind=p_item"),
    (
        "marker beside text",
        "<!-- impact-end -->",
        "that is it <!-- impact-end -->",
        "amid other text",
        "that is it",
    ),
    ("placeholder", "Fewer bytes.", "Fewer {unit}.", '"{unit}" was left unfilled', "**Resolution:**"),
    ("template title", "P1: Slow normalization", "P1: <short title>", '"<short title>"', "### P1"),
    ("to do", "Fewer bytes.", "TODO", '"TODO"', "**Resolution:**"),
    ("nan in prose", "Fewer bytes.", "It moves nan GB.", '"nan"', "**Resolution:**"),
    ("None with a unit", "Fewer bytes.", "It takes None ms.", '"None"', "**Resolution:**"),
    ("nan in a number cell", "| 1.25 |", "| nan |", '"Time (ms)" is "nan"', "| nan |"),
    ("empty cell", "| 1.25 |", "|  |", '"Time (ms)" is ""', "|  |"),
    ("reformatted args", "(8,64,56,56)", "(8, 64, 56, 56)", "Args is", "(8, 64"),
    ("shortened path", "| Net_0 > BatchNorm2d_1 |", "| BatchNorm2d_1 |", "Kernel Path is", "| BatchNorm2d_1"),
    ("empty args", "| (8,64,56,56) bf16<br>(64,) fp32 |", "| |", "Args is", "| aten::batch_norm |"),
    ("invented operation", "| aten::batch_norm |", "| aten::made_up |", "no operation", "aten::made_up"),
    ("a raw pipe", "| 1.25 |", "| 1 | 25 |", "11 cells, the header has 10", "| 1 | 25 |"),
    ("no rows", "| aten::batch_norm |", "aten::batch_norm", "no rows", "| Operation |"),
    ("no table", "|---|", "", "no table after **Data**", "**Data:**"),
    ("column dropped", " Args |", "", "lacks Args", "| Operation |"),
    ("column renamed", "| Bound |", "| Limit |", "lacks Bound", "| Operation |"),
    ("status", "# Normalization", "Status: ERROR", "the analysis succeeded", "Status: ERROR"),
)


@pytest.mark.parametrize(
    ("old", "new", "message", "where"), [b[1:] for b in BREAKS], ids=[b[0] for b in BREAKS]
)
def test_a_broken_file_is_refused_with_the_line(old: str, new: str, message: str, where: str) -> None:
    valid = render(ONE)
    assert old in valid
    broken = valid.replace(old, new, 1)
    found = [error for error in problems(broken) if message in error]
    assert found, problems(broken)
    if where:
        assert found[0].startswith(f"line {line_of(broken, where)}: ")


def test_labels_out_of_order_are_refused() -> None:
    text = render(ONE)
    swapped = (
        text.replace("**Resolution:**", "**X:**")
        .replace("**Reasoning for Slowdown:**", "**Resolution:**")
        .replace("**X:**", "**Reasoning for Slowdown:**")
    )
    assert [e for e in problems(swapped) if "out of order" in e] == problems(swapped) != []


def test_findings_out_of_the_order_of_their_ranks_are_refused() -> None:
    text = render(TWO)
    swapped = text.replace("### P1:", "### P0:").replace("### P2:", "### P1:").replace("### P0:", "### P2:")
    assert any("stand in the order [2, 1]" in error for error in problems(swapped, TWO))


def test_a_finding_that_is_there_twice_is_refused() -> None:
    text = render(TWO)
    assert any("rank 1 is there again" in e for e in problems(text.replace("### P2:", "### P1:"), TWO))
    assert any("rank 2 has no P-item" in e for e in problems(text.replace("### P2:", "### P1:"), TWO))


def test_a_p_item_in_the_wrong_section_is_refused() -> None:
    text = render(ONE)
    start, end = text.index("### P1"), text.index("## Detailed")
    moved = text[:start] + text[end:] + "\n" + text[start:end]
    assert any("outside of `## Recommendations`" in error for error in problems(moved))


def test_a_dash_is_accepted_in_the_cells_that_are_verbatim() -> None:
    without = operation(launcher_path=None, kernel_name_trunc="")
    del without["args"]
    source = metrics([without], [finding()])
    text = render(source)
    assert "| aten::batch_norm | — | — | — |" in text
    assert problems(text, source) == []


def test_nan_is_accepted_only_where_the_metrics_file_has_nan(tmp_path: Path) -> None:
    source = metrics([operation(launcher_path=float("nan"))], [finding()])
    text = render(ONE).replace("| Net_0 > BatchNorm2d_1 |", "| nan |")
    assert validate_findings_file(write_run(tmp_path, source, text)) == (True, [])
    assert any(
        "Kernel Path" in e for e in problems(text, metrics([operation(launcher_path=None)], [finding()]))
    )


def test_names_the_reference_way_are_accepted_unescaped() -> None:
    kernel = "void ck_tile::kentry<ck_tile::Rmsnorm2dFwd<float>>"
    source = metrics([operation(kernel_name_trunc=kernel)], [finding()])
    raw = render(ONE).replace("| bn_fw_tr_1C11_kernel_NCHW |", f"| {kernel} |")
    assert problems(raw, source) == []
    assert problems(render(source), source) == []


def test_a_row_must_agree_with_one_operation_not_with_several() -> None:
    other = operation(args="(1,2)", launcher_path="Other_0", kernel_name_trunc="k2", time_ms=0.1)
    source = metrics([operation(), other], [finding()])
    mixed = render(ONE).replace("| Net_0 > BatchNorm2d_1 |", "| Other_0 |")
    assert any("Kernel Path" in error for error in problems(mixed, source))


def test_colon_inside_or_outside_of_the_bold_label_is_the_same() -> None:
    text = render(ONE)
    assert problems(text.replace("**Insight**:", "**Insight:**").replace("**Data:**", "**Data**:")) == []


@pytest.mark.parametrize("newline", ["\r\n", "\r"])
def test_other_newlines_are_read(newline: str) -> None:
    text = render(ONE).replace("\n", newline)
    assert problems(text) == []
    broken = text.replace("mid=1.75", "mid=1.76")
    assert problems(broken)[0].startswith(f"line {line_of(render(ONE), 'kind=p_item')}: ")


def test_a_byte_order_mark_does_no_harm() -> None:
    assert problems("\ufeff" + render(ONE).removeprefix("# Normalization\n\n")) == []


def test_a_detail_may_say_that_it_is_not_quantifiable() -> None:
    lines = render(ONE).split("\n")
    start = lines.index("**Impact estimate:**") + 1
    lines[start : start + 4] = ["The impact is not quantifiable from trace data."]
    assert problems("\n".join(lines)) == []


def test_without_findings_the_two_sections_are_enough() -> None:
    source = metrics([operation()], [])
    assert problems("## Recommendations\n\n## Detailed Analysis\n", source) == []
    assert problems("## Detailed Analysis\n\n## Recommendations\n", source) != []


def test_without_operations_the_file_must_say_that_there_are_none() -> None:
    source = metrics([], [])
    sections = "## Recommendations\n\n## Detailed Analysis\n"
    assert any("no normalization operations" in error for error in problems(sections, source))
    assert problems("No normalization operations found in trace.\n\n" + sections, source) == []


MISSING = {"status": "ERROR", "reason": "missing", "error": "x"}
FAILED = {"status": "ERROR", "reason": "failed", "error": "x"}
UNTOLD = {"status": "ERROR", "error": "x"}
SAYS_MISSING = "# Normalization\n\nNo normalization operations were found in the trace.\n"
SAYS_FAILED = "# Normalization\n\n**Status:** ERROR\n"


@pytest.mark.parametrize(
    ("source", "text", "passes"),
    [
        (MISSING, SAYS_MISSING, True),
        (MISSING, SAYS_FAILED, False),
        (FAILED, SAYS_FAILED, True),
        (FAILED, "Status: ERROR — the file is cut short\n", True),
        (FAILED, SAYS_MISSING, False),
        (FAILED, "Status: OK\n", False),
        (UNTOLD, SAYS_MISSING, True),
        (UNTOLD, SAYS_FAILED, True),
        (UNTOLD, "", False),
        (FAILED, SAYS_FAILED + "\n### P1: by hand\n", False),
        (MISSING, SAYS_MISSING + render(ONE), False),
    ],
)
def test_a_failed_analysis_is_told_and_holds_no_finding(
    source: dict[str, Any], text: str, passes: bool
) -> None:
    assert (problems(text, source) == []) == passes


def test_metrics_of_the_other_scope_are_named() -> None:
    source = ONE | {"comparison_scope": "comparative"}
    assert problems(render(source), source, "comparative") == []
    assert any("the metrics file is comparative" in error for error in problems(render(source), source))


@pytest.mark.parametrize("text", ["", "\n", "\x00\x01", "|", "<!--", "**", "## ", "|-|\n|-|"])
def test_any_short_text_is_refused_with_sentences(text: str) -> None:
    assert all(error.startswith("line 1: ") or error.startswith("line 2: ") for error in problems(text))
    assert len(problems(text)) >= 2


def test_bytes_that_are_not_utf8_are_told_with_their_offset(tmp_path: Path) -> None:
    data = b"# N\n\n\xff rest"
    passed, errors = validate_findings_file(write_run(tmp_path, ONE, data))
    assert not passed
    assert errors == ["line 3: byte offset 5 holds 0xff, which is not UTF-8; save the file as UTF-8"]


@pytest.mark.parametrize("name", ["absent.md", ".", "a\x00b", "x" * 400])
def test_a_file_that_cannot_be_read_is_an_input_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="findings file"):
        validate_findings_file(tmp_path / name)


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"\xff", b'{"status": "FINE"}', b'{"status": "OK", "operations": 3}', b"[" * 100_000],
    ids=["empty", "cut", "list", "binary", "status", "operations", "deep"],
)
def test_a_file_that_is_no_metrics_file_is_an_input_error(tmp_path: Path, data: bytes) -> None:
    path = write_run(tmp_path, ONE, render(ONE))
    (tmp_path / "category_data" / "norm_fwd_metrics.json").write_bytes(data)
    with pytest.raises(InputError, match=r"norm_fwd_metrics\.json: this is not a metrics file .*; run"):
        validate_findings_file(path)


def test_a_named_metrics_file_that_is_absent_is_an_input_error(tmp_path: Path) -> None:
    path = write_run(tmp_path, ONE, render(ONE))
    with pytest.raises(InputError, match="metrics file can't be read"):
        validate_findings_file(path, metrics_path=tmp_path / "none.json")


@pytest.mark.parametrize(("tier", "scope"), [("gpu", "standalone"), ("compute", "both")])
def test_an_unknown_tier_or_scope_is_a_usage_error(tmp_path: Path, tier: str, scope: str) -> None:
    with pytest.raises(UsageError, match="use one of"):
        validate_findings_file(tmp_path / "x.md", tier, scope)


@pytest.mark.parametrize(
    "text",
    [
        "norm_kernel<float, 8> calls bn<{lambda(int)#1}>",
        "None of the shapes is inf-like, and torch.nan is aten::nan_to_num",
        "a<br>b and 3 < 5 > 2",
        "`model.to(memory_format=torch.channels_last)` in `category_findings[0].members[]`",
        "operator<(x)> (nothing)",
    ],
)
def test_ordinary_text_holds_no_placeholder(text: str) -> None:
    assert list(placeholders(text)) == []


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(["standalone", "comparative"]).flatmap(metrics_files))
def test_a_rendered_file_of_hostile_names_is_valid(source: dict[str, Any]) -> None:
    text = render(source)
    facts = facts_with_lookalikes(source)
    assert find_problems(text, facts, "compute", source["comparison_scope"]) == []


def facts_with_lookalikes(source: dict[str, Any]) -> Facts:
    texts = [str(value) for op in source["operations"] for value in op.values()]
    seen = frozenset(found for text in texts for found in placeholders(text))
    return msgspec.structs.replace(facts_of(source), lookalikes=seen)


def drop_line(pattern: str) -> Callable[[str], str]:
    """Return a change that takes out the first line that begins with ``pattern``."""
    return lambda text: re.sub(rf"(?m)^{pattern}.*\n", "", text, count=1)


MUTATIONS: dict[str, Callable[[str], str]] = {
    "marker begin dropped": drop_line("<!-- impact-begin"),
    "marker end dropped": drop_line("<!-- impact-end"),
    "candidate dropped": drop_line("<!-- reasoning-candidate"),
    "P-heading dropped": drop_line("### P"),
    "insight dropped": drop_line(r"\*\*Insight"),
    "resolution dropped": drop_line(r"\*\*Resolution"),
    "impact line dropped": drop_line(r"\*\*Impact\*\*"),
    "low end dropped": drop_line("- Low end"),
    "header dropped": drop_line(re.escape("| Operation")),
    "section dropped": drop_line("## Detailed"),
    "low attribute dropped": lambda text: re.sub(r"low=\S+ ", "", text, count=1),
    "number changed": lambda text: re.sub(r"mid=(\S+)", r"mid=1\1", text, count=1),
    "visible number changed": lambda text: re.sub(r"(?m)(?<=^- High end impact_score: )", "1", text, count=1),
    "kind changed": lambda text: text.replace("kind=detail_estimate", "kind=estimate", 1),
}


@pytest.mark.parametrize("name", MUTATIONS)
@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@example(source=ONE)
@given(source=metrics_files())
def test_a_single_mutation_of_a_valid_file_fails(name: str, source: dict[str, Any]) -> None:
    text = render(source)
    mutated = MUTATIONS[name](text)
    assert mutated != text
    assert find_problems(mutated, facts_with_lookalikes(source), "compute", "standalone")


def test_what_normscope_renders_of_hostile_names_is_valid(tmp_path: Path) -> None:
    names = [*NASTY_NAMES, "aten::layer_norm"]
    columns = ("name", "count", "Kernel Time (µs)_sum", "Pct Roofline_mean", "Roofline Bound", "entry_point")
    with (tmp_path / "ops.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow([*columns, "kernel_details_summary"])
        for index, name in enumerate(names):
            kernel = repr([{"name": name}])
            table.writerow([name, 3, 1000.0 + index, 10.0 + index, "MEMORY_BOUND", names[index - 1], kernel])
            table.writerow([name, 3, 900.0 + index, "", "", names[index - 1], kernel])
    for folder in ("category_data", "metadata"):
        (tmp_path / folder).mkdir()
    shutil.move(tmp_path / "ops.csv", tmp_path / "category_data" / "norm_fwd_ops.csv")
    metadata = {"peak_hbm_bw_tbs": 5.3, "gpu_utilization": {"total_time_ms": 45.0}}
    (tmp_path / "metadata" / "norm_fwd_metadata.json").write_text(json.dumps(metadata), encoding="utf-8")
    found = analyze_category(tmp_path, "norm_fwd")
    assert isinstance(found, CategoryMetrics)
    assert len(found.category_findings) > 10
    path = tmp_path / "norm_fwd_findings.md"
    path.write_bytes(render_findings(found).encode("utf-8"))
    (tmp_path / "category_data" / "norm_fwd_metrics.json").write_bytes(encode_metrics(found))
    assert validate_findings_file(path) == (True, [])


def test_a_long_name_may_be_shortened_but_not_to_a_few_letters() -> None:
    source = metrics([operation(name="n" * 300)], [finding()])
    text = render(source)
    cell = "| " + "n" * 300
    assert problems(text.replace(cell, "| " + "n" * 99 + "…"), source) == []
    assert any("no operation" in error for error in problems(text.replace(cell, "| nn…"), source))


def test_an_operation_without_a_name_is_shown_as_a_dash() -> None:
    source = metrics([operation(name="")], [finding()])
    text = render(ONE).replace("| aten::batch_norm |", "| — |")
    assert problems(text, source) == []
    assert any("no operation" in error for error in problems(text, ONE))


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from([*render(ONE).split("\n"), STANDALONE_HEADER, "<!-- impact-end -->", "\x85", "```"])
        | st.text(max_size=20),
        max_size=30,
    ),
    st.sampled_from([ONE, TWO, MISSING, FAILED, metrics([], [])]),
)
def test_any_text_gives_sentences_and_never_an_exception(lines: list[str], source: dict[str, Any]) -> None:
    text = "\n".join(lines)
    count = len(re.split(r"\r\n|\n|\r", text))
    for problem in find_problems(text, facts_of(source), "compute", "standalone"):
        assert 1 <= problem.line <= count
        assert str(problem).isprintable()
