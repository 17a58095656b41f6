"""How a profiler records the arguments of an op: shapes, types, strides and values by schema position.

Arguments are written as words: a word of :data:`TENSORS` is a tensor, ``absent`` an optional tensor that is
not given, ``number`` a number where the schema wants a tensor, ``[..]`` a list and any other word a number,
each with its value. ``{B}``, ``{C}``, ``{HW}``,
``{N}``, ``{R}`` and ``{G}`` stand for the batch size, the channels, the pixels, the last axis, the number of
rows and the number of groups.
"""

import math
from itertools import accumulate
from typing import Any

from normscope.sample.arguments import ARGUMENTS, GROUPS, Argument, Dtype, Shape

Event = dict[str, Any]

TENSORS = {
    **ARGUMENTS,
    "instance_view": Argument(shape=lambda s: (1, s[0] * s[1], *s[2:])),
    "conv_weight": Argument(shape=lambda s: (s[1], s[1], 3, 3)),
    "linear_weight": Argument(shape=lambda s: (s[-1], s[-1])),
    "rows": Argument(shape=lambda s: (math.prod(s[:-1]), s[-1])),
    "scalar_loss": Argument(shape=lambda _: (), is_fp32=True),
}


_NO_AXES = {"absent": "", "number": "double"}
"""Types of what is recorded as a tensor of no axes: PyTorch makes one of a number, whose value is lost."""


def contiguous_strides(shape: Shape) -> list[int]:
    """Return the strides of a tensor in row-major order, in elements."""
    return list(accumulate(reversed(shape[1:]), lambda a, b: a * b, initial=1))[::-1] if shape else []


def channels_last_strides(shape: Shape) -> list[int]:
    """Return the strides of a 4-d tensor whose channels lie next to each other, in elements."""
    _batch, channels, height, width = shape
    return [channels * height * width, 1, width * channels, channels]


def recorded_arguments(words: str, shape: Shape, dtype: Dtype) -> Event:
    """Return the four parallel lists that a profiler writes for one call.

    Parameters
    ----------
    words
        The arguments in the order of the op's schema.
    shape, dtype
        Of the activation.

    Returns
    -------
    dict
        ``Concrete Inputs`` (strings), ``Input type``, ``Input Strides`` and ``Input Dims``, all of one
        length. What is no tensor has empty dims; an argument that is not given also has the type ``''``.
    """
    rows = [_recorded_argument(word, shape, dtype) for word in words.split()]
    keys = ("Concrete Inputs", "Input type", "Input Strides", "Input Dims")
    return {key: [row[place] for row in rows] for place, key in enumerate(keys)}


def _recorded_argument(word: str, shape: Shape, dtype: Dtype) -> tuple[str, str, list[int], list[int]]:
    if word in _NO_AXES:
        return "", _NO_AXES[word], [], []
    if word == "channels_last":
        return "", TENSORS["activation"].type_in_trace(dtype), channels_last_strides(shape), list(shape)
    if word in TENSORS:
        dims = TENSORS[word].shape(shape)
        return "", TENSORS[word].type_in_trace(dtype), contiguous_strides(dims), list(dims)
    value = word.format(**_sizes(shape)).replace(",", ", ")
    return value, "ScalarList" if word.startswith("[") else "Scalar", [], []


def _sizes(shape: Shape) -> dict[str, int]:
    return {
        "B": shape[0],
        "C": shape[1],
        "HW": math.prod(shape[2:]),
        "N": shape[-1],
        "R": math.prod(shape[:-1]),
        "G": GROUPS,
    }
