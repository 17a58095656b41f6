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
_SCALAR = "Scalar"


@lru_cache(maxsize=1024)
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
    dims, dtypes = parse_literal(dims_text), _short_dtypes(types_text)
    if not isinstance(dims, list | tuple) or dtypes is None:
        return None
    parts = [
        f"{_shape_text(shape)} {dtype}" if dtype else _shape_text(shape)
        for shape, dtype in zip(dims, dtypes, strict=False)
        if shape or (dtype and dtype != _SCALAR)
    ]
    return "<br>".join(parts) or None


@lru_cache(maxsize=1024)
def _short_dtypes(types_text: str) -> list[object] | None:
    types = parse_literal(types_text)
    if not isinstance(types, list | tuple):
        return None
    return [_SHORT_DTYPE.get(dtype, dtype) if isinstance(dtype, str) else dtype for dtype in types]


def _shape_text(shape: object) -> str:
    if not isinstance(shape, list | tuple):
        return "()"
    if len(shape) == 1:
        return f"({shape[0]},)"
    return f"({','.join(map(str, shape))})"
