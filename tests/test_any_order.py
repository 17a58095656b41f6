"""The README's commands work in one checkout in any order, and a parameter file gives what it says only."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT
from report_inputs import norm_row, write_run

REPORT = ("-m", "normscope", "report", "--params", "p.yaml")
PAPERMILL = (
    *("-m", "papermill", str(ROOT / "notebooks" / "norm_report.ipynb"), "out.ipynb", "-f", "p.yaml"),
    *("--kernel", "python3", "--no-progress-bar"),
)


def call(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, (str(ROOT / "lib"), os.environ.get("PYTHONPATH"))))
    return subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": path, "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with a comparative run and a parameter file that leaves the scope and more to the run."""
    run = write_run(tmp_path / "run", {"norm_fwd": [norm_row()], "norm_bwd": [norm_row()]})
    (run / "category_data" / "category_manifest.json").write_text('{"comparison_scope": "comparative"}')
    (tmp_path / "p.yaml").write_text("run_dir: run\nout_dir: outputs/run\n")
    return tmp_path


def test_papermill_alone_and_a_report_can_follow_each_other_in_any_order(here: Path) -> None:
    for words in (PAPERMILL, REPORT, PAPERMILL, REPORT):
        done = call(*words, cwd=here)
        assert done.returncode == 0, done.stderr
        assert json.loads((here / "outputs/run/metrics.json").read_text())["complete"] is True
    assert sorted(path.name for path in (here / "outputs").iterdir()) == ["run"]
    assert (here / "outputs/run/report.html").is_file()


def test_a_parameter_file_leaves_to_the_run_what_it_does_not_give(here: Path) -> None:
    (here / "p.yaml").write_text("run_dir: run\ntop_n: 3\n")
    done = call(*REPORT, cwd=here)
    assert done.returncode == 0, done.stderr
    told = json.loads((here / "outputs/run/provenance.json").read_text())["parameters"]
    assert (told["comparison_scope"], told["top_n"], told["out_dir"]) == ("comparative", 3, "outputs/run")


def test_papermill_alone_fails_as_a_report_does_and_all_results_are_there(here: Path) -> None:
    (here / "run/category_data/norm_bwd_ops.csv").write_text("name,count\naten::layer_norm,many\n")
    alone, report = call(*PAPERMILL, cwd=here), call(*REPORT, cwd=here)
    for done in (alone, report):
        assert done.returncode == 1
        assert "norm_bwd_ops.csv, line 2, column 'count': 'many' is not a number" in done.stderr
    for folder in ("run", "run.failed"):
        results = json.loads((here / "outputs" / folder / "metrics.json").read_text())
        assert (results["complete"], results["status"]) == (True, "ERROR")
    assert (here / "outputs/run.failed/report.html").is_file()
