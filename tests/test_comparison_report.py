"""The report of a comparison: its file read or refused, its sections, and nothing of it elsewhere."""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest
from playwright.sync_api import Browser

from comparison_inputs import (
    NOISE,
    SLOWER,
    comparison,
    group,
    hostile,
    many,
    realistic,
    side,
    write_comparison_run,
)
from normscope import build_report
from normscope.compare.models import Comparison
from normscope.errors import InputError
from normscope.inputs.rundir import find_categories
from normscope.report import comparison_tables, notebook
from normscope.report.answer import answer_html
from normscope.report.comparison_data import ComparisonData, decode_comparison, read_comparison
from normscope.report.results import Report
from normscope.report.written import own_files
from report_inputs import norm_row, report_of, write_run
from test_hostile_names import visit


def encoded(compared: Comparison, **changes: object) -> bytes:
    """Return the JSON of a comparison with some fields replaced."""
    return msgspec.json.encode(msgspec.to_builtins(compared) | changes)


def test_a_comparison_is_read_as_it_was_written(tmp_path: Path) -> None:
    run = write_comparison_run(tmp_path / "run", realistic())
    read = read_comparison(run)
    assert read is not None
    assert read.comparison == realistic()
    assert read.content == (run / "category_data" / "comparison.json").read_bytes()


def test_a_run_without_one_has_none(tmp_path: Path) -> None:
    assert read_comparison(write_run(tmp_path / "run", {"norm_fwd": [norm_row()]})) is None


ONE = comparison(side(group(9.0)), side(group(8.0)), [NOISE])
PAIR = msgspec.to_builtins(ONE.pairs[0])
SIDE = msgspec.to_builtins(ONE.first)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "comparison"),
        (b"{}", "schema_version"),
        (b"\xff\xfe", "comparison"),
        (b"[" * 100_000, "comparison"),
        (encoded(ONE, schema_version="2.0"), "schema version 2.0"),
        (encoded(ONE, schema_version="\x1b[31m" * 50), "schema version"),
        (encoded(ONE, pairs=[PAIR | {"first": [7]}]), "not every group of the first side is in one pair"),
        (encoded(ONE, only_second=[0]), "not every group of the second side is in one pair"),
        (encoded(ONE, pairs=[PAIR, PAIR | {"first": [], "second": []}]), "a pair has one side only"),
        (encoded(ONE, pairs=[PAIR | {"time1_us": -1.0}]), "the time of a pair is negative"),
        (encoded(ONE, scale=0.0), "the scale is not a positive number"),
        (encoded(ONE, first=SIDE | {"peak_bandwidth_tbs": -1.0}), "the peak of the first side is negative"),
        (
            encoded(ONE, first=SIDE | {"groups": [SIDE["groups"][0] | {"count": 0}]}),
            "a time or count of the first side",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(content: bytes, said: str) -> None:
    with pytest.raises(InputError, match=said) as refused:
        decode_comparison(content)
    assert str(refused.value).startswith("category_data/comparison.json")
    assert "\n" not in str(refused.value)
    assert "\x1b" not in str(refused.value)


def _quiet(show: Callable[[], None], capture: pytest.MonkeyPatch) -> list[object]:
    shown: list[object] = []
    capture.setattr(notebook, "_publish", lambda bundle, _metadata: shown.append(bundle))
    show()
    return shown


SHOWN = ("", "_changes", "_noise", "_roofline", "_coverage")


@pytest.mark.parametrize("name", SHOWN)
def test_nothing_is_shown_where_nothing_is_compared(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = report_of(write_run(tmp_path / "run", {"norm_fwd": [norm_row()]}), "norm_fwd")
    show = getattr(notebook, f"show_comparison{name}")
    assert _quiet(lambda: show(report), monkeypatch) == []


def test_the_tables_list_pairs_what_is_alone_and_what_changed() -> None:
    pairs = comparison_tables.pairs_html(realistic(), 3)
    assert "more row" in pairs
    assert "<strong>real</strong>" in pairs
    assert "p = 0.001, Cliff&#x27;s delta +1.00" in pairs
    changes = comparison_tables.changes_html(realistic(), 20)
    assert "Vanished: in trace 1 only" in changes
    assert "Added: in trace 2 only" in changes
    assert "library, kernels" in changes
    assert "triton_layer_norm" in changes
    sides = comparison_tables.sides_html(realistic())
    # 4,100 of 34,100 µs in trace 2 are norms, 100 of them compiled: 0.29%.
    assert "Norms inside compiled kernels" in sides
    assert '<td class="ns-number">0.29</td>' in sides


def test_sides_without_a_difference_say_so() -> None:
    same = comparison(side(group(9.0)), side(group(9.0)), [NOISE])
    assert "the same operations, with the same libraries" in comparison_tables.changes_html(same, 5)
    assert "No operation of one side" in comparison_tables.pairs_html(comparison(side(), side(), []), 5)
    assert "only traces do" in comparison_tables.sides_html(same)


def test_two_hundred_pairs_are_all_in_the_table() -> None:
    assert comparison_tables.pairs_html(many(), 20).count("<tr>") == 200 + 2  # two header rows


def test_the_answer_is_the_comparison_also_where_trace_1_holds_no_norm(tmp_path: Path) -> None:
    only_2 = comparison(side(), side(group(7.0)), [])
    run = write_run(tmp_path / "run", {"norm_fwd": []})
    report = msgspec.structs.replace(
        report_of(run, "norm_fwd", scope="comparative"), comparison=ComparisonData(only_2, b"")
    )
    assert "Only trace 2 holds normalization, 7 µs" in answer_html(report)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folders of two finished reports on comparisons."""
    folder = tmp_path_factory.mktemp("compared")
    made = {}
    for name, compared in (("realistic", realistic()), ("hostile", hostile())):
        run = write_comparison_run(folder / name / "run", compared)
        made[name] = build_report(run, folder / name / "out", comparison_scope="comparative").out_dir
    return made


def test_the_report_holds_every_section_figure_and_file(browser: Browser, pages: dict[str, Path]) -> None:
    page, events = visit(browser, pages["realistic"] / "report.html")
    assert events == []
    assert page.locator(".ns-headline").all_inner_texts() == [
        "Trace 1 spends 1.07 ms more in LayerNorm, 26% slower; 3 of 7 shapes carry 97% of what is slower"
    ]
    headings = page.locator("main h2").all_inner_texts()
    assert headings[:6] == [
        "The answer",
        "Operation by operation",
        "What was added, vanished or changed",
        "The noise",
        "Both rooflines",
        "Both sides",
    ]
    page.close()
    for stem in ("operations", "calls", "roofline"):
        for suffix in (".png", ".svg", ".csv"):
            assert (pages["realistic"] / "figures" / f"comparison_{stem}{suffix}").is_file()
    assert read_comparison(pages["realistic"]) == ComparisonData(
        realistic(), msgspec.json.encode(realistic())
    )


def test_hostile_names_stay_text(browser: Browser, pages: dict[str, Path]) -> None:
    page, events = visit(browser, pages["hostile"] / "report.html")
    assert events == []
    assert page.evaluate("window.pwned") is None
    assert page.locator("script, iframe, object, embed, svg, form, input, link, base").count() == 0
    page.set_viewport_size({"width": 360, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.close()


def test_a_report_of_a_comparison_may_be_replaced(pages: dict[str, Path]) -> None:
    own = own_files(pages["realistic"])
    files = {path.relative_to(pages["realistic"]).as_posix() for path in pages["realistic"].rglob("*.*")}
    assert own is not None
    assert files <= own
    (pages["realistic"] / "provenance.json").rename(pages["realistic"] / "report.ipynb.kept")
    by_notebook = own_files(pages["realistic"])
    (pages["realistic"] / "report.ipynb.kept").rename(pages["realistic"] / "provenance.json")
    assert by_notebook is not None
    assert {"figures/comparison_calls.csv", "category_data/comparison.json"} <= by_notebook


def test_in_the_standalone_scope_a_comparison_is_left_alone(tmp_path: Path) -> None:
    run = write_comparison_run(tmp_path / "run", comparison(side(group(9.0)), side(group(8.0)), [SLOWER]))
    assert _opened(run, find_categories(run), tmp_path, "standalone").comparison is None
    assert _opened(run, find_categories(run), tmp_path, "comparative").comparison is not None


def _opened(run: Path, categories: Sequence[str], folder: Path, scope: str) -> Report:
    return notebook.open_report(str(run), str(folder / "out"), categories, scope)  # type: ignore[arg-type]  # a scope
