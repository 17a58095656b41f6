"""Text from outside, made safe: the one place for Markdown, HTML, terminals and file names.

Names of ops, kernels, files and devices are written by strangers. Everything that shows such a name calls one
of these functions exactly once, at the moment it puts the name into markup.
"""

import html
import re
import unicodedata
from functools import cache, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it import MarkdownIt
    from markdown_it.renderer import RendererHTML
    from markdown_it.token import Token
    from markdown_it.utils import EnvType, OptionsDict

MISSING = "—"
_ALWAYS_ESCAPED = "|$"
_MAY_BE_MARKUP = frozenset("\\`*_~<>&[]!#")
_MARKDOWN_SPECIAL = frozenset("\\`*_~<>&[]!#|$(){}+-.:=@^\"'/")
_NUMERIC_ENTITY = re.compile(r"&#([0-9]{1,7});")
_UNPRINTABLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_LINE_BREAK_TAG = "<br>"
_LINE_BREAK_TOKEN = ("html_inline", _LINE_BREAK_TAG)
_PLAIN_TOKENS = frozenset({"text", "text_special"})
_LINE_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_UNSAFE_IN_FILE_NAME = re.compile(r"[^A-Za-z0-9._-]+")


def _is_unprintable(character: str) -> bool:
    return unicodedata.category(character) in _UNPRINTABLE_CATEGORIES


def _accepts_any_link(url: str) -> bool:
    return True


@cache
def _commonmark() -> "MarkdownIt":
    from markdown_it import MarkdownIt  # noqa: PLC0415 - 0.1 s that only Markdown output needs

    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    parser.validateLink = _accepts_any_link  # type: ignore[method-assign]  # as other readers do
    return parser


def _reads_as(markdown_text: str, text: str) -> bool:
    """Tell whether a CommonMark reader shows ``markdown_text`` as the plain ``text`` with its breaks."""
    tokens = _commonmark().parseInline(markdown_text)[0].children or []
    is_plain = all(t.type in _PLAIN_TOKENS or (t.type, t.content) == _LINE_BREAK_TOKEN for t in tokens)
    return is_plain and "".join(t.content for t in tokens) == text


def _reads_back_as_itself(text: str) -> bool:
    """Tell whether a CommonMark reader shows ``text``, unescaped, exactly as it is."""
    if text.strip() != text or any(c in _ALWAYS_ESCAPED or _is_unprintable(c) for c in text):
        return False
    return not _MAY_BE_MARKUP.intersection(text) or _reads_as(text, text)


def _escape_character(character: str) -> str:
    if character in _MARKDOWN_SPECIAL or _is_unprintable(character):
        return f"&#{ord(character)};"
    return character


def _escaped(text: str) -> str:
    """Return ``text`` with every character that could mean something, and outer spaces, as an entity."""
    body = text.strip()
    start = text.find(body) if body else len(text)
    lead, trail = text[:start], text[start + len(body) :]
    outer = ["".join(f"&#{ord(c)};" for c in spaces) for spaces in (lead, trail)]
    return outer[0] + "".join(map(_escape_character, body)) + outer[1]


@lru_cache(maxsize=4096)
def markdown(text: str) -> str:
    """Return ``text`` so that Markdown shows it as it is, in a sentence, a heading or a table cell.

    Text that CommonMark would show unchanged is returned unchanged, so that ordinary names stay verbatim;
    in any other text the special characters become numeric entities, which :func:`from_markdown` undoes.
    The line break ``<br>``, which joins the parts of a cell, is kept.

    Examples
    --------
    >>> markdown("norm_kernel<float, int>")
    'norm_kernel<float, int>'
    >>> markdown("norm_kernel<float>|x")
    'norm&#95;kernel&#60;float&#62;&#124;x'
    """
    parts = text.split(_LINE_BREAK_TAG)
    shown = _LINE_BREAK_TAG.join(p if _reads_back_as_itself(p) else _escaped(p) for p in parts)
    if len(parts) == 1 or _reads_as(shown, text):
        return shown
    return _LINE_BREAK_TAG.join(map(_escaped, parts))  # parts that are plain alone can be markup together


def from_markdown(text: str) -> str:
    """Return the plain text of what :func:`markdown` made.

    Examples
    --------
    >>> from_markdown("a&#124;b")
    'a|b'
    """
    return _NUMERIC_ENTITY.sub(lambda m: _character(int(m.group(1))), text)


def _character(code_point: int) -> str:
    return chr(code_point) if code_point <= 0x10FFFF else "\ufffd"


def markdown_code(text: str) -> str:
    """Return ``text`` as a Markdown code span, or as escaped text where a code span can't hold it.

    A comment is escaped too: a reader that looks for the findings' markers line by line knows no code spans.
    """
    if not text or text.strip() != text or any(part in text for part in ("`", "<!--")):
        return markdown(text)
    if any(map(_is_unprintable, text)):
        return markdown(text)
    return f"`{text}`"


def html_text(text: str) -> str:
    r"""Return ``text`` for HTML, in an element or a quoted attribute; unprintable characters are spelt out.

    Examples
    --------
    >>> html_text("<b>\x1b")
    '&lt;b&gt;\\x1b'
    """
    return html.escape(printable(text))


def printable(text: str) -> str:
    r"""Return ``text`` with control, format and unassigned characters spelt out, safe for a terminal.

    Examples
    --------
    >>> printable("red \x1b[31m")
    'red \\x1b[31m'
    """
    if text.isprintable() or not any(map(_is_unprintable, text)):
        return text
    return "".join(_spelt_out(c) if _is_unprintable(c) else c for c in text)


def _spelt_out(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def file_stem(text: str) -> str:
    """Return a short ASCII file name made of ``text``, without separators, never empty or hidden."""
    return _UNSAFE_IN_FILE_NAME.sub("-", text).strip("-.")[:80] or "unnamed"


def shorten(text: str, width: int = 75) -> str:
    """Return ``text``, or its first ``width`` - 1 characters and an ellipsis where it is longer."""
    return text if len(text) <= width else text[: width - 1] + "…"


def markdown_to_html(text: str) -> str:
    """Render Markdown as HTML that can hold nothing active.

    Raw HTML is shown as text, except ``<br>``, and comments, which are dropped; links and images are shown as
    their source. Whatever the text says, the result has no script, no link, no style and no outside address.
    """
    return str(_safe_renderer().render(text))


@cache
def _safe_renderer() -> "MarkdownIt":
    from markdown_it import MarkdownIt  # noqa: PLC0415 - as above

    renderer = MarkdownIt("commonmark", {"html": True}).enable("table")
    renderer.disable(["link", "image", "autolink", "reference"])
    renderer.add_render_rule("html_inline", _render_raw_html)
    renderer.add_render_rule("html_block", _render_raw_html)
    return renderer


def _render_raw_html(
    _renderer: "RendererHTML", tokens: "Sequence[Token]", index: int, _options: "OptionsDict", _env: "EnvType"
) -> str:
    raw = tokens[index].content
    if _LINE_BREAK.fullmatch(raw.strip()):
        return "<br>"
    return html.escape(_without_comments(raw))


def _without_comments(raw: str) -> str:
    return re.sub(r"<!--.*?-->\s*", "", raw, flags=re.DOTALL)
