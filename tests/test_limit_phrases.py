"""What bounds an operation, as phrases, in the table, the method and the data quality."""

import re
from pathlib import Path

import msgspec
import pytest

from figure_inputs import Op, limits, operation, report
from normscope.analysis.analyze import analyze_category
from normscope.analysis.limit_phrases import binary_size, duration_us, limit_phrases
from normscope.analysis.models import CategoryMetrics, Operation
from normscope.figures import ALL_FIGURES
from normscope.report.data_quality import data_quality_html
from normscope.report.limits_method import limits_html
from normscope.report.operations import efficiency, operation_name, operations_html
from normscope.report.results import Report
from normscope.tracerun.write import write_trace_run

CACHE = 256 * 2**20
IN_CACHE = limits("cache-resident", last_level_cache_bytes=CACHE)
EIGHT_KERNELS = "<br>".join(f"Kernel {n}: k{n}" for n in range(1, 9))
TWO_PASS = limits("two-pass", attainable_percent=60.0)


def pages_of(metrics: CategoryMetrics) -> Report:
    return Report(label="run", out_dir=Path(), comparison_scope="standalone", top_n=20, metrics=(metrics,))


@pytest.mark.parametrize(
    ("op", "phrase"),
    [
        (
            Op(limits=limits("under-filled", workgroups=64, multiprocessors=304, busy_percent=21.05)),
            "64 of 304 compute units can be busy (21%)",
        ),
        (
            Op(limits=limits("launch-bound", at_peak_us=0.2854, shortest_kernel_us=0.639)),
            "0.29 µs at peak, shorter than the shortest kernels (0.64 µs)",
        ),
        (Op(bytes_per_call=1.5 * 2**20, limits=IN_CACHE), "1.50 MiB fits the last-level cache (256 MiB)"),
        (Op(bytes_per_call=300 * 2**10, limits=IN_CACHE), "300 KiB fits the last-level cache (256 MiB)"),
        (Op(limits=TWO_PASS), "two passes: at most 60% of peak"),
        (
            Op(kind="unfused", bytes_per_call=4e6, bytes_launched=36e6, kernel_name=EIGHT_KERNELS),
            "unfused: 8 kernels move 36 MB where a fused one would move 4 MB",
        ),
        (
            Op(kind="unfused", bytes_per_call=None, bytes_launched=36e6, kernel_name="k"),
            "unfused: 1 kernel moves 36 MB",
        ),
        (Op(found_by="kernel", bytes_per_call=None), "found by kernel name; no op, so no bytes"),
        (Op(found_by="kernel", bytes_per_call=1e6), "found by kernel name"),
    ],
)
def test_each_phrase_holds_the_figure_and_its_threshold(op: Op, phrase: str) -> None:
    assert limit_phrases(operation(op)) == (phrase,)


def test_two_passes_in_the_cache_are_a_limit_only_where_the_second_reads_from_memory() -> None:
    both = limits("cache-resident", "two-pass", last_level_cache_bytes=CACHE, attainable_percent=66.67)
    assert limit_phrases(operation(Op(bytes_per_call=2**20, limits=both))) == (
        "1.00 MiB fits the last-level cache (256 MiB)",
        "two passes: at most 67% of peak where the second reads from memory",
    )


def test_an_operation_of_another_origin_has_no_phrase() -> None:
    assert limit_phrases(operation(Op())) == ()


def test_sizes_and_times_keep_few_digits() -> None:
    assert [binary_size(n) for n in (512, 2**20, 99.96 * 2**20, CACHE)] == [
        "0.50 KiB",
        "1.00 MiB",
        "100.0 MiB",
        "256 MiB",
    ]
    assert [duration_us(t) for t in (0.0754, 22.57, 1234.5)] == ["0.08 µs", "22.6 µs", "1,234 µs"]


# The table


def test_the_table_of_a_trace_lists_what_bounds_each_operation() -> None:
    html = operations_html(
        pages_of(report(Op(found_by="op", limits=TWO_PASS), Op(time_ms=0.5, found_by="op")))
    )
    assert '<th scope="col">What bounds it</th>' in html
    assert html.count('<ul class="ns-bounds"><li>two passes: at most 60% of peak</li></ul>') == 1


def test_the_efficiency_stands_beside_what_is_attainable() -> None:
    html = efficiency(operation(Op(efficiency_percent=43.0, limits=TWO_PASS)))
    assert re.sub("<[^>]*>", "|", html) == "|43.00%||attainable 60%|"
    assert "attainable" not in efficiency(operation(Op(efficiency_percent=43.0)))


def test_an_anomaly_in_the_cache_is_said_to_be_no_error() -> None:
    above = Op(efficiency_percent=134.0, is_anomaly=True)
    cached = msgspec.structs.replace(operation(above), limits=IN_CACHE)
    assert "in the last-level cache, no error" in efficiency(cached)
    assert "no error" not in efficiency(operation(above))


def test_an_unverified_rule_is_said_beside_the_name() -> None:
    sure = operation(Op(found_by="op"))
    unsure = msgspec.structs.replace(sure, evidence="unverified")
    assert "unverified" in operation_name(unsure)
    assert "unverified" not in operation_name(sure)


def test_the_main_kernel_of_several_stands_below_them() -> None:
    metrics = report(Op(found_by="op"))
    main = msgspec.structs.replace(metrics.operations[0], main_kernel="<main>", main_kernel_percent=75.15)
    html = operations_html(pages_of(msgspec.structs.replace(metrics, operations=(main,))))
    assert '<span class="ns-sub">75% of the time: &lt;main&gt;</span>' in html


# Method and data quality


def test_the_method_explains_each_bound_with_the_thresholds_of_this_trace() -> None:
    known = limits(multiprocessors=304, shortest_kernel_us=0.639, last_level_cache_bytes=CACHE)
    html = limits_html([operation(Op()), operation(Op(limits=known))])
    terms = re.findall("<dt>(.*?)</dt>", html)
    assert terms[:4] == ["Under-filled", "Launch-bound", "Cache-resident", "Two-pass"]
    assert terms[4:] == ["Upper bound (≤)", "Unfused", "Found by kernel name", "Unverified"]
    for threshold in ("; here 304 compute units.", "; here 0.64 µs.", "; here 256 MiB."):
        assert threshold in html


def test_a_method_without_limits_explains_none() -> None:
    assert limits_html([operation(Op())]) == ""
    assert "; here" not in limits_html([operation(Op(limits=limits()))])


def _with_anomalies(*operations: Operation) -> CategoryMetrics:
    metrics = report(*(Op() for _ in operations))
    quality = msgspec.structs.replace(metrics.data_quality, anomalies=tuple(range(len(operations))))
    return msgspec.structs.replace(metrics, operations=operations, data_quality=quality)


def test_data_quality_calls_an_anomaly_in_the_cache_no_error() -> None:
    above = operation(Op(efficiency_percent=134.0, is_anomaly=True))
    cached = msgspec.structs.replace(above, limits=IN_CACHE)
    only_cached = data_quality_html(pages_of(_with_anomalies(cached)))
    assert "That is no error of measurement: the bytes of a call fit the last-level cache" in only_cached
    assert "is not possible" not in only_cached
    mixed = data_quality_html(pages_of(_with_anomalies(above, cached)))
    assert "is not possible" in mixed
    assert "For 1 of them that is no error of measurement" in mixed
    assert "no error" not in data_quality_html(pages_of(_with_anomalies(above)))


def test_data_quality_names_what_an_unverified_rule_found() -> None:
    metrics = report(Op(name="vendor::norm", found_by="op"))
    unsure = msgspec.structs.replace(metrics.operations[0], evidence="unverified")
    html = data_quality_html(pages_of(msgspec.structs.replace(metrics, operations=(unsure,))))
    assert "1 operation found by an unverified rule" in html
    assert "vendor::norm" in html


# Figures


@pytest.mark.parametrize("name", ["roofline", "efficiency_by_bytes"])
def test_figures_call_points_above_the_roofline_no_error_where_their_bytes_fit_the_cache(name: str) -> None:
    above = {"efficiency_percent": 134.0, "is_anomaly": True, "tb_s": 7.1, "tflops": 9.0}
    fault, no_error = (
        "a fault of peak or byte count",
        "no error, the bytes of a call fit the last-level cache",
    )
    plain = ALL_FIGURES[name]([report(Op(**above))], 10)  # type: ignore[arg-type]  # numbers and a flag
    assert fault in plain.alt
    assert "check peaks and byte counts" in plain.title
    cached = ALL_FIGURES[name]([report(Op(**above, limits=IN_CACHE))], 10)  # type: ignore[arg-type]  # as above
    assert no_error in cached.alt
    assert fault not in cached.alt
    assert "the bytes of a call fit the last-level cache" in cached.title
    mixed = ALL_FIGURES[name]([report(Op(**above), Op(**above, limits=IN_CACHE))], 10)  # type: ignore[arg-type]
    assert f"{fault}, but for 1 with bytes that fit the last-level cache" in mixed.alt


# Real traces


def test_a_real_trace_with_too_few_workgroups_shows_the_share_that_can_be_busy(
    shared: Path, tmp_path: Path
) -> None:
    # Batch norm over 64 channels starts 64 workgroups; an MI300X has 304 compute units, 256 MiB of cache.
    write_trace_run(shared / "traces" / "resnet_checkpoint_mi300x.json.gz", tmp_path, label="resnet")
    metrics = analyze_category(tmp_path, "norm_bwd", "standalone")
    assert isinstance(metrics, CategoryMetrics)
    html = operations_html(pages_of(metrics))
    row = html[html.index('<tr id="op-1-1">') :].partition("</tr>")[0]
    assert "<li>64 of 304 compute units can be busy (21%)</li>" in row
    # (10,64,112,112) bf16: x, dy and dx of 16,056,320 bytes each, the rest below 2 KB: 45.9 MiB
    assert "<li>45.9 MiB fits the last-level cache (256 MiB)</li>" in row
    # x and dy are read a second time: 3 ÷ (3 + 2)
    assert "attainable 60%" in row


def test_a_real_compiled_trace_marks_its_norms_and_names_what_they_are_fused_with(
    shared: Path, tmp_path: Path
) -> None:
    write_trace_run(shared / "traces" / "sd35_compiled_mi300x.json.gz", tmp_path, label="sd35")
    metrics = analyze_category(tmp_path, "norm_fwd", "standalone")
    assert isinstance(metrics, CategoryMetrics)
    triton = [op for op in metrics.operations if op.name.startswith("triton_")]
    html = operations_html(pages_of(metrics))
    assert triton
    assert html.count("upper bound: fused with ") == len(triton)
    assert f"≤\u00a0{triton[0].time_ms:,.3f}" in html
