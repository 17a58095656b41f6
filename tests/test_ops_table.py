import io
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normscope import analyze_category
from normscope.analysis.models import (
    CategoryMetrics,
    ErrorMetrics,
    Scope,
    decode_metrics,
    encode_metrics,
)
from normscope.errors import InputError
from normscope.inputs.ops_table import MISSING_CELLS, read_ops_table

TIME = "Kernel Time (µs)_sum"
METADATA = '{"peak_hbm_bw_tbs": 5.3, "gpu_utilization": {"total_time_ms": 10.0}}'


def run_with(folder: Path, table: str | bytes, metadata: str | bytes = METADATA) -> Path:
    """Make a run directory of one category, ``norm_fwd``."""
    for name, content in (
        ("category_data/norm_fwd_ops.csv", table),
        ("metadata/norm_fwd_metadata.json", metadata),
    ):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def error_of(run_dir: Path) -> str:
    metrics = analyze_category(run_dir, "norm_fwd")
    assert isinstance(metrics, ErrorMetrics)
    assert metrics.reason == "failed"
    return metrics.error


@pytest.mark.parametrize(
    ("table", "parts"),
    [
        (f"name,{TIME}\na,1\nb,abc\n", ["norm_fwd_ops.csv", "line 3", TIME, "'abc'", "not a number"]),
        (f"name,{TIME}\na,-5\n", ["line 2", TIME, "'-5'", "negative"]),
        (
            f"name,{TIME},operation_count\na,5,1.5\n",
            ["line 2", "operation_count", "'1.5'", "no whole number"],
        ),
        (f"name,{TIME},operation_count\na,5\n", ["line 2", "2 cells", "3", "cut off"]),
        (f"name,{TIME}\na,1,2\n", ["line 2", "3 cells", "header has 2"]),
        (f'name,{TIME}\n"a,1\n', ["norm_fwd_ops.csv", "line 2", "not a valid CSV row"]),
        (f"name,{TIME}\n".encode() + b"\xff\xfe,1\n", ["norm_fwd_ops.csv", "byte 27", "UTF-8"]),
        (f'name,{TIME}\n"two\nlines",1\nb,\x1b[31m\n', ["line 4", r"\x1b[31m", "not a number"]),
        (f"name;{TIME}\na;1,5\n", ["norm_fwd_ops.csv", "line 1", "name;", "commas"]),
        ("\na,1\n", ["norm_fwd_ops.csv", "line 1", "no column"]),
        (f"name,{TIME}\na,1\nb,1.7e308\n", ["line 3", TIME, "'1.7e308'", "more than anything measures"]),
        (f"name,{TIME}\n,1\nb,-1e19\na,\n", ["line 3", TIME, "'-1e19'", "more than anything measures"]),
    ],
)
def test_a_broken_table_is_one_sentence_with_file_line_and_column(
    tmp_path: Path, table: str | bytes, parts: list[str]
) -> None:
    message = error_of(run_with(tmp_path, table))
    assert [part for part in parts if part not in message] == []
    assert "\n" not in message
    assert "\x1b" not in message


@pytest.mark.parametrize(
    ("metadata", "parts"),
    [
        ("{", ["norm_fwd_metadata.json", "truncated"]),
        ('{"peak_hbm_bw_tbs": "fast"}', ["norm_fwd_metadata.json", "peak_hbm_bw_tbs"]),
        ('{"gpu_utilization": {"total_time_ms": []}}', ["gpu_utilization.total_time_ms"]),
        ("[]", ["norm_fwd_metadata.json", "object"]),
        (b"\xff", ["norm_fwd_metadata.json"]),
        ("", ["norm_fwd_metadata.json"]),
        ("[" * 100_000, ["norm_fwd_metadata.json"]),
        ('{"peak_hbm_bw_tbs": -5.3}', ["norm_fwd_metadata.json", "'peak_hbm_bw_tbs'", "-5.3", "negative"]),
        ('{"memory_gb": -1}', ["'memory_gb'", "negative"]),
        ('{"max_achievable_tflops": {"vector_bf16": -163}}', ["'max_achievable_tflops.vector_bf16'", "-163"]),
        ('{"gpu_utilization": {"total_time_ms": -2}}', ["'gpu_utilization.total_time_ms'", "negative"]),
        ('{"gpu_utilization": {"idle_time_percent": -2}}', ["'gpu_utilization.idle_time_percent'"]),
        ('{"gpu_utilization": {"total_time_ms": 1e-320}}', ["total_time_ms", "less than anything measures"]),
        ('{"peak_hbm_bw_tbs": 1e300}', ["'peak_hbm_bw_tbs'", "more than anything measures"]),
        ('{"peak_hbm_bw_tbs": 1%s}' % ("0" * 400), ["norm_fwd_metadata.json"]),
        ('{"peak_hbm_bw_tbs": 1%s}' % ("0" * 5000), ["norm_fwd_metadata.json"]),
    ],
)
def test_broken_metadata_is_one_sentence_with_file_and_key(
    tmp_path: Path, metadata: str | bytes, parts: list[str]
) -> None:
    message = error_of(run_with(tmp_path, f"name,{TIME}\na,1\n", metadata))
    assert [part for part in parts if part not in message] == []


def test_metadata_that_is_not_there_is_a_failure_because_there_are_operations(tmp_path: Path) -> None:
    run = run_with(tmp_path, f"name,{TIME}\na,1\n")
    (run / "metadata/norm_fwd_metadata.json").unlink()
    assert "norm_fwd_metadata.json" in error_of(run)


@pytest.mark.parametrize(
    "column",
    [
        *("Pct Roofline_mean", "TB/s_mean", "TFLOPS/s_mean", "FLOPS/Byte", "Data Moved (MB)"),
        *("operation_count", "count", "Kernel Time (µs)_mean", "Kernel Time (µs)_std"),
        *("lca_count_trace2", "lca_total_kernel_time_trace2_us"),
    ],
)
def test_what_can_not_be_negative_is_refused_with_line_and_column(tmp_path: Path, column: str) -> None:
    message = error_of(run_with(tmp_path, f"name,{TIME},{column}\na,1,2\nb,1,-2\n"))
    assert f"norm_fwd_ops.csv, line 3, column '{column}': '-2' is negative" in message


@pytest.mark.parametrize("column", ["speedup (trace2/trace1)", "delta_us (trace2 - trace1)"])
def test_a_difference_between_two_traces_may_be_negative(tmp_path: Path, column: str) -> None:
    run = run_with(tmp_path, f"name,{TIME},{column}\na,1,-0.5\n")
    assert isinstance(analyze_category(run, "norm_fwd", "comparative"), CategoryMetrics)


def test_a_number_too_small_to_measure_is_zero(tmp_path: Path) -> None:
    table = (
        f"name,operation_count,{TIME},Kernel Time (µs)_mean,Kernel Time (µs)_std\na,20,1e-300,1e-300,1e18\n"
    )
    metrics = analyze_category(run_with(tmp_path, table), "norm_fwd")
    assert isinstance(metrics, CategoryMetrics)
    assert (metrics.total_time_ms, metrics.operations[0].kernel_time_mean_us) == (0.0, 0.0)
    assert decode_metrics(encode_metrics(metrics)) == metrics


def test_a_table_that_is_a_folder_is_a_failure_not_an_absence(tmp_path: Path) -> None:
    run = run_with(tmp_path, "")
    (run / "category_data/norm_fwd_ops.csv").unlink()
    (run / "category_data/norm_fwd_ops.csv").mkdir()
    assert "norm_fwd_ops.csv: can't be read (Is a directory)" in error_of(run)


EXTREMES = st.sampled_from(["0", "1e-18", "1e-300", "5e-324", "1", "1e18", "1e-17", "nan", "inf", ""])


@given(
    rows=st.lists(st.tuples(*[EXTREMES] * 6), min_size=1, max_size=3),
    end_to_end=st.sampled_from(["1e-18", "0", "1", "1e18"]),
    scope=st.sampled_from(["standalone", "comparative"]),
)
def test_no_figure_of_the_metrics_is_ever_infinite(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, ...]], end_to_end: str, scope: Scope
) -> None:
    header = f"name,operation_count,{TIME},Kernel Time (µs)_mean,Kernel Time (µs)_std,TB/s_mean"
    lines = [f"a,20,{','.join(cells)},-{cells[0] or 1}\n" for cells in rows]
    table = f"{header},Pct Roofline_mean,FLOPS/Byte,delta_us (trace2 - trace1)\n" + "".join(lines)
    metadata = f'{{"gpu_utilization": {{"total_time_ms": {end_to_end}}}}}'
    metrics = analyze_category(run_with(tmp_path_factory.mktemp("run"), table, metadata), "norm_fwd", scope)
    assert isinstance(metrics, CategoryMetrics), metrics
    assert decode_metrics(encode_metrics(metrics)) == metrics  # JSON has no infinity: it would come back null


@pytest.mark.parametrize("table", ["", f"name,{TIME}\n", f"name,{TIME}\n\n\n", "\ufeff"])
def test_an_empty_table_means_no_operations(tmp_path: Path, table: str) -> None:
    metrics = analyze_category(run_with(tmp_path, table), "norm_fwd")
    assert isinstance(metrics, CategoryMetrics)
    assert metrics.operations == ()


@pytest.mark.parametrize("prefix", ["", "\ufeff"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("mu", ["µ", "μ"])
def test_byte_order_mark_newlines_and_both_mu_signs_are_accepted(
    tmp_path: Path, prefix: str, newline: str, mu: str
) -> None:
    table = f"{prefix}name,Kernel Time ({mu}s)_sum{newline}aten::layer_norm,1500{newline}"
    metrics = analyze_category(run_with(tmp_path, table), "norm_fwd")
    assert isinstance(metrics, CategoryMetrics)
    assert [(op.name, op.time_ms) for op in metrics.operations] == [("aten::layer_norm", 1.5)]


def test_a_cell_longer_than_the_csv_module_allows_is_read(tmp_path: Path) -> None:
    name = "n" * 200_000
    metrics = analyze_category(run_with(tmp_path, f"name,{TIME}\n{name},1\n"), "norm_fwd")
    assert isinstance(metrics, CategoryMetrics)
    assert metrics.operations[0].name == name


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "1e400"])
def test_an_infinite_rate_is_not_known(tmp_path: Path, value: str) -> None:
    metrics = analyze_category(run_with(tmp_path, f"name,{TIME},TB/s_mean\na,1,{value}\n"), "norm_fwd")
    assert isinstance(metrics, CategoryMetrics)
    assert metrics.operations[0].efficiency.tb_s_achieved is None


def test_missing_cells_are_those_of_pandas() -> None:
    frame = pd.read_csv(io.StringIO("a,b\n" + "".join(f"{cell},1\n" for cell in sorted(MISSING_CELLS))))
    assert frame["a"].isna().all()


CELLS = st.text(
    alphabet=st.characters(codec="utf-8", exclude_characters="\x00\r"), max_size=12
)  # pandas leaves \r bare


@given(rows=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=6))
def test_a_table_that_pandas_writes_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]
) -> None:
    path = tmp_path_factory.mktemp("table") / "t.csv"
    pd.DataFrame(rows, columns=["name", "other"]).to_csv(path, index=False)
    table = read_ops_table(path, frozenset({"name"}))
    assert table.text("name") == [None if name in MISSING_CELLS else name for name, _ in rows]


def test_an_unreadable_path_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"t\.csv"):
        read_ops_table(tmp_path / "t.csv", frozenset())
