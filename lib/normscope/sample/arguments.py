"""The words that describe an op's arguments: which shape and type each has, and whether it is moved."""

import math
from collections.abc import Callable
from typing import Literal

import msgspec

Shape = tuple[int, ...]
Dtype = Literal["bf16", "fp32"]

GROUPS = 32
"""Number of groups of every simulated GroupNorm."""
TRACE_DTYPE: dict[Dtype, str] = {"bf16": "c10::BFloat16", "fp32": "float"}
BYTES_PER_ELEMENT: dict[Dtype, int] = {"bf16": 2, "fp32": 4}


class Argument(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of argument; ``shape`` maps the shape of the activation to its own.

    A tensor has the data type of the op, or fp32 where ``is_fp32``. ``is_moved`` is false for what the op is
    given but does not read. ``trace_type`` is set for what is no tensor.
    """

    shape: Callable[[Shape], Shape]
    is_fp32: bool = False
    is_moved: bool = True
    trace_type: str | None = None

    def type_in_trace(self, dtype: Dtype) -> str:
        """Return the type as a profiler writes it, for an op on ``dtype``."""
        if self.trace_type is not None:
            return self.trace_type
        return TRACE_DTYPE["fp32" if self.is_fp32 else dtype]

    def size_bytes(self, shape: Shape, dtype: Dtype) -> int:
        """Return how many bytes are moved to read or write this once."""
        if not self.is_moved:
            return 0
        return math.prod(self.shape(shape)) * BYTES_PER_ELEMENT["fp32" if self.is_fp32 else dtype]


def _no_shape(_shape: Shape) -> Shape:
    return ()


ARGUMENTS = {
    "activation": Argument(shape=lambda s: s),
    "channel": Argument(shape=lambda s: s[1:2]),
    "channel_stat": Argument(shape=lambda s: s[1:2], is_fp32=True),
    "channel_unread": Argument(shape=lambda s: s[1:2], is_moved=False),
    "feature": Argument(shape=lambda s: s[-1:]),
    "feature_unread": Argument(shape=lambda s: s[-1:], is_moved=False),
    "row_stat": Argument(shape=lambda s: (*s[:-1], 1), is_fp32=True),
    "group_stat": Argument(shape=lambda s: (s[0], GROUPS)),
    "instance_stat": Argument(shape=lambda s: (s[0] * s[1],), is_fp32=True),
    "absent": Argument(shape=_no_shape, is_moved=False, trace_type=""),
    "number": Argument(shape=_no_shape, is_moved=False, trace_type="Scalar"),
    "list": Argument(shape=_no_shape, is_moved=False, trace_type="ScalarList"),
}
"""A channel is the second axis, a feature the last one; ``_stat`` is a statistic such as a mean."""
