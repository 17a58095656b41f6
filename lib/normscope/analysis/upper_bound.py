"""How a time that is only an upper bound is told: one mark and one wording for every page, figure and table.

The time of a kernel in which a compiler fused a norm with other work is that of all of it, so the norm itself
takes at most as long.
"""

from collections.abc import Iterable

from normscope.analysis.models import Operation

MARK = "≤"
AT_MOST = f"{MARK}\u00a0"
"""The mark before a figure, on the same line as it."""
_NAMED = 2
_LARGEST_NAME = 40


def bounded(operation: Operation, text: str) -> str:
    """Return ``text``, a time of ``operation`` or what follows from one, marked where it is an upper bound.

    Examples
    --------
    ``10.035`` becomes ``≤ 10.035`` for a norm in a compiler's kernel.
    """
    return f"{AT_MOST}{text}" if operation.is_upper_bound else text


def upper_bound_words(*operations: Operation, named: int = _NAMED) -> str:
    """Return why times are upper bounds, such as ``upper bound: fused with addmm, mul and 5 more``.

    Parameters
    ----------
    operations
        Any operations; where all their times are their own the words are empty.
    named
        How many of what they are fused with are named.
    """
    if not any(operation.is_upper_bound for operation in operations):
        return ""
    return f"upper bound: fused with {_listed(fused_with(operations), named) or 'other work'}"


def fused_words(operation: Operation) -> str:
    """Return what a norm does beside the norm by nature, such as ``with residual add``; empty where nothing.

    Where that makes the time an upper bound, `upper_bound_words` tells it.
    """
    if operation.is_upper_bound or not operation.fused_with:
        return ""
    return f"with {_listed(operation.fused_with, _NAMED)}"


def _listed(names: Iterable[str], named: int) -> str:
    """Return the first names in one line, and how many more there are; a single one more is named, too."""
    known = [_short(name) for name in names]
    if len(known) > named + 1:
        known = [*known[:named], f"{len(known) - named:,} more"]
    *others, last = known or [""]
    return f"{', '.join(others)} and {last}" if others else last


def _short(name: str) -> str:
    return name if len(name) <= _LARGEST_NAME else f"{name[: _LARGEST_NAME - 1]}…"


def upper_bound_ms(operations: Iterable[Operation]) -> float:
    """Return the part of the operations' time that is an upper bound, in ms."""
    return sum(operation.time_ms for operation in operations if operation.is_upper_bound)


def sum_words(operations: Iterable[Operation]) -> str:
    """Return how much of the operations' time is an upper bound, empty where none is.

    It follows the words ``of which`` after a sum, and reads ``≤ 38.12 ms in fused kernels (upper bound)``.
    """
    known = list(operations)
    if not any(operation.is_upper_bound for operation in known):
        return ""
    bounded_ms = upper_bound_ms(known)
    decimals = 2 if bounded_ms >= 1 else 3
    return f"{AT_MOST}{bounded_ms:,.{decimals}f} ms in fused kernels (upper bound)"


def fused_with(operations: Iterable[Operation]) -> tuple[str, ...]:
    """Return all that the operations are fused with, each once, in the order of the operations."""
    return tuple(dict.fromkeys(name for operation in operations for name in operation.fused_with))
