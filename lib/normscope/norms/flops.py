"""Floating-point operations of a normalization call: one per addition, subtraction and multiplication.

Divisions by a count and the added epsilon cost one each per statistic; square roots are not counted. Symbols
as in ``normscope.norms.traffic``. All norms lie far below what a GPU can compute per byte, so bytes decide
the roofline. The paragraph ``FLOPs:`` of each docstring is printed in the report.
"""

# ruff: noqa: PLR0913 - a formula takes every quantity that it names

_PER_VARIANCE = 3  # scale the sum, scale the sum of squares, add epsilon
_PER_MEAN_SQUARE = 2  # scale the sum of squares, add epsilon


def batch_norm(*, elements: int, channels: int, training: bool) -> int:
    """Batch norm forward; weight and bias are folded into the statistics, per channel.

    FLOPs: training 4E + 2E + 3C (mean E; subtract, square, add 3E; scale and shift 2E); evaluation 2E
    """
    return 6 * elements + _PER_VARIANCE * channels if training else 2 * elements


def batch_norm_backward(
    *, elements: int, training: bool, needs_dx: bool, needs_dweight: bool, needs_dbias: bool
) -> int:
    """Batch norm backward.

    FLOPs: training 9E, with both parameter gradients as by-products; evaluation m0·E + m1·2E + m2·E;
    training without dx m1·2E + m2·E
    """
    if training and needs_dx:
        return 9 * elements
    return elements * (needs_dx + 2 * needs_dweight + needs_dbias)


def instance_norm(*, elements: int, batch: int, channels: int, training: bool) -> int:
    """Instance norm forward.

    FLOPs: input statistics 6E + 3BC; running statistics 2E
    """
    return 6 * elements + _PER_VARIANCE * batch * channels if training else 2 * elements


def layer_norm(*, elements: int, rows: int, has_weight: bool, has_bias: bool) -> int:
    """Layer norm forward.

    FLOPs: 4E + 2E + 3R, E more with a weight, E more with a bias
    """
    return elements * (6 + has_weight + has_bias) + _PER_VARIANCE * rows


def layer_norm_backward(
    *, elements: int, has_weight: bool, needs_dx: bool, needs_dweight: bool, needs_dbias: bool
) -> int:
    """Layer norm and group norm backward.

    FLOPs: m0·9E, E more with a weight, m1·2E, m2·E
    """
    return elements * (needs_dx * (9 + has_weight) + 2 * needs_dweight + needs_dbias)


def group_norm(*, elements: int, batch: int, groups: int) -> int:
    """Group norm forward; weight and bias are folded into the statistics, per sample and channel.

    FLOPs: 6E + 3BG
    """
    return 6 * elements + _PER_VARIANCE * batch * groups


def rms_norm(*, elements: int, rows: int, has_weight: bool) -> int:
    """RMS norm forward.

    FLOPs: 2E + E + 2R, E more with a weight
    """
    return elements * (3 + has_weight) + _PER_MEAN_SQUARE * rows


def rms_norm_backward(*, elements: int, has_weight: bool, needs_dx: bool, needs_dweight: bool) -> int:
    """RMS norm backward.

    FLOPs: m0·7E, E more with a weight, m1·2E
    """
    return elements * (needs_dx * (7 + has_weight) + 2 * needs_dweight)


def library_rms_norm(*, elements: int, rows: int, has_weight: bool, has_residual: bool) -> int:
    """RMS norm of an inference library.

    FLOPs: 2E + E + 2R, E more with a weight, E more with a residual
    """
    return elements * (3 + has_weight + has_residual) + _PER_MEAN_SQUARE * rows


def library_norm(
    *, elements: int, rows: int, has_weight: bool, has_bias: bool, has_residual: bool, is_rms: bool
) -> int:
    """Layer norm or RMS norm of a library.

    FLOPs: layer norm 4E + 2E + 3R, RMS norm 2E + E + 2R; E more each with a weight, a bias, a residual
    """
    plain = (3 if is_rms else 6) + has_weight + has_bias + has_residual
    return elements * plain + (_PER_MEAN_SQUARE if is_rms else _PER_VARIANCE) * rows


def library_norm_backward(
    *, elements: int, has_weight: bool, is_rms: bool, needs_dx: bool, needs_dweight: bool, needs_dbias: bool
) -> int:
    """Layer norm or RMS norm backward of a library.

    FLOPs: m0·9E, for RMS norm m0·7E, E more with a weight, m1·2E, m2·E
    """
    dx = (7 if is_rms else 9) + has_weight
    return elements * (needs_dx * dx + 2 * needs_dweight + needs_dbias)


def sync_stats(*, elements: int, channels: int) -> int:
    """Statistics of synchronized batch norm.

    FLOPs: 4E + 3C
    """
    return 4 * elements + _PER_VARIANCE * channels


def sync_apply(*, elements: int) -> int:
    """Elementwise part of synchronized batch norm.

    FLOPs: 2E
    """
    return 2 * elements


def sync_reduce_backward(*, elements: int) -> int:
    """Reductions of the backward of synchronized batch norm.

    FLOPs: 4E (add dy; subtract the mean, multiply, add)
    """
    return 4 * elements


def sync_apply_backward(*, elements: int) -> int:
    """Elementwise part of the backward of synchronized batch norm.

    FLOPs: 5E
    """
    return 5 * elements
