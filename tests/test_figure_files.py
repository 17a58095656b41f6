"""The files of a figure: the same bytes for the same data, safe to open, with no trace of the machine."""

import csv
import io
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from figure_inputs import Op, finding, report
from normscope.figures import ALL_FIGURES, Chart, render_csv, render_png, render_svg, save_chart
from normscope.figures.chart import Cell
from test_figures import HOSTILE_GROUPS, forward_and_backward, hostile_report

DRAW_IN_A_NEW_PROCESS = """
import sys
from collections.abc import Sequence
from pathlib import Path
from test_figures import forward_and_backward
from normscope.figures import ALL_FIGURES, save_chart
for draw in ALL_FIGURES.values():
    save_chart(draw(forward_and_backward(), 10), Path(sys.argv[1]))
assert "matplotlib.pyplot" not in sys.modules
"""


def files_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def read_csv(data: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(data.decode("utf-8"), newline="")))


def chart_of(*rows: tuple[Cell, ...], header: tuple[str, ...] = ("name", "time (ms)")) -> Chart:
    return Chart("name", "title", "alt", Figure(), header, rows)


@pytest.mark.parametrize("name", ALL_FIGURES)
def test_each_figure_is_saved_as_png_svg_and_csv(name: str, tmp_path: Path) -> None:
    paths = save_chart(ALL_FIGURES[name](forward_and_backward(), 10), tmp_path / "new" / "folder")
    assert [path.name for path in paths] == [f"{name}.png", f"{name}.svg", f"{name}.csv"]
    assert paths[0].read_bytes().startswith(b"\x89PNG\r\n")
    assert ElementTree.fromstring(paths[1].read_bytes()).tag.endswith("svg")
    assert read_csv(paths[2].read_bytes())[0][0] == "label"


def test_another_process_with_other_settings_writes_the_same_bytes(tmp_path: Path) -> None:
    for draw in ALL_FIGURES.values():
        save_chart(draw(forward_and_backward(), 10), tmp_path / "here")
    (tmp_path / "matplotlibrc").write_text("font.size: 33\nsavefig.transparent: True\naxes.grid: True\n")
    environment = os.environ | {
        "MATPLOTLIBRC": str(tmp_path / "matplotlibrc"),
        "PYTHONPATH": str(Path(__file__).parent),
        "PYTHONHASHSEED": "7",
        "TZ": "Asia/Tokyo",
        "SOURCE_DATE_EPOCH": "1",
    }
    subprocess.run(
        [sys.executable, "-c", DRAW_IN_A_NEW_PROCESS, str(tmp_path / "there")],
        check=True,
        env=environment,
        cwd=tmp_path,
    )
    assert files_in(tmp_path / "here") == files_in(tmp_path / "there")


@pytest.mark.parametrize("name", ALL_FIGURES)
def test_saving_twice_and_rendering_again_gives_the_same_bytes(name: str) -> None:
    chart = ALL_FIGURES[name](forward_and_backward(), 10)
    for render in (render_png, render_svg, render_csv):
        assert render(chart) == render(chart)


@pytest.mark.parametrize("name", ALL_FIGURES)
def test_files_hold_no_time_no_path_and_no_version(name: str) -> None:
    chart = ALL_FIGURES[name](forward_and_backward(), 10)
    svg, png = render_svg(chart), render_png(chart)
    home = str(Path.home()).encode()
    for data in (svg, png):
        assert b"Matplotlib" not in data
        assert home not in data or home == b"/"
        assert str(Path.cwd()).encode() not in data
    assert b"<dc:date>" not in svg
    assert not re.search(rb"\b20[0-9]{2}-[01][0-9]-[0-3][0-9]", svg)


def test_drawing_leaves_the_settings_of_the_caller_alone() -> None:
    before = dict(mpl.rcParams)
    render_svg(ALL_FIGURES["roofline"](forward_and_backward(), 10))
    assert dict(mpl.rcParams) == before


def test_figures_are_opaque_and_light() -> None:
    chart = ALL_FIGURES["roofline"](forward_and_backward(), 10)
    assert chart.figure.get_facecolor() == (1.0, 1.0, 1.0, 1.0)
    assert chart.figure.get_figwidth() * 150 == 1200


@pytest.mark.parametrize("hostile", HOSTILE_GROUPS)
@pytest.mark.parametrize("name", ALL_FIGURES)
def test_svg_of_hostile_names_is_well_formed_and_inert(name: str, hostile: Sequence[str]) -> None:
    chart = ALL_FIGURES[name]([hostile_report(hostile)], 10)
    tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(render_svg(chart)).iter()}
    assert not tags & {"script", "a", "image", "foreignObject", "text"}


def test_svg_carries_title_and_alternative_text() -> None:
    chart = ALL_FIGURES["impact"]([report(Op(), findings=[finding(1, 1, 2, 3)])], 10)
    text = " ".join(ElementTree.fromstring(render_svg(chart)).itertext())
    assert chart.title in text
    assert chart.alt in text


def test_csv_holds_the_metrics_with_full_names() -> None:
    long_name = "void kernel<" + "float, " * 600 + ">"
    chart = ALL_FIGURES["roofline"]([report(Op(name=long_name, time_ms=1.389, tflops=0.66))], 10)
    header, row = read_csv(render_csv(chart))
    cells = dict(zip(header, row, strict=True))
    assert cells["operation"] == long_name
    assert cells["kernel time (ms)"] == "1.389"
    assert cells["arithmetic intensity (FLOP/byte)"] == "1.25"
    assert cells["achieved (TFLOP/s)"] == "0.66"
    assert cells["achieved (TB/s)"] == "0.16"
    assert cells["memory peak (TB/s)"] == "5.3"
    assert cells["compute peak (TFLOP/s)"] == "163"
    assert cells["share of the roofline (%)"] == "3.0"


def test_csv_of_the_impact_holds_the_scores_verbatim() -> None:
    found = finding(1, 3.8, 4.44, 5.06, members=["aten::batch_norm", "aten::layer_norm"])
    header, row = read_csv(render_csv(ALL_FIGURES["impact"]([report(Op(), Op(), findings=[found])], 10)))
    cells = dict(zip(header, row, strict=True))
    assert cells["impact score (% of end-to-end time)"] == "4.44"
    assert cells["impact score, low (% of end-to-end time)"] == "3.8"
    assert cells["impact score, high (% of end-to-end time)"] == "5.06"
    assert cells["members"] == "aten::batch_norm; aten::layer_norm"
    assert cells["efficiency band (%)"] == "0-30"


@pytest.mark.parametrize("formula", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_name_that_is_a_formula_is_no_formula_in_a_spreadsheet(formula: str) -> None:
    assert read_csv(render_csv(chart_of((formula, 1.0))))[1][0] == f"'{formula}"


def test_numbers_stay_numbers_and_unknown_stays_empty() -> None:
    assert read_csv(render_csv(chart_of(("a", -1.5), ("b", None))))[1:] == [["a", "-1.5"], ["b", ""]]


def test_csv_lines_end_as_rfc_4180_says() -> None:
    assert render_csv(chart_of(('a"b,c', 1))) == b'name,time (ms)\r\n"a""b,c",1\r\n'


@given(st.text())
def test_csv_gives_back_any_name(name: str) -> None:
    (cell, _) = read_csv(render_csv(chart_of((name, 1))))[1]
    assert cell in (name, f"'{name}")


def test_a_lone_surrogate_does_not_stop_the_csv() -> None:
    assert read_csv(render_csv(chart_of(("a\ud800", 1))))[1][0] == r"a\ud800"
