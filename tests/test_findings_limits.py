"""Findings of tables made from traces: what only the launches show, with the figures worked out by hand."""

from pathlib import Path

import pytest

from normscope import render_findings, validate_findings_file
from normscope.analysis.models import CategoryMetrics
from normscope.analysis.write import write_metrics
from runs import Row, analyzed, row, traced
from test_findings import IMAGES, NO_FIGURES, prose, section

ROOFLINE = "Pct Roofline_mean"
BATCH_NORM: Row = IMAGES | {ROOFLINE: 5.0, "Data Moved (MB)": 12.0}
TWO_KERNELS: Row = {"call_stack_full": repr(["aten::x", ["launch", "k1"], ["launch", "k2"]])}


def text_of(folder: Path, *rows: Row) -> str:
    """Return the findings of ``rows``, which have to be valid."""
    metrics = analyzed(folder, rows)
    text = render_findings(metrics)
    write_metrics(folder, metrics)
    file = folder / "category_findings" / "norm_fwd_findings.md"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, encoding="utf-8")
    assert validate_findings_file(file, "compute", "standalone") == (True, [])
    return text


def metrics_of(folder: Path, *rows: Row) -> CategoryMetrics:
    return analyzed(folder, rows)


def test_an_under_filled_norm_says_how_much_of_the_device_is_idle(tmp_path: Path) -> None:
    cells = BATCH_NORM | traced(limits="under-filled", workgroups=64)
    text = text_of(tmp_path, row("aten::batch_norm", 4000.0, 10, cells))
    # 64 workgroups on 100 units: 64 % busy, 36 % idle
    assert section(text, "Insight").endswith(
        "at 0.4 TB/s of a possible 2, and it keeps at most 64% of the GPU's compute units busy."
    )
    # the second axis of (8,64,56,56) is 64, as many as workgroups
    assert (
        "Its kernel starts one workgroup per channel: 64 workgroups of 256 threads for 100 compute units, so "
        "at least 36% of the device has nothing to do for 400 µs."
    ) in section(text, "Reasoning")
    assert section(text, "Action").startswith(
        "Try channels-last layout (`model.to(memory_format=torch.channels_last)`), which selects kernels "
        "that split each channel's reduction over many workgroups."
    )
    # 100 ÷ 64 = 1.5625
    assert "up to 1.6 times as much of the device works at a time" in section(text, "Resolution")


def test_workgroups_that_are_no_channels_are_not_called_so(tmp_path: Path) -> None:
    cells = BATCH_NORM | traced(limits="under-filled", workgroups=50)
    text = text_of(tmp_path, row("aten::batch_norm", 4000.0, 10, cells))
    assert "per channel" not in section(text, "Reasoning")
    assert "Its kernel starts 50 workgroups of 256 threads" in section(text, "Reasoning")


def test_a_full_device_is_not_called_idle(tmp_path: Path) -> None:
    text = text_of(tmp_path, row("aten::batch_norm", 4000.0, 10, BATCH_NORM | traced()))
    assert "compute units" not in prose(text)


def test_an_under_filled_norm_along_rows_needs_more_rows(tmp_path: Path) -> None:
    text = text_of(tmp_path, row(time_us=4000.0, cells=traced(limits="under-filled", workgroups=8)))
    assert section(text, "Action").startswith("Give the device more to do at a time, by larger batches")


def test_launch_bound_calls_are_to_be_fused_not_tuned(tmp_path: Path) -> None:
    cells = {"Data Moved (MB)": 1.0, ROOFLINE: 8.0} | traced(
        limits="launch-bound", **{"At Peak (µs)": 0.5243}
    )
    text = text_of(tmp_path, row(time_us=4000.0, count=1000, cells=cells))
    assert section(text, "Action").startswith(
        "Fuse the norm with its neighbours, or batch the calls, rather than tune bandwidth: "
        "1,000 calls of 4 µs move too little to be bound by it."
    )
    # 1 MiB is 1.05 MB
    assert (
        "A call moves 1 MB, which at peak takes 0.52 µs, less than the shortest kernels of this trace "
        "(2 µs): the calls, 100% of the time, are launch-bound."
    ) in section(text, "Reasoning")
    assert "saves a whole launch; this trace holds 1,000 such calls." in section(text, "Resolution")


def test_a_fused_launch_bound_norm_is_only_to_be_batched(tmp_path: Path) -> None:
    cells = {"Data Moved (MB)": 1.0, ROOFLINE: 8.0} | traced(limits="launch-bound", fused_with="residual add")
    text = text_of(tmp_path, row(time_us=4000.0, count=1000, cells=cells))
    assert section(text, "Action").startswith("Batch the calls into fewer and larger ones")
    assert "saves a whole launch" not in text


def test_where_the_shortest_kernels_are_known_a_short_call_is_not_launch_bound_by_itself(
    tmp_path: Path,
) -> None:
    # 8 µs a call, but its bytes need 2.1 µs at peak, more than the shortest kernels
    text = text_of(tmp_path, row(time_us=4000.0, count=500, cells={ROOFLINE: 26.0} | traced()))
    assert "too short to fill" not in text
    assert "launch-bound" not in text


def test_some_launch_bound_calls_get_advice_of_their_own(tmp_path: Path) -> None:
    small = {"Data Moved (MB)": 0.5, "Input Dims": "((8, 512, 7, 7), (512,))", ROOFLINE: 4.0}
    bound = traced(limits="launch-bound", **{"At Peak (µs)": 0.262})
    text = text_of(
        tmp_path,
        row("aten::batch_norm", 3000.0, 10, BATCH_NORM | traced()),
        row("aten::batch_norm", 1000.0, 100, small | bound),
    )
    assert "; for one launch-bound signature fuse norm, activation and residual instead." in section(
        text, "Action"
    )
    # 0.5 MiB = 524 kB; 1 of 4 ms
    assert (
        "A call of (8,512,7,7) bf16 moves 524 kB, which at peak takes 0.26 µs, less than the shortest "
        "kernels of this trace (2 µs): the calls, 25% of the time, are launch-bound."
    ) in section(text, "Reasoning")


def test_two_passes_lower_what_can_be_reached_unless_the_cache_holds_the_input(tmp_path: Path) -> None:
    cells = BATCH_NORM | traced(limits="two-pass", attainable_percent=66.67)
    far = text_of(tmp_path / "far", row("aten::batch_norm", 4000.0, 10, cells))
    told = "where both passes go to memory, 67% of the roofline is the most it can reach"
    assert f"{told}." in section(far, "Reasoning")
    cached = text_of(
        tmp_path / "near",
        row("aten::batch_norm", 4000.0, 10, cells | {"limits": "cache-resident | two-pass"}),
    )
    # 12 MiB = 12.6 MB
    assert (
        f"{told}; the 13 MB of a call fit the last-level cache (32 MiB), where the second pass may find them."
    ) in section(cached, "Reasoning")


def test_more_than_the_peak_is_no_error_where_the_cache_holds_the_data(tmp_path: Path) -> None:
    cells = {ROOFLINE: 140.0} | traced(limits="cache-resident")
    text = text_of(tmp_path, row(time_us=4000.0, cells=cells))
    assert "### P1: `aten::layer_norm` runs from the last-level cache (PyTorch Native)" in text
    assert section(text, "Insight").endswith(
        "at 140% of the memory roofline: its data fit the last-level cache."
    )
    assert "going over the memory peak is no error" in section(text, "Reasoning")
    assert "110% of roofline, which is no error: their data fit the last-level cache." in text
    assert "Check the measurement" not in text


def test_more_than_the_peak_is_an_error_where_the_cache_is_too_small(tmp_path: Path) -> None:
    text = text_of(tmp_path, row(time_us=4000.0, cells={ROOFLINE: 140.0} | traced()))
    assert "110% of roofline, which can't be: verify the measurement." in text
    assert section(text, "Action").startswith("Check the measurement before tuning")


def test_the_kernel_with_most_of_the_time_is_named(tmp_path: Path) -> None:
    main = traced(main_kernel="collect|statistics", main_kernel_percent=75.4)
    text = text_of(tmp_path, row("aten::batch_norm", 4000.0, 10, BATCH_NORM | TWO_KERNELS | main))
    assert "Each call launches two kernels" in section(text, "Reasoning")
    assert "Among them `collect|statistics` holds 75% of the time." in section(text, "Reasoning")


def test_a_compiled_norm_has_an_upper_bound_and_a_finding_of_its_own(tmp_path: Path) -> None:
    triton = {"kernel_details_summary": "[{'name': 'triton_red_fused_0', 'stream': 0}]"}
    compiled = traced(
        found_by="compiled",
        is_upper_bound=True,
        fused_with="add | mul | a | b | c",
        norm_variant="LayerNorm",
    )
    own = traced(fused_with="")
    text = text_of(
        tmp_path,
        row("triton_red_fused_0", 4000.0, 10, triton | compiled),
        row("triton::layer_norm", 2000.0, 10, triton | own),
    )
    assert section(text, "Insight").startswith(
        "One LayerNorm forward signature spends 4 ms (upper bound: fused with add, mul and 3 more), "
        "40% of end-to-end GPU time,"
    )
    assert "takes 4 ms" not in text
    # 4 of 6 ms
    assert "in 20 calls, 60% of end-to-end GPU time; of which ≤\u00a04.00 ms in fused kernels" in text
    assert "takes 400 µs (upper bound) per call" in section(text, "Reasoning")
    assert "instead of 400 µs (upper bound)." in section(text, "Resolution")
    assert "| Bound | Time is |" in text
    assert "| memory-bound | upper bound: fused with add, mul and 3 more |" in text
    # the other finding has none of it
    assert "Time is" not in text[text.index("rank=2 -->") :]
    assert section(text, "Action").startswith("Tune the compiled kernels as a whole")
    assert "### P2: LayerNorm forward" in text


def test_an_unfused_norm_is_a_finding_of_its_own_with_one_fused_kernel_as_target(tmp_path: Path) -> None:
    chain = {
        "call_stack_full": repr(["aten::x", *(["launch", f"k{n}"] for n in range(8))]),
        "Data Moved (MB)": 4.0,
        ROOFLINE: 5.0,
    }
    unfused = traced(
        found_by="eager",
        norm_variant="RMSNorm",
        main_kernel="reduce_kernel",
        main_kernel_percent=30.0,
        **{"Data Launched (MB)": 36.0},
    )
    rows = [row("eager::QwenRMSNorm", 4000.0, 49, chain | unfused), row(time_us=1000.0, cells=traced())]
    metrics = metrics_of(tmp_path, *rows)
    assert [(f.kind, f.rank, f.member_count) for f in metrics.category_findings] == [
        ("unfused", 1, 1),
        ("norm", 2, 1),
    ]
    # 95 % of 4 of 10 ms: 38, and 0.875 of that
    assert metrics.category_findings[0].impact_score == pytest.approx(33.25)
    text = text_of(tmp_path, *rows)
    assert "### P1: RMSNorm forward unfused: eight kernels where one would do (PyTorch Native)" in text
    # 36 ÷ 4 MiB
    assert section(text, "Insight") == (
        "One RMSNorm forward shape spends 4 ms, 40% of end-to-end GPU time, in chains of eight kernels that "
        "move 9 times the bytes of a fused one."
    )
    assert section(text, "Action").startswith(
        "Replace the chain by one fused call, `torch.nn.functional.rms_norm` (`torch.nn.RMSNorm`), or "
        "compile the module with `torch.compile`"
    )
    # 36 MiB = 37.7 MB, 4 MiB = 4.2 MB
    assert "The chain moves 38 MB per call, 9 times the 4.2 MB" in section(text, "Reasoning")
    # seven of eight, 49 times; 4.2 MB ÷ 2 TB/s = 2.1 µs
    assert "Seven of eight launches go away" in section(text, "Resolution")
    assert "343 launches in this trace" in section(text, "Resolution")
    assert "takes 2.1 µs at peak instead of 82 µs." in section(text, "Resolution")


def test_a_norm_known_by_its_kernel_name_asks_for_the_ops_of_the_host(tmp_path: Path) -> None:
    main = {"main_kernel": "k1", "main_kernel_percent": 54.0}
    cells = NO_FIGURES | TWO_KERNELS | traced(found_by="kernel", limits="under-filled", workgroups=64, **main)
    text = text_of(tmp_path, row("batch_norm_collect_statistics_kernel", 2000.0, 10, cells))
    assert section(text, "Action") == (
        "Record the trace with the ops of the host and their shapes (`ProfilerActivity.CPU`, "
        "`record_shapes=True`), so that bytes and efficiency can be worked out; its launch leaves compute "
        "units idle, so larger batches should help whatever it moves."
    )
    assert "Of its two kernels `k1` holds 54% of the time." in section(text, "Reasoning")
    assert "at least 36% of the device has nothing to do" in section(text, "Reasoning")


def test_a_replayed_norm_asks_for_the_capture(tmp_path: Path) -> None:
    cells = NO_FIGURES | traced(found_by="kernel", norm_variant="RMSNorm", is_replayed=True)
    text = text_of(tmp_path, row("add_rmsnorm_quant_kernel", 2000.0, 10, cells))
    assert "### P1: `add_rmsnorm_quant_kernel` known by its kernel name alone" in text
    assert "give its folder with `--capture`" in section(text, "Action")
    assert "because only the kernel's name is known" in text


def test_what_nobody_has_checked_is_said_in_the_findings(tmp_path: Path) -> None:
    checked, other = traced(), traced(evidence="unverified")
    text = text_of(tmp_path, row(time_us=3000.0, cells=checked), row(time_us=900.0, cells=other))
    assert "One of them were" not in text
    assert "One of them was found by names that were never checked" in section(text, "Identification")
    alone = text_of(tmp_path / "alone", row(time_us=3000.0, cells=other))
    assert "It was found by names that were never checked" in section(alone, "Identification")


def test_a_speed_that_rounds_to_nothing_is_no_lower_end(tmp_path: Path) -> None:
    slow = traced() | {"TB/s_mean": 0.004, ROOFLINE: 0.2}
    text = text_of(tmp_path, row(time_us=3000.0, cells=traced()), row(time_us=900.0, cells=slow))
    assert section(text, "Insight").endswith("at up to 0.4 TB/s of a possible 2.")


@pytest.mark.parametrize(
    ("libraries", "words"),
    [
        (("vLLM",), "vLLM backend"),
        (("vLLM", "vLLM"), "vLLM backend"),
        (("vLLM", "Liger"), "vLLM and Liger backend"),
        (("[x](y)",), "&#91;x&#93;&#40;y&#41; backend"),
        (("vLLM", ""), "backend not told by the trace"),
        (("",), "backend not told by the trace"),
    ],
)
def test_the_catalog_names_the_library_where_names_of_ops_and_kernels_do_not(
    tmp_path: Path, libraries: tuple[str, ...], words: str
) -> None:
    kernel = {"kernel_details_summary": repr([{"name": "void vllm::rms_norm_kernel<float>(float*)"}])}
    cells = IMAGES | {ROOFLINE: 5.0} | kernel
    rows = [
        row(f"_C::rms_norm_{place}", 2000.0, 10, cells | traced(norm_library=library))
        for place, library in enumerate(libraries)
    ]
    metrics = metrics_of(tmp_path, *rows)
    assert {operation.library for operation in metrics.operations} == {None}
    text = text_of(tmp_path, *rows)
    assert words in section(text, "Identification")
    others = {"backend not told by the trace"} - {words}
    assert not any(other in text for other in others)


def test_a_library_that_the_names_tell_is_the_one_that_counts(tmp_path: Path) -> None:
    cells = IMAGES | {ROOFLINE: 5.0} | traced(norm_library="SGLang with AITER")
    text = text_of(tmp_path, row("aiter::rmsnorm", 2000.0, 10, cells))
    assert "AITER backend" in section(text, "Identification")
    assert "SGLang" not in text


def test_tables_of_another_origin_say_nothing_of_launches(tmp_path: Path) -> None:
    metrics = metrics_of(tmp_path, row(time_us=4000.0))
    assert metrics.operations[0].kind == "norm"
    text = text_of(tmp_path, row(time_us=4000.0))
    for word in ("compute unit", "launch-bound", "last-level", "upper bound", "shortest kernels"):
        assert word not in text
