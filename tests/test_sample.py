"""The bundled sample is a well-formed run directory that says what its table of truth declares."""

import ast
import csv
import json
import math
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from normscope.analysis.analyze import analyze_category
from normscope.analysis.models import CategoryMetrics
from normscope.errors import UsageError
from normscope.sample import workload, write_sample
from normscope.sample.arguments import ARGUMENTS
from normscope.sample.ops import OP_KINDS, bytes_moved
from normscope.sample.ops_table import COLUMNS
from normscope.sample.simulate import simulate
from normscope.sample.workload import BACKWARD, CATEGORIES, FORWARD, NormCall

PEAK_BYTES_PER_US = workload.PEAK_HBM_BW_TBS * 1e6
Row = dict[str, str]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sample(tmp_path_factory.mktemp("sample"))


def rows_of(sample: Path, category: str) -> list[Row]:
    with (sample / "category_data" / f"{category}_ops.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def declared_and_written(sample: Path) -> Iterator[tuple[NormCall, Row]]:
    """Pair every declared call with its row, by the op's name and the shape of its activation."""
    for category, calls in CATEGORIES.items():
        rows = {
            (row["name"], ast.literal_eval(row["Input Dims"])[0]): row for row in rows_of(sample, category)
        }
        assert len(rows) == len(calls)
        for call in calls:
            yield call, rows[OP_KINDS[call.op].name, call.shape]


def all_text(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_run_directory_has_the_files_that_tracelens_writes(sample: Path) -> None:
    assert sorted(all_text(sample)) == [
        "category_data/category_manifest.json",
        "category_data/norm_bwd_ops.csv",
        "category_data/norm_fwd_ops.csv",
        "metadata/norm_bwd_metadata.json",
        "metadata/norm_fwd_metadata.json",
    ]


def test_the_sample_is_the_same_bytes_every_time(sample: Path, tmp_path: Path) -> None:
    assert all_text(write_sample(tmp_path / "again")) == all_text(sample)


def test_every_file_that_names_the_device_calls_it_simulated(sample: Path) -> None:
    for name in (
        "category_data/category_manifest",
        "metadata/norm_fwd_metadata",
        "metadata/norm_bwd_metadata",
    ):
        facts = json.loads((sample / f"{name}.json").read_text(encoding="utf-8"))
        assert facts["platform"] == "Simulated GPU (no real device)"
        assert "simulated" in facts["trace_path"]


def test_the_tables_have_the_columns_of_a_real_run(shared: Path) -> None:
    real = shared / "tracelens_runs" / "resnet_checkpoint_mi300x" / "category_data" / "norm_fwd_ops.csv"
    with real.open(encoding="utf-8", newline="") as file:
        assert tuple(next(csv.reader(file))) == COLUMNS


def test_each_row_keeps_to_its_declared_efficiency_count_and_variation(sample: Path) -> None:
    for call, row in declared_and_written(sample):
        size = bytes_moved(OP_KINDS[call.op], call.shape, call.dtype)
        mean_us = size / (call.efficiency_percent / 100 * PEAK_BYTES_PER_US)
        assert int(row["operation_count"]) == call.calls
        assert float(row["Kernel Time (µs)_mean"]) == pytest.approx(mean_us, abs=0.001)
        assert float(row["Kernel Time (µs)_sum"]) == pytest.approx(
            mean_us * call.calls, abs=0.001 * call.calls
        )
        assert float(row["Kernel Time (µs)_std"]) == pytest.approx(call.variation * mean_us, rel=0.01)


def test_efficiency_bandwidth_and_time_of_a_row_agree_with_each_other(sample: Path) -> None:
    for call, row in declared_and_written(sample):
        if row["has_perf_model"] == "False":
            continue
        bandwidth_tbs = float(row["Data Moved (MB)"]) * 2**20 / float(row["Kernel Time (µs)_mean"]) / 1e6
        assert float(row["TB/s_mean"]) == pytest.approx(bandwidth_tbs)
        assert float(row["Pct Roofline_mean"]) == pytest.approx(
            100 * bandwidth_tbs / workload.PEAK_HBM_BW_TBS
        )
        assert float(row["Pct Roofline_mean"]) == pytest.approx(call.efficiency_percent, rel=1e-3)


def test_the_spread_of_every_row_is_in_order(sample: Path) -> None:
    for _, row in declared_and_written(sample):
        low, middle, mean, high = (
            float(row[f"Kernel Time (µs)_{name}"]) for name in ("min", "median", "mean", "max")
        )
        assert 0 < low <= middle <= high
        assert low <= mean <= high


# Expected bytes by hand from the shapes: E elements, C channels, N features, R rows, 2 bytes per bf16.
@pytest.mark.parametrize(
    ("op", "shape", "dtype", "expected"),
    [
        # x, y; weight, bias; mean and invstd in fp32; running mean and variance read and written
        ("batch_norm_native", (2, 8, 4, 4), "bf16", 2 * 256 * 2 + 2 * 8 * 2 + 2 * 8 * 4 + 4 * 8 * 2),
        # dy, x, dx; weight; mean and invstd in fp32; two gradients of parameters
        ("batch_norm_backward_native", (2, 8, 4, 4), "bf16", 3 * 256 * 2 + 8 * 2 + 2 * 8 * 4 + 2 * 8 * 2),
        # x, y; weight, bias; mean and rstd of 6 rows in fp32
        ("layer_norm_native", (2, 3, 16), "bf16", 2 * 96 * 2 + 2 * 16 * 2 + 2 * 6 * 4),
        # dy, x, dx; mean and rstd; weight; two gradients of parameters
        ("layer_norm_backward_native", (2, 3, 16), "bf16", 3 * 96 * 2 + 2 * 6 * 4 + 16 * 2 + 2 * 16 * 2),
        # x, y; weight; rstd
        ("rms_norm_native", (2, 3, 16), "bf16", 2 * 96 * 2 + 16 * 2 + 6 * 4),
        # x, residual in; y, residual out; weight
        ("rms_norm_aiter", (6, 16), "bf16", 4 * 96 * 2 + 16 * 2),
        # x, y; weight, bias; mean and rstd of 2 samples times 32 groups
        ("group_norm_native", (2, 64, 2, 2), "bf16", 2 * 512 * 2 + 2 * 64 * 2 + 2 * 64 * 2),
        # x, y; mean and invstd of 2 samples times 8 channels, in fp32
        ("instance_norm_native", (2, 8, 4, 4), "bf16", 2 * 256 * 2 + 2 * 16 * 4),
        ("batch_norm_miopen", (2, 8, 4, 4), "fp32", 2 * 256 * 4 + 2 * 8 * 4 + 2 * 8 * 4 + 4 * 8 * 4),
    ],
)
def test_bytes_moved_is_every_input_and_output_once(
    op: str, shape: tuple[int, ...], dtype: str, expected: int
) -> None:
    assert bytes_moved(OP_KINDS[op], shape, "fp32" if dtype == "fp32" else "bf16") == expected


def test_all_five_norm_variants_and_both_directions_occur() -> None:
    forward = {call.op for call in FORWARD}
    for variant in ("batch_norm", "layer_norm", "group_norm", "instance_norm", "rms_norm"):
        assert any(op.startswith(variant) for op in forward)
    assert all("backward" in call.op for call in BACKWARD)


def test_every_efficiency_band_occurs_and_exactly_one_op_beats_the_roofline() -> None:
    efficiencies = [call.efficiency_percent for calls in CATEGORIES.values() for call in calls]
    for low, high in ((0, 30), (30, 60), (60, 100)):
        assert any(low <= efficiency < high for efficiency in efficiencies)
    assert [e for e in efficiencies if e > 110] == [134.0]


def test_exactly_one_op_has_no_performance_model_and_leaves_its_columns_empty(sample: Path) -> None:
    rows = [row for category in CATEGORIES for row in rows_of(sample, category)]
    (row,) = [row for row in rows if row["has_perf_model"] == "False"]
    assert row["name"].startswith("triton_")
    assert {row[c] for c in ("Pct Roofline_mean", "TB/s_mean", "FLOPS/Byte", "Roofline Bound")} == {""}


def test_exactly_one_op_counts_as_high_variance(sample: Path) -> None:
    # The contract's rule: std over mean above 1, more than 10 calls, at least 5 % of end-to-end time.
    high = [
        row["name"]
        for category in CATEGORIES
        for row in rows_of(sample, category)
        if float(row["Kernel Time (µs)_std"]) > float(row["Kernel Time (µs)_mean"])
        and int(row["operation_count"]) > 10
        and float(row["Kernel Time (µs)_sum"]) >= 0.05 * workload.END_TO_END_MS * 1000
    ]
    assert high == ["aten::batch_norm"]


def test_normalization_takes_about_a_quarter_of_the_step(sample: Path) -> None:
    total_us = sum(
        float(row["Kernel Time (µs)_sum"]) for category in CATEGORIES for row in rows_of(sample, category)
    )
    assert 20 <= 100 * total_us / (workload.END_TO_END_MS * 1000) <= 30


def test_metadata_and_manifest_give_the_kernel_time_of_the_table(sample: Path) -> None:
    manifest = json.loads((sample / "category_data" / "category_manifest.json").read_text(encoding="utf-8"))
    for entry in manifest["categories"]:
        rows = rows_of(sample, entry["name"])
        metadata = json.loads((sample / entry["metadata_file"]).read_text(encoding="utf-8"))
        total_ms = math.fsum(float(row["Kernel Time (µs)_sum"]) for row in rows) / 1000
        assert entry["ops_count"] == len(rows)
        assert (sample / entry["csv_file"]).is_file()
        assert entry["gpu_kernel_time_ms"] == pytest.approx(total_ms, abs=0.0005)
        assert metadata["time_breakdown"]["gpu_kernel_time_ms"] == entry["gpu_kernel_time_ms"]


def test_list_cells_read_as_python_literals_of_one_length(sample: Path) -> None:
    for _, row in declared_and_written(sample):
        cells = [
            ast.literal_eval(row[c]) for c in ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
        ]
        assert len({len(cell) for cell in cells}) == 1
        assert row["name"] in ast.literal_eval(row["call_stack_full"])


def test_the_last_frames_of_a_call_stack_are_the_kernels_of_the_row(sample: Path) -> None:
    for _, row in declared_and_written(sample):
        kernels = [detail["name"] for detail in ast.literal_eval(row["kernel_details_summary"])]
        stack = ast.literal_eval(row["call_stack_full"])
        expected = kernels if len(kernels) == 1 else [[name] for name in kernels]
        assert stack[-len(kernels) :] == expected


def test_forward_ops_name_their_modules_and_backward_ops_run_in_autograd(sample: Path) -> None:
    assert all("nn.Module: " in row["call_stack_full"] for row in rows_of(sample, "norm_fwd"))
    assert all("autograd::engine" in row["call_stack_full"] for row in rows_of(sample, "norm_bwd"))


def test_the_kernels_of_an_op_share_its_whole_time() -> None:
    for kind in OP_KINDS.values():
        assert math.fsum(kernel.share for kernel in kind.kernels) == pytest.approx(1)


def test_every_declared_op_and_argument_is_known_and_used() -> None:
    words = {w for kind in OP_KINDS.values() for w in f"{kind.arguments} {kind.also_moved}".split()}
    assert words == set(ARGUMENTS)
    assert {call.op for calls in CATEGORIES.values() for call in calls} == set(OP_KINDS)


def test_a_steady_op_has_positive_times_whatever_the_seed() -> None:
    for seed in range(50):
        for calls in CATEGORIES.values():
            assert all(
                min(simulate(call, random.Random(seed)).kernel_times_us) > 0
                for call in calls
                if call.variation < 1
            )


def analyzed(sample: Path, category: str) -> CategoryMetrics:
    metrics = analyze_category(sample, category)
    assert isinstance(metrics, CategoryMetrics)
    return metrics


def test_the_analysis_finds_the_groups_that_the_table_of_truth_declares(sample: Path) -> None:
    # By hand from the declared calls: library, band of efficiency, and a sum of gap times time above 0.5.
    found = {
        category: [
            (f.library, f.eff_bucket, f.estimate_method) for f in analyzed(sample, category).category_findings
        ]
        for category in CATEGORIES
    }
    assert found == {
        "norm_fwd": [
            ("PyTorch Native", "0-30", "quantified"),
            ("AITER", "30-60", "quantified"),
            ("MIOpen", "30-60", "quantified"),
            ("Triton", "unknown", "heuristic"),
        ],
        "norm_bwd": [
            ("PyTorch Native", "0-30", "quantified"),
            ("PyTorch Native", "30-60", "quantified"),
            ("MIOpen", "30-60", "quantified"),
            ("PyTorch Native", "60-100", "quantified"),
        ],
    }


def test_the_analysis_sees_the_anomaly_the_high_variance_and_the_missing_model(sample: Path) -> None:
    forward, backward = analyzed(sample, "norm_fwd"), analyzed(sample, "norm_bwd")
    quality = forward.data_quality
    (anomaly,), (varying,), (unmodeled,) = (
        [forward.operations[index] for index in places]
        for places in (quality.anomalies, quality.high_variance, quality.operations_without_efficiency)
    )
    assert (anomaly.name, anomaly.efficiency.efficiency_percent) == ("aten::_fused_rms_norm", 134.0)
    assert (varying.args or "").startswith("(64,256,56,56) bf16")
    assert unmodeled.library == "Triton"
    assert not backward.data_quality.anomalies
    assert {op.variant for op in forward.operations} == {
        "BatchNorm",
        "LayerNorm",
        "GroupNorm",
        "InstanceNorm",
        "RMSNorm",
    }


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder", encoding="utf-8")
    with pytest.raises(UsageError, match="can't be written"):
        write_sample(tmp_path / "file")
