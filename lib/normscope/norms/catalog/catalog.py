"""The rows of the catalog, read once, and looked up by the names of ops and kernels."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Set
from functools import cache
from pathlib import Path

import msgspec
import tomli

from normscope.errors import InputError
from normscope.norms import formulas
from normscope.norms.catalog.rows import ARGUMENT, RETURNED, SAVED, UNUSED, NormRow, Purpose
from normscope.norms.kernel_names import is_norm_kernel, read_kernel

_FOLDER = Path(__file__).parent
_INPUTS = ("dy", "x")
EXAMPLES = f"x, >y, <>residual, bias?, {UNUSED}"
HOW_TO_WRITE = "docs/catalog.md shows how a row is written"


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of rows."""

    norm: tuple[NormRow, ...] = ()


class Catalog:
    """Rows by the names they match. Every distinct name is looked at once.

    Rows of ``extra`` are tried before the others, and stand in place of those with the same id.
    """

    def __init__(self, rows: Iterable[NormRow], extra: Iterable[NormRow] = ()) -> None:
        self._extra = tuple(extra)
        replaced = {row.id for row in self._extra}
        self.rows = (*self._extra, *(row for row in rows if row.id not in replaced))
        self._by_op: dict[str, tuple[NormRow, ...]] = {}
        for row in self.rows:
            for name in row.ops:
                self._by_op[name] = (*self._by_op.get(name, ()), row)
        for name, found in self._by_op.items():  # a layout with a condition is tried before one without
            self._by_op[name] = tuple(sorted(found, key=lambda row: not row.has_condition))
        self._patterns = [(re.compile(row.op_pattern), row) for row in self.rows if row.op_pattern]
        self._by_kernel: dict[str, NormRow | None] = {}

    def of_op(self, name: str) -> tuple[NormRow, ...]:
        """Return the rows for the op ``name``, those with a condition first; none for other ops."""
        found = self._by_op.get(name)
        if found is None:
            found = tuple(row for pattern, row in self._patterns if pattern.fullmatch(name))
            self._by_op[name] = found
        return found

    def purpose(self, name: str) -> Purpose | None:
        """Return what the op ``name`` is for, None where the catalog doesn't have it."""
        found = self.of_op(name)
        return found[0].purpose if found else None

    def is_norm_op(self, name: str) -> bool:
        """Tell whether ``name`` is the op of a norm."""
        return self.purpose(name) == "norm"

    def layout(self, name: str, types: object) -> NormRow | None:
        """Return the row of ``name`` whose argument layout fits the recorded ``types``, None for no row."""
        return next((row for row in self.of_op(name) if row.fits(types)), None)

    def of_kernel(self, name: str) -> NormRow | None:
        """Return the first row with a kernel of that name, None where there is none."""
        if name not in self._by_kernel:
            candidates = (row for row in self._candidates(name) if row.how in ("op", "kernel"))
            self._by_kernel[name] = next((row for row in candidates if row.names_kernel(name)), None)
        return self._by_kernel[name]

    def _candidates(self, name: str) -> Iterator[NormRow]:
        """Yield the rows that may have a kernel of that name: first those of what the name itself tells."""
        yield from self._extra
        told = read_kernel(name)
        if told is not None:
            kind = (told.variant, told.direction)
            yield from (row for row in self.rows if (row.variant, row.direction) == kind)
            yield from self.rows

    def is_norm_kernel(self, name: str) -> bool:
        """Tell whether a GPU kernel's name is that of a normalization, by the usual words or an extra row."""
        row = self.of_kernel(name)
        return is_norm_kernel(name) if row is None else row.purpose == "norm"


@cache
def builtin_rows() -> tuple[NormRow, ...]:
    """Return the rows that come with normscope."""
    files = sorted(_FOLDER.glob("*.toml"))
    return tuple(row for file in files for row in read_rows(file.read_bytes(), file.name))


def load_catalog(extra: Path | None = None) -> Catalog:
    """Return the catalog, with the rows of the file ``extra`` before those that come with normscope.

    A row with the id of a built-in one replaces it.

    Raises
    ------
    InputError
        The file can't be read or a row is wrong; the message names the row and the field.
    """
    if extra is None:
        return Catalog(builtin_rows())
    try:
        text = extra.read_bytes()
    except OSError as error:
        message = f"the catalog {extra.name} can't be read ({error.strerror}); check its name and permissions"
        raise InputError(message) from None
    own = read_rows(text, extra.name)
    if not own:
        message = f"the catalog {extra.name} has no row: give at least one [[norm]] table; {HOW_TO_WRITE}"
        raise InputError(message)
    chains = {row.id for row in builtin_rows() if row.how == "eager"}
    for row in own:
        _refuse(extra.name, row, _chain_complaints(row, chains))
    return Catalog(builtin_rows(), own)


def read_rows(text: bytes, label: str) -> tuple[NormRow, ...]:
    """Return the rows of a TOML file, checked.

    Raises
    ------
    InputError
        The text is no TOML, or a row is wrong.
    """
    try:
        rows = msgspec.convert(tomli.loads(text.decode()), type=_File).norm
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        message = f"the catalog {label} is not right: {error}; {HOW_TO_WRITE}"
        raise InputError(message) from None
    seen: set[str] = set()
    for row in rows:
        _refuse(label, row, _complaints(row, seen))
        seen.add(row.id)
    return rows


def _refuse(label: str, row: NormRow, complaints: Iterable[str]) -> None:
    for complaint in complaints:
        message = f"the catalog {label} has a row {row.id!r} {complaint}; {HOW_TO_WRITE}"
        raise InputError(message)


def _chain_complaints(row: NormRow, chains: Set[str]) -> Iterable[str]:
    """Yield why a row of a user can't be one of a chain of small ops, whose form is code."""
    if row.how == "eager":
        yield "with how 'eager': the forms of chains of small ops are code, no row can add one"
    if row.id in chains:
        yield "whose id is that of a chain of small ops, which no row can replace"


def _complaints(row: NormRow, seen: Set[str]) -> Iterable[str]:
    """Yield what is wrong with a row."""
    for field in ("id", "library", "source"):
        if not getattr(row, field).strip():
            yield f"whose {field} is empty"
    if row.id in seen:
        yield "twice"
    yield from _matching_complaints(row)
    if row.bytes and row.bytes not in formulas.BYTES:
        yield f"with the unknown bytes formula {row.bytes!r} (known: {', '.join(sorted(formulas.BYTES))})"
    if row.flops and row.flops not in formulas.FLOPS:
        yield f"with the unknown FLOPs formula {row.flops!r} (known: {', '.join(sorted(formulas.FLOPS))})"
    yield from _argument_complaints(row)
    for field, words, known in (("returns", row.returns, RETURNED), ("saves", row.saved, SAVED)):
        for word in words.split():
            if word not in known:
                yield f"that {field} {word!r} (known: {', '.join(known)})"
    yield from _pattern_complaints(row)


def _matching_complaints(row: NormRow) -> Iterable[str]:
    """Yield what is wrong with what a row matches."""
    if not all(row.ops):
        yield "with an empty name among its ops"
    if row.how in ("kernel", "compiled") and (row.ops or row.op_pattern):
        yield f"with ops although how is {row.how!r}, which is matched by kernels alone"
    if not (row.ops or row.op_pattern or row.kernels or row.how == "eager"):
        yield "that matches nothing: give ops, op_pattern or kernels"


def _argument_complaints(row: NormRow) -> Iterable[str]:
    """Yield what is wrong with a row's list of arguments."""
    words = row.arguments.split()
    for word in words:
        if not ARGUMENT.fullmatch(word):
            yield f"with the argument {word!r}, which is no role (such as: {EXAMPLES})"
    for role, count in Counter(word.strip("<>?") for word in words).items():
        if count > 1 and role != UNUSED:
            yield f"with two arguments {role!r}"
    if row.scalar_at is not None and not 0 <= row.scalar_at < len(words):
        yield f"with scalar_at {row.scalar_at}, which is no place among its {len(words)} arguments"
    if row.argument_count is not None and not 0 <= row.argument_count[0] <= row.argument_count[1]:
        yield f"with argument_count {list(row.argument_count)}, which is not [least, most]"
    known = _INPUTS if row.from_forward or not words else row.roles
    for role in row.reads_twice.split():
        if role not in known:
            yield f"with reads_twice {role!r}, which is none of its arguments"


def _pattern_complaints(row: NormRow) -> Iterable[str]:
    """Yield which patterns of a row are none, or fit everything."""
    for pattern in (*filter(None, (row.op_pattern,)), *row.kernels):
        try:
            fits_any = re.compile(pattern).search("") is not None
        except (re.error, OverflowError, RecursionError) as error:
            yield f"with a pattern that is no regular expression ({pattern!r}: {error})"
            continue
        if fits_any:
            yield f"with a pattern that fits any name, as it fits an empty one ({pattern!r})"
