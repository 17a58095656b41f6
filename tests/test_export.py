"""The export: pages that stand alone, from any notebook, whatever its cells hold."""

import re
from collections.abc import Mapping
from pathlib import Path

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nbformat import NotebookNode, v4

from normscope.errors import ExportError
from normscope.report.export import (
    export_failed,
    export_report,
    heading_ids,
    markdown_html,
    table_of_contents,
)
from normscope.report.results import ReportResults, encode_results

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="


def code(source: str, *outputs: NotebookNode, tags: tuple[str, ...] = ()) -> NotebookNode:
    cell: NotebookNode = v4.new_code_cell(source, outputs=list(outputs))  # type: ignore[no-untyped-call]
    cell.metadata["tags"] = list(tags)
    return cell


def markdown(source: str) -> NotebookNode:
    cell: NotebookNode = v4.new_markdown_cell(source)  # type: ignore[no-untyped-call]
    return cell


def shown(metadata: Mapping[str, object] | None = None, **data: str) -> NotebookNode:
    bundle = {kind.replace("_", "/"): text for kind, text in data.items()}
    return output("display_data", data=bundle, metadata=metadata or {})


def output(kind: str, **fields: object) -> NotebookNode:
    made: NotebookNode = v4.new_output(kind, **fields)  # type: ignore[no-untyped-call]
    return made


def exported(folder: Path, *cells: NotebookNode, findings: str = "# Findings\n", label: str = "run") -> str:
    notebook = folder / "report.ipynb"
    nbformat.write(v4.new_notebook(cells=list(cells)), notebook)  # type: ignore[no-untyped-call]
    results = ReportResults(
        complete=True, status="OK", comparison_scope="standalone", label=label, categories=(), errors=()
    )
    (folder / "metrics.json").write_bytes(encode_results(results))
    (folder / "findings.md").write_text(findings, encoding="utf-8")
    export_report(notebook, folder)
    return (folder / "report.html").read_text(encoding="utf-8")


def test_the_page_names_its_run_its_language_and_forbids_everything_active(tmp_path: Path) -> None:
    page = exported(tmp_path, markdown("# Report"), label="a <b> run")
    assert page.startswith('<!DOCTYPE html>\n<html lang="en">')
    assert "<title>Normalization report: a &lt;b&gt; run</title>" in page
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in page
    assert "default-src 'none'; img-src data:; style-src 'unsafe-inline'" in page
    assert "<script" not in page


def test_the_style_makes_no_request() -> None:
    from normscope.resources import template_dir

    styles = "".join(path.read_text(encoding="utf-8") for path in template_dir().glob("*.css"))
    assert re.findall(r"url\(|@import|//\w", styles) == []


def test_code_is_folded_after_what_it_shows_and_parameters_are_called_so(tmp_path: Path) -> None:
    page = exported(
        tmp_path,
        code("top_n = 20\nx = '<b>'", tags=("parameters",)),
        code("show()", shown(text_html="<p>shown</p>")),
    )
    assert (
        '<details class="code"><summary>Parameters</summary><pre><code>top_n = 20\nx = &#x27;&lt;b&gt;&#x27;'
        in page
    )
    assert page.index("<p>shown</p>") < page.index("<summary>Code</summary><pre><code>show()")


def test_the_code_of_a_cell_that_shows_nothing_stands_at_the_end(tmp_path: Path) -> None:
    page = exported(tmp_path, code("quiet()"), code("show()", shown(text_html="<p>shown</p>")))
    end = page.index("<aside")
    assert page.index("show()") < end < page.index("quiet()")
    assert (page.count("show()"), page.count("quiet()")) == (1, 1)


def test_an_image_has_its_alternative_text_and_the_links_to_its_data(tmp_path: Path) -> None:
    about = {"image/png": {"alt": 'half "the" <time>', "files": ["figures/a.csv"]}}
    page = exported(tmp_path, code("draw()", shown(about, image_png=PIXEL)))
    assert f'<img src="data:image/png;base64,{PIXEL}" alt="half &quot;the&quot; &lt;time&gt;">' in page
    assert '<a href="figures/a.csv">figures/a.csv</a>' in page


def test_scripts_raw_html_and_terminal_colours_are_neutralised(tmp_path: Path) -> None:
    page = exported(
        tmp_path,
        markdown("# T\n\n<script>alert(1)</script> <img src=x onerror=alert(1)> [x](javascript:alert(1))"),
        code("a", shown(application_javascript="alert(2)")),
        code("b", output("stream", name="stdout", text="\x1b[31m<i>red</i>\x1b[0m")),
        code("c", shown(text_markdown="<svg onload=alert(3)>")),
        code("d", shown(text_latex="</pre><script>alert(4)</script>")),
        code("e", shown({"normscope": "style"}, text_html="<style>p{}</style>")),
    )
    assert re.findall(r"<(?:script|svg|i|img)\b", page) == []
    assert "alert(2)" not in page
    assert 'href="javascript' not in page
    assert "<pre>&lt;i&gt;red&lt;/i&gt;</pre>" in page
    assert page.count("<style>") == 1


def test_findings_become_a_page_of_their_own_with_scrolling_tables(tmp_path: Path) -> None:
    exported(tmp_path, findings="# Findings\n\n## norm_fwd\n\n| a | b |\n|---|---|\n| 1 | <b> |\n")
    page = (tmp_path / "findings.html").read_text(encoding="utf-8")
    assert "<title>Normalization findings: run</title>" in page
    assert '<h1 id="s-findings">Findings</h1>' in page
    assert '<a href="#s-norm_fwd">norm_fwd</a>' in page
    assert re.search(r'<div class="ns-scroll" tabindex="0"[^>]*>\s*<table>', page)
    assert "&lt;b&gt;" in page


def test_the_same_notebook_gives_the_same_bytes(tmp_path: Path) -> None:
    cells = (markdown("# A"), code("x", shown(text_html="<p>1</p>")))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        exported(tmp_path / name, *cells)
    for page in ("report.html", "findings.html"):
        assert (tmp_path / "one" / page).read_bytes() == (tmp_path / "two" / page).read_bytes()


@given(st.lists(st.tuples(st.integers(1, 6), st.text("ab-2 <&", max_size=6)), max_size=20))
def test_heading_ids_are_unique_and_every_entry_of_the_contents_leads_to_one(
    headings: list[tuple[int, str]],
) -> None:
    page = heading_ids(
        "".join(f"<h{level}>{text.replace('<', '&lt;')}</h{level}>" for level, text in headings)
    )
    ids = re.findall(r'id="([^"]*)"', page)
    links = re.findall(r'href="#([^"]*)"', table_of_contents(page))
    assert len(ids) == len(set(ids)) == len(headings)
    assert links == [anchor for anchor, (level, _) in zip(ids, headings, strict=True) if level in {2, 3}]


def test_a_heading_with_an_id_of_its_own_keeps_it() -> None:
    assert heading_ids('<h5 id="finding-1-1">P1</h5>') == '<h5 id="finding-1-1">P1</h5>'


def test_labels_of_a_finding_begin_a_line() -> None:
    assert "<br>\n<strong>Action</strong>" in markdown_html("**Insight**: a\n**Action**: b")


def test_the_page_of_a_failed_run_shows_the_error_and_what_was_done(tmp_path: Path) -> None:
    error = output(
        "error",
        ename="ValueError",
        evalue="<bad>",
        traceback=["\x1b[31mTraceback\x1b[0m", "ValueError: <bad>"],
    )
    marker = markdown('<span style="color:red">An Exception was encountered</span>')
    marker.metadata["tags"] = ["papermill-error-cell-tag"]
    cells = [
        markdown("# Report"),
        marker,
        code("done()", shown(text_html="<p>done</p>")),
        code("bad()", error),
    ]
    notebook = tmp_path / "report.failed.ipynb"
    nbformat.write(v4.new_notebook(cells=cells), notebook)  # type: ignore[no-untyped-call]
    page_file = export_failed(notebook, tmp_path)
    page = page_file.read_text(encoding="utf-8")
    assert page_file == tmp_path / "report.failed.html"
    assert "<strong>This run failed.</strong> ValueError: &lt;bad&gt;" in page
    assert "<p>done</p>" in page
    assert '<pre class="traceback">Traceback\nValueError: &lt;bad&gt;\n</pre>' in page
    assert "An Exception was encountered" not in page


def test_an_incomplete_folder_is_an_export_error_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="could not be written as HTML") as caught:
        export_report(tmp_path / "none.ipynb", tmp_path)
    assert "\n" not in str(caught.value)
