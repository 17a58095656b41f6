"""Bytes that the norms of training libraries must move; symbols as in ``normscope.norms.traffic``."""
# ruff: noqa: PLR0913 - a formula takes every quantity that it names

from normscope.norms import traffic

_STATISTIC_BYTES = 4


def fused_norm(
    *, argument_bytes_read: int, elements: int, rows: int, x_bytes: int, residual_bytes: int, is_rms: bool
) -> int:
    """Layer norm or RMS norm of a library, with a residual or a gate where the call has one.

    Formula: each tensor argument, read + E·sx + E·s of the residual + R·a, or 2R·a for layer norm, written

    Assumes: the output has the type of x; the sum with the residual is written in the residual's type; no
    dropout mask is kept
    """
    return argument_bytes_read + elements * (x_bytes + residual_bytes) + _statistics(rows, is_rms=is_rms)


def norm_into_arguments(
    *, argument_bytes_read: int, argument_bytes_written: int, rows: int, is_rms: bool
) -> int:
    """Layer norm or RMS norm that writes its outputs to arguments and returns its statistics.

    Formula: each tensor argument that is read + each that is written + R·a, or 2R·a for layer norm

    Assumes: no dropout mask is kept
    """
    return argument_bytes_read + argument_bytes_written + _statistics(rows, is_rms=is_rms)


def mixed_norm(
    *,
    elements: int,
    rows: int,
    normalized: int,
    x_bytes: int,
    weight_bytes: int,
    bias_bytes: int,
    is_rms: bool,
) -> int:
    """Layer norm or RMS norm whose output has the type of the weight.

    Formula: E(sx+sw) + N(sw+sb) + R·a, or 2R·a for layer norm

    Assumes: mean and inverse deviation are always written
    """
    activations = elements * (x_bytes + weight_bytes)
    return activations + normalized * (weight_bytes + bias_bytes) + _statistics(rows, is_rms=is_rms)


def fused_norm_backward(
    *,
    elements: int,
    rows: int,
    normalized: int,
    dy_bytes: int,
    x_bytes: int,
    weight_bytes: int,
    bias_bytes: int,
    save_mean_bytes: int,
    save_invstd_bytes: int,
    dresidual_bytes: int,
    gate_bytes: int,
    needs_dx: bool,
    needs_dweight: bool,
    needs_dbias: bool,
) -> int:
    """Backward of a layer norm or RMS norm with a residual or a gate.

    Formula: E(sdy+sx) + m0·E·sx + E·s of the residual's gradient + 2E·s of the gate + R·a, or 2R·a for layer
    norm, + N·sw + m1·N·sw + m2·N·sb

    Assumes: the gradient that goes on to the residual is dx itself; the gate is read and its gradient
    written; the weight is read whatever the mask, the bias never
    """
    activations = elements * (dy_bytes + x_bytes + needs_dx * x_bytes + dresidual_bytes + 2 * gate_bytes)
    parameters = normalized * (weight_bytes * (1 + needs_dweight) + bias_bytes * needs_dbias)
    return activations + rows * (save_mean_bytes + save_invstd_bytes) + parameters


def add_batch_norm(
    *,
    elements: int,
    channels: int,
    x_bytes: int,
    y_bytes: int,
    residual_bytes: int,
    weight_bytes: int,
    bias_bytes: int,
    running_mean_bytes: int,
    running_var_bytes: int,
    statistic_bytes: int,
    training: bool,
) -> int:
    """Batch norm forward that adds a second input to its output.

    Formula: batch norm, and E·s of the second input more

    Assumes: the bit mask of the activation that follows is not counted
    """
    plain = traffic.batch_norm(
        elements=elements,
        channels=channels,
        x_bytes=x_bytes,
        y_bytes=y_bytes,
        weight_bytes=weight_bytes,
        bias_bytes=bias_bytes,
        running_mean_bytes=running_mean_bytes,
        running_var_bytes=running_var_bytes,
        statistic_bytes=statistic_bytes,
        training=training,
    )
    return plain + elements * residual_bytes


def group_norm_sums(
    *,
    elements: int,
    batch: int,
    groups: int,
    channels: int,
    x_bytes: int,
    y_bytes: int,
    weight_bytes: int,
    bias_bytes: int,
) -> int:
    """Group norm forward that keeps two fp32 sums a group.

    Formula: E(sx+sy) + C(sw+sb) + 2BG·a

    Assumes: the sums are written once
    """
    activations = elements * (x_bytes + y_bytes) + channels * (weight_bytes + bias_bytes)
    return activations + 2 * batch * groups * _STATISTIC_BYTES


def _statistics(rows: int, *, is_rms: bool) -> int:
    return rows * _STATISTIC_BYTES * (1 if is_rms else 2)
