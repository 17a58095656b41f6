"""Bytes that the ops of libraries must move, counted from the tensors they carry.

Symbols as in ``normscope.norms.traffic``, and T tokens, hq, hk, hv heads of queries, keys and values, d the
size of a head.
"""
# ruff: noqa: PLR0913 - a formula takes every quantity that it names


def tensors(*, argument_bytes_read: int, argument_bytes_written: int, returned_bytes: int) -> int:
    """Norm of a library, with whatever is fused into it.

    Formula: each tensor argument that is read + each that is written + the tensors that are returned; one
    that is updated in place counts twice

    Assumes: every argument is used as a whole and once, of a table of angles the rows of the positions;
    outputs and scales have their recorded types, returned tensors the size of x; traffic over links between
    GPUs is not counted
    """
    return argument_bytes_read + argument_bytes_written + returned_bytes


def tensors_or_like_inputs(
    *, argument_bytes_read: int, argument_bytes_written: int, normalized_bytes: int, has_output: bool
) -> int:
    """Norm of a library with outputs that a call can leave out.

    Formula: each tensor argument that is read + each that is written; without an output among them, the
    normalized tensors once more

    Assumes: a result that has no argument is as large as what is normalized, be it returned or written in
    place; traffic over links between GPUs is not counted
    """
    implied = 0 if has_output else normalized_bytes
    return argument_bytes_read + argument_bytes_written + implied


def qk_norm_rope(
    *, batch: int, query_heads: int, key_heads: int, head_size: int, x_bytes: int, parameter_bytes: int
) -> int:
    """RMS norm of queries and keys with rotary embedding, in place in one tensor with the values.

    Formula: 2T(hq + hk)·d·sx + weights + positions + one row of the table of angles for each token

    Source: vLLM csrc/fused_qknorm_rope_kernel.cu

    Assumes: the heads of values are not touched; each token has a position of its own, as far as the table
    has rows
    """
    return 2 * batch * (query_heads + key_heads) * head_size * x_bytes + parameter_bytes


def qk_norm_rope_cache(
    *,
    batch: int,
    query_heads: int,
    key_heads: int,
    value_heads: int,
    head_size: int,
    x_bytes: int,
    cache_bytes: int,
    argument_bytes_read: int,
    argument_bytes_written: int,
    has_output: bool,
) -> int:
    """RMS norm of queries and keys with rotary embedding that writes keys and values to their cache.

    Formula: queries, keys, values, weights, positions, slots and looked-up angles read + T·hq·d·sx
    + T(hk + hv)·d·sc + the other outputs; sc the element size of the cache

    Source: AITER aiter/ops/fused_qk_norm_rope_cache_quant.py

    Assumes: queries are written in place where they have no tensor of their own; every token has a slot;
    scales of a quantized cache are small and not counted
    """
    queries = 0 if has_output else batch * query_heads * head_size * x_bytes
    cached = batch * (key_heads + value_heads) * head_size * cache_bytes
    return argument_bytes_read + argument_bytes_written + queries + cached


def ln_modulate_backward(
    *, argument_bytes_read: int, elements: int, x_bytes: int, modulation_bytes: int
) -> int:
    """Backward of a layer norm with modulation, y = norm(x)(1 + scale) + shift.

    Formula: E(sdy+sx) + 2R·a + scale, read + E·sx + 2·scale, written

    Source: AMD Primus, primus::fused_ln_modulate_backward

    Assumes: the gradients of scale and shift have the size and type of scale
    """
    return argument_bytes_read + elements * x_bytes + 2 * modulation_bytes
