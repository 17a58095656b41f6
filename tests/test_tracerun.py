"""A trace written as a run directory: layout, totals, coverage, and the peaks that it is held against."""

import ast
import json
import time
from pathlib import Path

import pytest

from normscope.analysis.analyze import analyze_category
from normscope.analysis.models import CategoryMetrics
from normscope.errors import ExportError, InputError, NoGpuActivityError, UsageError
from normscope.inputs.rundir import find_categories
from normscope.tracerun.peaks import GpuChoice
from normscope.tracerun.summary import trace_notes
from normscope.tracerun.write import write_trace_run
from real_traces import TRACES
from trace_inputs import INPUTS, as_json, base_events, kernel, launch, op
from written_run import CATEGORIES, WrittenRun, known, number, written, written_bytes, written_events


@pytest.fixture(scope="module", params=TRACES)
def real(
    request: pytest.FixtureRequest, shared: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, WrittenRun]:
    name: str = request.param
    return name, written(shared / "traces" / f"{name}.json.gz", tmp_path_factory.mktemp(name))


@pytest.fixture
def run(tmp_path: Path) -> WrittenRun:
    return written_events(tmp_path, *base_events())


def test_calls_rows_and_coverage_add_up_to_the_same_time(real: tuple[str, WrittenRun]) -> None:
    _, run = real
    overheads = sum(known(row, "Helper Kernel Time (µs)_sum") for row in run.rows)
    norm_us = run.summary.coverage.us("explicit", "compiled_fused", "eager_decomposed")
    assert run.summary.norm_us == pytest.approx(norm_us)
    assert run.summary.helper_us == pytest.approx(overheads)
    assert sum(known(call, "kernel_time_us") for call in run.calls) == pytest.approx(norm_us + overheads)
    assert sum(known(row, "Kernel Time (µs)_sum") for row in run.rows) == pytest.approx(norm_us + overheads)
    assert sum(known(row, "operation_count") for row in run.rows) == len(run.calls) == run.summary.call_count
    for category in CATEGORIES:
        if rows := run.table(category):
            assert sum(known(row, "Percentage (%)") for row in rows) == pytest.approx(100)
            assert known(rows[-1], "Cumulative Percentage (%)") == pytest.approx(100)
            total_ms = sum(known(row, "Kernel Time (µs)_sum") for row in rows) / 1000
            time_ms = run.metadata(category)["time_breakdown"]["gpu_kernel_time_ms"]
            assert time_ms == pytest.approx(total_ms, abs=0.0005)


def test_the_analysis_reads_what_is_written(real: tuple[str, WrittenRun]) -> None:
    _, run = real
    found = {category for category in CATEGORIES if run.table(category)}
    assert set(find_categories(run.folder)) == found
    assert {entry["name"] for entry in run.manifest["categories"]} == found
    for category in found:
        metrics = analyze_category(run.folder, category)
        assert isinstance(metrics, CategoryMetrics)
        direction = {"norm_fwd": "forward", "norm_bwd": "backward"}[category]
        assert {operation.direction for operation in metrics.operations} == {direction}
        for operation, row in zip(metrics.operations, run.table(category), strict=True):
            assert operation.kernel_time_mean_us == known(row, "Kernel Time (µs)_mean")
            is_known = row["found_by"] != "kernel"  # the name of a kernel tells no bytes
            assert (operation.efficiency.efficiency_percent is not None) == is_known


def test_every_call_is_listed_with_the_row_that_it_belongs_to(real: tuple[str, WrittenRun]) -> None:
    _, run = real
    for category in CATEGORIES:
        for place, row in enumerate(run.table(category)):
            own = [call for call in run.calls if (call["category"], call["row"]) == (category, str(place))]
            assert [int(call["call"]) for call in own] == list(range(int(row["operation_count"])))
            starts = [known(call, "op_start_us") for call in own]
            assert starts == sorted(starts)
            for column, ours in (
                ("Kernel Time (µs)_sum", "kernel_time_us"),
                ("Norm Kernel Time (µs)_sum", "norm_kernel_time_us"),
                ("Helper Kernel Time (µs)_sum", "helper_kernel_time_us"),
            ):
                assert known(row, column) == pytest.approx(sum(known(call, ours) for call in own))


def test_the_table_has_all_columns_of_the_reference(shared: Path, run: WrittenRun) -> None:
    for name in ("norm_layers_mi300x", "resnet_checkpoint_mi300x"):
        table = shared / "tracelens_runs" / name / "category_data" / "norm_fwd_ops.csv"
        header, *_ = table.read_text("utf-8").split("\n")
        assert set(header.split(",")) <= set(run.rows[0])


def test_the_host_time_of_ops_is_the_references(shared: Path, tmp_path: Path) -> None:
    run = written(shared / "traces" / "norm_layers_mi300x.json.gz", tmp_path)
    reference = WrittenRun(shared / "tracelens_runs" / "norm_layers_mi300x", run.summary)
    for category in CATEGORIES:
        for column in ("total_duration_us", "std_duration_us", "duration_us_median", "duration_us_max"):
            ours, theirs = (
                sorted(known(row, column) for row in each.table(category)) for each in (run, reference)
            )
            assert ours == pytest.approx(theirs)


def test_forward_norms_that_ran_again_in_the_backward_pass_are_marked(shared: Path, tmp_path: Path) -> None:
    run = written(shared / "traces" / "resnet_checkpoint_mi300x.json.gz", tmp_path)
    assert run.summary.recomputed_count == 57
    assert sum(int(row["recomputed_calls"]) for row in run.table("norm_fwd")) == 57
    assert sum(call["is_recomputed"] == "True" for call in run.calls) == 57
    for row in run.rows:
        assert int(row["recomputed_calls"]) in (0, int(row["operation_count"]))


def test_the_files_of_a_run_are_those_of_the_reference_and_three_of_our_own(run: WrittenRun) -> None:
    files = {str(path.relative_to(run.folder)) for path in run.folder.rglob("*") if path.is_file()}
    assert files == {
        "category_data/category_manifest.json",
        "category_data/coverage.json",
        "category_data/norm_calls.csv",
        "category_data/norm_fwd_ops.csv",
        "category_data/trace_summary.json",
        "metadata/norm_fwd_metadata.json",
    }


def test_one_layer_norm_is_one_row_with_its_figures(run: WrittenRun) -> None:
    (row,) = run.rows
    assert row["name"] == "aten::layer_norm"
    assert row["Input Dims"] == "((8, 128, 1024), (), (1024,), (1024,), ())"
    assert known(row, "Kernel Time (µs)_sum") == known(row, "Norm Kernel Time (µs)_sum") == 12.5
    assert number(row, "Kernel Time (µs)_std") is None
    moved = 2 * 2 * 8 * 128 * 1024 + 2 * 2 * 1024 + 2 * 4 * 8 * 128
    assert known(row, "Data Moved (MB)") * 2**20 == moved
    assert known(row, "TB/s_mean") == pytest.approx(moved / 12.5e-6 / 1e12)
    assert ast.literal_eval(row["call_stack_full"])[:2] == ["aten::layer_norm", "aten::native_layer_norm"]
    assert json.loads(json.dumps(run.summary_file))["call_count"] == 1


def test_a_category_of_an_earlier_run_is_gone(tmp_path: Path) -> None:
    backward = [
        op("aten::native_batch_norm_backward", 300, 50),
        launch(9, 310),
        kernel(9, 330, name="batch_norm_backward_kernel"),
    ]
    both = written_events(tmp_path, *base_events(), *backward)
    assert len(both.table("norm_bwd")) == 1
    run = written_events(tmp_path, *base_events())
    assert find_categories(run.folder) == ("norm_fwd",)


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises(ExportError, match="can't be written"):
        written_events(tmp_path / "file", *base_events())


def test_an_unknown_gpu_gives_times_and_bandwidth_without_percentages(run: WrittenRun) -> None:
    (row,) = run.rows
    assert run.metadata("norm_fwd")["peak_hbm_bw_tbs"] is None
    assert known(row, "TB/s_mean") > 0
    for column in ("Roofline Bound", "Roofline Time (µs)_first", "Pct Roofline_mean"):
        assert row[column] == ""
    message = run.summary.gpu_message
    for words in ('"Simulated GPU"', "without percentages", "--gpu KEY", "--gpu-file FILE"):
        assert words in message
    assert run.summary.peak_bandwidth_gbps is None
    metrics = analyze_category(run.folder, "norm_fwd")
    assert isinstance(metrics, CategoryMetrics)
    assert metrics.operations[0].efficiency.efficiency_percent is None
    assert metrics.operations[0].efficiency.tb_s_achieved is not None


@pytest.mark.parametrize(("kind", "gbps"), [("datasheet", 5300), ("achievable", None)])
def test_a_given_gpu_sets_the_peaks(tmp_path: Path, kind: str, gbps: float | None) -> None:
    choice = GpuChoice(key="mi300x", peaks="datasheet" if kind == "datasheet" else "achievable")
    run = written_events(tmp_path, *base_events(), gpu=choice)
    summary = run.summary
    achievable = summary.achievable_bandwidth_gbps
    assert achievable is not None
    assert achievable < 5300
    assert summary.peak_bandwidth_gbps == (gbps or achievable)
    assert (summary.gpu_key, summary.bandwidth_kind) == ("mi300x", kind)
    (row,) = run.rows
    assert known(row, "Pct Roofline_mean") == pytest.approx(
        100 * known(row, "TB/s_mean") * 1000 / (gbps or achievable)
    )
    assert run.metadata("norm_fwd")["peak_hbm_bw_tbs"] == (gbps or achievable) / 1000


@pytest.mark.parametrize(("key", "kind"), [("a10", "achievable"), ("mi308x", "datasheet")])
def test_a_gpu_without_that_bandwidth_has_no_percentages(tmp_path: Path, key: str, kind: str) -> None:
    choice = GpuChoice(key=key, peaks="datasheet" if kind == "datasheet" else "achievable")
    run = written_events(tmp_path, *base_events(), gpu=choice)
    assert f"No {kind} bandwidth of" in run.summary.gpu_message
    assert "--gpu-file FILE" in run.summary.gpu_message
    assert run.summary.peak_bandwidth_gbps is None
    assert run.rows[0]["Pct Roofline_mean"] == ""


def test_a_file_of_figures_sets_the_peaks(tmp_path: Path) -> None:
    file = tmp_path / "own.json"
    file.write_text('{"name": "Own", "mem_bw_gbps": 1000, "max_achievable_tflops": {"vector_bf16": 0.001}}')
    run = written_events(tmp_path / "run", *base_events(), gpu=GpuChoice(file=file))
    (row,) = run.rows
    # 8 FLOPs per element and 3 per row at 1 GFLOP/s take far longer than 4 MiB at 1 TB/s
    flops = 8 * 8 * 128 * 1024 + 3 * 8 * 128
    assert row["Roofline Bound"] == "COMPUTE_BOUND"
    assert known(row, "Roofline Time (µs)_first") == pytest.approx(flops / 1e9 * 1e6)
    assert run.summary.gpu_message == "The peaks are those of own.json, as given."
    assert str(tmp_path) not in json.dumps(run.summary_file)


def test_a_key_and_a_file_exclude_each_other(tmp_path: Path) -> None:
    choice = GpuChoice(key="mi300x", file=tmp_path / "own.json")
    with pytest.raises(UsageError, match="--gpu and --gpu-file"):
        written_events(tmp_path, *base_events(), gpu=choice)
    with pytest.raises(UsageError, match="no GPU has the key 'mi3000x'; did you mean mi300"):
        written_events(tmp_path, *base_events(), gpu=GpuChoice(key="mi3000x"))
    with pytest.raises(InputError, match=r"own\.json"):
        written_events(tmp_path, *base_events(), gpu=GpuChoice(file=tmp_path / "own.json"))


def test_a_trace_without_gpu_events_says_how_to_record_them(tmp_path: Path) -> None:
    with pytest.raises(
        NoGpuActivityError, match=r"holds 2 events and none of them on a GPU.*record it again"
    ):
        written_events(tmp_path, *base_events()[:2])
    assert not list(tmp_path.iterdir())


def test_many_copies_under_one_norm_take_linear_time(tmp_path: Path) -> None:
    def seconds(count: int) -> float:
        content = as_json(
            [
                op("aten::layer_norm", 100, 1e6),
                *(launch(turn + 1, 101 + turn, 0.5) for turn in range(count)),
                *(kernel(turn + 1, 2e6 + 2 * turn + 0.5, 1, cat="gpu_memcpy") for turn in range(count)),
            ]
        )
        start = time.process_time()
        run = written_bytes(tmp_path, content)
        elapsed = time.process_time() - start
        assert [known(call, "helper_kernel_time_us") for call in run.calls] == [count]
        return elapsed

    small = min(seconds(500) for _ in range(3))
    assert seconds(5_000) < 40 * small


def test_equal_outer_arguments_with_other_work_below_are_rows_of_their_own(tmp_path: Path) -> None:
    """Autocast: one call normalizes bf16, the other fp32, and both were given bf16."""
    fp32 = ["float", "ScalarList", "c10::BFloat16", "c10::BFloat16", "Scalar"]
    events = []
    for start, inner in ((1000.0, {}), (2000.0, {"Input type": fp32})):
        correlation = int(start)
        events += [
            op("aten::layer_norm", start, 50, **INPUTS),
            op("aten::native_layer_norm", start + 5, 40, **(INPUTS | inner)),
            launch(correlation, start + 10),
            kernel(correlation, start + 20),
        ]
    rows = written_events(tmp_path, *events).table("norm_fwd")
    # elements · (read + write) + weight and bias in bf16 + mean and rstd in fp32, of 1,024 rows
    elements = 8 * 128 * 1024
    moved = [elements * 2 * size + 2 * 1024 * 2 + 2 * 1024 * 4 for size in (4, 2)]
    assert sorted(known(row, "Data Moved (MB)") * 2**20 for row in rows) == sorted(moved)


def test_the_notes_of_a_trace_tell_what_the_figures_leave_out(tmp_path: Path) -> None:
    nameless = [kernel(None, at, 2500.0, name="void vllm::rms_norm_kernel<float>") for at in (500.0, 9e3)]
    (tmp_path / "t.json").write_bytes(as_json([*base_events(), *nameless])[:-3])
    summary = write_trace_run(tmp_path / "t.json", tmp_path / "run", label="t")
    notes = list(trace_notes(summary))
    assert notes[0] == summary.gpu_message
    assert "The trace breaks off; the figures are those of what is there." in notes
    cut_off = "2 norm kernels (5.000 ms) have their launch outside the trace: coverage.json alone holds them."
    assert cut_off in notes
