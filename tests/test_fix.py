"""The findings fixer: what it repairs, what it leaves alone, and that prose is never touched."""

import re
import resource
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from findings_inputs import NAMES, RULE, finding, metrics, metrics_files, operation, prose, render, write_run
from normscope.errors import ExportError, InputError, UsageError
from normscope.validation.fix import FixResult, fix_findings_file
from normscope.validation.validate import validate_findings_file

COPIED = Path(__file__).parent / "data" / "findings"
GOLDEN_SCOPES = {
    "case_0001": "standalone",
    "case_0027": "comparative",
    "case_0028": "standalone",
    "case_0041": "standalone",
}
MECHANICAL_FILES = (
    "candidate_dropped",
    "candidate_wrong_tier",
    "p_marker_end_missing",
    "p_marker_without_kind",
    "p_marker_unknown_kind",
    "p_marker_without_mid",
    "p_marker_mixed_null",
    "p_marker_missing",
    "detail_marker_without_high",
    "detail_marker_missing",
    "args_cell_reformatted",
    "kernel_path_shortened",
    "kernel_name_shortened",
    "impact_numbers_changed",
)
JUDGEMENT_FILES = (
    "no_recommendations_header",
    "no_detailed_header",
    "sections_swapped",
    "no_insight",
    "no_action",
    "no_impact_label",
    "p_item_dropped",
    "p_item_added",
    "data_label_missing",
    "column_dropped",
    "column_renamed",
    "columns_reordered",
    "empty_sections",
    "empty_file",
)

ONE = metrics([operation()], [finding()])
TWO = metrics(
    [operation(), operation(name="aten::layer_norm", time_ms=0.5)],
    [finding(1), finding(2, 0.5, 0.6, 0.7)],
)
SAME_NAME = metrics([operation(), operation(args="(1,2)", launcher_path="Other_0", time_ms=0.5)], [finding()])


def fix(folder: Path, source: dict[str, Any], text: str | bytes) -> tuple[FixResult, bytes]:
    path = write_run(folder, source, text)
    result = fix_findings_file(path, "compute", source.get("comparison_scope", "standalone"))
    return result, path.read_bytes()


def golden_copy(folder: Path, case: str, name: str) -> Path:
    """Copy one golden file with its metrics."""
    shutil.copytree(COPIED / case / "category_data", folder / "category_data")
    return Path(shutil.copy(COPIED / case / f"{name}.md", folder))


@pytest.mark.parametrize("case", GOLDEN_SCOPES)
@pytest.mark.parametrize("name", MECHANICAL_FILES)
def test_what_is_mechanical_in_the_golden_files_is_repaired(tmp_path: Path, case: str, name: str) -> None:
    path, scope = golden_copy(tmp_path, case, name), GOLDEN_SCOPES[case]
    before = path.read_bytes()
    was_broken = not validate_findings_file(path, "compute", scope)[0]
    result = fix_findings_file(path, "compute", scope)
    assert (result.passed, result.errors) == (True, ())
    assert bool(result.changed) == was_broken == (path.read_bytes() != before)
    assert prose(path.read_bytes()) == prose(before)
    assert validate_findings_file(path, "compute", scope) == (True, [])


@pytest.mark.parametrize("case", GOLDEN_SCOPES)
@pytest.mark.parametrize("name", JUDGEMENT_FILES)
def test_what_needs_judgement_in_the_golden_files_is_left_and_told(
    tmp_path: Path, case: str, name: str
) -> None:
    path, scope = golden_copy(tmp_path, case, name), GOLDEN_SCOPES[case]
    before = path.read_bytes()
    errors = validate_findings_file(path, "compute", scope)[1]
    assert fix_findings_file(path, "compute", scope) == FixResult((), passed=False, errors=tuple(errors))
    assert errors
    assert path.read_bytes() == before


def test_a_repaired_number_is_the_one_of_the_metrics_file_to_the_digit(tmp_path: Path) -> None:
    path = golden_copy(tmp_path, "case_0027", "impact_numbers_changed")
    fix_findings_file(path, "compute", "comparative")
    assert path.read_bytes() == (COPIED / "case_0027" / "valid.md").read_bytes()
    assert b"low=4.42 mid=5.16 high=5.9 -->" in path.read_bytes()


def test_a_valid_file_is_not_written_again(tmp_path: Path) -> None:
    path = write_run(tmp_path, ONE, render(ONE))
    before = path.stat()
    assert fix_findings_file(path) == FixResult((), passed=True, errors=())
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_each_repair_is_one_sentence_with_its_line(tmp_path: Path) -> None:
    text = render(ONE).replace("mid=1.75", "mid=9").replace("| Net_0 > BatchNorm2d_1 |", "| Net |")
    result, _ = fix(tmp_path, ONE, text)
    line = text.split("\n").index("**Impact**: impact_score: 1.75") + 1
    row = next(n for n, each in enumerate(text.split("\n"), start=1) if each.startswith("| aten::"))
    assert len(result.changed) == 2
    assert result.changed[0].startswith(f"line {line}: ")
    assert result.changed[1] == f"line {row}: copied Kernel Path from the metrics file."


def test_what_can_be_repaired_is_repaired_where_other_things_stay_wrong(tmp_path: Path) -> None:
    text = render(ONE).replace("**Insight**", "**Finding**").replace("mid=1.75", "mid=9")
    result, data = fix(tmp_path, ONE, text)
    assert not result.passed
    assert len(result.changed) == 1
    assert len(result.errors) == 1
    assert "**Insight** is missing" in result.errors[0]
    assert data.decode() == text.replace("mid=9", "mid=1.75")


def test_a_lost_comment_and_what_hides_behind_it_are_repaired_in_two_rounds(tmp_path: Path) -> None:
    text = render(ONE).replace("<!-- reasoning-candidate tier=compute rank=1 -->\n", "")
    result, data = fix(tmp_path, ONE, text.replace("low=1.5 high", "low=7 high").replace("(8,64", "(8, 64"))
    assert result.passed
    assert data.decode() == render(ONE)


def test_lost_comments_are_put_above_the_right_headings(tmp_path: Path) -> None:
    text = re.sub(r"<!-- reasoning-candidate .*\n", "", render(TWO))
    result, data = fix(tmp_path, TWO, text)
    assert result.passed
    assert data.decode() == render(TWO)


def test_comments_that_contradict_the_order_of_the_headings_are_left(tmp_path: Path) -> None:
    text = render(TWO).replace("compute rank=1", "compute rank=0").replace("rank=2", "rank=1")
    result, data = fix(tmp_path, TWO, text.replace("rank=0", "rank=2"))
    assert not result.passed
    assert b"rank=2 -->\n#### Slow" in data
    assert data.index(b"rank=2") < data.index(b"rank=1")


def test_prose_that_speaks_of_an_impact_score_is_no_impact_line(tmp_path: Path) -> None:
    text = render(ONE).replace("Use another kernel.", "**Impact** and impact_score: 9 are prose.")
    result, data = fix(tmp_path, ONE, text.replace("mid=1.75", "mid=2"))
    assert result.passed
    assert data.decode() == text


def test_a_marker_comment_beside_prose_is_left(tmp_path: Path) -> None:
    text = render(ONE).replace("<!-- impact-end -->", "so much <!-- impact-end -->", 1)
    result, data = fix(tmp_path, ONE, text)
    assert not result.passed
    assert result.changed == ()
    assert data.decode() == text


def test_an_unclosed_or_doubled_marker_is_written_anew(tmp_path: Path) -> None:
    for broken in (
        render(ONE).replace("high=2.0 -->", "high=2.0", 1),
        render(ONE).replace("<!-- impact-end -->", "<!-- impact-end -->\n<!-- impact-end -->"),
        render(ONE).replace("<!-- impact-begin", "<!-- impact-begin -->\n<!-- impact-begin"),
    ):
        result, data = fix(tmp_path, ONE, broken)
        assert result.passed
        assert data.decode() == render(ONE)


def test_a_row_that_may_be_one_of_two_operations_is_left(tmp_path: Path) -> None:
    lines = render(SAME_NAME).split("\n")
    at = next(n for n, line in enumerate(lines) if line.startswith("| aten::"))
    lines[at] = "| aten::batch_norm | ? | ? | ? | 7 | 2.3 | 7 | 0.87 | — | — |"
    del lines[at + 1]
    text = "\n".join(lines)
    result, data = fix(tmp_path, SAME_NAME, text)
    assert not result.passed
    assert data.decode() == text


def test_a_row_is_told_by_its_time_or_by_what_the_other_rows_show(tmp_path: Path) -> None:
    lines = render(SAME_NAME).split("\n")
    at = next(n for n, line in enumerate(lines) if line.startswith("| aten::"))
    by_others = [
        *lines[:at],
        lines[at],
        "| aten::batch_norm | ? | ? | ? | 7 | 1 | 7 | 1 | — | — |",
        *lines[at + 2 :],
    ]
    result, data = fix(tmp_path, SAME_NAME, "\n".join(by_others))
    assert result.passed
    assert b"\n| aten::batch_norm | (1,2) | Other_0 | bn_fw_tr_1C11_kernel_NCHW | 7 | 1 | 7 | 1 |" in data
    by_time = [*lines[:at], "| aten::batch_norm | ? | ? | ? | 0.5 | 1 | 7 | 1 | — | — |", *lines[at + 2 :]]
    result, data = fix(tmp_path, SAME_NAME, "\n".join(by_time))
    assert result.passed
    assert b"\n| aten::batch_norm | (1,2) | Other_0 |" in data


def test_the_other_cells_of_a_repaired_row_keep_their_bytes(tmp_path: Path) -> None:
    odd = "|  aten::batch_norm|(8, 64)  |—| bn_fw_tr_1C11_kernel_NCHW |1.25|\t2.3 | 12 | a\\|b | — | — |  "
    lines = [odd if line.startswith("| aten::") else line for line in render(ONE).split("\n")]
    result, data = fix(tmp_path, ONE, "\n".join(lines))
    assert result.passed
    assert odd.replace("(8, 64)  ", " (8,64,56,56) bf16<br>(64,) fp32 ").encode() in data


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_the_newline_style_is_kept(tmp_path: Path, newline: str) -> None:
    text = re.sub(r"<!-- (reasoning|impact).*\n", "", render(ONE)).rstrip("\n")
    result, data = fix(tmp_path, ONE, text.replace("\n", newline))
    assert result.passed
    assert data.decode() == render(ONE).rstrip("\n").replace("\n", newline)


def test_without_metrics_nothing_is_repaired_and_nothing_passes(tmp_path: Path) -> None:
    path = tmp_path / "norm_fwd_findings.md"
    path.write_text(render(ONE).replace("mid=1.75", "mid=high"), encoding="utf-8")
    before = path.read_bytes()
    result = fix_findings_file(path)
    assert not result.passed
    assert result.changed == ()
    assert any("no metrics file" in error for error in result.errors)
    assert path.read_bytes() == before


def test_a_failed_analysis_gets_no_findings_by_repair(tmp_path: Path) -> None:
    result, data = fix(tmp_path, {"status": "ERROR", "error": "x"}, render(ONE))
    assert not result.passed
    assert data.decode() == render(ONE)


def test_bytes_that_are_not_utf8_are_left(tmp_path: Path) -> None:
    result, data = fix(tmp_path, ONE, b"\xfe## Recommendations")
    assert result.errors == ("line 1: byte offset 0 holds 0xfe, which is not UTF-8; save the file as UTF-8",)
    assert data == b"\xfe## Recommendations"


def test_the_mode_and_a_link_to_the_file_are_kept(tmp_path: Path) -> None:
    path = write_run(tmp_path, ONE, render(ONE).replace("mid=1.75", "mid=2"))
    path.chmod(0o640)
    link = path.with_name("linked_findings.md")
    link.symlink_to(path)
    metrics_path = tmp_path / "category_data" / "norm_fwd_metrics.json"
    assert fix_findings_file(link, "compute", "standalone", metrics_path).passed
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert path.read_text(encoding="utf-8") == render(ONE)
    assert sorted(p.name for p in path.parent.iterdir()) == ["linked_findings.md", "norm_fwd_findings.md"]


def test_a_full_disk_is_an_export_error_and_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    text = render(ONE).replace("mid=1.75", "mid=2")
    path = write_run(tmp_path, ONE, text)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))  # no file may grow beyond 10 bytes
    try:
        with pytest.raises(ExportError, match="can't be written"):
            fix_findings_file(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_text(encoding="utf-8") == text
    assert list(path.parent.iterdir()) == [path]


def test_bad_arguments_are_refused_as_by_the_validator(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such findings file"):
        fix_findings_file(tmp_path / "none.md")
    with pytest.raises(UsageError, match="there is no tier"):
        fix_findings_file(tmp_path / "none.md", "gpu")


def once(pattern: str, new: str) -> Callable[[str], str]:
    """Return a change of the first match."""
    return lambda text: re.sub(pattern, new, text, count=1, flags=re.MULTILINE)


MECHANICAL: dict[str, Callable[[str], str]] = {
    "begin marker dropped": once(r"^<!-- impact-begin.*\n", ""),
    "end marker dropped": once(r"^<!-- impact-end.*\n", ""),
    "all markers dropped": lambda text: re.sub(r"(?m)^<!-- (impact|reasoning).*\n", "", text),
    "candidate dropped": once(r"^<!-- reasoning-candidate.*\n", ""),
    "tier changed": once("tier=compute", "tier=system"),
    "attribute dropped": once(r" high=\S+", ""),
    "number changed": once(r"mid=(\S+)", r"mid=1\1"),
    "visible number changed": once(r"(?<=^- High end impact_score: )", "1"),
    "kind dropped": once(r" kind=detail_estimate", ""),
    "args changed": lambda text: with_cell(text, 1, "(1, 2) other"),
    "path changed": lambda text: with_cell(text, 2, "somewhere else"),
    "kernel name changed": lambda text: with_cell(text, 3, "another kernel"),
}


def with_cell(text: str, column: int, cell: str) -> str:
    """Return a rendered file with another cell in the first row of its first table."""
    lines = text.split("\n")
    at = lines.index(RULE) + 1
    parts = lines[at].split(" | ")
    lines[at] = " | ".join([*parts[:column], cell, *parts[column + 1 :]])
    return "\n".join(lines)


@pytest.mark.parametrize("name", MECHANICAL)
@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@example(source=ONE, extra="x", newline="\n")
@given(source=metrics_files(), extra=NAMES, newline=st.sampled_from(["\n", "\r\n"]))
def test_repairing_one_mechanical_mutation_makes_the_file_valid_and_keeps_the_prose(
    tmp_path_factory: pytest.TempPathFactory, name: str, source: dict[str, Any], extra: str, newline: str
) -> None:
    folder = tmp_path_factory.mktemp("run")
    words = "x" + re.sub(r"[^\w ]", "", extra).replace(" ", "x") + "x"  # not TODO, nan or None
    text = render(source).replace("Fewer bytes.", f"Fewer bytes. {words} gone.")
    mutated = MECHANICAL[name](text).replace("\n", newline)
    path = write_run(folder, source, mutated)
    assert not validate_findings_file(path)[0]
    result = fix_findings_file(path)
    assert result.errors == ()
    assert result.changed
    assert prose(path.read_bytes()) == prose(mutated.encode())
    assert fix_findings_file(path) == FixResult((), passed=True, errors=())


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(
    lines=st.lists(st.sampled_from(render(TWO).split("\n")) | st.text(max_size=20), max_size=40),
    keep=st.integers(0, 60),
)
def test_whatever_the_file_prose_keeps_its_bytes_and_two_fixes_are_one(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], keep: int
) -> None:
    text = "\n".join([*render(TWO).split("\n")[:keep], *lines])
    folder = tmp_path_factory.mktemp("run")
    path = write_run(folder, TWO, text)
    result = fix_findings_file(path)
    assert prose(path.read_bytes()) == prose(text.encode())
    assert result.passed == (not result.errors)
    assert bool(result.changed) == (path.read_bytes() != text.encode())
