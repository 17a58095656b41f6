"""Recorded arguments of an op, read with care: tensors, scalars, and what isn't known about them.

PyTorch records a missing tensor as type ``''``, an empty one with a 0 in its shape, and every scalar as text.
Whatever a formula needs and the trace doesn't say raises ``UnknownArgument`` with the reason; nothing is
guessed.
"""

from collections.abc import Mapping
from math import prod

import msgspec

from normscope.trace.events import OpArgs

LARGEST = 2**63  # no tensor has more elements; a larger number is junk
_MOST_AXES = 64  # PyTorch's own limit
_LONGEST_TEXT = 40
_DIGITS = 18  # of the largest size that is read from text

# Recorded type -> short name, bytes per element. Float4_e2m1fn_x2 holds two values in each one-byte element.
TYPES: Mapping[str, tuple[str, int]] = {
    "float": ("fp32", 4),
    "double": ("fp64", 8),
    "c10::Half": ("fp16", 2),
    "c10::BFloat16": ("bf16", 2),
    "c10::Float8_e4m3fn": ("fp8", 1),
    "c10::Float8_e4m3fnuz": ("fp8", 1),
    "c10::Float8_e5m2": ("fp8", 1),
    "c10::Float8_e5m2fnuz": ("fp8", 1),
    "c10::Float8_e8m0fnu": ("fp8", 1),
    "c10::Float4_e2m1fn_x2": ("fp4", 1),
    "c10::complex<c10::Half>": ("complex32", 4),
    "c10::complex<float>": ("complex64", 8),
    "c10::complex<double>": ("complex128", 16),
    "c10::qint8": ("int8", 1),
    "c10::quint8": ("int8", 1),
    "c10::qint32": ("int32", 4),
    "signed char": ("int8", 1),
    "unsigned char": ("uint8", 1),
    "bool": ("bool", 1),
    "short": ("int16", 2),
    "short int": ("int16", 2),
    "int": ("int32", 4),
    "long": ("int64", 8),
    "long int": ("int64", 8),
    "long long": ("int64", 8),
}
_NO_TENSOR = ("", "Scalar", "ScalarList")


class UnknownArgument(Exception):  # noqa: N818 - says what it is; it is caught inside this package
    """The trace doesn't say what a formula needs; the message is the reason shown to the user."""


class Tensor(msgspec.Struct, frozen=True):
    """A tensor argument.

    Attributes
    ----------
    shape
        Sizes, outermost first.
    dtype
        Short name such as ``bf16``.
    element_bytes
        Bytes of one element.
    """

    shape: tuple[int, ...]
    dtype: str
    element_bytes: int

    @property
    def elements(self) -> int:
        """Number of elements."""
        return prod(self.shape)


def recorded_type(args: OpArgs, index: int) -> str:
    """Return the recorded type at ``index``; ``''`` where there is no argument.

    Raises
    ------
    UnknownArgument
        The trace has no argument types.
    """
    if not isinstance(args.types, list | tuple) or not args.types:
        message = "no shapes recorded"
        raise UnknownArgument(message)
    found = args.types[index] if index < len(args.types) else ""
    return found.removeprefix("struct ") if isinstance(found, str) else str(found)


def tensor(args: OpArgs, index: int) -> Tensor | None:
    """Return the tensor at ``index``, ``None`` where the call has none there.

    Raises
    ------
    UnknownArgument
        The trace has no types or shapes, the type is not known, or the shape is no list of sizes.
    """
    type_name = recorded_type(args, index)
    if type_name in _NO_TENSOR:
        return None
    if type_name not in TYPES:
        message = f"element type {_short(type_name)} of argument {index} is not known"
        raise UnknownArgument(message)
    dtype, element_bytes = TYPES[type_name]
    return Tensor(shape=_shape(args, index), dtype=dtype, element_bytes=element_bytes)


def boolean(args: OpArgs, index: int) -> bool:
    """Return the boolean at ``index``: ``'True'`` or ``'False'``, the way PyTorch records it.

    Raises
    ------
    UnknownArgument
        Anything else is recorded, or nothing.
    """
    return _truth(_concrete(args, index), index)


def integer(args: OpArgs, index: int) -> int:
    """Return the integer at ``index``.

    Raises
    ------
    UnknownArgument
        The value isn't recorded or is no size, such as a symbolic one.
    """
    return _size(_concrete(args, index), index)


def sizes(args: OpArgs, index: int) -> tuple[int, ...]:
    """Return the list of sizes at ``index``, such as ``'[32, 32]'``.

    Raises
    ------
    UnknownArgument
        The value isn't recorded or holds anything but sizes.
    """
    return tuple(_size(item, index) for item in _items(args, index))


def mask(args: OpArgs, index: int) -> tuple[bool, ...]:
    """Return the output mask at ``index``, such as ``'[True, False, False]'``.

    Raises
    ------
    UnknownArgument
        The value isn't recorded or is no list of booleans.
    """
    return tuple(_truth(item, index) for item in _items(args, index))


def _shape(args: OpArgs, index: int) -> tuple[int, ...]:
    if not isinstance(args.dims, list | tuple) or index >= len(args.dims):
        message = "no shapes recorded"
        raise UnknownArgument(message)
    dims = args.dims[index]
    if not isinstance(dims, list | tuple):
        message = f"shape {_short(dims)} of argument {index} is not known"
        raise UnknownArgument(message)
    if len(dims) > _MOST_AXES:
        message = f"argument {index} has {len(dims)} axes, more than a tensor can have"
        raise UnknownArgument(message)
    for size in dims:
        if not _is_size(size):
            message = f"symbolic or unreadable size {_short(size)} in argument {index}"
            raise UnknownArgument(message)
    if prod(dims) >= LARGEST:
        message = f"shape of argument {index} is too large to be real"
        raise UnknownArgument(message)
    return tuple(dims)


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < LARGEST


def _concrete(args: OpArgs, index: int) -> object:
    if not isinstance(args.concrete, list | tuple) or index >= len(args.concrete):
        message = "argument values (Concrete Inputs) are not recorded"
        raise UnknownArgument(message)
    return args.concrete[index]


def _items(args: OpArgs, index: int) -> list[str]:
    text = _concrete(args, index)
    if not isinstance(text, str) or not text.startswith("[") or not text.endswith("]"):
        message = f"argument {index} should be a list and is {_short(text)}"
        raise UnknownArgument(message)
    inner = text[1:-1].strip()
    return [item.strip() for item in inner.split(",")] if inner else []


def _size(text: object, index: int) -> int:
    if not isinstance(text, str) or len(text) > _DIGITS or not (text.isascii() and text.isdecimal()):
        message = f"argument {index} should be a size and is {_short(text)}"
        raise UnknownArgument(message)
    return int(text)


def _truth(text: object, index: int) -> bool:
    if text not in ("True", "False"):
        message = f"argument {index} should be True or False and is {_short(text)}"
        raise UnknownArgument(message)
    return text == "True"


def _short(value: object) -> str:
    if isinstance(value, str) and not value:
        return "empty"
    try:
        text = str(value)
    except (ValueError, RecursionError):  # integers of more than 4,300 digits have no text
        text = type(value).__name__
    return text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + "…"
