"""The findings read as they should, and say only what the metrics hold."""

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from normscope import analyze_category, render_findings, validate_findings_file
from normscope.analysis.models import CategoryMetrics, Scope, encode_metrics
from normscope.findings.comparative import COMPARATIVE
from normscope.findings.heuristic import HEURISTIC
from normscope.findings.overview import NO_FINDINGS, convolutional
from normscope.findings.phrases import Prose
from normscope.findings.render import prose_of
from normscope.findings.standalone import REDUCTION_NOT_VISIBLE, STANDALONE
from normscope.findings.subject import Subject, subject_of
from normscope.findings.unfused import UNFUSED
from runs import METADATA, TIME_MEAN, TIME_STD, Row, analyzed, row, traced, write_run

ROOFLINE = "Pct Roofline_mean"
DELTA = "delta_us (trace2 - trace1)"
IMAGES: Row = {"Input Dims": "((8, 64, 56, 56), (64,))"}
VOLUMES: Row = {"Input Dims": "((2, 64, 16, 56, 56), (64,))"}
LAID_OUT: Row = IMAGES | {"call_stack_full": repr(["aten::x", "void at::native::norm_NHWC_kernel"])}
NO_FIGURES: Row = {ROOFLINE: "", "Data Moved (MB)": "", "TB/s_mean": "", "Input Dims": "", "Input type": ""}
NO_SHAPES: Row = {"Input Dims": "", "Input type": "", "Data Moved (MB)": "", "TB/s_mean": ""}
VENDOR_WORDS = re.compile(r"\b(CUDA|NVIDIA|AMD|ROCm|HIP|warp|wavefront)\b", re.IGNORECASE)


def prose(markdown: str) -> str:
    """Return the findings without tables and comments."""
    return "\n".join(line for line in markdown.splitlines() if not line.startswith(("|", "<!--")))


def section(markdown: str, label: str) -> str:
    """Return the first paragraph that starts with ``label`` in bold."""
    found = re.search(rf"^\*\*{label}[^*]*\*\*:? (.*)$", markdown, re.MULTILINE)
    assert found, f"no {label}"
    return found.group(1)


def rendered(folder: Path, *rows: Row, **options: object) -> str:
    return render_findings(analyzed(folder, rows, **options))  # type: ignore[arg-type]


def batch_norm_backward() -> list[Row]:
    """Five shapes whose figures are those of the analyzer document's example."""
    shapes = (
        (64, 112, 1197.6, 3, 2.28, 0.12),
        (64, 56, 1024.0, 12, 2.66, 0.14),
        (128, 28, 441.0, 15, 3.9, 0.21),
    )
    return [
        row(
            "aten::native_batch_norm_backward",
            time_us,
            count,
            {
                ROOFLINE: percent,
                "TB/s_mean": tb_s,
                "Input Dims": f"((10, {channels}, {size}, {size}), ({channels},))",
                "Data Moved (MB)": 6 * 10 * channels * size * size / 1024 / 1024,
            },
        )
        for channels, size, time_us, count, percent, tb_s in shapes
    ]


def test_a_finding_says_who_spends_how_much_at_what_speed(tmp_path: Path) -> None:
    metadata = METADATA | {"peak_hbm_bw_tbs": 5.3, "gpu_utilization": {"total_time_ms": 56.5176}}
    text = rendered(tmp_path, *batch_norm_backward(), category="norm_bwd", metadata=metadata)
    assert "### P1: BatchNorm backward at 2.3–3.9% of memory bandwidth (PyTorch Native)" in text
    # 1.198 + 1.024 + 0.441 = 2.663 ms; 2.12 + 1.81 + 0.78 = 4.71 %
    assert section(text, "Insight") == (
        "Three BatchNorm backward shapes spend 2.66 ms, 4.7% of end-to-end GPU time, "
        "at 0.12–0.21 TB/s of a possible 5.3."
    )
    assert section(text, "Action").startswith(
        "Try channels-last layout (`model.to(memory_format=torch.channels_last)`)"
    )
    # 1198 + 1024 = 2222 of 2663
    assert "the two costliest shapes: they hold 83% of the time." in section(text, "Action")
    reasoning = section(text, "Reasoning")
    # 48.2 MB at 5.3 TB/s take 9.09 µs; 399.2 / 9.09 = 43.9
    assert "(10,64,112,112) bf16, takes 399 µs per call for 48 MB, 44 times what the memory" in reasoning
    assert "At 1.25 FLOP per byte arithmetic is not the limit." in reasoning
    assert "sizes differ by 8 times, so size alone does not explain it." in reasoning
    assert reasoning.endswith(REDUCTION_NOT_VISIBLE)
    # the tensor: 10·64·112·112 · 2 bytes = 16 MB, once written and once read
    assert "(10,64,112,112) bf16 tensor, 32 MB per call" in section(text, "Resolution")


@pytest.mark.parametrize(
    ("change", "action"),
    [
        (IMAGES | {"name": "aten::batch_norm"}, "Try channels-last layout"),
        (
            IMAGES | {"name": "aten::group_norm"},
            "Optimize the memory access of the dominant kernels: try channels-last",
        ),
        ({"name": "aten::instance_norm"}, "Try `torch.nn.GroupNorm` with one group per channel"),
        ({"name": "aten::layer_norm"}, "Swap the implementation of the dominant kernels: compile the module"),
        (
            {"name": "aiter::rmsnorm"},
            "Swap the implementation of the dominant kernels: compare with PyTorch's native",
        ),
        ({"name": "custom::norm"}, "Optimize the memory access of the dominant kernels: compile the module"),
        (
            {"name": "aten::batch_norm"},
            "Optimize the memory access of the dominant kernels: compile the module",
        ),
        (
            VOLUMES | {"name": "aten::batch_norm"},
            "Try channels-last layout (`model.to(memory_format=torch.channels_last_3d)`)",
        ),
        (
            LAID_OUT | {"name": "aten::batch_norm"},
            "Optimize the memory access of the dominant kernels: compile the module",
        ),
        (
            LAID_OUT | {"name": "aten::group_norm"},
            "Optimize the memory access of the dominant kernels: try a kernel that fuses",
        ),
        ({"name": "fused_add_rms_norm", ROOFLINE: 61.0}, "Tune it last: it reaches 61% of memory bandwidth"),
        ({"name": "rmsnorm2d_fwd_with_add", TIME_MEAN: 4.0}, "Make fewer and larger calls, by batching: "),
        ({ROOFLINE: 0.0}, "Check the measurement before tuning: the bytes and FLOPs"),
        (
            {"Roofline Bound": "COMPUTE_BOUND", "FLOPS/Byte": 26.0},
            "Profile `aten::layer_norm` for tile size and wave occupancy.",
        ),
        ({ROOFLINE: 61.0}, "Move fewer bytes rather than tune"),
        ({"Roofline Bound": "COMPUTE_BOUND"}, "Profile `aten::layer_norm` for tile size and wave occupancy"),
        ({TIME_MEAN: 4.0}, "Make fewer and larger calls, by fusing the norm"),
        ({"operation_count": 20, TIME_STD: 500.0}, "First find what the slow calls wait for"),
        ({ROOFLINE: ""}, "Profile `aten::layer_norm` for the bytes it moves"),
        ({ROOFLINE: "", "Input Dims": "", "Input type": ""}, "Record the trace again with shapes"),
        ({ROOFLINE: 150.0}, "Check the measurement before tuning"),
    ],
)
def test_the_advice_differs_by_cause(tmp_path: Path, change: Row, action: str) -> None:
    text = rendered(tmp_path, row(time_us=4000.0, cells=change))
    assert section(text, "Action").startswith(action)


def test_a_mixed_finding_names_each_variant_and_whom_the_advice_is_for(tmp_path: Path) -> None:
    text = rendered(
        tmp_path,
        row("aten::batch_norm", 3000.0, 10, IMAGES),
        row("aten::layer_norm", 1000.0, 10, {ROOFLINE: 10.0}),
    )
    assert "### P1: BatchNorm and LayerNorm forward at 10–20% of memory bandwidth" in text
    assert section(text, "Action").startswith(
        "For BatchNorm, which holds most of the time: try channels-last"
    )
    assert (
        "The variants are BatchNorm (one shape, 75% of the time, 20%) "
        "and LayerNorm (one shape, 25% of the time, 10%)"
    ) in section(text, "Identification")


@pytest.mark.parametrize(
    ("rows", "sentence", "holds"),
    [
        (
            [row(time_us=2000.0, cells={ROOFLINE: 19.0}), row("aten::x", 10.0, 1, {ROOFLINE: 75.0})],
            "is healthy",
            True,
        ),
        (
            [row(time_us=2000.0, cells={ROOFLINE: 19.0}), row("aten::x", 10.0, 1, {ROOFLINE: 69.0})],
            "is healthy",
            False,
        ),
        (
            [row(time_us=2000.0, cells={ROOFLINE: 21.0}), row("aten::x", 10.0, 1, {ROOFLINE: 75.0})],
            "is healthy",
            False,
        ),
        (
            [row("aten::batch_norm", 1000.0, 10, IMAGES)],
            "as in many convolutional networks; channels-last layout",
            True,
        ),  # 10 % of end-to-end time
        ([row("aten::batch_norm", 1000.0, 10, VOLUMES)], "torch.channels_last_3d", True),
        ([row("aten::batch_norm", 1000.0, 10, LAID_OUT)], "as in many convolutional networks; the", True),
        ([row("aten::batch_norm", 1000.0)], "as in many convolutional networks", False),  # (1024,1024)
        ([row("aten::batch_norm", 999.0, 10, IMAGES)], "as in many convolutional networks", False),
        ([row("aten::batch_norm", 5010.0, 10, IMAGES)], "as in many convolutional networks", False),
        ([row("aten::layer_norm", 2000.0)], "as in many convolutional networks", False),
        ([row("aten::batch_norm", 1000.0), row("aten::layer_norm", 100.0)], "By variant, of the time", True),
        ([row("aten::batch_norm", 1000.0)], "By variant, of the time", False),
        ([row(time_us=2000.0, cells={ROOFLINE: 59.0})], REDUCTION_NOT_VISIBLE, True),
        ([row(time_us=3000.0, cells={ROOFLINE: 60.0})], REDUCTION_NOT_VISIBLE, False),
        ([row(time_us=2000.0, cells={ROOFLINE: ""})], REDUCTION_NOT_VISIBLE, False),
        (
            [row(time_us=2000.0, cells={"FLOPS/Byte": 24.9})],
            "arithmetic is not the limit",
            True,
        ),  # ridge 50 / 2
        ([row(time_us=2000.0, cells={"FLOPS/Byte": 25.1})], "arithmetic is not the limit", False),
        ([row(time_us=2000.0, cells={ROOFLINE: 150.0})], "measured above 110% of roofline", True),
        ([row(time_us=2000.0)], "measured above 110% of roofline", False),
    ],
)
def test_patterns_appear_where_their_condition_holds_and_only_there(
    tmp_path: Path, rows: list[Row], sentence: str, holds: bool
) -> None:
    assert (sentence in prose(rendered(tmp_path, *rows))) is holds


def test_patterns_neither_add_nor_drop_a_finding(tmp_path: Path) -> None:
    metrics = analyzed(tmp_path, [row("aten::batch_norm", 1200.0, 10, IMAGES | {ROOFLINE: 99.0})])
    text = render_findings(metrics)
    assert "as in many convolutional networks" in text
    assert metrics.category_findings == ()
    assert "### P" not in text


def comparative_rows(**cells: object) -> list[Row]:
    return [
        row(
            "aten::layer_norm",
            4000.0,
            10,
            {"delta_us (trace2 - trace1)": -1000.0, "lca_count_trace2": 10} | cells,
        )
    ]


def test_the_comparative_scope_says_how_much_slower_and_the_absolute_gap(tmp_path: Path) -> None:
    rows = comparative_rows(lca_total_kernel_time_trace2_us=3000.0)
    text = rendered(tmp_path, *rows, scope="comparative")
    # 4 ms against 3 ms: 33 % slower
    assert "### P1: LayerNorm forward 33% slower than in trace 2 (PyTorch Native)" in text
    assert section(text, "Insight") == (
        "One LayerNorm forward shape takes 4 ms in trace 1, 40% of end-to-end GPU time, "
        "1 ms more than in trace 2 (33% slower)."
    )
    assert "It takes 4 ms in trace 1 and 3 ms in trace 2, 1 ms more: trace 1 is 33% slower" in text
    assert "takes 4 ms in trace 1 and 3 ms in trace 2." in section(text, "Reasoning")
    assert "Both traces make 10 calls" in section(text, "Reasoning")
    assert not re.search(r"\b\d+(\.\d+)?x\b|\bratio\b", prose(text))


def test_a_difference_in_the_number_of_calls_comes_first(tmp_path: Path) -> None:
    text = rendered(tmp_path, *comparative_rows(lca_count_trace2=5), scope="comparative")
    assert section(text, "Action").startswith(
        "First find why the traces differ in calls of LayerNorm forward, 10 in trace 1 and 5 in trace 2"
    )
    assert "10/5" in text
    assert "33% slower than in trace 2, in 10 calls against 5" in text
    # 4000 µs in 10 calls, 3000 µs in 5: 400 against 600 µs
    assert "per call 400 µs against 600 µs, so each call is 33% faster in trace 1." in text
    # the five calls more, at 400 µs each
    assert "The 5 calls that only trace 1 makes take 2 ms at its own time per call." in text
    assert "same calls" not in text
    assert "single shapes" not in text


def test_an_operation_that_trace_2_lacks_is_said_to_have_no_counterpart(tmp_path: Path) -> None:
    lacking = {"delta_us (trace2 - trace1)": -4000.0, "lca_total_kernel_time_trace2_us": 0.0}
    text = rendered(tmp_path, *comparative_rows(**lacking), scope="comparative")
    assert "### P1: LayerNorm forward without a counterpart in trace 2" in text
    assert section(text, "Insight").endswith("trace 2 has no counterpart: its time there is zero.")
    # capped by the 20 % of roofline: 0.8 of 4 ms
    assert "so it counts at most 3.2 ms of the 4 ms gap." in section(text, "Reasoning")
    assert "slower" not in prose(text).replace("Reasoning for Slowdown", "")


def test_a_faster_trace_1_is_said_to_be_faster_by_how_much(tmp_path: Path) -> None:
    rows = comparative_rows(**{"delta_us (trace2 - trace1)": 2000.0})
    text = rendered(tmp_path, *rows, scope="comparative")
    # 4 ms against 6 ms: 2 of trace 2's 6 ms less
    assert (
        "- It takes 4 ms in trace 1 and 6 ms in trace 2, 2 ms less: "
        "trace 1 is 33% faster, in % of trace 2's time."
    ) in text
    assert NO_FINDINGS in text
    images = [r | IMAGES | {"name": "aten::batch_norm"} for r in rows]
    assert "channels-last" not in rendered(tmp_path / "images", *images, scope="comparative")


def test_a_slowdown_is_the_same_everywhere_though_the_estimate_is_capped(tmp_path: Path) -> None:
    rows = [
        row("aten::layer_norm", 1000.0, 20, {ROOFLINE: 90.0, "delta_us (trace2 - trace1)": -500.0}),
        row(
            "aten::layer_norm",
            2000.0,
            20,
            IMAGES | {ROOFLINE: 60.0, "delta_us (trace2 - trace1)": -1500.0},
        ),
    ]
    text = rendered(tmp_path, *rows, scope="comparative")
    # 3 ms against 1 ms; 1.0 against 0.5 and 2.0 against 0.5
    assert "### P1: LayerNorm forward 200% slower than in trace 2" in text
    assert "lose unevenly, 100–300% slower" in section(text, "Reasoning")
    # up to the roofline: 10 % of 1 ms and 40 % of 2 ms
    assert "so it counts at most 900 µs of the 2 ms gap." in section(text, "Reasoning")


def test_without_the_end_to_end_time_the_costliest_operations_are_named(tmp_path: Path) -> None:
    rows = [row(time_us=900.0), row("aten::batch_norm", 2000.0, 10, {ROOFLINE: ""})]
    text = rendered(tmp_path, *rows, metadata=METADATA | {"gpu_utilization": {}})
    assert (
        "Without the end-to-end time no impact can be estimated, so there are no recommendations. "
        "The costliest are `aten::batch_norm` (1024,1024) bf16 (2 ms, efficiency not known) and "
        "`aten::layer_norm` (1024,1024) bf16 (900 µs, 20% of roofline)."
    ) in text
    assert NO_FINDINGS not in text


def test_equal_shapes_count_once_and_are_added_up(tmp_path: Path) -> None:
    other = {"Input Dims": "((512, 512), (512,))"}
    third = {"Input Dims": "((256, 256), (256,))"}
    rows = [
        row(time_us=1000.0, cells=other),
        row(time_us=900.0),
        row(time_us=800.0),
        row(time_us=300.0, cells=third),
    ]
    text = rendered(tmp_path, *rows)
    assert section(text, "Insight").startswith("Three LayerNorm forward shapes (four signatures) spend 3 ms")
    # (1024,1024): 1.7 ms in 20 calls; with (512,512) 2.7 of 3 ms
    assert "the two costliest shapes: they hold 90% of the time." in section(text, "Action")
    assert "The costliest shape, (1024,1024) bf16, takes 85 µs per call" in section(text, "Reasoning")


def test_operations_without_shapes_are_signatures(tmp_path: Path) -> None:
    nameless = {"Input Dims": "", "Input type": ""}
    text = rendered(tmp_path, row(time_us=3000.0, cells=nameless), row(time_us=1000.0, cells=nameless))
    assert section(text, "Insight").startswith("Two LayerNorm forward signatures spend 4 ms")
    assert "The costliest signature, `aten::layer_norm`, takes 300 µs" in section(text, "Reasoning")
    alone = rendered(tmp_path / "alone", row(time_us=3000.0, cells=nameless))
    assert "- One signature of normalization forward takes 3 ms in 10 calls" in alone
    assert "1 call," in rendered(tmp_path / "once", row(time_us=3000.0, count=1))


@pytest.mark.parametrize(
    ("cells", "sentence"),
    [
        # ridge: 50 TFLOPS ÷ 2 TB/s = 25 FLOP per byte
        ({"FLOPS/Byte": 200.0}, "At 200 FLOP per byte, above the ridge of 25, arithmetic sets its limit."),
        (
            {"FLOPS/Byte": 1.25},
            "The table says compute-bound, but 1.25 FLOP per byte lies below the ridge of 25, "
            "where the roofline's limit is memory.",
        ),
        (
            {"FLOPS/Byte": 26.0, "Roofline Bound": "MEMORY_BOUND"},
            "The table says memory-bound, but 26 FLOP per byte lies above the ridge of 25, "
            "where the roofline's limit is compute.",
        ),
        # 20 % of 400 µs
        ({}, "At its roofline a call of the costliest shape would take 80 µs instead of 400 µs."),
        ({}, "at 0.5 TFLOPS of a possible 50."),
        ({}, REDUCTION_NOT_VISIBLE),
    ],
)
def test_a_compute_bound_finding_holds_the_bound_against_the_ridge(
    tmp_path: Path, cells: Row, sentence: str
) -> None:
    text = rendered(tmp_path, row(time_us=4000.0, cells={"Roofline Bound": "COMPUTE_BOUND"} | cells))
    assert sentence in prose(text)
    unknown = {"Roofline Bound": "COMPUTE_BOUND", "FLOPS/Byte": "", "TFLOPS/s_mean": ""}
    text = rendered(tmp_path / "unknown", row(time_us=4000.0, cells=unknown))
    assert "ridge" not in prose(text)
    assert "FLOP per byte" not in prose(text)


def test_the_effect_of_size_is_stated_without_a_cause(tmp_path: Path) -> None:
    rows = [
        row(time_us=3000.0, cells={"Data Moved (MB)": 100.0, ROOFLINE: 24.0}),
        row("aten::layer_norm", 1000.0, 10, IMAGES | {"Data Moved (MB)": 50.0, ROOFLINE: 20.0}),
        row("aten::layer_norm", 900.0, 10, VOLUMES | {"Data Moved (MB)": 1.0, ROOFLINE: 8.0}),
    ]
    # from 50 MiB = 52.4 MB on: (24 × 3 + 20 × 1) ÷ 4 = 23 %
    assert "Calls that move less than 52 MB reach 8% of roofline, larger ones 23%." in section(
        rendered(tmp_path, *rows), "Reasoning"
    )


def test_an_efficiency_of_zero_is_doubted_and_promises_nothing(tmp_path: Path) -> None:
    text = rendered(tmp_path, row(time_us=4000.0, cells={ROOFLINE: 0.0, "TB/s_mean": 0.0}))
    assert "### P1: LayerNorm forward measured at 0% of memory bandwidth" in text
    assert "One signature of `aten::layer_norm` measured at 0% of roofline, which can't be" in text
    assert "promises nothing" in section(text, "Resolution")
    assert "is worth" not in text


def test_more_time_than_there_is_raises_a_doubt(tmp_path: Path) -> None:
    text = rendered(tmp_path, row(time_us=20000.0))
    assert "That is more than the end-to-end time of 10 ms, which can't be" in text


def test_a_heuristic_finding_says_what_is_known_of_its_bandwidth(tmp_path: Path) -> None:
    text = rendered(tmp_path, row(time_us=2000.0, cells={ROOFLINE: "", "Data Moved (MB)": 100.0}))
    # 104.9 MB in 200 µs = 0.524 TB/s, of 2 TB/s
    assert "It moves 105 MB per call, which is 0.52 TB/s, 26% of the peak bandwidth of 2.0 TB/s." in text
    assert "Without bytes or FLOPs over time" not in text


@pytest.mark.parametrize(
    ("cells", "sentence", "holds"),
    [
        ({}, "GroupNorm may have better kernels", True),
        ({TIME_MEAN: 4.0}, "may have better kernels", False),  # the advice is to fuse
        ({ROOFLINE: 19.0, "name": "aten::instance_norm"}, "may have better kernels", False),
        ({"name": "_fused_batch_norm_add"}, "fusing it removes", False),
        ({}, "a kernel fusion analysis names such chains", True),
    ],
)
def test_advice_does_not_repeat_or_contradict_itself(
    tmp_path: Path, cells: Row, sentence: str, holds: bool
) -> None:
    rows = [row("aten::batch_norm", 4000.0, 10, IMAGES | {ROOFLINE: 10.0} | cells)]
    assert (sentence in prose(rendered(tmp_path, *rows))) is holds


def test_batch_norm_of_both_directions_together_makes_a_convolutional_network(tmp_path: Path) -> None:
    # 6.2 % forward and 5.2 % backward of 10 ms
    halves = [
        analyzed(tmp_path / name, [row(f"aten::{name}", time_us, 10, IMAGES)])
        for name, time_us in (("batch_norm", 620.0), ("native_batch_norm_backward", 520.0))
    ]
    assert [convolutional([half]) for half in halves] == [None, None]
    assert (convolutional(halves) or "").startswith(
        "BatchNorm takes 11.4% of end-to-end GPU time, as in many"
    )


def test_a_heuristic_finding_carries_its_warning_right_after_the_impact_block(tmp_path: Path) -> None:
    text = rendered(tmp_path, row(time_us=2000.0, cells={ROOFLINE: ""}))
    after = text.split("<!-- impact-end -->", 1)[1].lstrip()
    assert after.startswith("> ⚠ This estimate comes from the operation's share of end-to-end time")
    assert "no performance model" in after.split("\n", 1)[0]
    table_row = next(line for line in text.splitlines() if line.startswith("| aten::layer_norm"))
    assert table_row.endswith("| — | — |")


def test_efficiency_and_bound_read_as_the_contract_says(tmp_path: Path) -> None:
    rows = [
        row("aten::a", 4000.0, 10, {ROOFLINE: 12.344}),
        row("aten::b", 3000.0, 10, {ROOFLINE: 12.346, "Roofline Bound": "COMPUTE_BOUND"}),
        row("aten::c", 2000.0, 10, {"Roofline Bound": ""}),
    ]
    cells = [
        line.split(" | ") for line in rendered(tmp_path, *rows).splitlines() if line.startswith("| aten")
    ]
    assert [(c[-2], c[-1].removesuffix(" |")) for c in cells] == [
        ("12.34% of 2.0 TB/s", "memory-bound"),
        ("12.35% of 50 TFLOPS", "compute-bound"),
        ("20.00%", "—"),
    ]


def test_no_table_means_no_operations_and_a_failure_means_no_findings(tmp_path: Path) -> None:
    none = render_findings(analyze_category(tmp_path, "norm_fwd"))
    assert "No normalization operations found in trace" in none
    broken = write_run(tmp_path, [row(time_us=-1.0)])
    failed = render_findings(analyze_category(broken, "norm_fwd"))
    assert "**Status**: ERROR" in failed
    assert "line 2" in failed
    for text in (none, failed):
        assert "### P" not in text
        assert text.rstrip().endswith("## Recommendations\n\n## Detailed Analysis")


def test_every_real_run_has_findings_that_the_validator_accepts(shared: Path, tmp_path: Path) -> None:
    tables = sorted((shared / "tracelens_runs").glob("*/category_data/*_ops.csv"))
    assert len(tables) == 9
    for table in tables:
        scope = "comparative" if "_vs_" in table.parent.parent.name else "standalone"
        metrics = analyze_category(table.parent.parent, table.name.removesuffix("_ops.csv"), scope)  # type: ignore[arg-type]
        assert problems_of(tmp_path, metrics) == []


def problems_of(folder: Path, metrics: object) -> list[str]:
    """Write metrics and findings to ``folder`` and return what the validator says."""
    assert isinstance(metrics, CategoryMetrics)
    (folder / "category_data").mkdir(exist_ok=True)
    (folder / "category_findings").mkdir(exist_ok=True)
    name = metrics.category
    (folder / "category_data" / f"{name}_metrics.json").write_bytes(encode_metrics(metrics))
    path = folder / "category_findings" / f"{name}_findings.md"
    path.write_text(render_findings(metrics), encoding="utf-8")
    return validate_findings_file(path, "compute", metrics.comparison_scope)[1]


NAMES = st.sampled_from(
    ["aten::batch_norm", "aiter::rmsnorm", "x|y`z", "<script>", "{0} {name}", "名 🚀", ""]
)
PERCENTS = st.none() | st.floats(0.01, 200)


@st.composite
def any_row(draw: st.DrawFn) -> Row:
    """Return a row with some of the figures missing."""
    count = draw(st.integers(1, 50))
    cells: dict[str, object] = {
        ROOFLINE: draw(PERCENTS),
        "Roofline Bound": draw(st.sampled_from(["MEMORY_BOUND", "COMPUTE_BOUND", ""])),
        "TB/s_mean": draw(st.none() | st.floats(0, 10)),
        "FLOPS/Byte": draw(st.none() | st.floats(0, 500)),
        "Data Moved (MB)": draw(st.none() | st.floats(0, 1e4)),
        "Input Dims": draw(st.sampled_from(["((8, 16), (16,))", "", "broken", "((0, 4),)"])),
        "call_stack_full": draw(
            st.sampled_from(["", "['a', ['x', 'k1'], ['y', 'k2']]", "['nn.Module: M_0', 'k']"])
        ),
        "delta_us (trace2 - trace1)": draw(st.none() | st.floats(-5000, 5000)),
        "lca_count_trace2": draw(st.none() | st.integers(0, 60)),
        "lca_total_kernel_time_trace2_us": draw(st.none() | st.floats(0, 5000)),
        TIME_STD: draw(st.floats(0, 500)),
    }
    return row(
        draw(NAMES), draw(st.floats(0, 5000)), count, {k: "" if v is None else v for k, v in cells.items()}
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    rows=st.lists(any_row(), min_size=1, max_size=8),
    scope=st.sampled_from(["standalone", "comparative"]),
    metadata=st.sampled_from([METADATA, {}, {"gpu_utilization": {"total_time_ms": 10.0}}]),
)
def test_any_table_gives_findings_that_are_valid_and_free_of_gaps(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Row], scope: object, metadata: Row
) -> None:
    folder = tmp_path_factory.mktemp("run")
    metrics = analyzed(folder, rows, scope=scope, metadata=metadata)  # type: ignore[arg-type]
    assert problems_of(folder, metrics) == []
    text = prose(render_findings(metrics))
    assert not re.search(r"\bNone\b|\bnan\b|\binf\b|UNSET|lambda|  +\S", text)
    assert not VENDOR_WORDS.search(text.replace("{0} {name}", ""))


@pytest.mark.parametrize(
    "kind",
    [STANDALONE, COMPARATIVE, HEURISTIC, UNFUSED],
    ids=["standalone", "comparative", "heuristic", "unfused"],
)
def test_every_sentence_has_a_case_in_which_it_appears(kind: Prose, tmp_path: Path) -> None:
    tables = (kind.identification, kind.reasoning, kind.resolution)
    subjects = [s for s in subjects_of_many_kinds(tmp_path) if prose_of(s) is kind]
    silent = [
        (number, place)
        for number, table in enumerate(tables)
        for place, sentence in enumerate(table)
        if not any(sentence.when(subject) for subject in subjects)
    ]
    assert silent == []


def traced_tables() -> list[list[Row]]:
    """Return tables made from traces, which tell what only launches show."""
    kernels = {"call_stack_full": repr(["aten::x", ["launch", "k1"], ["launch", "k2"]])}
    main = {"main_kernel": "k1", "main_kernel_percent": 60.0}
    unchecked = {"evidence": "unverified"}
    unfused = traced(found_by="eager", **{"Data Launched (MB)": 36.0}, **main)
    return [
        [row(time_us=3000.0, cells=kernels | traced(limits="under-filled", workgroups=25, **main))],
        [row(time_us=3000.0, cells=traced(limits="launch-bound"))],
        [row(time_us=3000.0, cells=traced(limits="cache-resident"))],
        [row(time_us=3000.0, cells=traced(limits="two-pass", attainable_percent=60.0))],
        [row(time_us=3000.0, cells=traced(found_by="compiled", is_upper_bound=True, fused_with="mul"))],
        [row(time_us=3000.0, cells={ROOFLINE: 140.0} | traced(limits="cache-resident"))],
        [row(time_us=3000.0, cells=NO_FIGURES | traced(found_by="kernel", limits="under-filled"))],
        [row("eager::RMSNorm", 3000.0, 10, kernels | unfused)],
        [row("eager::RMSNorm", 3000.0, 10, NO_SHAPES | traced(found_by="eager"))],
        [row(time_us=3000.0, cells=traced(**unchecked))],
        [
            row(
                "k",
                3000.0,
                10,
                NO_FIGURES | kernels | traced(found_by="kernel", evidence="unverified", **main),
            )
        ],
        [row("eager::RMSNorm", 3000.0, 10, kernels | unfused | unchecked)],
    ]


def subjects_of_many_kinds(folder: Path) -> list[Subject]:
    """Return findings that differ in everything that the sentences look at."""
    small = {"Data Moved (MB)": 0.1, ROOFLINE: 5.0}
    kernels = {"call_stack_full": repr(["aten::x", ["launch", "k1"], ["launch", "k2"]])}
    tables: list[tuple[list[Row], Scope]] = [
        ([row(time_us=3000.0, cells={ROOFLINE: 12.0})], "standalone"),
        ([row(time_us=3000.0, cells=kernels), row("aten::batch_norm", 1000.0)], "standalone"),
        ([row("aten::batch_norm", 3000.0, 20, {TIME_STD: 500.0})], "standalone"),
        ([row(time_us=3000.0, cells={TIME_MEAN: 3.0, "Data Moved (MB)": ""})], "standalone"),
        ([row(time_us=3000.0), row("aten::layer_norm", 900.0, 10, {"Data Moved (MB)": 0.5})], "standalone"),
        ([row(time_us=3000.0), row("aten::layer_norm", 900.0, 10, small)], "standalone"),
        (
            [row(time_us=3000.0, cells={ROOFLINE: 5.0}), row("aten::x", 900.0, 10, small | {ROOFLINE: 20.0})],
            "standalone",
        ),
        (
            [row("aten::batch_norm", 3000.0, 10, {ROOFLINE: 12.0}), row("aten::y", 1.0, 1, {ROOFLINE: 90.0})],
            "standalone",
        ),
        (
            [row("aten::batch_norm", 3000.0, 10, {ROOFLINE: 12.0}), row("aten::y", 1.0, 1, {ROOFLINE: 40.0})],
            "standalone",
        ),
        ([row(time_us=3000.0, cells={"Roofline Bound": "COMPUTE_BOUND"})], "standalone"),
        (
            [row(time_us=3000.0, cells={"Roofline Bound": "COMPUTE_BOUND", "FLOPS/Byte": 30.0})],
            "standalone",
        ),
        ([row("aten::batch_norm", 3000.0, 10, IMAGES | {ROOFLINE: 12.0})], "standalone"),
        ([row("aten::batch_norm", 3000.0, 10, LAID_OUT | {ROOFLINE: 12.0})], "standalone"),
        ([row(time_us=3000.0, cells={ROOFLINE: 0.0})], "standalone"),
        ([row(time_us=3000.0), row(time_us=900.0, cells={ROOFLINE: 0.0})], "standalone"),
        ([row(time_us=3000.0, cells={ROOFLINE: "", "Data Moved (MB)": "", "TB/s_mean": ""})], "standalone"),
        ([row(time_us=3000.0, cells={ROOFLINE: ""})], "standalone"),
        ([row(time_us=3000.0, cells={ROOFLINE: 140.0})], "standalone"),
        (comparative_rows(lca_total_kernel_time_trace2_us=3000.0), "comparative"),
        (comparative_rows(lca_count_trace2=3), "comparative"),
        (comparative_rows() + comparative_rows(**IMAGES | {DELTA: -1200.0}), "comparative"),
        (comparative_rows() + comparative_rows(**IMAGES | {DELTA: -2800.0}), "comparative"),
        (comparative_rows(**{DELTA: -4000.0}), "comparative"),
        (comparative_rows() + comparative_rows(**{DELTA: -4000.0}), "comparative"),
        (comparative_rows(**{DELTA: -3900.0}), "comparative"),
        *((rows, "standalone") for rows in traced_tables()),
    ]
    found = []
    for number, (rows, scope) in enumerate(tables):
        metrics = analyzed(folder / str(number), rows, scope=scope)
        found += [subject_of(metrics, finding) for finding in metrics.category_findings]
    unknown_peak = {"gpu_utilization": {"total_time_ms": 10.0}}
    metrics = analyzed(folder / "peak", [row(time_us=3000.0, cells={ROOFLINE: ""})], metadata=unknown_peak)
    return found + [subject_of(metrics, finding) for finding in metrics.category_findings]
