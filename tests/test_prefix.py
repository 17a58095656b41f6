"""The command prefix: read only when asked for, quoted, and its failures told in a sentence."""

import shlex
from pathlib import Path

import pytest

from normscope.analysis.models import CategoryMetrics, ErrorMetrics
from normscope.errors import InputError, NormscopeError
from normscope.report.notebook import open_report
from normscope.report.prefix import analyze_through_prefix, prefixed_command
from report_inputs import norm_row, write_run


def run_with_prefix(folder: Path, template: str | None) -> Path:
    write_run(folder, {"norm_fwd": [norm_row()]})
    if template is not None:
        (folder / "cache").mkdir()
        (folder / "cache" / "cmd_prefix.txt").write_text(template, encoding="utf-8")
    return folder


def test_every_argument_is_quoted_for_the_shell() -> None:
    command = prefixed_command("ssh node {CMD}", Path("a b/$(rm -rf x)"), "norm_fwd", "standalone")
    assert shlex.split(command) == [
        *("ssh", "node", "python3", "-m", "normscope", "analyze"),
        *("--output-dir", "a b/$(rm -rf x)", "--comparison-scope", "standalone", "--category", "norm_fwd"),
    ]


def test_the_analysis_runs_through_the_prefix_and_its_metrics_are_read(tmp_path: Path) -> None:
    run = run_with_prefix(tmp_path / "run 'x'", "env MARK=1 {CMD}")
    metrics = analyze_through_prefix(run, "norm_fwd", "standalone")
    assert isinstance(metrics, CategoryMetrics)
    assert (run / "category_data" / "norm_fwd_metrics.json").is_file()


def test_a_category_that_is_not_there_is_missing_not_failed(tmp_path: Path) -> None:
    metrics = analyze_through_prefix(run_with_prefix(tmp_path, "{CMD}"), "norm_bwd", "standalone")
    assert isinstance(metrics, ErrorMetrics)
    assert metrics.reason == "missing"


def test_the_prefix_is_never_read_unasked(tmp_path: Path) -> None:
    run = run_with_prefix(tmp_path, f"touch {tmp_path}/touched; {{CMD}}")
    open_report(str(run), str(tmp_path / "out"))
    assert not (tmp_path / "touched").exists()


@pytest.mark.parametrize(
    ("template", "words"),
    [(None, "can't be read"), ("python3 -m normscope", "has no {CMD}"), ("", "has no {CMD}")],
)
def test_a_missing_file_or_placeholder_is_named(tmp_path: Path, template: str | None, words: str) -> None:
    with pytest.raises(InputError, match=words):
        analyze_through_prefix(run_with_prefix(tmp_path, template), "norm_fwd", "standalone")


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("echo first >&2; echo 'no \x1b[31mdevice' >&2; exit 3; {CMD}", "exit code 3: no .x1b.31mdevice"),
        ("exit 4; {CMD}", "exit code 4 and printed no reason"),
        ("true {CMD}", "wrote no metrics for norm_fwd"),
        ("echo x > category_data/norm_fwd_metrics.json; true {CMD}", "can't read"),
    ],
)
def test_a_command_that_fails_is_told_with_its_last_line(
    tmp_path: Path, template: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run_with_prefix(tmp_path, template))
    with pytest.raises(NormscopeError, match=words) as caught:
        analyze_through_prefix(Path(), "norm_fwd", "standalone")
    assert "\n" not in str(caught.value)
    assert not str(caught.value).endswith(".")


def test_in_a_report_such_a_failure_is_an_error_of_the_category(tmp_path: Path) -> None:
    run = run_with_prefix(tmp_path, "exit 4; {CMD}")
    report = open_report(str(run), str(tmp_path / "out"), command_prefix="cache")
    assert isinstance(report.metrics[0], ErrorMetrics)
    assert report.metrics[0].reason == "failed"
    assert str(tmp_path) not in report.metrics[0].error
