"""HTML tables: escaping, alignment, unknown values, links, folding and limits."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normscope.escape import printable
from normscope.report.operations import MAX_ROWS, operations_html
from normscope.report.tables import Column, Html, Row, count_of, name, number, percent, table
from report_inputs import norm_row, report_of, write_many, write_run


class Cells(HTMLParser):
    """Collects the text of every body cell, row by row, and every tag."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag == "td":
            self.rows[-1].append("")
            self._inside = True

    def handle_endtag(self, tag: str) -> None:
        if tag == "td":
            self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.rows[-1][-1] += data


def parsed(html: str) -> Cells:
    parser = Cells()
    parser.feed(html)
    return parser


@given(st.lists(st.tuples(st.text(), st.text()), min_size=1))
def test_any_text_stays_in_its_cell_and_reads_as_it_was(texts: list[tuple[str, str]]) -> None:
    columns = (Column("a"), Column("b", numeric=True))
    seen = parsed(table("any", columns, [Row(pair) for pair in texts]))
    assert seen.rows[1:] == [[printable(left), printable(right)] for left, right in texts]
    assert seen.tags == {"div", "table", "caption", "thead", "tbody", "tr", "th", "td"}


@given(st.text(), st.text(), st.text())
def test_captions_headers_and_ids_are_escaped_too(caption: str, title: str, anchor: str) -> None:
    seen = parsed(table(caption, [Column(title)], [Row(("x",), anchor)]))
    assert seen.tags == {"div", "table", "caption", "thead", "tbody", "tr", "th", "td"}


def test_html_made_by_the_library_is_not_escaped_again() -> None:
    assert "<td><b>x</b></td>" in table("c", [Column("a")], [Row((Html("<b>x</b>"),))])


def test_numbers_are_aligned_and_the_table_scrolls_in_a_container_with_a_name() -> None:
    html = table("Times", [Column("Time (ms)", numeric=True)], [Row(("1.0",), "row-1")])
    assert '<div class="ns-scroll" tabindex="0" role="region" aria-label="Times">' in html
    assert '<th scope="col" class="ns-number">Time (ms)</th>' in html
    assert '<tr id="row-1"><td class="ns-number">1.0</td></tr>' in html


def test_a_row_of_the_wrong_length_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="zip"):
        table("c", [Column("a"), Column("b")], [Row(("x",))])


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), float("-inf")])
def test_what_is_not_known_is_a_dash(value: float | None) -> None:
    assert (number(value), percent(value)) == ("—", "—")


def test_numbers_have_separators_and_percentages_do_not_break() -> None:
    assert (number(1234567.891), percent(12.345, 1), number(-0.4, 0)) == ("1,234,567.89", "12.3%", "0")
    assert (count_of(1, "row"), count_of(1000, "row")) == ("1 row", "1,000 rows")


def test_a_long_name_is_shortened_and_whole_inside_the_fold() -> None:
    html = name("k" * 4000)
    assert html.startswith("<details")
    assert f"<summary>{'k' * 59}…</summary>" in html
    assert f"<span>{'k' * 4000}</span>" in html


def test_a_missing_name_is_a_dash() -> None:
    assert (name(None), name("")) == ("—", "—")


def test_every_operation_has_a_row_of_its_own_with_its_full_kernel_name(tmp_path: Path) -> None:
    report = report_of(write_many(tmp_path), "norm_fwd")
    html = operations_html(report)
    assert re.findall(r'<tr id="(op-1-\d+)">', html) == [f"op-1-{place}" for place in range(1, 102)]
    assert "<summary>81 more operations</summary>" in html
    assert "kernel_100_" + "template&lt;float&gt;, " * 20 in html


def test_operations_beyond_the_limit_are_counted_not_listed(tmp_path: Path) -> None:
    html = operations_html(report_of(write_many(tmp_path, MAX_ROWS + 7), "norm_fwd"))
    assert html.count('<tr id="op-') == MAX_ROWS
    assert "7 more operations not listed here; metrics.json has every one." in html


def test_a_kernel_name_is_spelt_out_once_however_many_operations_use_it(tmp_path: Path) -> None:
    rows = [norm_row(f"aten::layer_norm_{place}") for place in range(3)]
    html = operations_html(report_of(write_run(tmp_path, {"norm_fwd": rows}), "norm_fwd"))
    assert html.count('<li id="kernel-1"><code>norm_kernel</code></li>') == 1
    assert html.count('<a href="#kernel-1">norm_kernel</a>') == 3


def test_an_efficiency_above_110_percent_is_called_an_anomaly(tmp_path: Path) -> None:
    rows = [norm_row("aten::a_norm", **{"Pct Roofline_mean": 134.0}), norm_row("aten::b_norm")]
    html = operations_html(report_of(write_run(tmp_path, {"norm_fwd": rows}), "norm_fwd"))
    assert '<span class="ns-flag">anomaly</span> 134.00%' in html
    assert html.count("anomaly</span>") == 1
    assert '<span class="ns-bar" style="--share:20%">20.00%</span>' in html


def test_the_comparative_table_shows_both_traces_and_no_roofline_share(tmp_path: Path, shared: Path) -> None:
    run = shared / "tracelens_runs" / "owlv2_mi300x_vs_h100"
    html = operations_html(report_of(run, "norm_fwd", scope="comparative"))
    headers = re.findall(r"<th [^>]*>([^<]*)</th>", html)
    assert {"Trace 2 time (ms)", "Difference (ms)", "Trace 2 time (% of trace 1)"} <= set(headers)
    assert "Efficiency (% of roofline)" not in headers


def test_a_report_without_operations_says_so(tmp_path: Path) -> None:
    html = operations_html(report_of(write_run(tmp_path, {"norm_fwd": []}), "norm_fwd"))
    assert html == "<p>There are no operations to list.</p>"
