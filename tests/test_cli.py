"""The command line, as a user runs it: whole processes, their exit codes, and what they print."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import normscope
from normscope import errors
from runs import row, write_run
from trace_inputs import as_json, kernel, launch, op

ROOT = Path(__file__).resolve().parent.parent


def run(*words: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``normscope`` with these words and return what came of it."""
    return subprocess.run(
        [sys.executable, "-m", "normscope", *map(str, words)],
        cwd=cwd,
        env=os.environ | {"COLUMNS": "80"} | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def is_one_sentence(text: str) -> bool:
    return text.startswith("normscope: ") and text.count("\n") == 1 and "Traceback" not in text


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", [row(time_us=3000.0)])


def test_help_fits_a_screen_and_lists_every_command(tmp_path: Path) -> None:
    done = run("--help", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.count("\n") <= 24
    for command in (
        "report",
        "analyze",
        "baseline",
        "check",
        "compare",
        "coverage",
        "findings",
        "validate",
        "sample",
        "completion",
    ):
        assert f"\n│ {command} " in done.stdout


@pytest.mark.parametrize(
    "command", ["report", "analyze", "baseline", "check", "coverage", "findings", "validate", "sample"]
)
def test_help_of_a_command_fits_a_screen_and_gives_types(command: str, tmp_path: Path) -> None:
    done = run(command, "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.count("\n") <= 36
    if command == "report":
        for word in ("PATH", "INT", "seconds", "default", "choices: standalone"):
            assert word in done.stdout


@pytest.mark.parametrize("spelling", ["--comparison-scope", "--comparison_scope"])
def test_analyze_takes_the_flags_of_the_reference(spelling: str, run_dir: Path) -> None:
    words = ("--output-dir", run_dir, spelling, "comparative", "--category", "norm_fwd")
    done = run("analyze", *words, cwd=run_dir)
    assert done.returncode == 0, done.stderr
    metrics = json.loads((run_dir / "category_data/norm_fwd_metrics.json").read_text())
    assert (metrics["status"], metrics["comparison_scope"]) == ("OK", "comparative")


def test_analyze_of_a_missing_category_writes_error_metrics_and_exits_1(run_dir: Path) -> None:
    done = run("analyze", "--output-dir", run_dir, "--category", "norm_bwd", cwd=run_dir)
    assert done.returncode == 1
    assert is_one_sentence(done.stderr)
    metrics = json.loads((run_dir / "category_data/norm_bwd_metrics.json").read_text())
    assert metrics["status"] == "ERROR"


def test_findings_of_a_missing_category_says_so_and_exits_0(run_dir: Path) -> None:
    done = run("findings", "--output-dir", run_dir, "--category", "norm_bwd", cwd=run_dir)
    assert (done.returncode, done.stderr) == (0, "")
    text = (run_dir / "category_findings/norm_bwd_findings.md").read_text()
    assert "No normalization operations found in trace" in text


def test_findings_of_a_failed_analysis_says_error_and_exits_1(tmp_path: Path) -> None:
    broken = write_run(tmp_path, [row(time_us=-3.0)])
    done = run("findings", "--output-dir", broken, "--category", "norm_fwd", cwd=tmp_path)
    assert done.returncode == 1
    assert is_one_sentence(done.stderr)
    assert "norm_fwd_ops.csv, line 2" in done.stderr
    assert "**Status**: ERROR" in (tmp_path / "category_findings/norm_fwd_findings.md").read_text()


def test_findings_are_valid_and_a_change_of_them_is_not(run_dir: Path) -> None:
    assert run("findings", "-o", run_dir, cwd=run_dir).returncode == 0
    path = run_dir / "category_findings/norm_fwd_findings.md"
    assert run("validate", path, cwd=run_dir).returncode == 0
    good = path.read_text()
    path.write_text(good.replace("| memory-bound |", "| memory-bound |", 1).replace("mid=21.0", "mid=22.0"))
    done = run("validate", path, cwd=run_dir)
    assert done.returncode == errors.InvalidFindingsError.exit_code
    assert "line " in done.stdout
    fixed = run("validate", path, "--fix", cwd=run_dir)
    assert fixed.returncode == 0
    assert path.read_text() == good


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (["analyz"], 2, 'Did you mean "analyze"'),
        (["report", "--top-nn", "3"], 2, "--top-n"),
        (["report", "--top-n", "many"], 2, "int"),
        (["report", "--top-n", "0"], 2, "top_n"),
        (["report", "--comparison-scope", "both"], 2, "standalone"),
        (["analyze"], 2, "--output-dir"),
        (["analyze", "--output-dir", "nowhere"], 3, "nowhere doesn't exist"),
        (["report", "nowhere"], 3, "nowhere doesn't exist"),
        (["report", "."], 3, "category_data"),
        (["findings", "--output-dir", "."], 3, "category_data"),
        (["validate", "nothing.md"], 3, "nothing.md"),
        (["analyze", "--output-dir", ".", "--category", "../x"], 2, "file name"),
        (["report", "--params", "none.yaml"], 2, "none.yaml"),
        (["report", "--cell-timeout-s", "0"], 2, "time limit of 0 s"),
        (["report", "--cell-timeout-s", "-5"], 2, "time limit of -5 s"),
        (["report", "--out", "x" * 300], 2, "too long"),
        (["report", "--out", "x" * 250], 2, "too long"),  # .failed, which may have to stand beside it
        (["report", "x" * 300], 3, "doesn't exist"),
        (["coverage"], 2, "TRACE"),
        (["coverage", "nowhere.json"], 3, "nowhere.json"),
        (["coverage", "."], 3, "."),
        (["coverage", "sample", "--catalog", "none.toml"], 3, "the catalog none.toml can't be read"),
        (["coverage", "sample", "--peaks", "achievable"], 2, "--peaks"),
        (["analyze", "sample", "-o", "out", "--catalog", "none.toml"], 3, "none.toml can't be read"),
        (["report", "sample", "--catalog", "none.toml"], 3, "none.toml can't be read"),
        (["analyze", "--output-dir", "x" * 300], 3, "doesn't exist"),
    ],
)
def test_a_mistake_gets_one_sentence_and_its_exit_code(
    words: list[str], code: int, part: str, tmp_path: Path
) -> None:
    done = run(*words, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert part in done.stderr
    assert is_one_sentence(done.stderr)
    assert list(tmp_path.iterdir()) == []


def run_code(
    code: str, *words: str | Path, cwd: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run ``code`` and then ``normscope`` with these words."""
    program = f"import os, sys\nfrom normscope import cli, commands\n{code}\ncli.main(sys.argv[1:])"
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, words)],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


FAULT = "commands.gpus = lambda: {}['no such\\nkey']"


def test_an_unexpected_error_is_one_sentence_with_its_type(tmp_path: Path) -> None:
    done = run_code(FAULT, "gpus", cwd=tmp_path)
    assert done.returncode == 1
    assert is_one_sentence(done.stderr)
    assert "KeyError" in done.stderr
    assert "NORMSCOPE_DEBUG=1" in done.stderr


def test_an_unexpected_error_is_a_traceback_for_those_who_ask(tmp_path: Path) -> None:
    done = run_code(FAULT, "gpus", cwd=tmp_path, NORMSCOPE_DEBUG="1")
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_ctrl_c_during_a_command_is_one_line(tmp_path: Path) -> None:
    code = "import signal; commands.gpus = lambda: signal.raise_signal(signal.SIGINT)"
    done = run_code(code, "gpus", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "normscope: interrupted\n")


def test_ctrl_c_during_the_imports_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "cyclopts.py").write_text("import signal; signal.raise_signal(signal.SIGINT)")
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    done = run("gpus", cwd=tmp_path, PYTHONPATH=path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "normscope: interrupted\n")


@pytest.mark.parametrize(("command", "code"), [("findings", 0), ("analyze", 1)])
def test_a_misspelled_category_gets_the_nearest_one(command: str, code: int, run_dir: Path) -> None:
    done = run(command, "-o", run_dir, "--category", "norm_fdw", cwd=run_dir)
    assert done.returncode == code
    first = done.stderr.splitlines()[0]
    assert first == "normscope: the run has no category norm_fdw; did you mean norm_fwd? (it has norm_fwd)"


WITHOUT_RIGHTS = """
import encodings.utf_8_sig, normscope.analysis.analyze, normscope.analysis.write, normscope.findings.render
normscope.analyze_category, normscope.render_findings
if os.geteuid() == 0:
    os.setegid(65534), os.seteuid(65534)
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may enter, which pytest's own is not."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows has no such rights")
@pytest.mark.parametrize(
    ("closed", "command", "code", "says"),
    [
        (".", "analyze", 3, "can't be read"),
        ("category_data", "findings", 3, "can't be read"),
        (
            "category_data/norm_fwd_ops.csv",
            "analyze",
            1,
            "norm_fwd_ops.csv: can't be read",
        ),
        (
            "category_data/norm_fwd_ops.csv",
            "findings",
            1,
            "norm_fwd_ops.csv: can't be read",
        ),
        (
            "metadata/norm_fwd_metadata.json",
            "analyze",
            1,
            "norm_fwd_metadata.json: can't be read",
        ),
    ],
)
def test_what_can_not_be_read_is_told_before_what_can_not_be_written(
    open_folder: Path, closed: str, command: str, code: int, says: str
) -> None:
    run_dir = write_run(open_folder / "run", [row()])
    for folder in (run_dir, run_dir / "category_data", run_dir / "metadata"):
        folder.chmod(0o555)
    (run_dir / closed).chmod(0)
    done = run_code(WITHOUT_RIGHTS, command, "-o", run_dir, cwd=open_folder)
    for folder in (run_dir, run_dir / "category_data", run_dir / "metadata"):
        folder.chmod(0o755)
    assert done.returncode == code, done.stderr
    assert f"{says} (Permission denied)" in done.stderr
    assert "Errno" not in done.stderr
    assert is_one_sentence(done.stderr)


def test_a_hyphen_is_a_trace_on_standard_input(tmp_path: Path) -> None:
    trace = normscope.write_sample(tmp_path / "t.json.gz")
    for words in (("-", "-o", "out"), ("-o", "out", "-")):
        done = subprocess.run(
            [sys.executable, "-m", "normscope", "analyze", *words],
            input=trace.read_bytes(),
            cwd=tmp_path,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "category_data" / "norm_fwd_metrics.json").is_file()


NOT_LOADED = (
    "import sys\nfrom normscope.cli import main\n"
    "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
    "print(sorted({m.split('.')[0] for m in sys.modules} & set('pandas matplotlib papermill nbconvert "
    "nbclient numpy IPython jupyter_client yaml jinja2 markdown_it'.split())))"
)
ACME = """\
[[norm]]
id = "acme-norm"
library = "ACME"
variant = "RMSNorm"
ops = ["acme::normalize"]
evidence = "unverified"
source = "a guess"
"""


def acme_trace(folder: Path) -> Path:
    """Write a trace with a single op that no row of ours knows."""
    path = folder / "acme.json"
    events = [op("acme::normalize", 100, 50), launch(1, 110), kernel(1, 130, 4, name="acme_kernel")]
    path.write_bytes(as_json(events))
    return path


def test_coverage_prints_all_kernel_time_and_writes_nothing(tmp_path: Path) -> None:
    trace = normscope.write_sample(tmp_path / "t.json.gz")
    done = run("coverage", trace, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("All kernel time of t\n")
    assert [path.name for path in tmp_path.iterdir()] == ["t.json.gz"]
    piped = subprocess.run(
        [sys.executable, "-m", "normscope", "coverage", "-"],
        input=trace.read_bytes(),
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    same = done.stdout.replace("time of t\n", "time of standard input\n")
    assert (piped.returncode, piped.stdout.decode()) == (0, same)


def test_coverage_as_json_is_the_file_of_a_run(tmp_path: Path) -> None:
    done = run("coverage", "sample", "--json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert run("analyze", "sample", "-o", "out", cwd=tmp_path).returncode == 0
    assert done.stdout == (tmp_path / "out" / "category_data" / "coverage.json").read_text(encoding="utf-8")


def test_coverage_of_a_trace_without_norms_is_printed_and_exits_4(tmp_path: Path) -> None:
    done = run("coverage", acme_trace(tmp_path), cwd=tmp_path)
    assert done.returncode == errors.NoNormsError.exit_code
    assert is_one_sentence(done.stderr)
    assert "Other ops" in done.stdout
    bare = tmp_path / "bare.json"
    bare.write_bytes(as_json([op("aten::layer_norm", 100, 50)]))
    done = run("coverage", bare, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (errors.NoGpuActivityError.exit_code, "")


def test_rows_of_the_user_find_norms_that_the_catalog_does_not_know(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(ACME, encoding="utf-8")
    trace = acme_trace(tmp_path)
    assert run("analyze", trace, "-o", "without", cwd=tmp_path).returncode == 4
    done = run("analyze", trace, "-o", "with", "--catalog", "own.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 norm call fits the row acme-norm, which is unverified" in done.stdout
    assert "acme::normalize" in (tmp_path / "with/category_data/norm_fwd_ops.csv").read_text()
    done = run("coverage", trace, "--catalog", "own.toml", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "acme-norm" in done.stdout


@pytest.mark.parametrize("option", ["--catalog", "--capture", "--gpu-file"])
def test_options_for_traces_are_refused_for_a_run_directory(option: str, run_dir: Path) -> None:
    for words in (("analyze", "-o", run_dir), ("report", run_dir)):
        done = run(*words, option, "something", cwd=run_dir)
        assert done.returncode == 2
        assert option.lstrip("-") in done.stderr.replace("_", "-")
        assert is_one_sentence(done.stderr)


def test_the_coverage_imports_nothing_heavy(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", NOT_LOADED, "coverage", str(acme_trace(tmp_path))],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell: str, tmp_path: Path) -> None:
    done = run("completion", shell, cwd=tmp_path)
    assert done.returncode == 0
    assert "normscope" in done.stdout
    if interpreter := shutil.which(shell):
        subprocess.run([interpreter, "-n"], input=done.stdout, text=True, check=True)


def test_doctor_finds_this_environment_well(tmp_path: Path) -> None:
    done = run("doctor", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert "FAIL" not in done.stdout
    for point in ("normscope", "packages", "kernel", "font", "browser", "current folder"):
        assert f"{point}: " in done.stdout


def test_an_analysis_imports_nothing_heavy(run_dir: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", NOT_LOADED, "analyze", "-o", str(run_dir)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_public_names_are_complete_sorted_and_there() -> None:
    assert list(normscope.__all__) == sorted(normscope.__all__)
    assert all(callable(getattr(normscope, name)) for name in normscope.__all__)
    assert not hasattr(normscope, "no_such_name")


def test_the_readme_lists_every_exit_code() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    kinds: list[type[errors.NormscopeError]] = [
        errors.NormscopeError,
        *errors.NormscopeError.__subclasses__(),
    ]
    assert sorted(kind.exit_code for kind in kinds) == list(range(1, 11))
    for kind in kinds:
        assert f"| {kind.exit_code} |" in readme
