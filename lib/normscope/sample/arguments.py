"""The words that describe the tensors of an op: which shape and type each has."""

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
    """One kind of tensor; ``shape`` maps the shape of the activation to its own.

    It has the data type of the op, or fp32 where ``is_fp32``.
    """

    shape: Callable[[Shape], Shape]
    is_fp32: bool = False

    def type_in_trace(self, dtype: Dtype) -> str:
        """Return the type as a profiler writes it, for an op on ``dtype``."""
        return TRACE_DTYPE[self._dtype(dtype)]

    def size_bytes(self, shape: Shape, dtype: Dtype) -> int:
        """Return the size for an op on an activation of ``shape`` and ``dtype``."""
        return math.prod(self.shape(shape)) * BYTES_PER_ELEMENT[self._dtype(dtype)]

    def _dtype(self, dtype: Dtype) -> Dtype:
        return "fp32" if self.is_fp32 else dtype


ARGUMENTS = {
    "activation": Argument(shape=lambda s: s),
    "activation_fp32": Argument(shape=lambda s: s, is_fp32=True),
    "channel": Argument(shape=lambda s: s[1:2]),
    "channel_stat": Argument(shape=lambda s: s[1:2], is_fp32=True),
    "feature": Argument(shape=lambda s: s[-1:]),
    "row_stat": Argument(shape=lambda s: (*s[:-1], 1), is_fp32=True),
    "group_stat": Argument(shape=lambda s: (s[0], GROUPS)),
}
"""A channel is the second axis, a feature the last one; ``_stat`` is a statistic such as a mean."""
