"""The figure of every call: its message, its marks and its data."""

import numpy as np
import pytest

from figure_inputs import Op, compiled, report
from normscope.analysis.models import CategoryMetrics
from normscope.figures import call_times as draw
from normscope.figures import render_png
from trace_report_inputs import call_times


def reports_of(*names: str) -> tuple[CategoryMetrics, ...]:
    return (report(*(Op(name=name, time_ms=10.0 - place) for place, name in enumerate(names))),)


def test_the_title_says_which_first_call_is_slow_and_by_how_much() -> None:
    calls = [call_times(60.0, 10.0, 10.0, 10.0), call_times(10.0, 10.0, 10.0, 90.0, index=1)]
    chart = draw(reports_of("aten::group_norm", "aten::layer_norm"), calls)
    assert chart.title == "The first call of aten::group_norm takes 6 times its median"


def test_without_a_slow_first_call_the_title_counts_the_outliers() -> None:
    chart = draw(reports_of("aten::layer_norm"), [call_times(10.0, 10.0, 10.0, 90.0)])
    assert chart.title == "1 of 4 calls takes clearly longer than the median of their signature"


def test_calls_that_agree_give_a_title_that_says_so() -> None:
    chart = draw(reports_of("aten::layer_norm"), [call_times(10.0, 10.0, 10.1)])
    assert chart.title == "No call stands out from the others of its signature"


def test_the_slowest_first_call_is_drawn_even_where_its_signature_is_short() -> None:
    names = [f"aten::norm_{place}" for place in range(5)]
    calls = [call_times(10.0, 10.0, 10.0, index=place) for place in range(4)]
    chart = draw(reports_of(*names), [*calls, call_times(9.0, 1.0, 1.0, index=4)], top_n=2)
    labels = [text.get_text().split("\n")[0] for text in chart.figure.axes[0].get_yticklabels()]
    assert labels == ["aten::norm_0", "aten::norm_4"]
    assert chart.title == "The first call of aten::norm_4 takes 9 times its median"


def test_the_data_list_every_call_and_what_it_is() -> None:
    chart = draw(reports_of("aten::layer_norm"), [call_times(60.0, 10.0, 10.0, 11.0, 80.0)])
    place = {name: chart.header.index(name) for name in ("call", "kernel time (µs)", "kind", "module")}
    assert [tuple(row[i] for i in place.values()) for row in chart.rows] == [
        (1, 60.0, "first call", "Net_0 > LayerNorm_0"),
        (2, 10.0, "usual", "Net_0 > LayerNorm_0"),
        (3, 10.0, "usual", "Net_0 > LayerNorm_0"),
        (4, 11.0, "usual", "Net_0 > LayerNorm_0"),
        (5, 80.0, "outlier", "Net_0 > LayerNorm_0"),
    ]


@pytest.mark.parametrize("times", [(), (0.0, 0.0, 0.0), (5.0,), (5.0, 1e9, 0.0)])
def test_odd_times_are_drawn_or_told_in_words(times: tuple[float, ...]) -> None:
    calls = [call_times(*times)] if times else []
    chart = draw(reports_of("aten::layer_norm"), calls)
    assert render_png(chart).startswith(b"\x89PNG")
    assert chart.alt.startswith(chart.title)


def test_a_hundred_thousand_calls_are_thinned_but_never_their_outliers() -> None:
    usual = [10.0 + place % 7 * 0.01 for place in range(100_000)]
    usual[77_777] = 500.0
    chart = draw(reports_of("aten::layer_norm"), [call_times(*usual)])
    marks = [np.asarray(line.get_xdata()).size for line in chart.figure.axes[0].get_lines()]
    assert marks == [400, 1, 1]
    assert len(chart.rows) == 100_000


def test_calls_of_fused_kernels_are_marked_as_upper_bounds() -> None:
    reports = (report(compiled(3.0, "addmm", "mul"), Op(time_ms=1.0, found_by="op")),)
    chart = draw(reports, [call_times(10.0, 10.0, 10.0), call_times(9.0, 9.0, 9.0, index=1)])
    first, second = (text.get_text() for text in chart.figure.axes[0].get_yticklabels())
    assert first.endswith("· ≤")
    assert "≤" not in second
    assert "upper bound: fused with addmm and mul" in chart.alt
    assert [row[-2:] for row in chart.rows] == [("yes", "addmm; mul")] * 3 + [("no", None)] * 3
