"""What the report of a trace shows besides that of a run directory: made by hand, and from real traces."""

import csv
import re
from html import unescape
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normscope import analyze_category, render_findings, validate_findings_file
from normscope.analysis.call_times import norm_bandwidth_tbs
from normscope.analysis.models import CategoryMetrics, encode_metrics
from normscope.errors import InputError
from normscope.figures import ALL_FIGURES
from normscope.report.answer import answer_html
from normscope.report.calls import calls_html, calls_of
from normscope.report.data_quality import data_quality_html
from normscope.report.findings_text import category_texts, combined_findings
from normscope.report.gpu_time import attribution_sentence, gpu_time_html
from normscope.report.method import method_html
from normscope.report.notebook import finish, open_report, show_calls, show_gpu_time
from normscope.report.results import Report, findings_of
from normscope.report.trace_data import read_trace_data
from normscope.report.trace_notes import how_to_know_shapes
from normscope.resources import template_dir
from normscope.sample.trace import write_sample_trace
from normscope.trace.timeline import Timeline
from normscope.trace.times import OVERRUN
from normscope.tracerun.summary import StepCalls, TraceSummary
from normscope.tracerun.write import write_trace_run
from report_inputs import HOSTILE_NAMES, norm_row, report_of, write_run
from trace_report_inputs import (
    call_times,
    calls_table,
    covered,
    cut_off,
    fired,
    problem,
    row_of,
    summary,
    traced_report,
)

HALF_CENT = 0.0051


def text_of(html: str) -> str:
    """The words of a page, without its tags."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


# The statistics of calls


def test_the_first_call_is_held_against_the_median_of_all() -> None:
    calls = call_times(60.0, 10.0, 10.0, 11.0, 9.0)
    assert (calls.median_us, calls.first_factor, calls.has_slow_first_call) == (10.0, 6.0, True)


def test_an_outlier_lies_above_the_median_and_five_deviations() -> None:
    calls = call_times(100.0, 97.0, 103.0, 94.0, 160.0, 114.0, 100.0)
    # deviations from 100: 0, 3, 3, 6, 60, 14, 0; their median is 3, so the limit is 100 + 5 × 3
    assert (calls.median_us, calls.outlier_limit_us, calls.outliers) == (100.0, 115.0, (4,))


def test_calls_that_all_take_the_same_time_make_no_outlier_of_a_small_difference() -> None:
    assert call_times(10.0, 10.0, 10.0, 10.5).outliers == ()
    assert call_times(10.0, 10.0, 10.0, 11.5).outliers == (3,)


def test_a_slow_first_call_is_no_outlier() -> None:
    assert call_times(90.0, 10.0, 10.0, 10.0).outliers == ()


def test_two_calls_have_no_usual_time() -> None:
    calls = call_times(90.0, 10.0)
    assert (calls.first_factor, calls.outlier_limit_us, calls.outliers) == (None, None, ())


@given(st.lists(st.floats(0.1, 1e6), min_size=3, max_size=50), st.floats(0.5, 8))
def test_outliers_stay_the_same_when_every_time_is_scaled_by_a_power_of_two(
    times: list[float], power: float
) -> None:
    factor = 2.0 ** round(power)
    scaled = call_times(*(time * factor for time in times))
    assert scaled.outliers == call_times(*times).outliers
    assert scaled.first_factor == call_times(*times).first_factor


def test_the_norm_alone_reaches_its_bytes_over_the_time_of_its_own_kernels() -> None:
    calls = msgspec.structs.replace(call_times(10.0, 20.0), norm_us=(5.0, 10.0))
    assert norm_bandwidth_tbs(calls, 10e6) == pytest.approx((2.0 + 1.0) / 2)
    assert norm_bandwidth_tbs(calls, None) is None


# Reading the two files


def test_a_run_directory_of_another_origin_has_no_trace(tmp_path: Path) -> None:
    run = write_run(tmp_path, {"norm_fwd": [norm_row()]})
    report = report_of(run, "norm_fwd")
    assert read_trace_data(run, report.metrics) is None
    assert gpu_time_html(report) == ""
    assert calls_of(report) == ()


def test_calls_belong_to_the_operation_in_their_row(tmp_path: Path) -> None:
    times = [[300.0, 200.0], [100.0, 50.0, 50.0]]
    rows = [row_of(times[0], "aten::layer_norm"), row_of(times[1], "aten::group_norm")]
    report = traced_report(tmp_path, rows, calls_table(times))
    assert [(each.operation.name, calls.kernel_us) for each, calls in calls_of(report)] == [
        ("aten::layer_norm", (300.0, 200.0)),
        ("aten::group_norm", (100.0, 50.0, 50.0)),
    ]


def test_calls_that_do_not_add_up_to_their_row_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = [row_of([300.0, 200.0], "aten::layer_norm"), row_of([100.0, 50.0], "aten::group_norm")]
    report = traced_report(tmp_path, rows, calls_table([[300.0, 200.0], [100.0, 49.0]]))
    assert [each.operation.name for each, _ in calls_of(report)] == ["aten::layer_norm"]
    assert "The calls of 1 signature don't fit the ops table" in text_of(data_quality_html(report))


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("norm_calls.csv", "category,row\nnorm_fwd,x"),
        ("norm_calls.csv", "a,b\n1,2"),
        ("norm_calls.csv", "category,row\nnorm_fwd,0,1"),
        ("norm_calls.csv", "category,row\nnorm_fwd,0"),
    ],
)
def test_a_broken_file_is_one_sentence_that_names_it(tmp_path: Path, file: str, content: str) -> None:
    report = traced_report(tmp_path, [row_of([1000.0])])
    (tmp_path / "category_data" / file).write_text(content)
    with pytest.raises(InputError, match=rf"^category_data/{file} is not .* `normscope analyze TRACE`$"):
        read_trace_data(tmp_path, report.metrics)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "doesn't read as the summary of a trace"),
        ("[]", "doesn't read as the summary of a trace"),
        ('{"schema_version": "1.0"}', "doesn't read as the summary of a trace"),
        ('{"schema_version": "9.0"}', r"has schema version 9\.0, of a newer normscope"),
    ],
)
def test_a_summary_that_cannot_be_read_is_one_sentence(tmp_path: Path, content: str, message: str) -> None:
    report = traced_report(tmp_path, [row_of([1000.0])])
    (tmp_path / "category_data" / "trace_summary.json").write_text(content)
    with pytest.raises(InputError, match=rf"^category_data/trace_summary.json.* {message}"):
        read_trace_data(tmp_path, report.metrics)


# Where all GPU time went


def table_of(html: str, caption: str) -> str:
    """The body of the table of that caption."""
    return html.partition(f"{caption}</caption>")[2].partition("</table>")[0]


def test_the_shares_of_the_kernel_time_add_up_to_all_of_it(tmp_path: Path) -> None:
    times = covered(
        explicit=1000.0,
        compiled_fused=250.0,
        eager_decomposed=60.0,
        unlinked=310.0,
        helper_copies=500.0,
        bookkeeping_adds=20.0,
        not_a_norm_layer=30.0,
        other_ops=5800.0,
        other_graph_kernels=1500.0,
        other_kernels_without_op=440.0,
        outside_window=90.0,
    )
    html = gpu_time_html(traced_report(tmp_path, found=summary(times)))
    table = table_of(html, "What the kernel time belongs to")
    cells = re.findall(r'<td class="ns-number">([\d,.]+)</td>' * 3, table)
    *parts, whole = [(int(count), float(ms), float(percent)) for count, ms, percent in cells]
    assert whole == (11, 10.0, 100.0)
    assert [ms for _, ms, _ in parts] == [1.0, 0.25, 0.06, 0.31, 0.5, 0.02, 0.03, 5.8, 1.5, 0.44, 0.09]
    assert sum(percent for *_, percent in parts) == pytest.approx(100.0, abs=HALF_CENT * len(parts))
    grown = [float(share) for share in re.findall(r"flex-grow:([\d.]+)", html)]
    assert sum(grown) == pytest.approx(1.0)
    assert grown[0] == 0.1
    colours = re.findall(r'<span class="(ns-part-[\w-]+)" style', html)
    assert len(set(colours)) == len(colours) == 11
    style = (template_dir() / "components.css").read_text(encoding="utf-8")
    assert all(f".{colour} {{" in style for colour in colours)


def test_the_coverage_sentence_says_how_the_norms_were_found_and_what_is_open() -> None:
    times = covered(explicit=1000.0, compiled_fused=500.0, unlinked=310.0, other_ops=8190.0)
    assert attribution_sentence(times) == (
        "Norms take 18.1% of all kernel time (1.810 of 10.000 ms): 10.0% by ops and kernel names, 5.0% "
        "inside compiled kernels (an upper bound), 3.1% with their launch cut off; 3.1% of kernel time could "
        "not be attributed to an op."
    )
    assert attribution_sentence(covered(other_ops=10.0)) == (
        "No norm was found in 0.010 ms of kernel time; every kernel was attributed to an op."
    )


def test_a_tiny_share_is_not_called_none() -> None:
    sentence = attribution_sentence(covered(explicit=0.1, other_ops=1e6))
    assert sentence.startswith("Norms take less than 0.1% of all kernel time")


def test_a_trace_whose_kernels_took_no_time_says_so(tmp_path: Path) -> None:
    html = gpu_time_html(traced_report(tmp_path, found=summary(covered(other_ops=0.0))))
    assert "No kernel took any time." in html


def test_each_row_that_fired_is_shown_with_its_evidence(tmp_path: Path) -> None:
    hostile = "acme<b>|norm"
    rows = (
        fired(us=600.0),
        fired("compiled", 300.0, row="compiled-layer-norm", library="TorchInductor", evidence="source"),
        fired("kernel", 100.0, row=hostile, library="ACME", evidence="unverified", is_in_timeline=False),
    )
    html = gpu_time_html(traced_report(tmp_path, found=summary(rows=rows)))
    table = table_of(html, "How the norms were found")
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in table.split("<tr>")[2:]]
    assert [[text_of(cell) for cell in row] for row in cells] == [
        ["layer-norm", "PyTorch", "LayerNorm", "forward", "op", "10", "0.600", "seen in a real trace"],
        [
            *("compiled-layer-norm", "TorchInductor", "LayerNorm", "forward", "name of a compiled kernel"),
            *("10", "0.300", "read in source"),
        ],
        [
            *(hostile, "ACME", "LayerNorm", "forward", "kernel name, launch cut off", "10", "0.100"),
            "unverified: names or arguments were never checked against a trace or source",
        ],
    ]
    assert "<b>|" not in html
    assert "docs/catalog.md" in text_of(html)
    assert "--catalog FILE" in text_of(html)


def test_norm_kernels_whose_launch_was_cut_off_have_a_table_of_their_own(tmp_path: Path) -> None:
    kernels = tuple(cut_off(100.0 - place, f"rms_norm_{place}") for place in range(22))
    html = gpu_time_html(traced_report(tmp_path, found=summary(cut_off=kernels)))
    table = table_of(html, "Norm kernels whose launch was cut off, which no other figure holds")
    rows = [text_of(row) for row in table.split("<tr>")[2:]]
    assert rows[0] == "rms_norm_0 RMSNorm forward — 1 0.100"
    assert len(rows) == 21
    assert rows[-1] == "2 other kernels — — — 2 0.159"  # 80 and 79 µs
    assert "Norm kernels whose launch" not in gpu_time_html(traced_report(tmp_path / "none"))


def test_cut_off_compiled_kernels_are_marked_as_an_upper_bound(tmp_path: Path) -> None:
    times = covered(explicit=1000.0, unlinked=100.0, other_ops=900.0)
    unlinked = msgspec.structs.replace(times.unlinked, upper_bound_us=60.0)
    found = summary(
        msgspec.structs.replace(times, unlinked=unlinked),
        cut_off=(cut_off(60.0, "triton_red", fuses=("add",), is_upper_bound=True), cut_off(40.0)),
        rows=(fired("compiled", 60.0, is_in_timeline=False, is_upper_bound=True), fired("kernel", 40.0)),
    )
    report = traced_report(tmp_path, found=found)
    html = gpu_time_html(report)
    table = table_of(html, "Norm kernels whose launch was cut off, which no other figure holds")
    rows = [text_of(row) for row in table.split("<tr>")[2:]]
    assert rows[0] == "triton_red RMSNorm forward add (upper bound) 1 ≤\u00a00.060".replace("\u00a0", " ")
    assert rows[1] == "rms_norm_kernel RMSNorm forward — 1 0.040"
    words = text_of(html)
    assert "0.060 ms lie in compiled kernels: an upper bound." in words
    assert "5.0% with their launch cut off (of it 3.0% an upper bound)" in words  # of 2 ms
    assert "name of a compiled kernel, launch cut off, upper bound" in words
    assert "0.060 ms of it lie in compiled kernels: an upper bound." in findings_of_trace(report)


def test_many_cut_off_kernels_are_summed_with_the_mark_of_an_upper_bound(tmp_path: Path) -> None:
    kernels = [cut_off(100.0 - place, f"rms_norm_{place}") for place in range(21)]
    kernels.append(cut_off(1.0, "triton_red", is_upper_bound=True))
    html = gpu_time_html(traced_report(tmp_path, found=summary(cut_off=tuple(kernels))))
    table = table_of(html, "Norm kernels whose launch was cut off, which no other figure holds")
    assert text_of(table.split("<tr>")[-1]) == "2 other kernels — — upper bound 2 ≤ 0.081"


def test_the_timeline_is_shown_in_ms_and_percent(tmp_path: Path) -> None:
    html = gpu_time_html(traced_report(tmp_path))
    rows = re.findall(r"<td>([A-Z][\w ]+)</td><td[^>]*>([\d.]+)</td><td[^>]*>([\d.]+)</td>", html)
    assert rows == [
        ("Computing", "6.000", "60.00"),
        ("Exposed communication", "1.000", "10.00"),
        ("Exposed copying", "0.500", "5.00"),
        ("Idle", "2.500", "25.00"),
        ("Whole timeline", "10.000", "100.00"),
    ]


# The first screen


def without_peak() -> TraceSummary:
    """The summary of a trace whose GPU isn't in the registry."""
    return summary(
        gpu_key=None,
        bandwidth_kind=None,
        peak_bandwidth_gbps=None,
        achievable_bandwidth_gbps=None,
        gpu_message='The GPU "ACME <b>1</b>" is not in the registry.',
    )


def unknown_gpu(folder: Path) -> str:
    """The first screen of a trace from a GPU whose peak isn't known."""
    rows = [row_of([5000.0]) | {"Pct Roofline_mean": "", "Roofline Bound": "", "TB/s_mean": 0.8}]
    traced_report(folder, rows, found=without_peak())
    for file in (folder / "metadata").iterdir():
        text = file.read_text().replace('"peak_hbm_bw_tbs": 4.0', '"peak_hbm_bw_tbs": null')
        file.write_text(text)
    report = report_of(folder, "norm_fwd")
    report = msgspec.structs.replace(report, trace=read_trace_data(folder, report.metrics))
    return answer_html(report) + method_html(report)


def test_an_unknown_gpu_gets_times_and_bandwidth_without_percentages(tmp_path: Path) -> None:
    words = text_of(unknown_gpu(tmp_path))
    assert "No verdict: the peak of the GPU is not known" in words
    assert "Normalization takes 5.0% of GPU time and reaches 0.80 TB/s." in words
    assert "Achieved bandwidth 0.80 TB/s the GPU's peak is not known" in words
    assert "Potential gain — needs the GPU's peak bandwidth" in words
    assert "of peak memory bandwidth" not in words


def test_an_unknown_gpu_comes_with_the_ways_to_give_its_figures(tmp_path: Path) -> None:
    html = unknown_gpu(tmp_path)
    for words in ("--gpu KEY", "--gpu-file FILE", "`normscope gpus`"):
        assert words in html
    assert "ACME &lt;b&gt;1&lt;/b&gt;" in html
    assert "<b>1" not in html


def test_findings_on_an_unknown_gpu_say_that_the_peak_is_missing_and_pass_the_validator(
    tmp_path: Path,
) -> None:
    unknown_gpu(tmp_path)
    metrics = analyze_category(tmp_path, "norm_fwd")
    assert isinstance(metrics, CategoryMetrics)
    assert [finding.estimate_method for finding in metrics.category_findings] == ["heuristic"]
    folder = tmp_path / "category_findings"
    folder.mkdir()
    (tmp_path / "category_data" / "norm_fwd_metrics.json").write_bytes(encode_metrics(metrics))
    (folder / "norm_fwd_findings.md").write_text(render_findings(metrics), encoding="utf-8")
    text = render_findings(metrics)
    assert "without a performance model" not in text
    assert "on a GPU whose peak is not known" in text
    assert "`--gpu KEY`" in text
    warning = text.partition("<!-- impact-end -->\n\n> ")[2].partition("\n")[0]
    assert "there is no performance model" in warning
    assert validate_findings_file(folder / "norm_fwd_findings.md", "compute", "standalone")[1] == []


def test_figures_on_an_unknown_gpu_say_that_the_peak_is_missing(tmp_path: Path) -> None:
    unknown_gpu(tmp_path)
    metrics = analyze_category(tmp_path, "norm_fwd")
    assert isinstance(metrics, CategoryMetrics)
    assert ALL_FIGURES["impact"]([metrics], 5).rows[0][0] == "forward P1 · no peak, aten::layer_norm"
    assert "1 estimate without the peak of the GPU" in ALL_FIGURES["impact"]([metrics], 5).alt
    for name in ("roofline", "efficiency_by_bytes"):
        assert "peak of the GPU isn't known" in ALL_FIGURES[name]([metrics], 5).alt


def with_overrun(folder: Path, overrun_us: float, time_us: float = 5000.0) -> Report:
    """The report of a trace with two overruns, of that length together in the normalization."""
    row = row_of([time_us]) | {"Overrun (µs)_sum": overrun_us}
    return traced_report(folder, [row], found=summary(problems=(problem(2, OVERRUN),)))


def test_a_large_overrun_is_told_first_and_gives_no_verdict(tmp_path: Path) -> None:
    report = with_overrun(tmp_path, 1000.0)
    words = text_of(answer_html(report))
    assert "2 GPU events claim to run past the next on the same stream" in words
    assert "5.000 ms as recorded, 4.000 ms with those clipped" in words
    assert words.index("2 GPU events claim") < words.index("No verdict: the times as recorded can't be right")
    assert "Potential gain — needs" in words
    for claim in ("would save", "Start here", "What to do first"):
        assert claim not in words
    assert "5.000 ms as recorded, 4.000 ms with those clipped" in findings_of_trace(report)


@pytest.mark.parametrize(("overrun_us", "has_verdict"), [(500.0, True), (501.0, False)])
def test_a_gain_is_withheld_where_overruns_exceed_a_tenth(
    tmp_path: Path, overrun_us: float, has_verdict: bool
) -> None:
    words = text_of(answer_html(with_overrun(tmp_path, overrun_us)))
    assert "2 GPU events claim" in words
    assert ("would save" in words) is has_verdict


def test_overruns_of_other_kernels_are_told_without_a_time(tmp_path: Path) -> None:
    words = text_of(answer_html(with_overrun(tmp_path, 0.0)))
    assert "None is of a norm op" in words
    assert "clipped" not in words
    assert "would save" in words


def test_a_trace_without_an_overrun_warns_of_none(tmp_path: Path) -> None:
    report = traced_report(tmp_path, [row_of([5000.0])])
    assert "claim to run past" not in text_of(answer_html(report)) + findings_of_trace(report)


def test_an_overrun_that_is_no_number_is_an_error_that_says_where(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"norm_fwd_ops\.csv has no readable Overrun"):
        traced_report(tmp_path, [row_of([5000.0]) | {"Overrun (µs)_sum": "much"}])


def test_a_trace_with_more_kernel_time_than_it_lasts_sends_nobody_to_the_metadata(tmp_path: Path) -> None:
    words = text_of(answer_html(traced_report(tmp_path, [row_of([120_000.0])])))
    assert "No verdict: more normalization time than end-to-end time" in words
    assert "The trace lasts 100.000 ms, so kernels ran at the same time or their times are wrong." in words
    assert "check it in the metadata" not in words


NO_RATES = dict.fromkeys(
    ("Pct Roofline_mean", "Roofline Bound", "TB/s_mean", "TFLOPS/s_mean", "FLOPS/Byte"), ""
)


def test_without_shapes_no_gain_is_claimed_but_told_how_to_learn_it(tmp_path: Path) -> None:
    report = traced_report(tmp_path, [row_of([5000.0]) | NO_RATES], found=summary(has_shapes=False))
    assert findings_of(report)
    words = text_of(answer_html(report))
    assert "No verdict: efficiency is known for no operation" in words
    assert "Potential gain — needs the efficiency of an operation" in words
    assert "recorded without shapes" in words
    assert "record_shapes=True" in words
    assert "would save" not in words


@pytest.mark.parametrize(
    ("changes", "said", "unsaid"),
    [
        ({"replayed_count": 145}, ("145 norm calls were replayed", "--capture FOLDER"), "without shapes"),
        ({"replayed_count": 1}, ("1 norm call was replayed",), "without shapes"),
        (
            {"has_ops": False, "has_shapes": False},
            ("no ops of the host", "ProfilerActivity.CPU"),
            "without shapes",
        ),
        ({"has_shapes": False}, ("recorded without shapes",), "--capture"),
    ],
)
def test_missing_shapes_are_put_down_to_what_hides_them(
    tmp_path: Path, changes: dict[str, object], said: tuple[str, ...], unsaid: str
) -> None:
    for by_name_us in (0.0, 500.0):
        found = msgspec.structs.replace(summary(by_name_us=by_name_us), **changes)
        report = traced_report(tmp_path / str(by_name_us), [row_of([5000.0]) | NO_RATES], found=found)
        for page in (answer_html(report), data_quality_html(report)):
            words = text_of(page)
            assert [words.count(part) for part in said] == [1] * len(said)
            assert unsaid not in words


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("sglang_decode_graph_mi300x", "145 norm calls were replayed from captured graphs"),
        ("vllm_piecewise_graph", "49 norm calls were replayed from captured graphs"),
        ("gpu_only_mi210", "The trace holds no ops of the host."),
        ("vllm_eager_b200", None),
        ("qwen15_mi300x", None),
        ("compiled_llama_layer", None),
    ],
)
def test_why_shapes_of_a_real_trace_are_missing(
    shared: Path, tmp_path: Path, name: str, hint: str | None
) -> None:
    found = write_trace_run(shared / "traces" / f"{name}.json.gz", tmp_path / "run", label="t")
    told = how_to_know_shapes(found)
    assert (told or "").startswith(hint or "")
    assert (told is None) == (hint is None)
    words = text_of(data_quality_html(open_report(str(tmp_path / "run"), str(tmp_path / "report"))))
    assert "recorded without shapes" not in words
    assert ("no ops of the host" in words) == (name == "gpu_only_mi210")


def test_unknown_efficiency_is_not_blamed_on_shapes_that_are_there(tmp_path: Path) -> None:
    words = text_of(answer_html(traced_report(tmp_path, [row_of([5000.0]) | NO_RATES])))
    assert "No verdict: efficiency is known for no operation" in words
    assert "Nothing tells how far the operations are from the roofline" in words
    assert "recorded without shapes" not in words


def test_a_trace_that_breaks_off_says_so_before_anything_else(tmp_path: Path) -> None:
    html = answer_html(traced_report(tmp_path, [row_of([1000.0])], found=summary(is_truncated=True)))
    assert text_of(html).startswith(
        "The trace breaks off . The file ends before the trace does. This report shows what is there: "
        "1,234 events."
    )


@pytest.mark.parametrize(
    ("times", "headline", "advice"),
    [
        (
            {"other_ops": 900.0, "other_graph_kernels": 50.0, "unlinked": 50.0},
            "Normalization takes 5.0% of kernel time, in kernels whose launch was cut off",
            "5.0% of kernel time, norms apart, was replayed from captured graphs",
        ),
        (
            {"unlinked": 100.0, "other_kernels_without_op": 300.0},
            "Normalization takes 25.0% of kernel time, in kernels whose launch was cut off",
            "ProfilerActivity.CPU",
        ),
        (
            {"other_ops": 990.0},
            "No normalization found",
            "none of its 1 kernel has a norm's name. A norm that isn't found gets a row in a file",
        ),
    ],
)
def test_a_trace_without_a_norm_call_says_what_its_kernels_say(
    tmp_path: Path, times: dict[str, float], headline: str, advice: str
) -> None:
    lost = tuple(cut_off(time_us) for name, time_us in times.items() if name == "unlinked")
    found = summary(covered(**times), rows=(), cut_off=lost, call_count=0)
    words = text_of(answer_html(traced_report(tmp_path, found=found)))
    assert headline in words
    assert advice in words
    assert "AMD Instinct MI300X" in words


def findings_of_trace(report: Report) -> str:
    """What findings.md says of a trace."""
    return combined_findings(report, category_texts(report))


def test_the_findings_tell_of_norms_whose_launch_was_cut_off(tmp_path: Path) -> None:
    times = covered(unlinked=1000.0, other_kernels_without_op=3000.0)
    found = summary(times, rows=(), cut_off=(cut_off(1000.0),), call_count=0)
    text = findings_of_trace(traced_report(tmp_path, found=found))
    assert (
        "Normalization takes 25.0% of kernel time, in kernels whose launch was cut off. 1 kernel, 1.000 ms."
    ) in text
    assert "how efficient they are is not known" in text
    assert "No normalization operations found" not in text


def test_the_findings_of_a_trace_without_any_norm_say_that_there_is_none(tmp_path: Path) -> None:
    text = findings_of_trace(
        traced_report(tmp_path, found=summary(covered(other_ops=9.0), rows=(), call_count=0))
    )
    assert "No normalization operations found in trace." in text


LIMITED = summary(
    covered(explicit=1000.0, compiled_fused=2000.0, unlinked=500.0, other_ops=6500.0),
    rows=(
        fired(us=400.0),
        fired("kernel", 600.0),
        fired("compiled", 2000.0),
        fired("kernel", 500.0, is_in_timeline=False),
    ),
    cut_off=(cut_off(500.0),),
    by_name_us=600.0,
)
LIMITS = (
    "20.0% of kernel time lies in norms inside compiled kernels, fused with other work: an upper bound",
    "6.0% of kernel time lies in norms told by kernel names alone: their time is known, their efficiency is "
    "not. A norm that isn't found gets a row",
    "A further 5.0% of kernel time lies in norm kernels whose launch was cut off",
)


def test_what_the_figures_do_not_hold_is_part_of_verdict_and_findings(tmp_path: Path) -> None:
    report = traced_report(tmp_path, [row_of([1000.0])], found=LIMITED)
    verdict, findings = text_of(answer_html(report)), findings_of_trace(report)
    for limit in LIMITS:
        assert limit in verdict
        assert limit in findings


def test_figures_without_limits_are_given_none(tmp_path: Path) -> None:
    words = text_of(answer_html(traced_report(tmp_path, [row_of([1000.0])])))
    assert "of kernel time lies in" not in words


@pytest.mark.parametrize("rows", [[], [row_of([1000.0])]])
def test_the_findings_of_a_trace_that_breaks_off_say_so(
    tmp_path: Path, rows: list[dict[str, object]]
) -> None:
    found = summary(is_truncated=True, call_count=10 * len(rows))
    text = findings_of_trace(traced_report(tmp_path, rows, found=found))
    assert "The trace breaks off. The file ends before the trace does." in text
    assert "1,234 events" in text


# Calls, method, data quality


def test_the_table_of_calls_shows_their_spread_and_the_norm_apart_from_its_helpers(tmp_path: Path) -> None:
    times = [[60.0, 10.0, 10.0, 10.0, 30.0]]
    report = traced_report(tmp_path, [row_of(times[0])], calls_table(times))
    cells = re.findall(r'<td class="ns-number">([^<]*)</td>', calls_html(report))
    # bytes: 0.8 TB/s × 24 µs = 19.2 MB; over 60, 10, 10, 10 and 30 µs: 0.32, 1.92 (3×), 0.64 TB/s
    assert cells == ["5", "10.0", "10.0", "60.0", "6.00", "1", "2", "24.0", "0.0", "1.34"]


def test_module_names_are_those_of_the_trace_and_escaped(tmp_path: Path) -> None:
    for place, name in enumerate(HOSTILE_NAMES):
        if "\x00" in name or "\r" in name:
            continue
        report = traced_report(tmp_path / str(place), [row_of([500.0])], calls_table([[500.0]], module=name))
        assert calls_of(report)
        html = calls_html(report)
        assert (
            re.findall(
                r"<(?!/?(?:div|p|table|caption|thead|tbody|tr|th|td|details|summary|span|a|br|small)\b)", html
            )
            == []
        )


def test_the_method_names_both_bandwidths_for_what_they_are(tmp_path: Path) -> None:
    words = text_of(method_html(traced_report(tmp_path, [row_of([1000.0])])))
    assert "Datasheet peak bandwidth 5,300 GB/s (published by the vendor" in words
    assert (
        "Published achievable bandwidth 4,269 GB/s (measured by the named benchmark, BabelStream copy"
        in words
    )
    assert "The vendor's datasheet peak, as in TraceLens." in words


def test_the_method_shows_the_formula_of_every_kind_that_occurs(tmp_path: Path) -> None:
    words = text_of(method_html(traced_report(tmp_path, [row_of([1000.0])])))
    assert "Layer norm forward E(sx+sy) 6E read once layer_norm.cu" in words


def test_data_quality_lists_the_problems_with_their_count_and_place(tmp_path: Path) -> None:
    found = summary(
        problems=(
            problem(1200, "events <i>could</i> not be read", 98765),
            problem(3, "launches are missing"),
        ),
        has_shapes=False,
        has_modules=False,
        recomputed_count=4,
        steps=(StepCalls("ProfilerStep#3", 6), StepCalls("ProfilerStep#4", 4)),
    )
    html = data_quality_html(traced_report(tmp_path, [row_of([1000.0])], found=found))
    assert "1,200</td><td>events &lt;i&gt;could&lt;/i&gt; not be read</td>" in html
    words = text_of(html)
    for part in (
        "98,765",
        "3 launches are missing —",
        "record_shapes=True",
        "with_stack=True",
        "4 calls ran a forward norm again",
        "ProfilerStep#3 (6 norm calls), ProfilerStep#4 (4 norm calls)",
    ):
        assert part in words


def test_a_clean_trace_is_called_clean(tmp_path: Path) -> None:
    html = data_quality_html(traced_report(tmp_path, [row_of([1000.0])]))
    assert "Nothing in the file had to be repaired or left out." in html
    assert "record_shapes" not in html


# End to end


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run directory of the simulated trace, under a label that doesn't say what it is."""
    folder = tmp_path_factory.mktemp("simulated")
    trace = write_sample_trace(folder / "step.json.gz")
    write_trace_run(trace, folder / "run", label="step")
    return folder / "run"


def test_every_call_of_the_simulated_trace_finds_its_operation(simulated: Path, tmp_path: Path) -> None:
    report = open_report(str(simulated), str(tmp_path))
    assert report.trace is not None
    operations = sum(len(m.operations) for m in report.metrics if isinstance(m, CategoryMetrics))
    assert (len(calls_of(report)), report.trace.unmatched) == (operations, 0)
    calls = sum(len(calls.kernel_us) for _, calls in calls_of(report))
    assert calls == report.trace.summary.call_count


def test_the_bandwidth_of_the_norm_alone_is_that_of_the_ops_table(simulated: Path, tmp_path: Path) -> None:
    report = open_report(str(simulated), str(tmp_path))
    for category in ("norm_fwd", "norm_bwd"):
        with (simulated / "category_data" / f"{category}_ops.csv").open(encoding="utf-8") as file:
            table = [row["Norm Kernel TB/s_mean"] for row in csv.DictReader(file)]
        own = [
            norm_bandwidth_tbs(calls, each.operation.bytes_moved_per_call)
            for each, calls in sorted(calls_of(report), key=lambda pair: pair[1].operation_index)
            if calls.category == category
        ]
        assert own == [pytest.approx(float(cell)) if cell else None for cell in table]


def test_a_simulated_trace_is_called_simulated(simulated: Path, tmp_path: Path) -> None:
    assert open_report(str(simulated), str(tmp_path)).label == "step (simulated)"


def test_the_cells_keep_the_files_of_the_trace_and_the_figure(simulated: Path, tmp_path: Path) -> None:
    report = open_report(str(simulated), str(tmp_path))
    show_gpu_time(report)
    show_calls(report)
    finish(report)
    for name in ("coverage.json", "trace_summary.json", "norm_calls.csv"):
        source = simulated / "category_data" / name
        assert (tmp_path / "category_data" / name).read_bytes() == source.read_bytes()
    with (tmp_path / "figures" / "call_times.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert report.trace is not None
    assert len(rows) == report.trace.summary.call_count


@pytest.mark.parametrize("name", ["resnet_checkpoint_mi300x", "gpu_only_mi210", "sd35_compiled_mi300x"])
def test_a_real_trace_is_covered_in_full_and_its_calls_are_all_there(
    shared: Path, tmp_path: Path, name: str
) -> None:
    write_trace_run(shared / "traces" / f"{name}.json.gz", tmp_path / "run", label=name)
    report = open_report(str(tmp_path / "run"), str(tmp_path / "out"))
    assert report.trace is not None
    assert report.trace.unmatched == 0
    assert sum(len(calls.kernel_us) for _, calls in calls_of(report)) == report.trace.summary.call_count
    times: Timeline = report.trace.summary.timeline
    parts = times.computation_ms + times.exposed_communication_ms + times.exposed_memcpy_ms + times.idle_ms
    assert parts == pytest.approx(times.total_ms)
    assert gpu_time_html(report)
