"""Names made to break out, from table to page: nothing runs, no table breaks, no text is lost."""

from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from playwright.sync_api import Browser, Dialog, Page

from normscope.escape import printable
from report_inputs import HOSTILE_NAMES, make_pages, write_hostile


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    return make_pages(write_hostile(folder / "run <b>|`'"), folder / "out")


def _dismiss(dialog: Dialog, events: list[str]) -> None:
    events.append(f"dialog: {dialog.message}")
    dialog.dismiss()


def visit(browser: Browser, file: Path) -> tuple[Page, list[str]]:
    """Open ``file``, unfold and point at everything, and return the page and all that happened."""
    events: list[str] = []
    page = browser.new_page()
    page.on("request", lambda request: events.append(request.url))
    page.on("dialog", lambda dialog: _dismiss(dialog, events))
    page.on("console", lambda message: events.append(message.text))
    page.goto(file.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
    page.evaluate(
        "document.querySelectorAll('*').forEach(e => ['mouseover', 'error', 'load', 'focus']"
        ".forEach(t => e.dispatchEvent(new Event(t, { bubbles: true }))))"
    )
    page.wait_for_timeout(200)
    own = file.as_uri()
    return page, [event for event in events if event != own and not event.startswith("data:")]


@pytest.mark.parametrize("name", ["report.html", "findings.html"])
def test_nothing_runs_and_nothing_is_requested(browser: Browser, report: Path, name: str) -> None:
    page, events = visit(browser, report / name)
    assert events == []
    assert page.evaluate("window.pwned") is None
    assert page.locator("script, iframe, object, embed, svg, form, input, link, base").count() == 0
    assert page.evaluate("document.querySelectorAll('main img').length") == (
        4 if name == "report.html" else 0
    )
    handlers = (
        "[...document.querySelectorAll('*')].flatMap(e => [...e.attributes]).filter(a => /^on/.test(a.name))"
    )
    assert page.evaluate(f"{handlers}.length") == 0
    page.close()


@pytest.mark.parametrize("name", ["report.html", "findings.html"])
def test_links_lead_only_into_the_report(browser: Browser, report: Path, name: str) -> None:
    page, _ = visit(browser, report / name)
    links = page.evaluate("[...document.querySelectorAll('a')].map(a => a.getAttribute('href'))")
    assert [link for link in links if not link.startswith(("#", "figures/"))] == []
    page.close()


@pytest.mark.parametrize("name", ["report.html", "findings.html"])
def test_every_row_of_every_table_has_as_many_cells_as_its_header(
    browser: Browser, report: Path, name: str
) -> None:
    page, _ = visit(browser, report / name)
    tables = page.evaluate(
        "[...document.querySelectorAll('table')].map(t => [...t.rows].map(r => r.cells.length))"
    )
    assert tables
    assert [counts for counts in tables if len(set(counts)) != 1] == []
    page.close()


def test_every_name_is_shown_in_full_somewhere(browser: Browser, report: Path) -> None:
    page, _ = visit(browser, report / "report.html")
    text = page.locator("main").evaluate("e => e.textContent")
    assert [name[:40] for name in HOSTILE_NAMES if printable(name) not in text] == []
    page.close()


def test_no_control_character_reaches_a_page(report: Path) -> None:
    for name in ("report.html", "findings.html", "findings.md"):
        text = (report / name).read_text(encoding="utf-8")
        assert [hex(ord(c)) for c in set(text) if c != "\n" and printable(c) != c] == []


def test_the_findings_file_keeps_its_headings_and_its_tables(report: Path) -> None:
    text = (report / "findings.md").read_text(encoding="utf-8")
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    titles = [
        tokens[i + 1].content for i, t in enumerate(tokens) if t.type == "heading_open" and t.tag == "h2"
    ]
    assert titles == ["norm_fwd", "norm_bwd"]
    assert not any(
        "fake" in t.content for i, t in enumerate(tokens) if i and tokens[i - 1].type == "heading_open"
    )
    active = {"link_open", "image", "html_inline"}
    inside = [child for token in tokens for child in token.children or [] if child.type in active]
    assert [child.content for child in inside if child.content != "<br>"] == []
    blocks = [token.content.strip() for token in tokens if token.type == "html_block"]
    assert [block for block in blocks if not block.startswith("<!-- ")] == []
