"""What the names of ops and kernels tell: the norm variant, the direction and the library."""

import re
from collections.abc import Sequence
from functools import lru_cache

from normscope.analysis.models import Direction, Variant

# Op name, lower case, without underscores → variant; the first match counts.
_VARIANTS: tuple[tuple[str, Variant], ...] = (
    ("rmsnorm", "RMSNorm"),
    ("batchnorm", "BatchNorm"),
    ("layernorm", "LayerNorm"),
    ("groupnorm", "GroupNorm"),
    ("instancenorm", "InstanceNorm"),
)

_LIBRARY_BY_OP: tuple[tuple[str, str], ...] = (
    ("aiter::", "AITER"),
    ("rocm_aiter", "AITER"),
    ("fbgemm", "FBGEMM"),
    ("miopen", "MIOpen"),
    ("triton", "Triton"),
)

_LIBRARY_BY_KERNEL: tuple[tuple[str, str], ...] = (
    ("aiter", "AITER"),
    ("ck_tile::", "CK"),
    ("ck_tile6kentry", "CK"),
    ("FmhaFwd", "CK"),
    ("FmhaBwd", "CK"),
    ("Cijk_", "Tensile"),
    ("wvSplitK", "rocBLAS"),
    ("splitKreduce", "rocBLAS"),
    ("rocprim::", "rocPRIM"),
    ("triton_", "Triton"),
    ("void at::native::", "PyTorch Native"),
)

_KERNEL_NAME = re.compile(r"'name': '([^']*)'")
_BACKWARD = re.compile(r"(?:^|[^a-z])(?:bwd|backward)(?:[^a-z]|$)")
_FORWARD = re.compile(r"(?:^|[^a-z])(?:fwd|forward)(?:[^a-z]|$)")


@lru_cache(maxsize=1024)
def norm_variant(op_name: str) -> Variant:
    """Return the norm variant that an op's name spells.

    Examples
    --------
    >>> norm_variant("aten::native_batch_norm_backward"), norm_variant("aten::linear")
    ('BatchNorm', 'Other')
    """
    plain = op_name.lower().replace("_", "")
    return next((variant for part, variant in _VARIANTS if part in plain), "Other")


@lru_cache(maxsize=1024)
def norm_direction(name: str) -> Direction:
    """Return the direction that the name of an op or a category spells.

    Examples
    --------
    >>> norm_direction("norm_bwd"), norm_direction("aten::layer_norm")
    ('backward', 'unknown')
    """
    plain = name.lower()
    if _BACKWARD.search(plain):
        return "backward"
    return "forward" if _FORWARD.search(plain) else "unknown"


@lru_cache(maxsize=1024)
def kernel_names(kernel_details: str | None) -> tuple[str, ...]:
    """Return the kernel names in a ``kernel_details_summary`` cell, in its order."""
    return tuple(_KERNEL_NAME.findall(kernel_details)) if kernel_details else ()


@lru_cache(maxsize=1024)
def _library_of_op(op_name: str) -> str | None:
    plain = op_name.lower()
    return next((library for part, library in _LIBRARY_BY_OP if part in plain), None)


def _library_of_kernels(kernels: Sequence[str]) -> str | None:
    every_name = "\n".join(kernels)
    for part, library in _LIBRARY_BY_KERNEL:
        if part in every_name:
            return library
    return None


def norm_library(op_name: str, kernels: Sequence[str]) -> str | None:
    """Return the library behind an op, told by the op's name, else by its kernels, else ``None``."""
    return _library_of_op(op_name) or _library_of_kernels(kernels)
