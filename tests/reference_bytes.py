"""Bytes of a norm call by hand: as the reference counts them, as they are, and which mistakes lie between.

``s`` is the size of an element of x, ``size[i]`` that of argument ``i``, 0 where it is absent. Statistics are
fp32 in batch, layer and RMS norm. The mistakes are numbered as in the review of the reference.
"""

import ast
import math
from collections.abc import Callable
from typing import Any, NamedTuple

SIZES = {"float": 4, "c10::BFloat16": 2, "c10::Half": 2, "": 0, "Scalar": 0, "ScalarList": 0}
FP32 = 4


class Call(NamedTuple):
    """What the formulas need of a row of the reference."""

    dims: list[tuple[int, ...]]
    size: list[int]
    values: list[str]

    def mask(self, argument: int) -> list[bool]:
        found: list[bool] = ast.literal_eval(self.values[argument])
        return found

    def normalized(self, argument: int) -> int:
        return math.prod(ast.literal_eval(self.values[argument]))


class Bytes(NamedTuple):
    """Both counts, and the mistakes that explain the difference."""

    reference: int
    right: int
    mistakes: str


def call_of(row: dict[str, Any]) -> Call:
    """Return what a row of the reference records of its arguments."""
    types = ast.literal_eval(row["input_type"])
    return Call(
        dims=list(ast.literal_eval(row["input_dims"])),
        size=[SIZES[name] for name in types],
        values=list(ast.literal_eval(row["concrete_inputs"])),
    )


def batch_norm(call: Call) -> Bytes:
    x, size = call.dims[0], call.size
    elements, channels, s = math.prod(x), x[1], size[0]
    assert call.values[5] == "True"
    return Bytes(
        reference=(2 * elements + 6 * channels) * s,
        right=2 * elements * s
        + channels * (size[1] + size[2])
        + 2 * channels * FP32
        + 2 * channels * (size[3] + size[4]),
        mistakes="M1 M5: absent weight and bias; M9: fp32 statistics; M10: saved and running statistics",
    )


def instance_norm(call: Call) -> Bytes:
    x, size = call.dims[0], call.size
    elements, samples, channels, s = math.prod(x), x[0], x[1], size[0]
    return Bytes(
        reference=(2 * elements + 6 * channels) * s,
        right=2 * elements * s
        + channels * (size[1] + size[2])
        + 2 * samples * channels * FP32
        + 2 * channels * (size[3] + size[4]),
        mistakes="M1 M5: absent weight and bias; M8: one statistic for each sample and channel",
    )


def layer_norm(call: Call) -> Bytes:
    elements, normalized, size = math.prod(call.dims[0]), call.normalized(1), call.size
    rows, s = elements // normalized, size[0]
    return Bytes(
        reference=(2 * elements + 6 * normalized) * s,
        right=2 * elements * s + normalized * (size[2] + size[3]) + 2 * rows * FP32,
        mistakes="M1: absent weight and bias; M6: two statistics a row, none that run; M9: in fp32",
    )


def group_norm(call: Call) -> Bytes:
    x, size, groups = call.dims[0], call.size, int(call.values[1])
    elements, samples, channels, s = math.prod(x), x[0], x[1], size[0]
    return Bytes(
        reference=(2 * elements + 6 * channels) * s,
        right=2 * elements * s + channels * (size[2] + size[3]) + 2 * samples * groups * s,
        mistakes="M1 M5: absent weight and bias; M7: two statistics for each sample and group",
    )


def aiter_group_norm(call: Call) -> Bytes:
    x, size = call.dims[0], call.size
    elements, channels, s = math.prod(x), x[1], size[0]
    return Bytes(
        reference=(2 * elements + 6 * channels) * s,
        right=2 * elements * s + channels * (size[2] + size[3]),
        mistakes="M7: statistics that this kernel doesn't keep",
    )


def rms_norm(call: Call) -> Bytes:
    elements, normalized, size = math.prod(call.dims[0]), call.normalized(1), call.size
    rows, s = elements // normalized, size[0]
    return Bytes(
        reference=(2 * elements + normalized) * s,
        right=2 * elements * s + normalized * size[2] + rows * FP32,
        mistakes="M1: absent weight; M18: the inverse root mean square of each row",
    )


def native_batch_norm_backward(call: Call) -> Bytes:
    x, size = call.dims[1], call.size
    elements, channels, s = math.prod(x), x[1], size[1]
    dx, dweight, dbias = call.mask(9)
    assert call.values[7] == "True"
    assert dx
    return Bytes(
        reference=(3 * elements + 4 * channels) * s,
        right=3 * elements * s + channels * size[2] * (1 + dweight + dbias) + channels * (size[5] + size[6]),
        mistakes="M1: absent weight; M9: fp32 statistics; M12: the output mask; M13: the mean is read, too",
    )


def miopen_batch_norm_backward(call: Call) -> Bytes:
    x, size = call.dims[0], call.size
    elements, channels, s = math.prod(x), x[1], size[0]
    return Bytes(
        reference=(2 * elements + channels) * s,
        right=3 * elements * s + 3 * channels * size[2] + channels * (size[5] + size[6]),
        mistakes="M4: it runs in training only, so x is read and both parameter gradients are written",
    )


def native_layer_norm_backward(call: Call) -> Bytes:
    elements, normalized, size = math.prod(call.dims[1]), call.normalized(2), call.size
    rows, s = elements // normalized, size[1]
    dx, dweight, dbias = call.mask(7)
    assert dx
    return Bytes(
        reference=(3 * elements + normalized + 3 * normalized * dweight) * s,
        right=3 * elements * s + normalized * size[5] * (1 + dweight + dbias) + rows * (size[3] + size[4]),
        mistakes="M6 M17: two statistics a row and not one for each element of the weight",
    )


def native_group_norm_backward(call: Call) -> Bytes:
    x, size, groups = call.dims[1], call.size, int(call.values[8])
    elements, samples, channels, s = math.prod(x), x[0], x[1], size[1]
    dx, dweight, dbias = call.mask(9)
    assert dx
    return Bytes(
        reference=(3 * elements + 4 * channels // groups) * s,
        right=3 * elements * s
        + channels * size[4] * (1 + dweight + dbias)
        + samples * groups * (size[2] + size[3]),
        mistakes="M5: the weight is argument 4; M7: C weights, and two statistics for each sample and group",
    )


def fused_rms_norm_backward(call: Call) -> Bytes:
    elements, normalized, size = math.prod(call.dims[1]), call.normalized(2), call.size
    rows, s = elements // normalized, size[1]
    dx, dweight = call.mask(5)
    assert dx
    return Bytes(
        reference=(3 * elements + 2 * normalized) * s,
        right=3 * elements * s + normalized * size[4] * (1 + dweight) + rows * size[3],
        mistakes="M1: absent weight and its gradient; M18: the inverse root mean square of each row",
    )


def aiter_rms_norm(call: Call) -> Bytes:
    """Nothing to correct: x, y and the weight, and with a residual twice as many activations."""
    activations = [math.prod(shape) for shape in call.dims if len(shape) > 1]
    weight = next(shape for shape in call.dims if len(shape) == 1)
    right = (sum(activations) + math.prod(weight)) * call.size[0]
    return Bytes(right, right, "")


BY_OP: dict[str, Callable[[Call], Bytes]] = {
    "aten::batch_norm": batch_norm,
    "aten::instance_norm": instance_norm,
    "aten::layer_norm": layer_norm,
    "aten::group_norm": group_norm,
    "aten::_fused_rms_norm": rms_norm,
    "aten::native_batch_norm_backward": native_batch_norm_backward,
    "aten::miopen_batch_norm_backward": miopen_batch_norm_backward,
    "aten::native_layer_norm_backward": native_layer_norm_backward,
    "aten::native_group_norm_backward": native_group_norm_backward,
    "aten::_fused_rms_norm_backward": fused_rms_norm_backward,
    "aiter::_groupnorm_run": aiter_group_norm,
    "aiter::rmsnorm": aiter_rms_norm,
    "aiter::add_rmsnorm": aiter_rms_norm,
}
