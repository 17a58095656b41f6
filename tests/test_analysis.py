"""The rules of the analysis on tables made by hand, with results worked out by hand; and its invariants."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from normscope.analysis.analyze import analyze_category
from normscope.analysis.impact import efficiency_band, estimate_impacts, group_findings
from normscope.analysis.models import (
    CategoryMetrics,
    Efficiency,
    ErrorMetrics,
    Operation,
    decode_metrics,
    encode_metrics,
    exceeds_end_to_end,
)
from normscope.errors import InputError, UsageError
from normscope.inputs.rundir import default_scope, find_categories, unknown_categories
from runs import METADATA, TIME_MEAN, TIME_STD, TIME_SUM, analyzed, row, write_run


def test_a_quantified_estimate_is_the_gap_to_the_roofline_as_a_share_of_end_to_end_time(
    tmp_path: Path,
) -> None:
    metrics = analyzed(tmp_path, [row(time_us=2000.0)])  # 2 of 10 ms at 20 % of roofline: gap 0.8 × 20 % = 16
    estimate = metrics.impact_estimates[0]
    scores = (estimate.impact_score_low, estimate.impact_score, estimate.impact_score_high)
    assert scores == (12.0, 14.0, 16.0)
    assert (estimate.type, estimate.estimate_method) == ("kernel_tuning", "quantified")


def test_an_operation_without_efficiency_gets_15_30_45_percent_of_its_share(tmp_path: Path) -> None:
    metrics = analyzed(tmp_path, [row(time_us=2000.0, cells={"Pct Roofline_mean": ""})])
    estimate = metrics.impact_estimates[0]
    scores = (estimate.impact_score_low, estimate.impact_score, estimate.impact_score_high)
    assert scores == (3.0, 6.0, 9.0)
    assert estimate.percent_of_total == 20.0
    assert metrics.category_findings[0].bound_type == "unmodeled"


def test_more_than_110_percent_is_an_anomaly_and_never_a_success(tmp_path: Path) -> None:
    rows = [row("a", cells={"Pct Roofline_mean": 110.0}), row("b", cells={"Pct Roofline_mean": 110.01})]
    metrics = analyzed(tmp_path, rows)
    assert [op.efficiency.is_anomaly for op in metrics.operations] == [False, True]
    assert metrics.data_quality.anomalies == (1,)
    assert metrics.impact_estimates[0].estimate_method == "heuristic"


def test_the_comparative_percentage_is_trace_2_time_over_trace_1_time(tmp_path: Path) -> None:
    rows = [
        row("by delta", 1000.0, cells={"delta_us (trace2 - trace1)": -250.0, "speedup (trace2/trace1)": 0.5}),
        row("by speedup", 900.0, cells={"delta_us (trace2 - trace1)": "", "speedup (trace2/trace1)": 0.6}),
        row("capped", 800.0, cells={"delta_us (trace2 - trace1)": -720.0}),
        row("unknown", 700.0, cells={"speedup (trace2/trace1)": -1}),
    ]
    metrics = analyzed(tmp_path, rows, scope="comparative")
    assert [op.efficiency.efficiency_percent for op in metrics.operations] == [75.0, 60.0, 20.0, None]
    assert [op.efficiency.is_anomaly for op in metrics.operations] == [False] * 4
    assert "ROOFLINE CAP" in str(metrics.operations[2].efficiency.warning)
    assert len(metrics.impact_estimates) == 3


def test_operations_are_sorted_by_time_with_ties_in_file_order(tmp_path: Path) -> None:
    metrics = analyzed(tmp_path, [row("a", 1.0), row("b", 5.0), row("c", 1.0), row("d", 5.0)])
    assert [op.name for op in metrics.operations] == ["b", "d", "a", "c"]


@pytest.mark.parametrize(
    ("count", "time_us", "std", "expected"),
    [
        (11, 500.0, 1.5, True),  # 5 % of 10 ms, std is 1.5 × the mean
        (11, 500.0, 1.0, False),
        (10, 500.0, 1.5, UNSET),  # too few calls
        (11, 499.0, 1.5, UNSET),  # too small a share
    ],
)
def test_variance_counts_for_many_calls_with_a_share_that_matters(
    tmp_path: Path, count: int, time_us: float, std: float, expected: object
) -> None:
    mean = time_us / count
    metrics = analyzed(tmp_path, [row(time_us=time_us, count=count, cells={TIME_STD: std * mean})])
    assert metrics.operations[0].high_variance is expected


def test_fusion_flagged_operations_have_no_estimate(tmp_path: Path) -> None:
    run = write_run(tmp_path, [row()])
    fusion = {"high_confidence_kernel_map": {"void at::native::some": "norm + activation"}}
    (run / "category_data/kernel_fusion_metrics.json").write_bytes(msgspec.json.encode(fusion))
    metrics = analyze_category(run, "norm_fwd")
    assert isinstance(metrics, CategoryMetrics)
    assert metrics.operations[0].fusion_candidate_name == "norm + activation"
    assert metrics.impact_estimates == ()


def test_bytes_per_call_come_from_the_table_or_from_bandwidth_and_time(tmp_path: Path) -> None:
    rows = [
        row("a", 3.0, cells={"Data Moved (MB)": 2.0}),
        row("b", 2.0, cells={"Data Moved (MB)": "", "TB/s_mean": 0.5, TIME_MEAN: 10.0}),
        row("c", 1.0, cells={"Data Moved (MB)": "", "TB/s_mean": ""}),
    ]
    moved = [op.bytes_moved_per_call for op in analyzed(tmp_path, rows).operations]
    assert moved == [2 * 1024 * 1024, 5_000_000.0, None]


def test_a_column_that_is_missing_is_named(tmp_path: Path) -> None:
    metrics = analyzed(tmp_path, [{"name": "aten::layer_norm", TIME_SUM: 5.0}])
    assert "Pct Roofline_mean" in metrics.data_quality.missing_columns
    assert "delta_us (trace2 - trace1)" not in metrics.data_quality.missing_columns
    assert metrics.operations[0].count == 1


def test_an_unknown_end_to_end_time_gives_no_shares_and_says_so(tmp_path: Path) -> None:
    metrics = analyzed(tmp_path, [row()], metadata={"peak_hbm_bw_tbs": 2.0})
    assert metrics.operations[0].percent_of_total is None
    assert metrics.impact_estimates == ()
    assert any("end-to-end GPU time is not known" in note for note in metrics.data_quality.notes)


@pytest.mark.parametrize(("time_us", "says_so"), [(6000.0, True), (5000.0, False)])
def test_more_kernel_time_than_end_to_end_time_is_said(tmp_path: Path, time_us: float, says_so: bool) -> None:
    metrics = analyzed(tmp_path, [row("a", time_us), row("b", 5000.0)])  # of 10 ms
    assert exceeds_end_to_end(metrics.total_time_ms, 10.0) is says_so
    assert any("exceeds the end-to-end" in note for note in metrics.data_quality.notes) is says_so


def test_an_end_to_end_time_that_is_not_known_is_not_exceeded() -> None:
    assert not exceeds_end_to_end(1e9, None)


def test_groups_are_made_of_bound_type_library_and_band(tmp_path: Path) -> None:
    rows = [
        row("a", 2000.0, cells={"Pct Roofline_mean": 29.99}),
        row("b", 2000.0, cells={"Pct Roofline_mean": 30.0}),
        row("c", 2000.0, cells={"Pct Roofline_mean": 59.99}),
        row("d", 2000.0, cells={"Pct Roofline_mean": 60.0}),
        row("e", 2000.0, cells={"Pct Roofline_mean": 10.0, "Roofline Bound": "COMPUTE_BOUND"}),
        row("f", 2000.0, cells={"Pct Roofline_mean": 10.0, "kernel_details_summary": ""}),
        row(
            "g", 1.0, cells={"Pct Roofline_mean": 10.0, "Roofline Bound": "OTHER"}
        ),  # too small to be a finding
    ]
    findings = analyzed(tmp_path, rows).category_findings
    found = {(f.bound_type, f.library, f.eff_bucket): [m.operation for m in f.members] for f in findings}
    assert found == {
        ("memory", "PyTorch Native", "0-30"): ["a"],
        ("memory", "PyTorch Native", "30-60"): ["b", "c"],
        ("memory", "PyTorch Native", "60-100"): ["d"],
        ("compute", "PyTorch Native", "0-30"): ["e"],
        ("memory", "Unknown", "0-30"): ["f"],
    }
    assert [f.rank for f in findings] == [1, 2, 3, 4, 5]
    assert [f.impact_score for f in findings] == sorted((f.impact_score for f in findings), reverse=True)


@pytest.mark.parametrize(
    ("percent", "band"),
    [(None, "unknown"), (0.0, "0-30"), (29.99, "0-30"), (30.0, "30-60"), (60.0, "60-100"), (110.0, "60-100")],
)
def test_bands_change_exactly_at_their_limits(percent: float | None, band: str) -> None:
    assert efficiency_band(percent) == band


def operation(
    time_ms: float, percent: float | None, name: str = "op", library: str | None = None
) -> Operation:
    """Return an operation of 100 ms end-to-end time with what the estimates depend on."""
    return Operation(
        name=name,
        count=1,
        time_ms=time_ms,
        percent_of_category=0.0,
        percent_of_total=round(time_ms, 2),
        efficiency=Efficiency(
            tflops_achieved=None,
            tb_s_achieved=None,
            efficiency_percent=percent,
            bound_type="memory",
            flops_per_byte=None,
            compute_spec=None,
            resolved_peak_maf=None,
            resolved_peak_hbm_bw=None,
            warning=None,
            is_anomaly=percent is not None and percent > 110,
        ),
        library=library,
        launcher_path=None,
        kernel_name="",
        kernel_name_trunc="",
        module_chain=(),
        variant="Other",
        direction="forward",
        kernel_time_mean_us=None,
        kernel_time_std_us=None,
        bytes_moved_per_call=None,
    )


OPERATIONS = st.lists(
    st.builds(
        operation,
        st.floats(0, 50),
        st.none() | st.floats(0, 200),
        st.sampled_from(["a", "b", "c"]),
        st.none() | st.sampled_from(["AITER", "Triton"]),
    ),
    max_size=12,
)


@given(OPERATIONS)
def test_estimates_lie_in_order_and_within_the_time_they_are_about(operations: list[Operation]) -> None:
    for estimate in estimate_impacts(operations, "norm", "standalone", 100.0):
        assert 0 <= estimate.impact_score_low <= estimate.impact_score <= estimate.impact_score_high
        assert estimate.impact_score_high <= operations[estimate.operation_index].time_ms + 0.01


@given(OPERATIONS)
def test_findings_hold_each_estimate_at_most_once_and_add_up(operations: list[Operation]) -> None:
    estimates = estimate_impacts(operations, "norm", "standalone", 100.0)
    findings = group_findings(estimates, "standalone")
    members = [member for finding in findings for member in finding.members]
    assert len({m.operation_index for m in members}) == len(members) <= len(estimates)
    for finding in findings:
        assert finding.impact_score >= 0.5
        assert finding.impact_score == pytest.approx(sum(m.impact_score for m in finding.members), abs=0.006)
        assert finding.member_count == len(finding.members)
    assert [f.rank for f in findings] == list(range(1, len(findings) + 1))


@given(OPERATIONS, st.randoms())
def test_the_order_of_rows_does_not_change_the_scores(operations: list[Operation], random: object) -> None:
    shuffled = list(operations)
    random.shuffle(shuffled)  # type: ignore[attr-defined]

    def scores(rows: list[Operation]) -> list[float]:
        return sorted(e.impact_score for e in estimate_impacts(rows, "norm", "standalone", 100.0))

    assert scores(operations) == scores(shuffled)


@settings(max_examples=25, deadline=None)
@given(
    times=st.lists(st.floats(1, 1e4), min_size=1, max_size=5, unique=True),
    factor=st.sampled_from([0.5, 2.0, 4.0]),
)
def test_scaling_all_times_keeps_ranking_and_shares(
    tmp_path_factory: pytest.TempPathFactory, times: list[float], factor: float
) -> None:
    def run(scale: float) -> CategoryMetrics:
        metadata = METADATA | {"gpu_utilization": {"total_time_ms": 100.0 * scale}}
        rows = [row(f"op{i}", time * scale) for i, time in enumerate(times)]
        return analyzed(tmp_path_factory.mktemp("run"), rows, metadata=metadata)

    before, after = run(1.0), run(factor)
    assert [op.name for op in before.operations] == [op.name for op in after.operations]
    assert [op.percent_of_total for op in before.operations] == [
        op.percent_of_total for op in after.operations
    ]


def test_metrics_survive_writing_and_reading(tmp_path: Path) -> None:
    metrics = analyzed(tmp_path, [row(), row("b", cells={"Pct Roofline_mean": ""})])
    assert decode_metrics(encode_metrics(metrics)) == metrics


def test_a_category_without_a_table_is_missing(tmp_path: Path) -> None:
    metrics = analyze_category(tmp_path, "norm_bwd")
    assert isinstance(metrics, ErrorMetrics)
    assert (metrics.reason, metrics.error) == (
        "missing",
        "Category CSV not found: ./category_data/norm_bwd_ops.csv",
    )


@pytest.mark.parametrize("category", ["../norm", "a/b", "", ".hidden", "x" * 101, "a\nb", "-rf"])
def test_a_category_that_is_no_file_name_is_refused(tmp_path: Path, category: str) -> None:
    with pytest.raises(UsageError, match="can't be a file name"):
        analyze_category(tmp_path, category)


def test_a_run_that_is_no_folder_is_refused_with_advice(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="doesn't exist; give a profiler trace or a TraceLens"):
        find_categories(tmp_path / "nowhere")
    with pytest.raises(InputError, match="neither category_data/ nor metadata/"):
        find_categories(tmp_path)


def test_categories_are_found_in_files_and_manifest_forward_first(tmp_path: Path) -> None:
    run = write_run(write_run(tmp_path, [row()], "norm_bwd"), [row()], "rmsnorm")
    manifest = {
        "comparison_scope": "comparative",
        "categories": [
            {"name": "norm_fwd", "skill": "norm-analyzer"},
            {"name": "gemm", "skill": "gemm-analyzer"},
            {"name": "../evil", "skill": "norm-analyzer"},
        ],
    }
    (run / "category_data/category_manifest.json").write_bytes(msgspec.json.encode(manifest))
    assert find_categories(run) == ("norm_fwd", "norm_bwd", "rmsnorm")
    assert default_scope(run) == "comparative"


@pytest.mark.parametrize(
    ("asked", "sentences"),
    [
        (["norm_fwd", "norm_bwd"], ()),
        (["norm_fdw"], ("the run has no category norm_fdw; did you mean norm_fwd? (it has norm_fwd)",)),
        (["zzz", "norm_fwd"], ("the run has no category zzz (it has norm_fwd)",)),
    ],
)
def test_a_category_that_is_not_there_gets_the_nearest_name(
    tmp_path: Path, asked: list[str], sentences: tuple[str, ...]
) -> None:
    assert unknown_categories(write_run(tmp_path, [row()]), asked) == sentences


@pytest.mark.parametrize("content", [b"{", b"\xff", b'{"categories": 1}'])
def test_a_broken_manifest_is_one_sentence_that_names_it_once(tmp_path: Path, content: bytes) -> None:
    path = write_run(tmp_path, [row()]) / "category_data/category_manifest.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match="makes no sense") as caught:
        default_scope(tmp_path)
    assert str(caught.value).count(path.name) == 1


def test_a_manifest_that_can_not_be_read_says_why_without_a_number(tmp_path: Path) -> None:
    (write_run(tmp_path, [row()]) / "category_data/category_manifest.json").mkdir()
    with pytest.raises(InputError, match=r"category_manifest\.json: the manifest can't be read \(Is a dir"):
        default_scope(tmp_path)
