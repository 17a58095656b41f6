"""The report as a reader meets it: opened from disk in a browser, wide, narrow, dark and on paper."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from report_inputs import make_pages, norm_row, write_many, write_run

PAGES = ("sample", "many", "empty", "failed")
MAX_SAMPLE_BYTES = 700_000
# Every text's colour against the first opaque background behind it, as WCAG 2.2 computes contrast.
LOW_CONTRAST = """() => {
  const parse = c => c.match(/[\\d.]+/g).map(Number);
  const lum = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = e => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const bad = [];
  for (const e of document.body.querySelectorAll('*')) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    if (!e.getClientRects().length) continue;
    const [a, b] = [lum(parse(getComputedStyle(e).color)), lum(behind(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) bad.push(`${ratio.toFixed(2)} ${e.tagName} ${e.textContent.slice(0, 40)}`);
  }
  return bad;
}"""


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folders of four finished reports."""
    folder = tmp_path_factory.mktemp("reports")
    broken = [norm_row(**{"Kernel Time (µs)_sum": "abc"})]
    runs = {
        "sample": Path("sample"),  # the word: the bundled trace
        "many": write_many(folder / "many"),
        "empty": write_run(folder / "empty", {"norm_fwd": []}),
        "failed": write_run(folder / "failed", {"norm_fwd": [norm_row()], "norm_bwd": broken}),
    }
    return {name: make_pages(run, folder / "out" / name) for name, run in runs.items()}


Opened = Callable[..., Page]


@pytest.fixture
def opened(browser: Browser, reports: dict[str, Path]) -> Iterator[Opened]:
    """Open a page of a report; anything it requests, logs or asks fails the test."""
    troubles: list[str] = []
    contexts = []

    def open_page(name: str, width: int = 1400, scheme: str = "light", file: str = "report.html") -> Page:
        address = (reports[name] / file).as_uri()
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if scheme == "dark" else "light",
        )
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: _note(troubles, request.url, address))
        page.on("console", lambda message: troubles.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert troubles == []


def _note(troubles: list[str], url: str, address: str) -> None:
    if url != address and not url.startswith("data:"):
        troubles.append(f"request: {url}")


@pytest.mark.parametrize("file", ["report.html", "findings.html"])
@pytest.mark.parametrize("name", PAGES)
def test_it_opens_without_a_request_or_an_error_and_is_well_formed(
    opened: Opened, name: str, file: str
) -> None:
    page = opened(name, file=file)
    assert page.locator("h1").count() == 1
    assert page.locator("script, iframe, object, embed, link").count() == 0
    assert page.evaluate("[...document.images].filter(i => !i.alt || !i.naturalWidth).length") == 0
    assert page.evaluate("document.documentElement.lang") == "en"
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("file", ["report.html", "findings.html"])
@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_somewhere(opened: Opened, reports: dict[str, Path], name: str, file: str) -> None:
    page = opened(name, file=file)
    links = page.evaluate("[...document.querySelectorAll('a')].map(a => a.getAttribute('href'))")
    ids = set(page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)"))
    assert [link for link in links if link.startswith("#") and link[1:] not in ids] == []
    files = [link for link in links if not link.startswith("#")]
    assert [link for link in files if not (reports[name] / link).is_file()] == []


def test_the_contents_list_every_section(opened: Opened) -> None:
    page = opened("sample")
    sections = page.locator("main h2").all_inner_texts()
    assert page.locator("nav.toc li.level-2").all_inner_texts() == sections
    assert len(sections) == 13


@pytest.mark.parametrize("width", [360, 800, 1400])
@pytest.mark.parametrize("name", PAGES)
def test_the_page_never_scrolls_sideways(opened: Opened, name: str, width: int) -> None:
    for file in ("report.html", "findings.html"):
        page = opened(name, width, file=file)
        page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["sample", "failed"])
def test_every_text_has_enough_contrast(opened: Opened, name: str, scheme: str) -> None:
    for file in ("report.html", "findings.html"):
        page = opened(name, scheme=scheme, file=file)
        page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
        assert page.evaluate(LOW_CONTRAST) == []


def test_dark_mode_is_dark_and_figures_stay_on_a_light_card(opened: Opened) -> None:
    page = opened("sample", scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 28)"
    cards = page.evaluate(
        "[...document.querySelectorAll('.picture')].map(e => getComputedStyle(e).backgroundColor)"
    )
    assert cards == ["rgb(255, 255, 255)"] * 5


def test_the_answer_fits_the_first_screen(opened: Opened) -> None:
    page = opened("sample")
    bottom = page.evaluate("document.querySelector('.ns-cards').getBoundingClientRect().bottom")
    assert bottom < 900
    assert page.locator(".ns-headline").inner_text().startswith("Large potential: about ")
    assert page.locator(".ns-card-title").all_inner_texts() == [
        "Share of GPU time",
        "Achieved bandwidth",
        "Potential gain",
        "Normalization calls",
    ]


def test_code_is_hidden_and_unfolds_by_keyboard(opened: Opened) -> None:
    page = opened("sample")
    fold = page.locator("details.code", has_text="notebook.show_answer(report)")
    assert not fold.locator("pre").is_visible()
    fold.locator("summary").focus()
    page.keyboard.press("Enter")
    assert fold.locator("pre").is_visible()


def test_a_link_to_a_folded_row_unfolds_it(opened: Opened) -> None:
    page = opened("many")
    row = page.locator("tr#op-1-101")
    assert not row.is_visible()
    page.evaluate("location.hash = '#op-1-101'")
    row.wait_for(state="visible")


def test_wide_tables_scroll_in_a_container_the_keyboard_reaches(opened: Opened) -> None:
    page = opened("many", 360)
    wide = page.locator(".ns-wide").first
    assert wide.evaluate("e => e.scrollWidth > e.clientWidth && e.tabIndex === 0")


def test_it_prints_with_everything_unfolded_but_the_code(opened: Opened, tmp_path: Path) -> None:
    page = opened("sample")
    page.emulate_media(media="print")
    assert page.locator("ol.ns-kernels").is_visible()
    assert not page.locator("details.code").first.is_visible()
    assert page.locator("tr#op-1-1").is_visible()
    paper_width_px = 182 / 25.4 * 96
    page.set_viewport_size({"width": int(paper_width_px), "height": 1000})
    cut = page.evaluate(
        "[...document.querySelectorAll('table')].filter(t => !t.closest('.ns-wide') &&"
        " t.getBoundingClientRect().right > innerWidth + 1).length"
    )
    assert cut == 0
    pdf = page.pdf(prefer_css_page_size=True)
    assert pdf.startswith(b"%PDF-")


def test_the_sample_is_small(reports: dict[str, Path]) -> None:
    assert (reports["sample"] / "report.html").stat().st_size < MAX_SAMPLE_BYTES


def test_a_failed_category_is_an_alert_and_has_no_findings(opened: Opened) -> None:
    page = opened("failed")
    assert "Status: ERROR" in page.locator("[role=alert]").inner_text()
    assert page.locator("[id^=finding-2-]").count() == 0


def test_an_empty_run_says_so_first(opened: Opened) -> None:
    assert opened("empty").locator(".ns-headline").inner_text() == "No normalization operations found"
