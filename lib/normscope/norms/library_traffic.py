"""Bytes that the ops of libraries must move, counted from the tensors they carry."""
# ruff: noqa: PLR0913 - a formula takes every quantity that it names


def tensors(*, argument_bytes_read: int, argument_bytes_written: int, returned_bytes: int) -> int:
    """Norm of a library, with whatever is fused into it.

    Formula: each tensor argument that is read + each that is written + the tensors that are returned; one
    that is updated in place counts twice

    Assumes: every argument is used as a whole and once; returned tensors have the size and type of x
    """
    return argument_bytes_read + argument_bytes_written + returned_bytes


def qk_norm_rope(
    *, rows: int, query_heads: int, key_heads: int, head_size: int, qkv_bytes: int, parameter_bytes: int
) -> int:
    """RMS norm of queries and keys with rotary embedding, in place in one tensor with the values.

    Formula: 2·R·(hq + hk)·d·s + weights and the table of angles, once

    Source: vLLM csrc/torch_bindings.cpp

    Assumes: of each of the R rows the hq query heads and hk key heads of size d are read and written, the
    values are not touched
    """
    return 2 * rows * (query_heads + key_heads) * head_size * qkv_bytes + parameter_bytes
