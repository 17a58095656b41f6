"""What looks like a gap that somebody forgot to fill: ``{name}``, ``<title>``, TODO, ``nan``."""

import re
from collections.abc import Iterator

_HTML_TAGS = "br|details|summary|sub|sup|b|i|em|strong|code|p|div|span"
_BEFORE = r"(?<![\w.:/-])"  # no part of a longer name such as torch.nan or aten::nan_to_num
_PLACEHOLDER = re.compile(
    r"\{\{[^{}\n]*\}\}|\{%[^{}\n]*%\}|\{[A-Za-z_][\w.\[\]]*\}"
    rf"|(?<![\w:>&)\]])<(?!(?:{_HTML_TAGS})\s*>)[A-Za-z][\w -]*>|<(?:…|\.\.\.)>"
    rf"|{_BEFORE}(?:TODO|TBD|FIXME|nan|NaN|NAN)(?![\w:/(-]|\.\w)"
    rf"|{_BEFORE}(?:None|null|undefined|inf|Infinity)(?=\s*(?:%|[mnuµ]s\b|[KMGT]i?B\b|T?FLOP|×|\)))"
)
_GAP = frozenset({"", "…", "...", "?", "None", "null", "undefined", "inf", "Infinity", "nan", "NaN"})


def placeholders(text: str) -> Iterator[str]:
    """Return what looks like an unfilled placeholder in ``text``.

    Examples
    --------
    >>> list(placeholders("{count} calls take nan ms in <kernel>; see norm_kernel<float>"))
    ['{count}', 'nan', '<kernel>']
    """
    return (match[0] for match in _PLACEHOLDER.finditer(text))


def is_gap(text: str) -> bool:
    """Tell whether ``text`` as a whole says nothing: empty, an ellipsis, a language's word for nothing."""
    return text.strip() in _GAP
