"""What the figures say: the right numbers in titles, texts, axes and data, for any input."""

import unicodedata
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import get_args

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.patches import Rectangle

from figure_inputs import Op, finding, report
from normscope.analysis.limit_phrases import byte_size
from normscope.analysis.models import CategoryMetrics, Direction, Variant
from normscope.figures import (
    ALL_FIGURES,
    Chart,
    efficiency_by_bytes,
    impact,
    render_png,
    roofline,
    time_by_operation,
)
from normscope.figures.labels import (
    UNDRAWABLE,
    drawable,
    duration,
    name_label,
    number_duplicates,
    percent,
    percent_range,
    shorten_middle,
)
from normscope.figures.scatter import NAMED_POINTS, spread
from normscope.figures.style import DIRECTIONS, VARIANTS

HOSTILE_NAMES = (
    r"$\frac{a}{b}$ |x|",
    "$unbalanced",
    "<script>alert(1)</script>",
    "[c](javascript:alert(1))",
    "漢字カーネル 🎉 norm",
    "\x1b[31mred\x00\r\n\ttab",
    "=cmd|' /C calc'!A0",
    "a" + "\u0301" * 60,
    "\u202eright to left",
    "\ud800 lone surrogate",
    "مرحبا norm",
    "`tick` -- \\ %s {0} {pm[run_uuid]}",
    "",
    "   ",
    "x" * 4000,
)
# As many at once as a scatter names beside its points.
HOSTILE_GROUPS = tuple(
    HOSTILE_NAMES[i : i + NAMED_POINTS] for i in range(0, len(HOSTILE_NAMES), NAMED_POINTS)
)
names = st.one_of(st.sampled_from(HOSTILE_NAMES), st.text(max_size=30))


def axes_of(chart: Chart) -> Axes:
    """Return the only axes of a figure."""
    (axes,) = chart.figure.axes
    return axes


def points_of(chart: Chart) -> list[tuple[float, float]]:
    """Return the places of all drawn points."""
    found = [c for c in axes_of(chart).collections if isinstance(c, PathCollection)]
    return sorted((float(x), float(y)) for c in found for x, y in np.asarray(c.get_offsets()))


def bar_widths(chart: Chart) -> list[float]:
    """Return the lengths of the bars, from the top down."""
    return [bar.get_width() for bar in axes_of(chart).patches if isinstance(bar, Rectangle)]


def bar_labels(chart: Chart) -> list[str]:
    """Return the texts beside the bars, from the top down."""
    return [label.get_text() for label in axes_of(chart).get_yticklabels()]


def legend_texts(chart: Chart) -> list[str]:
    """Return the entries of the legend."""
    return [text.get_text() for text in chart.figure.legends[0].get_texts()]


def notes_of(chart: Chart) -> str:
    """Return the small print of a figure, in one line."""
    return chart.figure.legends[0].get_title().get_text().replace("\n", " ")


def column(chart: Chart, start: str) -> list[object]:
    """Return the cells of the data column whose name starts so."""
    (place,) = [i for i, name in enumerate(chart.header) if name.startswith(start)]
    return [row[place] for row in chart.rows]


def forward_and_backward() -> Sequence[CategoryMetrics]:
    """Return 6 ms forward in two operations and 2 ms backward in one, of 100 ms end to end."""
    forward = report(Op(time_ms=5, args="(8,64) bf16"), Op(name="aten::layer_norm", variant="LayerNorm"))
    backward = report(
        Op(name="aten::native_batch_norm_backward", time_ms=2, direction="backward", efficiency_percent=45),
        category="norm_bwd",
        direction="backward",
    )
    return [forward, backward]


def hostile_report(hostile: Sequence[str]) -> CategoryMetrics:
    """Return metrics that hold these names wherever a name can stand."""
    ops = [Op(name=name, args=f"{name} bf16", compute_spec=name) for name in hostile]
    guesses = [finding(1, 1, 2, 3, method="heuristic", members=[name]) for name in hostile]
    measured = [finding(2, 1, 2, 3, library=name) for name in hostile]
    return report(*ops, category=hostile[0], direction="unknown", findings=[*guesses, *measured])


# Where the time goes


def test_bars_are_kernel_times_longest_first_over_both_directions() -> None:
    chart = time_by_operation(forward_and_backward())
    assert bar_widths(chart) == [5, 2, 1]
    assert bar_labels(chart)[0] == "aten::batch_norm\n(8,64) bf16 · forward"
    assert bar_labels(chart)[1].startswith("aten::native_batch_norm_backward\n")
    assert bar_labels(chart)[1].endswith(" · backward")
    assert axes_of(chart).get_xlabel() == "kernel time (ms)"


def test_time_title_tells_how_few_operations_take_half_of_the_time() -> None:
    # 5 of 8 ms is 62.5 %, and 8 of 100 ms is 8 %.
    title = "One of 3 operations takes 62% of the normalization time (8 ms, 8.0% of end-to-end time)"
    assert time_by_operation(forward_and_backward()).title == title


def test_the_total_time_is_the_one_of_the_metrics() -> None:
    # The rows add up to 2.952 ms, rounded each; the metrics hold the rounded sum.
    rows = report(*[Op(time_ms=1.476)] * 2, end_to_end_ms=None)
    rounded = msgspec.structs.replace(rows, total_time_ms=2.941)
    assert time_by_operation([rounded]).title.endswith("(2.94 ms)")


def test_values_beside_the_bars_are_time_and_share_of_end_to_end_time() -> None:
    texts = [text.get_text() for text in axes_of(time_by_operation(forward_and_backward())).texts]
    assert texts == ["5 ms · 5.0%", "2 ms · 2.0%", "1 ms · 1.0%"]


def test_operations_beyond_top_n_are_one_bar_with_their_sum() -> None:
    chart = time_by_operation([report(*[Op(time_ms=ms) for ms in (8, 4, 2, 1, 0.5)])], top_n=2)
    assert bar_widths(chart) == [8, 4, 3.5]
    assert bar_labels(chart)[2] == "3 others"
    assert column(chart, "drawn as") == ["bar of its own"] * 2 + ["others"] * 3


@pytest.mark.parametrize(("top_n", "bars"), [(0, 2), (1, 2), (101, 61), (10**6, 61)])
def test_any_top_n_gives_one_to_sixty_bars_and_the_rest(top_n: int, bars: int) -> None:
    assert len(bar_widths(time_by_operation([report(*[Op()] * 101)], top_n))) == bars


def test_share_is_left_out_where_end_to_end_time_is_not_known() -> None:
    chart = time_by_operation([report(Op(end_to_end_ms=None), end_to_end_ms=None)])
    assert chart.title == "One operation takes all the normalization time (1 ms)"
    assert [text.get_text() for text in axes_of(chart).texts] == ["1 ms"]
    assert column(chart, "share of end-to-end") == [None]


def test_an_operation_without_a_time_is_told_and_not_drawn() -> None:
    chart = time_by_operation([report(Op(time_ms=3), Op(time_ms=0), without_time=[1])])
    assert bar_widths(chart) == [3]
    assert "Not drawn: 1 operation without a time" in notes_of(chart)
    assert "Not drawn: 1 operation without a time" in chart.alt
    assert column(chart, "kernel time") == [3, None]


def test_trace_2_is_marked_in_the_comparative_scope() -> None:
    chart = time_by_operation([report(Op(time_ms=2, t2_time_ms=1.5), scope="comparative")])
    assert [list(np.asarray(line.get_xdata())) for line in axes_of(chart).lines] == [[1.5, 1.5]]
    assert "trace 2" in legend_texts(chart)
    assert "2 ms in trace 1" in chart.title
    assert column(chart, "trace 2 kernel time (ms)") == [1.5]


# The roofline


def test_roofline_axes_are_logarithmic_and_have_units() -> None:
    axes = axes_of(roofline(forward_and_backward()))
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.get_xlabel() == "arithmetic intensity (FLOP/byte)"
    assert axes.get_ylabel() == "achieved (TFLOP/s)"


def test_roofline_draws_slope_ceiling_and_ridge_from_the_peaks() -> None:
    chart = roofline([report(Op(memory_peak=5.3, compute_peak=163))])
    slope, ridge, ceiling = (np.asarray(line.get_xydata()) for line in axes_of(chart).lines)
    assert list(slope[:, 1] / slope[:, 0]) == pytest.approx([5.3, 5.3])
    assert list(ridge[:, 0]) == pytest.approx([163 / 5.3] * 2)
    assert list(ceiling[:, 1]) == [163, 163]
    texts = [text.get_text() for text in axes_of(chart).texts]
    assert {"163 TFLOP/s, vector_bf16\nridge 30.8 FLOP/byte", "memory peak 5.3 TB/s"} <= set(texts)


def test_each_compute_peak_in_use_is_a_ceiling() -> None:
    chart = roofline([report(Op(), Op(compute_peak=708, compute_spec="matrix_bf16"))])
    texts = [text.get_text() for text in axes_of(chart).texts]
    assert "163 TFLOP/s, vector_bf16\nridge 30.8 FLOP/byte" in texts
    assert "708 TFLOP/s, matrix_bf16\nridge 134 FLOP/byte" in texts


def test_roofline_points_are_intensity_and_achieved_rate() -> None:
    chart = roofline([report(Op(tflops=0.66, flops_per_byte=1.0), Op(tflops=2.61, flops_per_byte=0.63))])
    assert points_of(chart) == [(0.63, 2.61), (1.0, 0.66)]


@pytest.mark.parametrize(
    ("op", "tflops"),
    [
        # 1 MB in 10 µs is 0.1 TB/s; × 1.25 FLOP/byte.
        (Op(tflops=None, tb_s=None, bytes_per_call=1e6, mean_us=10.0), 0.125),
        # Rounded to nothing in the metrics: 1 MB in 1 ms is 0.001 TB/s.
        (Op(tflops=0.0, tb_s=0.0, bytes_per_call=1e6, mean_us=1000.0), 0.00125),
        (Op(tflops=None, tb_s=0.16, bytes_per_call=None), 0.2),
    ],
)
def test_a_missing_rate_follows_from_bandwidth_and_intensity(op: Op, tflops: float) -> None:
    chart = roofline([report(op)])
    assert points_of(chart)[0][1] == pytest.approx(tflops)
    assert column(chart, "achieved (TFLOP/s)") == pytest.approx([tflops])


@pytest.mark.parametrize(
    ("percents", "title"),
    [
        ((10, 10, 29.99, 95), "75% of the normalization time runs below 30% of the roofline"),
        ((30, 59, 59.99, 95), "75% of the normalization time runs at 30–60% of the roofline"),
        ((60, 61, 62, 95), "All of the normalization time runs at 60% or more of the roofline"),
    ],
)
def test_roofline_title_names_the_band_with_most_time(percents: tuple[float, ...], title: str) -> None:
    ops = [Op(efficiency_percent=value, time_ms=1.0) for value in percents]
    assert roofline([report(*ops)]).title == title


def test_roofline_title_weighs_by_time_not_by_count() -> None:
    ops = [Op(efficiency_percent=10), Op(efficiency_percent=10), Op(efficiency_percent=80, time_ms=6)]
    assert roofline([report(*ops)]).title.startswith("75% of the normalization time runs at 60%")


def test_operations_without_a_model_count_in_the_title() -> None:
    unmodelled = Op(time_ms=9, tflops=None, tb_s=None, flops_per_byte=None, efficiency_percent=None)
    chart = roofline([report(Op(time_ms=1), unmodelled)])
    assert chart.title == "90% of the normalization time has no performance model, so no place here"
    assert len(points_of(chart)) == 1
    assert "Not drawn: 1 operation" in notes_of(chart)
    assert column(chart, "drawn as") == ["not drawn", "filled"]


def test_anomalies_are_hollow_and_never_a_success() -> None:
    chart = roofline([report(Op(efficiency_percent=431, tflops=28, is_anomaly=True, time_ms=9), Op())])
    assert "claims more than the roofline allows" in chart.title
    assert "above the roofline" in legend_texts(chart)
    assert "not a success" in notes_of(chart)
    assert column(chart, "drawn as") == ["hollow", "filled"]


def test_a_point_above_its_roof_is_hollow_in_the_comparative_scope_too() -> None:
    # The roof at 1.25 FLOP/byte is 5.3 × 1.25 = 6.625 TFLOP/s.
    chart = roofline([report(Op(tflops=9.0, efficiency_percent=50), scope="comparative")])
    assert column(chart, "drawn as") == ["hollow"]


def test_comparative_roofline_measures_trace_1_against_its_own_roof() -> None:
    # 0.2 of 6.625 TFLOP/s is 3 %, whatever trace 2 needs.
    chart = roofline([report(Op(tflops=0.2, efficiency_percent=78), scope="comparative")])
    assert chart.title == "All of trace 1's normalization time runs below 30% of the roofline"
    assert column(chart, "share of the roofline (%)") == pytest.approx([3.02], abs=0.01)


def test_without_a_compute_peak_only_the_slope_is_drawn() -> None:
    chart = roofline([report(Op(compute_peak=None))])
    assert len(axes_of(chart).lines) == 1
    assert "The compute peak isn't known." in notes_of(chart)


# Efficiency against size


def test_efficiency_is_drawn_over_bytes_per_call() -> None:
    ops = [Op(bytes_per_call=1e6, efficiency_percent=5), Op(bytes_per_call=1e8, efficiency_percent=50)]
    chart = efficiency_by_bytes([report(*ops)])
    assert points_of(chart) == [(1e6, 5), (1e8, 50)]
    axes = axes_of(chart)
    assert (axes.get_xscale(), axes.get_xlabel()) == ("log", "bytes moved per call")
    assert axes.get_ylabel() == "share of the roofline (%)"
    assert list(axes.get_yticks()) == [0, 30, 60, 100]


@pytest.mark.parametrize(
    ("large", "title"),
    [
        (50, "Calls below 100 MB reach 5.0% of the roofline, larger ones 50%"),
        (6, "Size makes little difference: 5.0% of the roofline below 100 MB, 6.0% from there on"),
    ],
)
def test_efficiency_title_compares_small_and_large_calls(large: float, title: str) -> None:
    ops = [Op(bytes_per_call=1e6, efficiency_percent=5), Op(bytes_per_call=1e8, efficiency_percent=large)]
    assert efficiency_by_bytes([report(*ops)]).title == title


def test_efficiency_title_weighs_by_time() -> None:
    ops = [
        Op(bytes_per_call=1e6, efficiency_percent=10, time_ms=3),
        Op(bytes_per_call=2e6, efficiency_percent=50, time_ms=1),
        Op(bytes_per_call=1e8, efficiency_percent=80),
        Op(bytes_per_call=1e8, efficiency_percent=80),
    ]
    # (3 × 10 + 1 × 50) ÷ 4 = 20 % below the middle.
    title = "Calls below 100 MB reach 20% of the roofline, larger ones 80%"
    assert efficiency_by_bytes([report(*ops)]).title == title


def test_efficiency_title_judges_each_direction_by_itself() -> None:
    forward = [Op(bytes_per_call=1e6, efficiency_percent=5), Op(bytes_per_call=1e8, efficiency_percent=50)]
    backward = [
        Op(bytes_per_call=2e6, efficiency_percent=20, direction="backward"),
        Op(bytes_per_call=2e6, efficiency_percent=20, direction="backward"),
        Op(bytes_per_call=4e6, efficiency_percent=22, direction="backward"),
    ]
    assert efficiency_by_bytes([report(*forward, *backward)]).title == (
        "Forward: calls below 100 MB reach 5.0% of the roofline, larger ones 50%; "
        "backward: size makes little difference: 20% of the roofline below 4 MB, 22% from there on"
    )


def test_one_operation_and_equal_sizes_have_titles_of_their_own() -> None:
    one = efficiency_by_bytes([report(Op(efficiency_percent=8.26, bytes_per_call=2.45e6))])
    assert one.title == "The one operation moves 2.45 MB per call and reaches 8.3% of the roofline"
    same = efficiency_by_bytes([report(Op(efficiency_percent=10), Op(efficiency_percent=30))])
    assert same.title == "All calls move 1 MB and reach 20% of the roofline on average"


def test_an_anomaly_stands_at_the_edge_with_its_true_value() -> None:
    chart = efficiency_by_bytes([report(Op(efficiency_percent=431, is_anomaly=True), Op())])
    assert max(y for _, y in points_of(chart)) < axes_of(chart).get_ylim()[1] < 125
    assert "above 110% (up to 431%)" in notes_of(chart)
    assert any(text.get_text().endswith(": 431%") for text in axes_of(chart).texts)
    assert column(chart, "share of the roofline (%)") == [431, 3]
    assert "431" not in chart.title


def test_all_anomalies_are_called_a_fault() -> None:
    chart = efficiency_by_bytes([report(*[Op(efficiency_percent=150, is_anomaly=True)] * 5)])
    assert chart.title == "All 5 operations claim more than 110% of the roofline: check peaks and byte counts"


def test_comparative_efficiency_is_the_time_that_trace_2_needs() -> None:
    ops = [Op(bytes_per_call=1e6, efficiency_percent=70), Op(bytes_per_call=1e8, efficiency_percent=330)]
    chart = efficiency_by_bytes([report(*ops, scope="comparative")])
    assert axes_of(chart).get_ylabel() == "share of trace 1's time that trace 2 needs (%)"
    assert chart.title == "Trace 2 needs 70% of trace 1's time for calls below 100 MB, 330% for larger ones"
    assert "above 200% (up to 330%)" in notes_of(chart)
    assert "above 110%" not in legend_texts(chart)


# Impact


def test_impact_bars_are_scores_with_their_ranges() -> None:
    chart = impact([report(Op(), findings=[finding(1, 3.8, 4.44, 5.06), finding(2, 1.1, 1.6, 1.9)])])
    assert bar_widths(chart) == [4.44, 1.6]
    (ranges,) = [c for c in axes_of(chart).collections if isinstance(c, LineCollection)]
    ends = [list(np.asarray(segment)[:, 0]) for segment in ranges.get_segments()]
    assert ends == [pytest.approx([3.8, 5.06]), pytest.approx([1.1, 1.9])]
    assert axes_of(chart).get_xlabel() == "impact score (% of end-to-end time)"
    # 3.8 + 1.1 = 4.9 and 5.06 + 1.9 = 6.96.
    assert chart.title == "2 findings are together worth 4.9–7.0% of end-to-end time"


def test_findings_of_both_directions_share_one_order_and_keep_their_rank() -> None:
    forward = report(Op(), findings=[finding(1, 1, 2, 3), finding(2, 0.5, 0.6, 0.7)])
    backward = report(Op(), category="norm_bwd", direction="backward", findings=[finding(1, 4, 5, 6)])
    chart = impact([forward, backward])
    assert [label.split(" · memory")[0] for label in bar_labels(chart)] == [
        "backward P1",
        "forward P1",
        "forward P2",
    ]
    assert column(chart, "category") == ["norm_bwd", "norm_fwd", "norm_fwd"]


def test_a_category_of_unknown_direction_is_called_by_its_name() -> None:
    chart = impact([report(Op(), category="rmsnorm", direction="unknown", findings=[finding(1, 1, 2, 3)])])
    assert bar_labels(chart)[0].startswith("rmsnorm P1 · ")


def test_a_heuristic_finding_is_hatched_and_called_an_estimate_without_a_model() -> None:
    guess = finding(1, 1, 2, 3, method="heuristic", members=["custom::norm"])
    chart = impact([report(Op(), findings=[guess, finding(2, 0.5, 0.6, 0.7)])])
    hatches = [bool(patch.get_hatch()) for patch in axes_of(chart).patches]
    assert hatches == [True, False]
    assert bar_labels(chart)[0] == "forward P1 · no model\ncustom::norm"
    assert any("estimate without a performance model" in text for text in legend_texts(chart))
    assert "1 estimate without a performance model" in chart.alt


def test_findings_beyond_top_n_are_one_bar_with_their_sum() -> None:
    chart = impact([report(Op(), findings=[finding(n, 1, 4 - n, 5) for n in (1, 2, 3)])], top_n=1)
    assert bar_widths(chart) == [3, 3]
    assert bar_labels(chart)[1] == "2 other findings"
    assert len(chart.rows) == 3


def test_comparative_impact_is_what_matching_trace_2_would_save() -> None:
    chart = impact([report(Op(), scope="comparative", findings=[finding(1, 1.2, 1.4, 1.6)])])
    assert chart.title == "Matching trace 2 would save 1.2–1.6% of trace 1's end-to-end time"


# Nothing to draw


@pytest.mark.parametrize("name", ALL_FIGURES)
@pytest.mark.parametrize("reports", [(), (report(),)], ids=["no category", "no operation"])
def test_without_operations_each_figure_says_so_in_words(
    name: str, reports: Sequence[CategoryMetrics]
) -> None:
    chart = ALL_FIGURES[name](reports, 10)
    assert chart.figure.axes == []
    shown = " ".join(text.get_text() for text in chart.figure.texts)
    assert "The input holds no normalization operation." in shown
    assert chart.rows == ()


@pytest.mark.parametrize(
    ("name", "given_report", "words"),
    [
        ("time_by_operation", report(Op(time_ms=0), without_time=[0]), "no kernel time for its 1 operation"),
        ("roofline", report(Op(memory_peak=None, compute_peak=None)), "memory peak of the GPU isn't known"),
        ("roofline", report(Op(flops_per_byte=None)), "an arithmetic intensity"),
        ("roofline", report(Op(tflops=None, tb_s=None, bytes_per_call=None)), "no performance model"),
        ("efficiency_by_bytes", report(Op(efficiency_percent=None)), "an efficiency and the bytes"),
        ("efficiency_by_bytes", report(Op(bytes_per_call=None)), "an efficiency and the bytes"),
        ("impact", report(Op(), end_to_end_ms=None), "The end-to-end time isn't known"),
        ("impact", report(Op()), "No operation has anything to save that can be estimated."),
    ],
)
def test_a_figure_that_lacks_data_says_what_it_lacks(
    name: str, given_report: CategoryMetrics, words: str
) -> None:
    chart = ALL_FIGURES[name]([given_report], 10)
    assert chart.figure.axes == []
    assert words in " ".join(" ".join(text.get_text().split()) for text in chart.figure.texts)
    assert chart.alt.startswith(chart.title)


@pytest.mark.parametrize("absurd", [0.0, 5e-324, 1e300])
@pytest.mark.parametrize("draw", [roofline, efficiency_by_bytes])
def test_a_value_that_no_axis_can_show_is_not_drawn_but_kept_in_the_data(
    draw: Callable[[Sequence[CategoryMetrics]], Chart], absurd: float
) -> None:
    chart = draw([report(Op(), Op(name="absurd", flops_per_byte=absurd, bytes_per_call=absurd, mean_us=1.0))])
    assert len(points_of(chart)) == 1
    assert column(chart, "operation") == ["aten::batch_norm", "absurd"]
    assert column(chart, "drawn as") == ["filled", "not drawn"]


# Marks and texts


def test_each_variant_has_a_colour_a_marker_and_a_hatch_of_its_own() -> None:
    assert len({style.colour for style in VARIANTS.values()}) == len(VARIANTS)
    assert len({style.marker for style in VARIANTS.values()}) == len(VARIANTS)
    assert len({style.hatch for style in VARIANTS.values()}) == len(VARIANTS)
    assert set(VARIANTS) == set(get_args(Variant))
    assert set(DIRECTIONS) == set(get_args(Direction))


@pytest.mark.parametrize("draw", [roofline, efficiency_by_bytes])
def test_scatter_legends_name_the_variants_and_directions_that_occur(
    draw: Callable[[Sequence[CategoryMetrics]], Chart],
) -> None:
    texts = legend_texts(draw(forward_and_backward()))
    assert texts == ["BatchNorm", "LayerNorm", "forward", "backward"]


@pytest.mark.parametrize("name", ALL_FIGURES)
def test_title_stands_in_the_figure_and_opens_the_alternative_text(name: str) -> None:
    chart = ALL_FIGURES[name](forward_and_backward(), 10)
    shown = " ".join(text.get_text() for text in chart.figure.findobj() if hasattr(text, "get_text"))
    assert chart.title in " ".join(shown.replace("\u00a0", " ").split())
    assert chart.alt.startswith(chart.title)
    assert chart.name == name


@pytest.mark.parametrize("count", [1, 5, 101])
@pytest.mark.parametrize("name", ALL_FIGURES)
def test_nothing_is_cut_off_at_the_edge_of_the_figure(name: str, count: int) -> None:
    ops = [
        Op(name=f"{i}" + "aten::long_name_" * 300, args=f"({i},)" + "9," * 300, bytes_per_call=1e4 * (i + 1))
        for i in range(count)
    ]
    guesses = [finding(i, 1, 2, 3, method="heuristic", members=[op.name]) for i, op in enumerate(ops)]
    chart = ALL_FIGURES[name]([report(*ops, findings=guesses)], 10)
    width, height = chart.figure.bbox.width, chart.figure.bbox.height
    for artist in (*chart.figure.axes, *chart.figure.legends, *chart.figure.texts):
        box = artist.get_tightbbox()
        assert box is not None
        assert box.x0 >= -1
        assert box.y0 >= -1
        assert box.x1 <= width + 1
        assert box.y1 <= height + 1


@pytest.mark.parametrize("name", ALL_FIGURES)
@pytest.mark.parametrize("hostile", HOSTILE_GROUPS)
def test_hostile_names_are_drawn_without_a_warning(name: str, hostile: Sequence[str]) -> None:
    assert render_png(ALL_FIGURES[name]([hostile_report(hostile)], 10)).startswith(b"\x89PNG")


# Labels and numbers


@given(names)
def test_a_label_has_only_characters_that_the_font_draws(name: str) -> None:
    label = name_label(name)
    assert len(label) <= 38
    assert label.strip()
    assert not any(unicodedata.category(c).startswith(("C", "M", "Zl", "Zp")) for c in label)
    assert drawable(label) == label


def test_what_the_font_lacks_becomes_a_box() -> None:
    assert drawable("漢norm🎉") == f"{UNDRAWABLE}norm{UNDRAWABLE}"
    assert drawable("µ × ≥ é") == "µ × ≥ é"
    assert drawable("a\nb\x1b") == r"a\nb\x1b"


def test_long_names_that_differ_only_at_the_end_stay_apart() -> None:
    start = "void at::native::batch_norm_collect_statistics_channels_last_kernel<c10::BFloat16" * 2
    assert shorten_middle(f"{start}, float, 4>") != shorten_middle(f"{start}, float, 8>")
    assert shorten_middle("x" * 4000 + "end").endswith("end")


@given(st.lists(names, max_size=8), st.integers(2, 40))
def test_shortened_and_numbered_labels_are_all_different(given_names: list[str], width: int) -> None:
    labels = number_duplicates([name_label(name, width) for name in given_names])
    assert len(set(labels)) == len(given_names)


def test_a_running_number_never_meets_a_name_that_has_it_already() -> None:
    assert number_duplicates(["a #1", "a", "a"]) == ("a #1", "a #2", "a #3")


def test_equal_operations_get_a_running_number() -> None:
    chart = time_by_operation([report(Op(args="(8,)"), Op(args="(8,)"), Op(args="(9,)"))])
    assert [label.splitlines()[0] for label in bar_labels(chart)] == [
        "aten::batch_norm #1",
        "aten::batch_norm #2",
        "aten::batch_norm",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0%"), (0.0123, "0.012%"), (2.28, "2.3%"), (43.81, "44%"), (99.97, ">99%"), (100, "100%")],
)
def test_percentages_say_100_only_where_all_is_meant(value: float, text: str) -> None:
    assert percent(value) == text


def test_numbers_carry_the_unit_that_reads_best() -> None:
    assert percent_range(8.34, 11.12) == "8.3–11%"
    assert [duration(ms) for ms in (0, 0.04, 1.389, 1234)] == ["0 µs", "40 µs", "1.39 ms", "1.23 s"]
    assert [byte_size(n) for n in (0, 512, 1e6, 5.38e8, 2e12)] == ["0 B", "512 B", "1 MB", "538 MB", "2 TB"]


@given(st.lists(st.floats(0, 1), max_size=6), st.floats(0.8, 1))
def test_names_beside_points_keep_their_order_and_their_distance(wanted: list[float], top: float) -> None:
    gap = 0.115
    placed = spread(sorted(wanted, reverse=True), gap, top)
    assert all(upper - lower >= gap - 1e-9 for upper, lower in pairwise(placed))
    assert all(gap / 2 - 1e-9 <= height <= top - gap / 2 + 1e-9 for height in placed)


# Any data

amount = st.one_of(st.none(), st.floats(0, 1e9), st.sampled_from([0.0, 5e-324, 1e-300, 1e300, 1.7e308]))
ops = st.builds(
    Op,
    name=names,
    time_ms=st.floats(0, 1e6),
    args=st.one_of(st.none(), names),
    variant=st.sampled_from(list(VARIANTS)),
    direction=st.sampled_from(list(DIRECTIONS)),
    tflops=amount,
    tb_s=amount,
    flops_per_byte=amount,
    efficiency_percent=amount,
    bytes_per_call=amount,
    mean_us=amount,
    memory_peak=amount,
    compute_peak=amount,
    compute_spec=st.one_of(st.none(), names),
    is_anomaly=st.booleans(),
)


@settings(max_examples=25, deadline=None)
@given(st.lists(ops, max_size=4), st.sampled_from(["standalone", "comparative"]))
@pytest.mark.parametrize("name", ALL_FIGURES)
def test_every_operation_is_in_the_data_whatever_the_metrics_hold(
    name: str, given_ops: list[Op], scope: str
) -> None:
    chart = ALL_FIGURES[name]([report(*given_ops, scope=scope)], 3)  # type: ignore[arg-type]
    if name != "impact":
        assert sorted(map(str, column(chart, "operation"))) == sorted(op.name for op in given_ops)
    assert all(len(row) == len(chart.header) for row in chart.rows)
    assert len({row[0] for row in chart.rows}) == len(chart.rows)
    assert chart.title
    render_png(chart)
