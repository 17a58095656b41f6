"""The ``args`` text of an operation: ``(d0,d1) dtype`` per argument."""

from functools import lru_cache

from normscope.inputs.literals import parse_literal

_SHORT_DTYPE = {
    "float": "fp32",
    "double": "fp64",
    "c10::Half": "fp16",
    "c10::BFloat16": "bf16",
    "c10::Float8_e4m3fnuz": "fp8",
    "c10::Float8_e4m3fn": "fp8",
    "unsigned char": "fp8",
    "c10::Float4_e2m1fn_x2": "fp4",
}
_TYPES_OF_NO_TENSOR = ("", "Scalar")


@lru_cache(maxsize=4096)
def render_arguments(dims_text: str | None, types_text: str | None) -> str | None:
    """Return the arguments of an op as the contract writes them, ``None`` where they can't be told.

    Parameters
    ----------
    dims_text, types_text
        The ``Input Dims`` and ``Input type`` cells: Python literals of equal length.

    Examples
    --------
    >>> render_arguments("((8, 768), (768,), ())", "('c10::BFloat16', 'float', 'Scalar')")
    '(8,768) bf16<br>(768,) fp32'
    """
    if dims_text is None or types_text is None:
        return None
    dims, types = parse_literal(dims_text), parse_literal(types_text)
    if not isinstance(dims, list | tuple) or not isinstance(types, list | tuple):
        return None
    parts = [_argument(d, t) for d, t in zip(dims, types, strict=False)]
    return "<br>".join(filter(None, parts)) or None


def _argument(shape: object, dtype: object) -> str | None:
    if not shape and dtype in _TYPES_OF_NO_TENSOR:
        return None
    short = _SHORT_DTYPE.get(dtype, dtype) if isinstance(dtype, str) else dtype
    return f"{_shape_text(shape)} {short}".strip()


def _shape_text(shape: object) -> str:
    if not isinstance(shape, list | tuple):
        return "()"
    inner = ",".join(map(str, shape))
    return f"({inner},)" if len(shape) == 1 else f"({inner})"
