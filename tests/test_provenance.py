"""Reports can be trusted: the input is recorded, runs are repeatable and private, failures keep the good one.

The reports here are made of the bundled notebook or of small ones, each in a real kernel.
"""

import getpass
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import ROOT
from normscope.errors import (
    InputError,
    KernelError,
    NormscopeError,
    NotebookError,
    UsageError,
)
from normscope.params import ReportParams
from normscope.report.build import BuiltReport, build_report
from normscope.report.provenance import (
    Provenance,
    decode_provenance,
    encode_provenance,
    git_commit,
    input_records,
    make_provenance,
    written_files,
)
from normscope.report.run import Limits
from normscope.report.scrub import machine_relabeler, relabeler, scrub_folder
from notebook_zoo import read_cells, write_notebook, write_run

FINDINGS = "import pathlib; pathlib.Path(out_dir, 'findings.md').write_text('# Findings\\n')\n"
RESULTS = """
import json, pathlib
results = {"complete": True, "status": STATUS, "errors": ERRORS, "label": "run", "categories": [],
    "comparison_scope": "standalone"}
pathlib.Path(out_dir, "metrics.json").write_text(json.dumps(results))
"""


def finish(status: str = "OK", errors: str = "[]") -> str:
    return FINDINGS + RESULTS.replace("STATUS", repr(status)).replace("ERRORS", errors)


def files_of(folder: Path) -> Mapping[str, bytes]:
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()
    }


def private_texts() -> list[str]:
    """Return what no report may hold: the paths and names of this machine."""
    names = [socket.gethostname(), *([] if getpass.getuser() == "root" else [getpass.getuser()])]
    paths = [str(Path.home()), sys.prefix, tempfile.gettempdir(), str(ROOT), str(Path.cwd())]
    return [text for text in (*names, *paths) if len(text) > 2]


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return write_run(tmp_path / "the run")


@pytest.fixture
def in_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


# --- provenance


def test_the_inputs_that_are_read_are_recorded_with_size_and_hash(run_dir: Path) -> None:
    (run_dir / "category_data" / "unread.csv").write_text("x")
    records = input_records(run_dir, ["norm_fwd", "absent"])
    assert [record.path for record in records] == [
        "category_data/norm_fwd_ops.csv",
        "metadata/norm_fwd_metadata.json",
    ]
    data = (run_dir / records[0].path).read_bytes()
    assert (records[0].size_bytes, records[0].sha256) == (len(data), hashlib.sha256(data).hexdigest())


def test_provenance_survives_writing_and_reading_and_fits_its_schema(run_dir: Path) -> None:
    inputs = input_records(run_dir, ["norm_fwd"])
    made = make_provenance(run_dir, ReportParams(run_dir="the run"), inputs, datetime.now(UTC))
    data = encode_provenance(made)
    assert decode_provenance(data) == made
    assert data.endswith(b"}\n")
    schema = msgspec.json.schema(Provenance)
    jsonschema.validate(json.loads(data), schema, format_checker=jsonschema.FormatChecker())
    assert made.input_label == "the run"
    assert made.finished_utc >= made.started_utc
    assert {"papermill", "nbconvert", "matplotlib", "pandas"} <= set(made.packages)


def test_the_commit_is_that_of_this_checkout() -> None:
    if not (ROOT / ".git").exists():
        assert git_commit() is None
        return
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    head = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert git_commit() in {head, f"{head}-dirty"}


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"generator": "x"}', b"\xff"])
def test_a_folder_without_our_provenance_is_no_report(tmp_path: Path, data: bytes) -> None:
    assert written_files(tmp_path) is None
    (tmp_path / "provenance.json").write_bytes(data)
    assert written_files(tmp_path) is None


# --- scrubbing


@pytest.mark.parametrize(
    ("text", "scrubbed"),
    [
        ("/data/run/a.csv", "my run/a.csv"),
        ("in '/data/run': /data/run.", "in 'my run': my run."),
        ("file:///data/run/a", "file://my run/a"),
        (
            "/data/run2 /data/run-b /data/run.old /mnt/data/run",
            "/data/run2 /data/run-b /data/run.old /mnt/data/run",
        ),
        ('{"path": "x\\n/data/run/a"}', '{"path": "x\\nmy run/a"}'),
        ("/data/run/deeper/b", "deep/b"),
    ],
)
def test_a_path_is_replaced_where_it_is_named_and_only_there(text: str, scrubbed: str) -> None:
    labels = {Path("/data/run"): "my run", Path("/data/run/deeper"): "deep", Path("/"): "never"}
    assert relabeler(labels)(text) == scrubbed


@pytest.mark.parametrize(
    "written",
    [
        '/d/é "q" & <x>/a',
        '/d/\\u00e9 \\"q\\" & <x>/a',
        '/d/é \\"q\\" & <x>/a',
        "/d/é &quot;q&quot; &amp; &lt;x&gt;/a",
        "/d/%C3%A9%20%22q%22%20%26%20%3Cx%3E/a",
    ],
)
def test_a_path_is_found_in_json_html_and_urls_too(written: str) -> None:
    assert relabeler({Path('/d/é "q" & <x>'): "run"})(written) == "run/a"


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_text_without_a_path_is_left_alone(text: str) -> None:
    assert relabeler({Path("/data/run"): "run"})(text) == text.replace("/data/run", "run")
    assert relabeler({})(text) == text


def test_tracebacks_hide_the_home_the_python_and_the_number_of_the_kernel() -> None:
    home, temp = Path.home(), tempfile.gettempdir()
    hide = machine_relabeler()
    assert hide(f"{home}/x.py {temp}/ipykernel_4711/123.py") == "~/x.py <temp>/ipykernel/123.py"
    assert hide(f"{sys.prefix}/lib/a.py") == "<python>/lib/a.py"


def test_text_files_are_scrubbed_and_pictures_are_not(tmp_path: Path) -> None:
    (tmp_path / "figures").mkdir()
    for name in ("figures/a.csv", "figures/a.svg", "figures/a.png", "m.json"):
        (tmp_path / name).write_bytes(b"/data/run \xff\r\n")
    scrub_folder(tmp_path, relabeler({Path("/data/run"): "run"}))
    assert {name: data[:4] for name, data in files_of(tmp_path).items()} == {
        "figures/a.csv": b"run ",
        "figures/a.svg": b"run ",
        "figures/a.png": b"/dat",
        "m.json": b"run ",
    }
    assert (tmp_path / "m.json").read_bytes() == b"run \xff\r\n"


# --- whole reports


@pytest.fixture(scope="module")
def two_reports(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The report of one run, made twice: from other folders, to other folders, with another home."""
    base = tmp_path_factory.mktemp("two reports {é}")
    run = write_run(base / "a run")
    program = "import sys; from normscope import build_report; build_report(sys.argv[1], sys.argv[2])"
    for name in ("first", "second"):
        home = base / f"home of {name}"
        home.mkdir()
        command = [sys.executable, "-W", "error", "-c", program, str(run), str(base / name / "out")]
        done = subprocess.run(
            command,
            cwd=home,
            env=os.environ | {"HOME": str(home)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return base / "first" / "out", base / "second" / "out"


def test_two_runs_on_the_same_input_differ_in_provenance_alone(two_reports: tuple[Path, Path]) -> None:
    first, second = map(files_of, two_reports)
    assert set(first) == set(second) >= {"report.html", "report.ipynb", "findings.md", "metrics.json"}
    assert {name for name in first if first[name] != second[name]} == {"provenance.json"}


def test_no_file_of_a_report_names_a_path_or_a_user_of_this_machine(two_reports: tuple[Path, Path]) -> None:
    report = two_reports[0]
    for name, data in files_of(report).items():
        leaks = [text for text in (*private_texts(), str(report.parent.parent)) if text.encode() in data]
        assert not leaks, f"{name} holds {leaks}"


def test_the_provenance_lists_every_file_of_the_report_with_its_hash(two_reports: tuple[Path, Path]) -> None:
    files = dict(files_of(two_reports[0]))
    provenance = decode_provenance(files.pop("provenance.json"))
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    assert {record.path: record.sha256 for record in provenance.outputs} == hashes
    assert (provenance.input_label, provenance.parameters.out_dir) == ("a run", "out")


def test_the_notebook_of_a_report_shows_labels_for_paths_and_no_times(two_reports: tuple[Path, Path]) -> None:
    (cell,) = [
        cell
        for cell in read_cells(two_reports[0] / "report.ipynb")
        if "injected-parameters" in cell["metadata"].get("tags", [])
    ]
    assert "".join(cell["source"]).splitlines() == [
        "# Parameters",
        "run_dir = 'a run'",
        "out_dir = '.'",
        "categories = []",
        "comparison_scope = 'standalone'",
        "command_prefix = ''",
        "top_n = 20",
        "gpu = ''",
        "gpu_file = ''",
        "peaks = 'datasheet'",
        "catalog = ''",
        "capture = ''",
    ]
    assert cell["id"] == "injected-parameters"
    text = (two_reports[0] / "report.ipynb").read_text(encoding="utf-8")
    assert '"papermill"' not in text
    assert '"start_time"' not in text


def test_a_relative_run_is_shown_as_it_was_given(in_tmp: Path, run_dir: Path) -> None:
    notebook = write_notebook(in_tmp / "n.ipynb", "print(run_dir, '|', out_dir)", finish=finish())
    built = build_report(run_dir.name, "out", notebook=notebook)
    assert built == BuiltReport(out_dir=Path("out"), html=Path("out/report.html"), status="OK")
    text = (in_tmp / "out" / "report.ipynb").read_text()
    assert "the run | ." in text
    assert str(in_tmp) not in text


def test_a_folder_named_sample_is_not_taken_for_the_bundled_one(in_tmp: Path) -> None:
    write_run(in_tmp / "sample")
    notebook = write_notebook(in_tmp / "n.ipynb", finish=finish())
    ways: tuple[str | Path, ...] = ("./sample", Path("sample"))
    for number, given_run in enumerate(ways):
        build_report(given_run, f"out{number}", notebook=notebook)
        provenance = decode_provenance((in_tmp / f"out{number}" / "provenance.json").read_bytes())
        assert [r.path for r in provenance.inputs] == [
            "category_data/norm_fwd_ops.csv",
            "metadata/norm_fwd_metadata.json",
        ]


@pytest.mark.parametrize(
    ("cells", "limits", "error"),
    [
        (["1/0"], Limits(), NotebookError),
        (["import sys; sys.exit(0)"], Limits(), NotebookError),
        (["import os; os.kill(os.getpid(), 9)"], Limits(), KernelError),
        (["import time; time.sleep(60)"], Limits(cell_s=1), KernelError),
        (["from normscope.errors import *; raise InputError('broken')"], Limits(), InputError),
    ],
)
def test_a_failed_run_keeps_the_last_good_report_and_the_failed_notebook_beside_it(
    in_tmp: Path, run_dir: Path, cells: list[str], limits: Limits, error: type[NormscopeError]
) -> None:
    good = write_notebook(in_tmp / "good.ipynb", finish=finish())
    bad = write_notebook(in_tmp / "bad.ipynb", "print(out_dir)", *cells, finish=finish())
    build_report(run_dir, "out", notebook=good)
    before = files_of(in_tmp / "out")
    with pytest.raises(NormscopeError) as caught:
        build_report(run_dir, "out", notebook=bad, limits=limits)
    assert type(caught.value) is error
    assert str(caught.value).endswith("What ran is kept in out.failed")
    assert files_of(in_tmp / "out") == before
    kept = files_of(in_tmp / "out.failed")
    assert set(kept) == {"report.failed.ipynb", "report.failed.html", "provenance.json"}
    assert not any(str(in_tmp).encode() in data for data in kept.values())
    assert sorted(p.name for p in in_tmp.glob("*out*") if p.is_dir()) == ["out", "out.failed"]
    build_report(run_dir, "out", notebook=good)
    assert not (in_tmp / "out.failed").exists(), "a good run ends the matter"


def test_a_failed_analysis_is_an_error_and_its_report_goes_beside_the_good_one(
    in_tmp: Path, run_dir: Path
) -> None:
    good = write_notebook(in_tmp / "good.ipynb", finish=finish())
    errors = f'["norm_fwd: {run_dir}/category_data/norm_fwd_ops.csv is broken"]'
    bad = write_notebook(in_tmp / "bad.ipynb", finish=finish("ERROR", errors))
    build_report(run_dir, "out", notebook=good)
    before = files_of(in_tmp / "out")
    with pytest.raises(NormscopeError) as caught:
        build_report(run_dir, "out", notebook=bad)
    assert caught.value.exit_code == 1
    assert "norm_fwd: the run/category_data/norm_fwd_ops.csv is broken" in str(caught.value)
    assert "out.failed" in str(caught.value)
    assert files_of(in_tmp / "out") == before
    assert (in_tmp / "out.failed" / "report.html").exists()


def test_a_run_without_normalization_operations_is_a_report_that_says_so(in_tmp: Path, run_dir: Path) -> None:
    (run_dir / "category_data" / "norm_fwd_ops.csv").unlink()
    assert build_report(run_dir, "out").status == "EMPTY"
    for name in ("report.html", "findings.md", "findings.html"):
        assert "no normalization operation" in (in_tmp / "out" / name).read_text(encoding="utf-8").lower()


@pytest.mark.parametrize(
    ("run", "out", "options", "error", "says"),
    [
        ("the run", "out", {"topn": 3}, UsageError, "did you mean top_n?"),
        ("the run", "out", {"top_n": 0}, UsageError, "1 to 1000"),
        ("nowhere", "out", {}, InputError, "nowhere"),
        ("the run", "the run", {}, UsageError, "which no report wrote"),
        ("the run", "occupied", {}, UsageError, "which no report wrote"),
        ("the run", "half", {}, UsageError, "half.failed"),
        ("sample", ".", {}, UsageError, "current folder"),
        ("the run", "the run/report", {}, UsageError, "lies in the run directory"),
        ("the run", "the run/category_data", {}, UsageError, "which no report wrote"),
        ("the run", "x" * 250, {}, UsageError, "too long"),
    ],
)
def test_what_can_be_known_beforehand_is_refused_before_anything_runs(  # noqa: PLR0917 - one case each
    in_tmp: Path, run_dir: Path, run: str, out: str, options: dict[str, Any], error: type, says: str
) -> None:
    for name in ("occupied", "half.failed"):
        (in_tmp / name).mkdir()
        (in_tmp / name / "mine.txt").write_text("mine")
    before = files_of(in_tmp)
    steps: list[object] = []
    with pytest.raises(NormscopeError) as caught:
        build_report(run, out, on_step=lambda *step: steps.append(step), **options)
    assert type(caught.value) is error
    assert says in str(caught.value)
    assert steps == []
    assert files_of(in_tmp) == before
    assert run_dir.is_dir()


def test_a_report_is_not_made_around_its_own_input(in_tmp: Path) -> None:
    notebook = write_notebook(in_tmp / "n.ipynb", finish=finish())
    write_run(in_tmp / "r")
    build_report("r", "out", notebook=notebook)
    write_run(in_tmp / "out" / ".run")
    with pytest.raises(UsageError, match=r"holds \.run/"):
        build_report("out/.run", "out", notebook=notebook)
    assert (in_tmp / "out" / ".run" / "metadata").is_dir()


def shown_params(report: Path) -> ReportParams:
    return decode_provenance((report / "provenance.json").read_bytes()).parameters


def test_what_is_not_given_is_told_by_the_run(in_tmp: Path, run_dir: Path) -> None:
    manifest = run_dir / "category_data" / "category_manifest.json"
    manifest.write_text('{"comparison_scope": "comparative"}')
    notebook = write_notebook(in_tmp / "n.ipynb", finish=finish())
    built = build_report("the run", notebook=notebook)
    assert built.out_dir == Path("outputs/the-run")
    assert shown_params(built.out_dir).comparison_scope == "comparative"
    built = build_report("the run", "out", notebook=notebook, comparison_scope="standalone")
    assert shown_params(built.out_dir).comparison_scope == "standalone"


def test_a_category_that_the_run_does_not_have_is_a_warning(in_tmp: Path, run_dir: Path) -> None:
    notebook = write_notebook(in_tmp / "n.ipynb", finish=finish("EMPTY"))
    built = build_report("the run", "out", notebook=notebook, categories=["norm_fdw", "norm_bwd"])
    assert built.warnings == ("the run has no category norm_fdw; did you mean norm_fwd? (it has norm_fwd)",)


def test_steps_are_told_to_the_last(in_tmp: Path, run_dir: Path) -> None:
    steps: list[tuple[str, int, int]] = []
    notebook = write_notebook(in_tmp / "n.ipynb", finish=finish())
    build_report(run_dir, "out", notebook=notebook, on_step=lambda *step: steps.append(step))
    assert [(number, total) for _, number, total in steps] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert steps[-1][0] == "Export"


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, 143)])
def test_an_interrupted_run_leaves_the_good_report_and_no_trace_of_the_new_one(
    in_tmp: Path, run_dir: Path, number: signal.Signals, status: int
) -> None:
    good = write_notebook(in_tmp / "good.ipynb", finish=finish())
    build_report(run_dir, "out", notebook=good)
    before = files_of(in_tmp / "out")
    started = in_tmp / "started"
    slow = write_notebook(
        in_tmp / "slow.ipynb", f"open({str(started)!r}, 'w').close(); import time; time.sleep(60)"
    )
    program = (
        "import sys; from pathlib import Path; from normscope import build_report; "
        "build_report(sys.argv[1], 'out', notebook=Path(sys.argv[2]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(run_dir), str(slow)], stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while not started.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(number)
    assert process.wait(60) == status
    assert files_of(in_tmp / "out") == before
    assert sorted(path.name for path in in_tmp.iterdir() if "out" in path.name) == ["out"]
