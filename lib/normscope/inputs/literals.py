"""Cells that hold Python literals: shapes, types and call stacks, as TraceLens writes them.

Most of such cells are JSON but for the brackets or the quotes, and a JSON reader is ten times faster than
Python's own; whatever is not goes to :func:`ast.literal_eval`, which evaluates nothing.
"""

import ast
import re
from functools import lru_cache

import msgspec

_CACHED_TEXTS = 4096
_LONGEST_LITERAL = 1_000_000
_NOT_JSON_LIKE = re.compile(r"""["'\\\[\]]|\(\s*[^(),\s]+\s*\)""")  # strings, lists, and (x), no tuple
_decode_json = msgspec.json.Decoder().decode


@lru_cache(maxsize=_CACHED_TEXTS)
def parse_literal(text: str) -> object:
    """Return what ``text`` stands for, or ``None`` where it is no Python literal.

    Tuples may come back as lists: nothing here tells them apart.

    Examples
    --------
    >>> parse_literal("((2, 3), (4,))")
    [[2, 3], [4]]
    >>> parse_literal("not a literal") is None
    True
    """
    if not _NOT_JSON_LIKE.search(text):
        as_json = text.replace("(", "[").replace(",)", "]").replace(")", "]")
        try:
            return _decode_json(as_json)
        except (msgspec.DecodeError, RecursionError):
            pass
    return _parse_python(text)


def parse_call_stack(text: str) -> object:
    """Return the frames, possibly nested, that ``text`` stands for, or ``None`` if it is no literal."""
    if text.startswith("[") and '"' not in text and "\\" not in text:
        try:
            return _decode_json(text.replace("'", '"'))
        except (msgspec.DecodeError, RecursionError):
            pass
    return _parse_python(text)


def _parse_python(text: str) -> object:
    if len(text) > _LONGEST_LITERAL:
        return None
    try:
        return _without_surrogates(ast.literal_eval(text))
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None


def _without_surrogates(value: object) -> object:
    """Return ``value`` with lone surrogates replaced: an escape can spell them, no file can hold them."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list | tuple):
        return type(value)(map(_without_surrogates, value))
    return value
