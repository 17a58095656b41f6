import re
from collections.abc import Callable
from html.parser import HTMLParser

import mistune
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from normscope import escape

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[click](javascript:alert(1))",
    "![x](https://example.com/x.png)",
    "<https://example.com>",
    "void f<float>(int*)",
    "k<c10::BFloat16>|x",
    "a`b`c",
    "a\nb\r\nc",
    "\x1b[31mred",
    "\u202egnp.exe",
    "x" * 4000,
    "*bold* _it_ ~~gone~~ # | ||",
    "&lt;b&gt; &#124;",
    "\\| \\\\",
    " leading and trailing ",
    "$x^2$",
    "<!-- impact-end -->",
    "名前 🚀",
]
TEXTS = st.text(max_size=60) | st.lists(
    st.sampled_from(
        [*"<>|`*_[]()&#;\\$~!- \n\r\t\x00\x1b", "a", "::", "c10", "script", "javascript:", "<br>"]
    ),
    max_size=20,
).map("".join)


class TextOfCells(HTMLParser):
    """Collects the text of every table cell, and the names of all tags."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.cells: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag in {"td", "th"}:
            self.cells.append("")
        if tag == "br":
            self.cells[-1] += "<br>"

    def handle_data(self, data: str) -> None:
        if self.cells:
            self.cells[-1] += data.strip("\n")


TABLE_TAGS = {"table", "thead", "tbody", "tr", "th", "td", "br"}


def rendered(table: str, how: str) -> TextOfCells:
    renderers: dict[str, Callable[[str], object]] = {
        "ours": escape.markdown_to_html,
        "commonmark": MarkdownIt("commonmark").enable("table").render,
        "mistune": mistune.create_markdown(escape=False, plugins=["table", "strikethrough"]),
    }
    reader = TextOfCells()
    reader.feed(str(renderers[how](table)))
    return reader


@pytest.mark.parametrize("how", ["ours", "commonmark", "mistune"])
@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_name_stays_one_cell_of_plain_text(text: str, how: str) -> None:
    page = rendered(f"| a | b |\n|---|---|\n| {escape.markdown(text)} | end |\n", how)
    assert page.tags <= TABLE_TAGS
    assert len(page.cells) == 4
    assert page.cells[3].strip() == "end"


@pytest.mark.parametrize("how", ["ours", "commonmark", "mistune"])
@given(TEXTS)
def test_any_name_stays_one_cell_without_markup(how: str, text: str) -> None:
    page = rendered(f"| a | b |\n|---|---|\n| {escape.markdown(text)} | end |\n", how)
    assert page.tags <= TABLE_TAGS
    assert len(page.cells) == 4


@given(TEXTS)
def test_a_name_comes_back_from_markdown(text: str) -> None:
    assert escape.from_markdown(escape.markdown(text)) == text


@given(st.text(alphabet="abcXYZ019_:<,. (", max_size=80).map(str.strip))
def test_a_name_that_reads_as_itself_is_left_alone_or_comes_back(text: str) -> None:
    shown = escape.markdown(text)
    assert shown == text or "&#" in shown


def test_a_usual_kernel_name_stays_verbatim() -> None:
    name = "void at::native::batch_norm_backward_kernel<c10::BFloat16, c10::BFloat16, f..."
    assert escape.markdown(name) == name


def test_a_name_that_markdown_takes_for_a_link_is_escaped() -> None:
    assert "<" not in escape.markdown("k<c10::BFloat16>")


@given(TEXTS)
def test_html_text_has_no_markup_and_nothing_unprintable(text: str) -> None:
    shown = escape.html_text(text)
    assert not re.search(r"[<>\"'\x00-\x1f\x7f-\x9f]", shown)


@given(st.text(max_size=80))
def test_a_terminal_gets_no_control_characters(text: str) -> None:
    assert escape.printable(escape.printable(text)) == escape.printable(text)
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", escape.printable(text))


@given(st.text(max_size=200))
def test_a_file_stem_is_a_plain_short_name(text: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,79}", escape.file_stem(text))


@pytest.mark.parametrize(
    "source",
    [
        "<script>alert(1)</script>",
        "text <b onclick=alert(1)>bold</b>",
        "[x](javascript:alert(1))",
        "![x](https://example.com/a.png)",
        "<https://example.com>",
        "[x]: javascript:alert(1)\n\n[x]",
        "<svg onload=alert(1)>",
        "<br onload=alert(1)>",
        "<!-- a --><script>alert(1)</script>",
    ],
)
def test_markdown_to_html_makes_nothing_active(source: str) -> None:
    reader = TextOfCells()
    reader.cells.append("")
    reader.feed(escape.markdown_to_html(source))
    assert reader.tags <= {"p", "br"}


@given(TEXTS)
def test_markdown_to_html_never_makes_a_dangerous_tag(text: str) -> None:
    reader = TextOfCells()
    reader.cells.append("")
    reader.feed(escape.markdown_to_html(text))
    assert not reader.tags & {"script", "a", "img", "svg", "iframe", "style", "link", "object"}


def test_comments_are_dropped_and_line_breaks_kept() -> None:
    assert escape.markdown_to_html("<!-- note -->\n**a**<br>b\n") == "<p><strong>a</strong><br>b</p>\n"


@pytest.mark.parametrize("text", ["*<br>*", "`<br>`", "[a<br>](b)", "~~<br>~~"])
def test_parts_that_are_plain_alone_are_escaped_where_they_are_markup_together(text: str) -> None:
    assert "&#" in escape.markdown(text)
    assert escape.from_markdown(escape.markdown(text)) == text
