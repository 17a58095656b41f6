"""Bytes that a normalization call must move: every input read once, every output written once.

These are lower bounds, the compulsory traffic between memory and a kernel with a perfect cache; batch norm in
training and group norm really read ``x`` twice. A parameter ``*_bytes`` is the size of one element of that
tensor, and 0 where the call has no such tensor. Symbols in the formulas: E elements of x, R rows, N elements
per row, B batch, C channels, G groups; s the element size of the tensor in its index (x, y, dy, w weight,
b bias, r running statistics), a that of the saved statistics; m0, m1, m2 the output mask: dx, dweight, dbias.

The paragraphs ``Formula:``, ``Source:`` and ``Assumes:`` of each docstring are printed in the report.
"""
# ruff: noqa: PLR0913 - a formula takes every quantity that it names


def batch_norm(
    *,
    elements: int,
    channels: int,
    x_bytes: int,
    y_bytes: int,
    weight_bytes: int,
    bias_bytes: int,
    running_mean_bytes: int,
    running_var_bytes: int,
    statistic_bytes: int,
    training: bool,
) -> int:
    """Batch norm forward.

    Formula: training E(sx+sy) + C(sw+sb) + 2C·a + 4C·sr; evaluation E(sx+sy) + C(sw+sb) + 2C·sr

    Source: PyTorch native/Normalization.cpp and native/cuda/Normalization.cu; schemas in
    native_functions.yaml

    Assumes: training writes mean and inverse deviation, and reads and writes running statistics
    where there are any
    """
    activations = elements * (x_bytes + y_bytes) + channels * (weight_bytes + bias_bytes)
    running = channels * (running_mean_bytes + running_var_bytes)
    if training:
        return activations + 2 * channels * statistic_bytes + 2 * running
    return activations + running


def batch_norm_backward(
    *,
    elements: int,
    channels: int,
    dy_bytes: int,
    x_bytes: int,
    weight_bytes: int,
    running_mean_bytes: int,
    running_var_bytes: int,
    save_mean_bytes: int,
    save_invstd_bytes: int,
    training: bool,
    needs_dx: bool,
    needs_dweight: bool,
    needs_dbias: bool,
) -> int:
    """Batch norm backward.

    Formula: training E(sdy+sx) + m0·E·sx + C·sw + 2C·a + (m1+m2)C·sw;
    evaluation E·sdy + m1·E·sx + m0·E·sx + C·sw + C·sr + m1·C·sr + (m1+m2)C·sw

    Source: PyTorch native/cuda/Normalization.cu; schemas in native_functions.yaml and derivatives.yaml

    Assumes: cuDNN and MIOpen run their own backward in training only and compute all three gradients
    """
    dx = needs_dx * elements * x_bytes
    parameters = channels * weight_bytes * (1 + needs_dweight + needs_dbias)
    if training:
        statistics = channels * (save_mean_bytes + save_invstd_bytes)
        return elements * (dy_bytes + x_bytes) + dx + parameters + statistics
    x_read = needs_dweight * elements * x_bytes
    statistics = channels * (running_var_bytes + needs_dweight * running_mean_bytes)
    return elements * dy_bytes + x_read + dx + parameters + statistics


def instance_norm(
    *,
    elements: int,
    batch: int,
    channels: int,
    x_bytes: int,
    y_bytes: int,
    weight_bytes: int,
    bias_bytes: int,
    running_mean_bytes: int,
    running_var_bytes: int,
    statistic_bytes: int,
    training: bool,
) -> int:
    """Instance norm forward.

    Formula: input statistics E(sx+sy) + C(sw+sb) + 2BC·a + 4C·sr;
    running statistics E(sx+sy) + C(sw+sb) + 2C·sr

    Source: PyTorch native/Normalization.cpp (repeats the parameters, then calls batch norm on [1, B·C, ...])

    Assumes: the copies of repeated parameters are the implementation's and are not counted
    """
    activations = elements * (x_bytes + y_bytes) + channels * (weight_bytes + bias_bytes)
    running = channels * (running_mean_bytes + running_var_bytes)
    if training:
        return activations + 2 * batch * channels * statistic_bytes + 2 * running
    return activations + running


def layer_norm(
    *,
    elements: int,
    rows: int,
    normalized: int,
    x_bytes: int,
    y_bytes: int,
    weight_bytes: int,
    bias_bytes: int,
    statistic_bytes: int,
) -> int:
    """Layer norm forward.

    Formula: E(sx+sy) + N(sw+sb) + 2R·a

    Source: PyTorch native/cuda/layer_norm_kernel.cu; schema in native_functions.yaml

    Assumes: mean and inverse deviation are always written, in inference too
    """
    activations = elements * (x_bytes + y_bytes)
    return activations + normalized * (weight_bytes + bias_bytes) + 2 * rows * statistic_bytes


def layer_norm_backward(
    *,
    elements: int,
    rows: int,
    normalized: int,
    dy_bytes: int,
    x_bytes: int,
    weight_bytes: int,
    save_mean_bytes: int,
    save_invstd_bytes: int,
    needs_dx: bool,
    needs_dweight: bool,
    needs_dbias: bool,
) -> int:
    """Layer norm backward.

    Formula: E(sdy+sx) + m0·E·sx + 2R·a + N·sw + (m1+m2)N·sw

    Source: PyTorch native/cuda/layer_norm_kernel.cu; derivatives.yaml

    Assumes: the weight is read whatever the mask, the bias never
    """
    activations = elements * (dy_bytes + x_bytes + needs_dx * x_bytes)
    parameters = normalized * weight_bytes * (1 + needs_dweight + needs_dbias)
    return activations + rows * (save_mean_bytes + save_invstd_bytes) + parameters


def group_norm(
    *,
    elements: int,
    batch: int,
    groups: int,
    channels: int,
    x_bytes: int,
    y_bytes: int,
    weight_bytes: int,
    bias_bytes: int,
    group_statistic_bytes: int,
) -> int:
    """Group norm forward.

    Formula: E(sx+sy) + C(sw+sb) + 2BG·a

    Source: PyTorch native/cuda/group_norm_kernel.cu; schema in native_functions.yaml

    Assumes: statistics have the type of x, or fp32 where the weight is fp32 and x is 16 bits wide
    """
    activations = elements * (x_bytes + y_bytes) + channels * (weight_bytes + bias_bytes)
    return activations + 2 * batch * groups * group_statistic_bytes


def group_norm_backward(
    *,
    elements: int,
    batch: int,
    groups: int,
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
    """Group norm backward.

    Formula: E(sdy+sx) + m0·E·sx + 2BG·a + C·sw + (m1+m2)C·sw

    Source: PyTorch native/cuda/group_norm_kernel.cu; derivatives.yaml

    Assumes: the weight is read whatever the mask
    """
    activations = elements * (dy_bytes + x_bytes + needs_dx * x_bytes)
    parameters = channels * weight_bytes * (1 + needs_dweight + needs_dbias)
    return activations + batch * groups * (save_mean_bytes + save_invstd_bytes) + parameters


def rms_norm(
    *,
    elements: int,
    rows: int,
    normalized: int,
    x_bytes: int,
    y_bytes: int,
    weight_bytes: int,
    statistic_bytes: int,
) -> int:
    """RMS norm forward.

    Formula: E(sx+sy) + N·sw + R·a

    Source: PyTorch native/cuda/layer_norm_kernel.cu (RMS form); schema in native_functions.yaml

    Assumes: the inverse root mean square is written; the unfused form is held to the same bytes
    """
    return elements * (x_bytes + y_bytes) + normalized * weight_bytes + rows * statistic_bytes


def rms_norm_backward(
    *,
    elements: int,
    rows: int,
    normalized: int,
    dy_bytes: int,
    x_bytes: int,
    weight_bytes: int,
    save_invstd_bytes: int,
    needs_dx: bool,
    needs_dweight: bool,
) -> int:
    """RMS norm backward.

    Formula: E(sdy+sx) + m0·E·sx + R·a + N·sw + m1·N·sw

    Source: PyTorch native/cuda/layer_norm_kernel.cu (RMS form); derivatives.yaml

    Assumes: the weight is read whatever the mask
    """
    activations = elements * (dy_bytes + x_bytes + needs_dx * x_bytes)
    parameters = normalized * weight_bytes * (1 + needs_dweight)
    return activations + rows * save_invstd_bytes + parameters
