"""``normscope compare`` as a user runs it, and what it says."""

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from normscope.compare.models import Comparison
from normscope.compare.pairing import compare_sides
from normscope.compare.summary_text import answer, comparison_lines
from pairing_inputs import group, side
from runs import row, write_run
from test_cli import is_one_sentence, run
from test_compare_sides import layer_norm_calls
from trace_inputs import as_json, kernel, launch, op


def shape(size: int) -> str:
    return f"({size},768) bf16"


def test_the_answer_says_how_much_how_many_percent_and_where() -> None:
    first = side(
        *(group(*[time] * 10, arguments=shape(i)) for i, time in enumerate([300.0, 200.0, 50.0, 50.0]))
    )
    second = side(
        *(group(*[time] * 10, arguments=shape(i)) for i, time in enumerate([200.0, 155.0, 48.0, 47.0]))
    )
    # 6 ms against 4.5 ms: a third of trace 2's time; 1000 + 450 of the 1500 µs lie in two shapes.
    expected = "Trace 1 spends 1.5 ms more in LayerNorm (33% slower); two shapes carry 97% of it."
    assert answer(compare_sides(first, second)) == expected
    assert answer(compare_sides(second, first)) == (
        "Trace 1 spends 1.5 ms less in LayerNorm (25% faster); two shapes carry 97% of it."
    )


def test_the_answer_where_nothing_differs() -> None:
    same = side(group(1000.0))
    assert answer(compare_sides(same, same)) == "Both traces spend 1 ms in LayerNorm."


def test_the_answer_with_several_variants_speaks_of_normalization() -> None:
    first = side(group(1000.0), group(1000.0, variant="RMSNorm"))
    found = compare_sides(first, side(group(1000.0), group(500.0, variant="RMSNorm")))
    assert answer(found) == (
        "Trace 1 spends 500 µs more in normalization (33% slower); one shape carries all of it."
    )


def test_the_answer_counts_what_only_one_side_has() -> None:
    found = compare_sides(side(group(1000.0), group(500.0, variant="RMSNorm")), side(group(1000.0)))
    assert answer(found).startswith("Trace 1 spends 500 µs more in normalization (50% slower)")


def test_every_kind_of_line_is_said() -> None:
    spread = [0.1 * i for i in range(8)]
    first = side(
        group(*[20.0 + s for s in spread], arguments=shape(1)),
        group(*[30.0 + s for s in spread], arguments=shape(2)),
        group(5.0, arguments=shape(3)),
        group(7.0, 7.0, variant="RMSNorm", name="aten::rms_norm", arguments=shape(4)),
        steps=2,
    )
    second = side(
        group(*[10.0 + s for s in spread[:4]], arguments=shape(1)),
        group(*[30.05 + s for s in spread[::2]], arguments=shape(2)),
        group(3.0, arguments=shape(3)),
        group(9.0, direction="backward", name="aten::native_layer_norm_backward", arguments=shape(1)),
        steps=1,
    )
    second = msgspec.structs.replace(second, gpu="A GPU")
    lines = list(comparison_lines(compare_sides(msgspec.structs.replace(first, gpu="Another GPU"), second)))
    # Per step: trace 2's 40.6 + 121.4 + 3 µs are twice that.
    assert lines[1] == "LayerNorm forward: 411 µs in trace 1, 330 µs in trace 2 (24% slower), 17 and 9 calls."
    for line in (
        "Only in trace 1, 14 µs as recorded:",
        "  aten::rms_norm (4,768) bf16: 2 calls, 14 µs",
        "Only in trace 2, 9 µs as recorded:",
        "  aten::layer_norm (1,768) bf16: 163 µs against 81 µs (100% slower)",
        "Not to be told from noise, for too few calls or unlike work: 1 operation, 1 µs apart.",
        "The GPUs differ: trace 1 ran on Another GPU, trace 2 on A GPU.",
        "Compared per step: trace 1 has 2 steps, trace 2 1; trace 2's times are scaled to as many.",
    ):
        assert line in lines
    assert any(
        line.startswith("More than the spread of the calls explains (Mann-Whitney U") for line in lines
    )
    assert any(line.startswith("Within the noise of the calls: 1 operation") for line in lines)


def test_per_call_is_said() -> None:
    lines = list(comparison_lines(compare_sides(side(group(1.0)), side(group(1.0, 1.0)))))
    assert any(line.startswith("Compared per call") for line in lines)


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
    assert lines[0] == "Trace 1 spends 160 µs more in LayerNorm (98% slower)."
    assert str(tmp_path / "out" / "category_findings" / "norm_fwd_findings.md").endswith(lines[-1])
    metrics = json.loads((tmp_path / "out" / "category_data" / "norm_fwd_metrics.json").read_text())
    assert metrics["comparison_scope"] == "comparative"
    assert metrics["operations"][0]["difference_ms"] == -0.16
    comparison = msgspec.json.decode(
        (tmp_path / "out" / "category_data" / "comparison.json").read_bytes(), type=Comparison
    )
    assert (comparison.first.label, comparison.second.label) == ("old", "new")
    assert comparison.first.gpu == "NVIDIA H100 SXM5 80GB"
    assert str(tmp_path) not in (tmp_path / "out" / "category_data" / "comparison.json").read_text()


def test_the_same_input_twice_is_fine(tmp_path: Path) -> None:
    done = run("compare", "sample", "sample", "--out", "out", "--no-report", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Both traces spend ")


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
        (("old.json", "out"), 2, "--out is out itself"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    words: tuple[str, ...], code: int, message: str, traces: tuple[Path, Path], tmp_path: Path
) -> None:
    write_run(tmp_path / "run", [row()])
    (tmp_path / "out").mkdir()
    plain = [op("aten::mm", 100, 50), launch(1, 110), kernel(1, 200, 5.0, name="gemm")]
    (tmp_path / "plain.json").write_bytes(as_json(plain))
    done = run("compare", *words, "--out", "out", "--no-report", cwd=tmp_path)
    assert done.returncode == code
    assert is_one_sentence(done.stderr)
    assert message in done.stderr
    assert list((tmp_path / "out").iterdir()) == []


def test_what_both_traces_share_goes_to_the_one_that_is_a_trace(
    traces: tuple[Path, Path], tmp_path: Path
) -> None:
    write_run(tmp_path / "run", [row()])
    words = ("run", "new.json", "--peaks", "achievable", "--out", "out", "--no-report")
    assert run("compare", *words, cwd=tmp_path).returncode == 0


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
