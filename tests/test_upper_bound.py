"""Times that are upper bounds: how they are marked and told, alone and in sums, on pages and in figures."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from figure_inputs import Op, compiled, finding, operation, report
from normscope.analysis.models import CategoryMetrics, Operation
from normscope.analysis.upper_bound import bounded, fused_with, sum_words, upper_bound_words
from normscope.figures import ALL_FIGURES, Chart
from normscope.report.breakdown import breakdown_html
from normscope.report.cards import cards_html
from normscope.report.key_figures import key_figures
from normscope.report.operations import operations_html
from normscope.report.results import Report
from normscope.report.verdict import verdict_html
from report_inputs import norm_row, report_of, write_run

AT_MOST = "≤\u00a0"


def fused(*names: str) -> Operation:
    return operation(compiled(2.0, *names))


def pages_of(*ops: Op) -> Report:
    return Report(
        label="run", out_dir=Path(), comparison_scope="standalone", top_n=20, metrics=(report(*ops),)
    )


def cells(chart: Chart, column: str) -> list[object]:
    place = chart.header.index(column)
    return [row[place] for row in chart.rows]


# Words


def test_a_time_of_its_own_has_no_mark_and_no_words() -> None:
    own = operation(Op())
    assert (bounded(own, "1.000"), upper_bound_words(own), sum_words([own])) == ("1.000", "", "")


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["add"], "upper bound: fused with add"),
        (["add", "mul"], "upper bound: fused with add and mul"),
        (["addmm", "mul", "view"], "upper bound: fused with addmm, mul and view"),
        (["addmm", "mul", "view", "add"], "upper bound: fused with addmm, mul and 2 more"),
        (["a" * 50], f"upper bound: fused with {'a' * 39}…"),
    ],
)
def test_the_words_name_two_and_count_the_rest(names: Sequence[str], words: str) -> None:
    assert upper_bound_words(fused(*names)) == words


def test_a_kernel_that_does_not_say_with_what_it_is_fused_still_has_an_upper_bound() -> None:
    unnamed = operation(Op(is_upper_bound=True))
    assert upper_bound_words(unnamed) == "upper bound: fused with other work"


def test_a_sum_says_how_much_of_it_is_an_upper_bound() -> None:
    operations = [operation(compiled(1.25)), operation(compiled(0.5)), operation(Op(time_ms=3.0))]
    assert sum_words(operations) == f"{AT_MOST}1.75 ms in fused kernels (upper bound)"
    assert sum_words(operations[1:]) == f"{AT_MOST}0.500 ms in fused kernels (upper bound)"


def test_what_several_operations_are_fused_with_is_named_once() -> None:
    assert fused_with([fused("add", "mul"), fused("mul", "view")]) == ("add", "mul", "view")


# Pages


def test_the_table_marks_every_time_of_the_row_and_says_why_with_the_full_list_at_hand() -> None:
    html = operations_html(pages_of(compiled(2.0, "addmm", "mul", "view", "add", mean_us=200.0)))
    assert f'<td class="ns-number">{AT_MOST}2.000</td>' in html
    assert f'<td class="ns-number">{AT_MOST}200.0</td>' in html
    assert f'<td class="ns-number">{AT_MOST}2.00</td>' in html  # of 100 ms end to end
    words = "upper bound: fused with addmm, mul and 2 more"
    assert f'<span class="ns-sub" title="addmm, mul, view, add">{words}</span>' in html


def test_what_a_kernel_is_fused_with_can_not_break_out_of_the_page() -> None:
    html = operations_html(pages_of(compiled(2.0, '"><script>alert(1)</script>')))
    assert "<script" not in html
    assert 'title="&quot;&gt;&lt;script&gt;' in html


def test_sums_on_the_first_screen_say_which_part_is_an_upper_bound() -> None:
    pages = pages_of(compiled(2.0), Op(time_ms=6.0))
    figures = key_figures(pages)
    part = f"of which {AT_MOST}2.00 ms in fused kernels (upper bound)"
    assert f"8.00 of 100.00 ms; {part}" in cards_html(pages, figures)
    assert f"takes 8.0% of GPU time, {part}, and reaches" in verdict_html(pages, figures)


def test_a_verdict_without_a_bandwidth_has_no_stray_comma() -> None:
    pages = pages_of(compiled(2.0, tb_s=None))
    assert "fused kernels (upper bound). " in verdict_html(pages, key_figures(pages))


def test_the_breakdown_says_it_for_the_variants_that_have_such_times_only() -> None:
    html = breakdown_html(pages_of(compiled(2.0), Op(time_ms=6.0)))
    part = f"of which {AT_MOST}2.00 ms in fused kernels (upper bound)"
    assert f'2.000<span class="ns-sub">{part}</span>' in html
    assert html.count("upper bound") == 1


def test_pages_of_a_run_directory_of_another_origin_say_nothing_of_it(tmp_path: Path) -> None:
    pages = report_of(write_run(tmp_path, {"norm_fwd": [norm_row()]}), "norm_fwd")
    html = operations_html(pages) + breakdown_html(pages) + cards_html(pages, key_figures(pages))
    assert "upper bound" not in html
    assert "≤" not in html
    assert "What bounds it" not in html


# Figures


def metrics() -> tuple[CategoryMetrics, ...]:
    found = finding(1, 1.0, 1.2, 1.4, members=["triton", "batch"])
    return (
        report(compiled(3.0, "addmm", "mul"), Op(time_ms=1.0, found_by="op", kind="norm"), findings=[found]),
    )


@pytest.mark.parametrize("name", ALL_FIGURES)
def test_every_figure_says_in_words_and_data_what_is_an_upper_bound(name: str) -> None:
    chart = ALL_FIGURES[name](metrics(), 10)
    assert "upper bound: fused with addmm and mul" in chart.alt
    marked = cells(chart, "is_upper_bound")
    assert marked == (["yes"] if name == "impact" else ["yes", "no"])
    assert cells(chart, "fused_with")[0] == "addmm; mul"


def test_bars_are_marked_and_the_title_counts_the_upper_bound_in() -> None:
    chart = ALL_FIGURES["time_by_operation"](metrics(), 10)
    written = [text.get_text() for text in chart.figure.axes[0].texts]
    assert written == [f"{AT_MOST}3 ms · 3.0%", "1 ms · 1.0%"]
    assert f"({AT_MOST}4 ms, 4.0% of end-to-end time)" in chart.title
    assert f"In the normalization time: {AT_MOST}3.00 ms in fused kernels (upper bound)." in chart.alt


def test_the_rest_of_the_bars_is_marked_where_it_holds_an_upper_bound() -> None:
    ops = [Op(time_ms=3.0), Op(time_ms=2.0), compiled(1.0)]
    chart = ALL_FIGURES["time_by_operation"]([report(*ops)], 1)
    assert [text.get_text() for text in chart.figure.axes[0].texts] == [
        "3 ms · 3.0%",
        f"{AT_MOST}3 ms · 3.0%",
    ]


def test_names_beside_points_carry_the_mark() -> None:
    chart = ALL_FIGURES["efficiency_by_bytes"](metrics(), 10)
    names = [text.get_text() for text in chart.figure.axes[0].texts]
    assert sum(f", {AT_MOST}3 ms" in name for name in names) == 1
    assert sum(", 1 ms" in name for name in names) == 1


def test_data_of_a_run_directory_of_another_origin_leave_the_cells_empty() -> None:
    chart = ALL_FIGURES["time_by_operation"]([report(Op())], 10)
    assert (cells(chart, "is_upper_bound"), cells(chart, "fused_with")) == ([None], [None])
