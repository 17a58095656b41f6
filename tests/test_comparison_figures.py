"""What the figures of a comparison say, draw and list."""

import csv
import io
from collections.abc import Callable
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.collections import PathCollection

from comparison_inputs import (
    FASTER,
    NOISE,
    SLOWER,
    comparison,
    group,
    hostile,
    many,
    noisy,
    realistic,
    shape,
    side,
)
from normscope.compare.models import Comparison
from normscope.figures import (
    COMPARISON_FIGURES,
    Chart,
    comparison_calls,
    comparison_operations,
    comparison_roofline,
    render_csv,
    render_png,
    render_svg,
)


def column(chart: Chart, name: str) -> list[object]:
    """Return a column of the data."""
    return [row[chart.header.index(name)] for row in chart.rows]


def marks(chart: Chart) -> list[tuple[float, float, str]]:
    """Return place and face of the marks of a dumbbell chart."""
    return [
        (*np.asarray(line.get_xydata(), dtype=float)[0], str(line.get_markerfacecolor()))
        for line in chart.figure.axes[0].get_lines()
        if line.get_marker() in {"o", "D"}
    ]  # fmt: skip


def two_pairs() -> Comparison:
    """Return 1.4 against 1 ms, for real, and 101 against 100 µs, which is noise."""
    first = [group(1400.0, arguments=shape(1)), group(101.0, arguments=shape(2), order=1)]
    second = [group(1000.0, arguments=shape(1)), group(100.0, arguments=shape(2), order=1)]
    return comparison(side(*first), side(*second), [SLOWER, NOISE])


EDGES: dict[str, Callable[[], Comparison]] = {
    "nothing": lambda: comparison(side(), side(), []),
    "one side": lambda: comparison(side(group()), side(), []),
    "zero times": lambda: comparison(side(group(0.0)), side(group(0.0)), [None]),
    "zero on side 2": lambda: comparison(side(group(9.0)), side(group(0.0)), [None]),
    "zero calls": lambda: comparison(
        side(group(times_us=(0.0, 5.0))), side(group(times_us=(0.0, 0.0))), [NOISE]
    ),
    "one call": lambda: comparison(side(group(times_us=(9.0,))), side(group(times_us=(5.0,))), [None]),
    "unknown GPU": lambda: comparison(
        side(group(), gpu=None, peak_bandwidth_tbs=None),
        side(group(), gpu=None, peak_bandwidth_tbs=None),
        [NOISE],
    ),
    "no bytes": lambda: comparison(
        side(group(bytes_moved_per_call=None)), side(group(bytes_moved_per_call=0.0)), [NOISE]
    ),
    "a huge outlier": lambda: comparison(
        side(group(times_us=(*noisy(10.0, 0.05), 1e9))), side(group(times_us=noisy(10.0, 0.05))), [SLOWER]
    ),
    "realistic": realistic,
    "many": many,
    "hostile": hostile,
}


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("name", COMPARISON_FIGURES)
def test_every_comparison_is_drawn_or_told_in_words(name: str, edge: str) -> None:
    chart = COMPARISON_FIGURES[name](EDGES[edge](), 10)
    assert chart.name == name
    assert render_png(chart).startswith(b"\x89PNG")
    tags = {each.tag.rpartition("}")[2] for each in ElementTree.fromstring(render_svg(chart)).iter()}
    assert not tags & {"script", "a", "image", "foreignObject", "text"}
    assert chart.alt.startswith(chart.title)
    assert not chart.title.endswith(".")
    header, *rows = csv.reader(io.StringIO(render_csv(chart).decode(), newline=""))
    assert all(len(row) == len(header) for row in rows)


@pytest.mark.parametrize("name", COMPARISON_FIGURES)
def test_a_figure_drawn_twice_has_the_same_bytes(name: str) -> None:
    one, two = (COMPARISON_FIGURES[name](realistic(), 10) for _ in range(2))
    assert render_png(one) == render_png(two)
    assert render_svg(one) == render_svg(two)


def test_a_dumbbell_has_both_times_in_ms_filled_only_where_they_differ_for_real() -> None:
    chart = comparison_operations(two_pairs())
    assert sorted((x, y) for x, y, _ in marks(chart)) == [(0.1, 1), (0.101, 1), (1.0, 0), (1.4, 0)]
    assert {(y, face == "white") for _, y, face in marks(chart)} == {(0, False), (1, True)}
    assert chart.title == "Trace 1 is slower in 1 of 2 operations; 1 may be noise"
    texts = [text.get_text() for text in chart.figure.axes[0].texts]
    assert texts == ["+400 µs, 40% slower", "+1 µs, 1% slower"]


def test_its_data_list_every_pair_with_test_and_effect() -> None:
    chart = comparison_operations(two_pairs(), top_n=1)
    assert column(chart, "trace 1 less trace 2 (ms)") == [0.4, 0.001]
    assert column(chart, "trace 1 against trace 2 (%)") == [40.0, 1.0]
    assert column(chart, "effect size (positive: trace 1 slower)") == [1.0, 0.1]
    assert column(chart, "verdict on trace 1") == ["slower", "noise"]
    assert column(chart, "drawn") == ["yes", "no"]
    assert column(chart, "arguments in trace 1") == [shape(1), shape(2)]


@pytest.mark.parametrize(("second_us", "scale"), [(30.0, "linear"), (3000.0, "log")])
def test_times_far_apart_get_a_logarithmic_axis(second_us: float, scale: str) -> None:
    first = [group(20.0, arguments=shape(1)), group(second_us, arguments=shape(2))]
    chart = comparison_operations(comparison(side(*first), side(*first), [NOISE, NOISE]))
    assert chart.figure.axes[0].get_xscale() == scale


@pytest.mark.parametrize(
    ("tests", "title"),
    [
        ([SLOWER, FASTER], "Trace 1 is slower in 1 of 2 operations, faster in 1"),
        ([NOISE, NOISE], "None of 2 operations differs by more than noise"),
        ([None, None], "Trace 1 takes longer in 1 of 2 operations, tested in none"),
        ([FASTER], "The one operation differs by no more than noise"),
        ([SLOWER], "Trace 1 is slower in the one operation"),
        ([], "No operation of one trace has a partner in the other"),
    ],
)
def test_the_title_of_the_dumbbells(tests: list[object], title: str) -> None:
    first = [group(120.0, arguments=shape(1)), group(90.0, arguments=shape(2))]
    second = [group(100.0, arguments=shape(1)), group(100.0, arguments=shape(2))]
    assert comparison_operations(comparison(side(*first), side(*second), tests)).title == title  # type: ignore[arg-type]  # as parametrized


@pytest.mark.parametrize(("top_n", "rows"), [(0, 1), (7, 7), (1000, 40)])
def test_any_top_n_draws_one_to_forty_pairs(top_n: int, rows: int) -> None:
    chart = comparison_operations(many(), top_n)
    assert len(chart.figure.axes[0].get_yticklabels()) == rows
    assert len(chart.rows) == 200
    assert f"Not drawn: {200 - rows} pairs" in chart.alt


def test_pairs_of_one_shape_are_told_apart_by_module_then_by_number() -> None:
    groups = [group(10.0 + i, module=f"Net_0 > Norm_{i // 2}", order=i) for i in range(4)]
    chart = comparison_operations(comparison(side(*groups), side(*groups), [NOISE] * 4))
    firsts = {label.get_text().split("\n")[0] for label in chart.figure.axes[0].get_yticklabels()}
    assert firsts == {f"aten::layer_norm in Norm_{i} #{n}" for i in (0, 1) for n in (1, 2)}


def test_the_roofline_has_both_roofs_and_what_each_side_reaches() -> None:
    # 4 MB in 10 µs is 0.4 TB/s of 4, in 8 µs 0.5 TB/s of 5.
    compared = comparison(side(group(100.0)), side(group(80.0), peak_bandwidth_tbs=5.0), [SLOWER])
    chart = comparison_roofline(compared)
    axes = chart.figure.axes[0]
    roofs = [float(np.asarray(line.get_ydata())[0]) for line in axes.get_lines() if line.get_linewidth() == 2]
    assert roofs == [4.0, 5.0]
    points = [
        p for c in axes.collections if isinstance(c, PathCollection) for p in np.asarray(c.get_offsets())
    ]
    assert np.asarray(points).tolist() == [pytest.approx([4e6, 0.4]), pytest.approx([4e6, 0.5])]
    assert chart.title == "Trace 1 reaches 10% of its peak memory bandwidth, trace 2 10%"
    assert column(chart, "achieved (TB/s)") == [0.4, 0.5]
    assert column(chart, "share of the memory peak (%)") == [10.0, 10.0]


def test_the_roofline_sums_bytes_and_times_of_a_side() -> None:
    # 40 MB in 100 µs and 40 MB in 300 µs are 0.2 TB/s; alike but for the module, they are one mark.
    groups = [group(100.0), group(300.0, module="Net_0 > Other")]
    chart = comparison_roofline(comparison(side(*groups), side(group(100.0)), [NOISE]))
    assert "trace 1 0.2 TB/s of 4 TB/s" in chart.alt
    found = [c for c in chart.figure.axes[0].collections if isinstance(c, PathCollection)]
    assert [len(np.asarray(each.get_offsets())) for each in found] == [1, 1]
    assert len(chart.rows) == 3


def test_without_peaks_the_roofline_gives_bandwidths() -> None:
    unknown = side(group(100.0), peak_bandwidth_tbs=None)
    assert comparison_roofline(comparison(unknown, side(group(50.0)), [SLOWER])).title == (
        "Trace 1 reaches 0.4 TB/s of memory bandwidth, trace 2 0.8 TB/s"
    )


def test_calls_are_drawn_as_shares_of_trace_2s_median() -> None:
    compared = comparison(
        side(group(times_us=(20.0, 30.0, 40.0))), side(group(times_us=(19.0, 20.0, 21.0))), [SLOWER]
    )
    chart = comparison_calls(compared)
    shares = [
        list(map(float, np.asarray(line.get_xdata())))
        for line in chart.figure.axes[0].get_lines()
        if line.get_marker() in {"o", "D"}
    ]
    assert shares == [[100.0, 150.0, 200.0], [95.0, 100.0, 105.0]]
    assert chart.title == "The one pair differs by more than noise"
    assert column(chart, "share of trace 2's median (%)") == [100.0, 150.0, 200.0, 95.0, 100.0, 105.0]
    assert "30 µs in trace 1 and 20 µs in trace 2 in the median, real, p = 0.001" in chart.alt


def test_calls_known_on_one_side_only_are_not_drawn() -> None:
    compared = comparison(side(group(times_us=(20.0, 30.0))), side(group(100.0)), [SLOWER])
    assert comparison_calls(compared).title == "The spread of the calls isn't known"


def test_a_call_far_away_stands_at_the_edge_and_is_counted() -> None:
    chart = comparison_calls(EDGES["a huge outlier"]())
    axes = chart.figure.axes[0]
    assert axes.get_xlim()[1] < 1100
    assert "At an edge: 1 call beyond it." in chart.figure.legends[0].get_title().get_text().replace(
        "\n", " "
    )
    assert 1e9 in column(chart, "kernel time (µs)")
