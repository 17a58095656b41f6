"""``normscope compare`` as a user runs it, and what it says."""

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from normscope.compare.models import Comparison, Side
from runs import row, write_run
from test_capture import GEMM, VLLM, captured, replayed, vllm
from test_cli import is_one_sentence, run
from test_compare_sides import layer_norm_calls
from trace_inputs import as_json, kernel, launch, op


@pytest.fixture
def traces(tmp_path: Path) -> tuple[Path, Path]:
    paths = tmp_path / "old.json", tmp_path / "new.json"
    paths[0].write_bytes(layer_norm_calls(*[40.0 + 0.1 * i for i in range(8)]))
    paths[1].write_bytes(layer_norm_calls(*[20.0 + 0.1 * i for i in range(8)]))
    return paths


def test_two_traces_are_compared_and_the_answer_comes_first(
    traces: tuple[Path, Path], tmp_path: Path
) -> None:
    done = run("compare", *traces, "--out", "out", "--no-report", "--gpu1", "h100_sxm", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    # Eight calls of 40.35 µs on average against 20.35 µs.
    assert lines[0].startswith("Trace 1 spends 160 µs more in LayerNorm, 98% slower; ")
    assert str(tmp_path / "out" / "run" / "category_findings" / "norm_fwd_findings.md").endswith(lines[-1])
    metrics = json.loads((tmp_path / "out" / "run" / "category_data" / "norm_fwd_metrics.json").read_text())
    assert metrics["comparison_scope"] == "comparative"
    assert metrics["operations"][0]["difference_ms"] == -0.16
    comparison = msgspec.json.decode(
        (tmp_path / "out" / "run" / "category_data" / "comparison.json").read_bytes(), type=Comparison
    )
    assert (comparison.first.label, comparison.second.label) == ("old", "new")
    assert comparison.first.gpu == "NVIDIA H100 SXM5 80GB"
    assert str(tmp_path) not in (tmp_path / "out" / "run" / "category_data" / "comparison.json").read_text()


def test_the_same_input_twice_is_fine(tmp_path: Path) -> None:
    done = run("compare", "sample", "sample", "--out", "out", "--no-report", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("No difference beyond the noise: normalization takes ")


def test_the_report_lies_beside_the_run_directory(traces: tuple[Path, Path], tmp_path: Path) -> None:
    done = run("compare", *traces, "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    page = tmp_path / "out" / "report" / "report.html"
    assert done.stdout.splitlines()[-1] == str(page.relative_to(tmp_path))
    assert "Trace 1 spends 160 µs more in LayerNorm" in page.read_text("utf-8")
    assert (tmp_path / "out" / "run" / "category_data" / "comparison.json").is_file()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("old.json", "nothing.json"), 3, "nothing.json doesn't exist"),
        (("old.json", "plain.json"), 4, "plain holds no normalization"),
        (("plain.json", "old.json"), 4, "plain holds no normalization"),
        (("-", "-"), 2, "standard input can be read once"),
        (("run", "old.json", "--gpu1", "h100_sxm"), 2, "gpu is for profiler traces"),
        (("run", "run", "--peaks", "achievable"), 2, "--peaks is for profiler traces"),
        (("old.json", "old.json", "--gpu2", "h1000"), 2, "no GPU has the key"),
        (("old.json", "out"), 2, "out lies in what --out writes"),
        (("out/report/metrics.json", "old.json"), 2, "out/report/metrics.json lies in what --out writes"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    words: tuple[str, ...], code: int, message: str, traces: tuple[Path, Path], tmp_path: Path
) -> None:
    write_run(tmp_path / "run", [row()])
    (tmp_path / "out" / "report").mkdir(parents=True)
    (tmp_path / "out" / "report" / "metrics.json").write_text("{}")
    plain = [op("aten::mm", 100, 50), launch(1, 110), kernel(1, 200, 5.0, name="gemm")]
    (tmp_path / "plain.json").write_bytes(as_json(plain))
    done = run("compare", *words, "--out", "out", "--no-report", cwd=tmp_path)
    assert done.returncode == code
    assert is_one_sentence(done.stderr)
    assert message in done.stderr
    assert [path.name for path in (tmp_path / "out").rglob("*")] == ["report", "metrics.json"]


def test_what_both_traces_share_goes_to_the_one_that_is_a_trace(
    traces: tuple[Path, Path], tmp_path: Path
) -> None:
    write_run(tmp_path / "run", [row()])
    words = ("run", "new.json", "--peaks", "achievable", "--out", "out", "--no-report")
    assert run("compare", *words, cwd=tmp_path).returncode == 0


def test_each_trace_can_have_a_gpu_of_its_own_as_a_file(traces: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "first.json").write_text('{"name": "First", "mem_bw_gbps": 1000}')
    (tmp_path / "second.json").write_text('{"name": "Second", "mem_bw_gbps": 2000}')
    files = ("--gpu-file1", "first.json", "--gpu-file2", "second.json")
    done = run("compare", *traces, *files, "--out", "out", "--no-report", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    sides = comparison_of(tmp_path / "out" / "run")
    assert [(side.gpu, side.peak_bandwidth_tbs) for side in sides] == [("First", 1.0), ("Second", 2.0)]


def test_each_trace_can_have_captures_of_its_own(tmp_path: Path) -> None:
    graph = replayed(GEMM, VLLM, grid=[32, 1, 1])
    (tmp_path / "replay.json").write_bytes(as_json(graph))
    (tmp_path / "captures").mkdir()
    (tmp_path / "captures" / "of_32.json").write_bytes(as_json(captured(("aten::mm", {}, [GEMM]), vllm(32))))
    words = ("replay.json", "replay.json", "--out", "out", "--no-report")
    done = run("compare", *words, "--capture2", "captures", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    # [32, 64] in, [32, 64] out and 64 weights of 2 bytes each, as the capture has them
    assert [side.groups[0].bytes_moved_per_call for side in comparison_of(tmp_path / "out" / "run")] == [
        None,
        (32 * 64 + 32 * 64 + 64) * 2,
    ]


def comparison_of(run_dir: Path) -> tuple[Side, Side]:
    """Return the two sides of a comparison that was written."""
    text = (run_dir / "category_data" / "comparison.json").read_bytes()
    found = msgspec.json.decode(text, type=Comparison)
    return found.first, found.second


def test_names_that_would_drive_a_terminal_are_harmless(tmp_path: Path) -> None:
    write_run(tmp_path / "run", [row("aten::layer_norm\x1b[31m\n")])
    write_run(tmp_path / "other", [row("aten::layer_norm", time_us=10.0), row("rms_norm\x07")])
    done = run("compare", "run", "other", "--out", "out", "--no-report", cwd=tmp_path)
    assert done.returncode == 0
    assert not {"\x1b", "\x07"}.intersection(done.stdout)


def test_a_comparison_loads_nothing_that_is_slow_to_import(traces: tuple[Path, Path], tmp_path: Path) -> None:
    program = """
import sys
from normscope.cli import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
slow = {"pandas", "numpy", "matplotlib", "papermill", "nbconvert"}
print(sorted(slow.intersection(module.split(".")[0] for module in sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, "compare", *map(str, traces), "--out", "out", "--no-report"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[]"
