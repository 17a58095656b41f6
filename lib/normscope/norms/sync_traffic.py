"""Bytes that the pieces of synchronized batch norm must move; symbols as in ``normscope.norms.traffic``."""
# ruff: noqa: PLR0913 - a formula takes every quantity that it names


def sync_stats(
    *,
    elements: int,
    channels: int,
    x_bytes: int,
    running_mean_bytes: int,
    running_var_bytes: int,
    statistic_bytes: int,
) -> int:
    """Statistics of synchronized batch norm, local to one GPU.

    Formula: E·sx + 2C·a, and 4C·sr more where running statistics are updated

    Source: PyTorch nn/modules/_functions.py; schemas in native_functions.yaml

    Assumes: mean and inverse deviation are written
    """
    running = channels * (running_mean_bytes + running_var_bytes)
    return elements * x_bytes + 2 * channels * statistic_bytes + 2 * running


def sync_gather(
    *,
    gathered_tensor_bytes: int,
    channels: int,
    running_mean_bytes: int,
    running_var_bytes: int,
    statistic_bytes: int,
) -> int:
    """Statistics of synchronized batch norm, combined over all GPUs.

    Formula: the gathered means, inverse deviations and counts + 2C·a + 4C·sr

    Source: PyTorch nn/modules/_functions.py; schemas in native_functions.yaml

    Assumes: x is passed for its type only
    """
    running = channels * (running_mean_bytes + running_var_bytes)
    return gathered_tensor_bytes + 2 * channels * statistic_bytes + 2 * running


def sync_apply(
    *,
    elements: int,
    channels: int,
    x_bytes: int,
    y_bytes: int,
    weight_bytes: int,
    bias_bytes: int,
    save_mean_bytes: int,
    save_invstd_bytes: int,
) -> int:
    """Elementwise part of synchronized batch norm.

    Formula: E(sx+sy) + C(sw+sb) + 2C·a

    Source: PyTorch native/cuda/Normalization.cu; schemas in native_functions.yaml

    Assumes: mean and inverse deviation are read
    """
    statistics = channels * (weight_bytes + bias_bytes + save_mean_bytes + save_invstd_bytes)
    return elements * (x_bytes + y_bytes) + statistics


def sync_reduce_backward(
    *,
    elements: int,
    channels: int,
    dy_bytes: int,
    x_bytes: int,
    weight_bytes: int,
    save_mean_bytes: int,
    save_invstd_bytes: int,
    needs_dx: bool,
    needs_dweight: bool,
    needs_dbias: bool,
) -> int:
    """Reductions of the backward of synchronized batch norm, local to one GPU.

    Formula: E(sdy+sx) + 2C·a + m0·2C·a + (m1+m2)C·sw

    Source: PyTorch native/cuda/Normalization.cu; schemas in native_functions.yaml

    Assumes: the two sums for dx have the type of the statistics
    """
    statistics = channels * (save_mean_bytes + save_invstd_bytes) * (1 + needs_dx)
    return (
        elements * (dy_bytes + x_bytes) + statistics + channels * weight_bytes * (needs_dweight + needs_dbias)
    )


def sync_apply_backward(
    *,
    elements: int,
    channels: int,
    dy_bytes: int,
    x_bytes: int,
    weight_bytes: int,
    save_mean_bytes: int,
    save_invstd_bytes: int,
    gathered_tensor_bytes: int,
) -> int:
    """Elementwise part of the backward of synchronized batch norm.

    Formula: E(sdy+2sx) + C·sw + 2C·a + the two sums and the counts

    Source: PyTorch native/cuda/Normalization.cu; schemas in native_functions.yaml

    Assumes: the sums over all GPUs are read once
    """
    statistics = channels * (weight_bytes + save_mean_bytes + save_invstd_bytes)
    return elements * (dy_bytes + 2 * x_bytes) + statistics + gathered_tensor_bytes
