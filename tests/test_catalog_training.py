"""Each row of PyTorch and of the training libraries on a call with the schema's arguments, bytes by hand."""

from pathlib import Path
from typing import NamedTuple

import pytest

from norm_events import ABSENT, BF16, CATALOG, F32, Argument, recorded
from normscope.norms.calls import NormCall
from normscope.norms.catalog import catalog
from normscope.norms.catalog.catalog import read_rows
from normscope.norms.catalog.rows import NormRow
from normscope.norms.cost import NO_FORWARD, NO_LAYOUT, NO_MODEL, NormCost, norm_cost
from normscope.norms.op_calls import op_calls
from normscope.trace.events import OpArgs
from trace_inputs import Event, kernel, launch, link_events, op

Arguments = tuple[Argument, ...]

# Layer and RMS norm: x of 6 rows by 10, bf16, so E = 60 and 120 B; weight 20 B; an fp32 statistic 24 B.
X, DY, W, STATISTIC = (BF16, [6, 10]), (BF16, [6, 10]), (BF16, [10]), (F32, [6])
SHAPE, EPS, FLAG = "[10]", "1e-05", "False"
LAYER_NORM = 120 + 120 + 20 + 20 + 2 * 24  # x, y, weight, bias, mean and deviation
RMS_NORM = 120 + 120 + 20 + 24  # x, y, weight, deviation
LAYER_NORM_PLAIN, RMS_NORM_PLAIN = 120 + 120 + 2 * 24, 120 + 120 + 24
LAYER_NORM_BACKWARD = 3 * 120 + 2 * 24 + 3 * 20  # dy, x, dx; statistics; weight read, two gradients written
RMS_NORM_BACKWARD = 3 * 120 + 24 + 2 * 20
LAYER_NORM_PLAIN_BACKWARD, RMS_NORM_PLAIN_BACKWARD = 3 * 120 + 2 * 24, 3 * 120 + 24

# Batch norm: x of 2 by 4 channels by 3 by 3, fp32, so E = 72 and 288 B; each vector of 4 channels 16 B.
IMAGE, NHWC, C = (F32, [2, 4, 3, 3]), (F32, [2, 3, 3, 4]), (F32, [4])
TRAINING = 2 * 288 + 2 * 16 + 2 * 16 + 4 * 16  # x, y; weight, bias; statistics saved; running ones updated
EVALUATION = 2 * 288 + 2 * 16 + 2 * 16  # running ones read
BATCH_NORM_BACKWARD = 3 * 288 + 3 * 16 + 2 * 16  # dy, x, dx; weight and two gradients; statistics

# Group norm: x of 2 by 8 channels by 4 in 4 groups, bf16, so E = 64 and 128 B; weight 16 B; 8 statistics.
VOLUME, V = (BF16, [2, 8, 4]), (BF16, [8])
GROUP_NORM = 2 * 128 + 2 * 16 + 2 * 8 * 2  # x, y; weight, bias; statistics in bf16
GROUP_NORM_BACKWARD = 3 * 128 + 3 * 16  # dy, x, dx; weight and two gradients; statistics come on top


class Case(NamedTuple):
    """A call that a row fits, with its bytes, None where they can't be told."""

    row: str
    name: str
    arguments: Arguments
    bytes_moved: int | None
    forward: tuple[str, Arguments] | None = None


NATIVE = (IMAGE, C, C, C, C)
NATIVE_BACKWARD = (IMAGE, IMAGE, C, C, C, C, C, "True", EPS, "[True, True, True]")
PYTORCH = (
    Case("batch-norm-wrapper", "aten::batch_norm", (*NATIVE, "True", "0.1", EPS, FLAG), TRAINING),
    Case("batch-norm-native", "aten::native_batch_norm", (*NATIVE, "False", "0.1", EPS), EVALUATION),
    Case("batch-norm-cudnn", "aten::cudnn_batch_norm", (*NATIVE, "True", "0.1", EPS), TRAINING),
    Case("batch-norm-miopen", "aten::miopen_batch_norm", (*NATIVE, "True", "0.1", EPS), TRAINING),
    Case("batch-norm-legit", "aten::_native_batch_norm_legit", (*NATIVE, "True", "0.1", EPS), TRAINING),
    # no running statistics
    Case(
        "batch-norm-legit-no-stats",
        "aten::_native_batch_norm_legit",
        (IMAGE, C, C, "True", "0.1", EPS),
        TRAINING - 4 * 16,
    ),
    Case("batch-norm-inference", "aten::_batch_norm_no_update", (*NATIVE, "0.1", EPS), EVALUATION),
    # 8-bit x and y
    Case(
        "batch-norm-quantized",
        "aten::quantized_batch_norm",
        (("c10::quint8", [2, 4, 3, 3]), C, C, C, C, EPS, "0.1", "0"),
        2 * 72 + 4 * 16,
    ),
    Case("batch-norm-with-update", "aten::_batch_norm_with_update", (*NATIVE, "0.1", EPS), TRAINING),
    Case(
        "batch-norm-backward-wrapper",
        "aten::_batch_norm_impl_index_backward",
        ("1", IMAGE, IMAGE, C, C, C, C, C, "True", EPS, "[True, True, True]", ("unsigned char", [0])),
        BATCH_NORM_BACKWARD,
    ),
    Case(
        "batch-norm-backward-native", "aten::native_batch_norm_backward", NATIVE_BACKWARD, BATCH_NORM_BACKWARD
    ),
    Case(
        "batch-norm-backward-update",
        "aten::batch_norm_backward",
        (*NATIVE_BACKWARD, ("unsigned char", [0])),
        BATCH_NORM_BACKWARD,
    ),
    Case(
        "batch-norm-backward-cudnn",
        "aten::cudnn_batch_norm_backward",
        (IMAGE, IMAGE, C, C, C, C, C, EPS, ("unsigned char", [0])),
        BATCH_NORM_BACKWARD,
    ),
    Case(
        "batch-norm-backward-miopen",
        "aten::miopen_batch_norm_backward",
        (IMAGE, IMAGE, C, C, C, C, C, EPS),
        BATCH_NORM_BACKWARD,
    ),
    # their bytes are those of the pieces below them
    Case("sync-batch-norm", "SyncBatchNorm", (*NATIVE, EPS, "0.1", "3"), None),
    Case("sync-batch-norm-backward", "SyncBatchNormBackward", (IMAGE,), None),
    # x read; mean and deviation written
    Case("sync-batch-norm-stats", "aten::batch_norm_stats", (IMAGE, EPS), 288 + 2 * 16),
    # running mean and variance read and written
    Case(
        "sync-batch-norm-update-stats",
        "aten::batch_norm_update_stats",
        (IMAGE, C, C, "0.1"),
        288 + 2 * 16 + 4 * 16,
    ),
    # means and deviations of 3 GPUs, 48 B each
    Case(
        "sync-batch-norm-gather",
        "aten::batch_norm_gather_stats",
        (IMAGE, (F32, [3, 4]), (F32, [3, 4]), C, C, "0.1", EPS, "18"),
        2 * 48 + 2 * 16 + 4 * 16,
    ),
    # and 3 counts
    Case(
        "sync-batch-norm-gather-counts",
        "aten::batch_norm_gather_stats_with_counts",
        (IMAGE, (F32, [3, 4]), (F32, [3, 4]), C, C, "0.1", EPS, (F32, [3])),
        2 * 48 + 12 + 2 * 16 + 4 * 16,
    ),
    Case("sync-batch-norm-apply", "aten::batch_norm_elemt", (IMAGE, C, C, C, C, EPS), 2 * 288 + 4 * 16),
    # dy, x; mean, deviation; two sums; two gradients
    Case(
        "sync-batch-norm-backward-reduce",
        "aten::batch_norm_backward_reduce",
        (IMAGE, IMAGE, C, C, C, "True", "True", "True"),
        2 * 288 + 6 * 16,
    ),
    # dy, x, dx; mean, deviation, weight, two sums; 3 counts
    Case(
        "sync-batch-norm-backward-apply",
        "aten::batch_norm_backward_elemt",
        (IMAGE, IMAGE, C, C, C, C, C, ("int", [3])),
        3 * 288 + 5 * 16 + 12,
    ),
    # a mean and a deviation for each of 2 * 4 planes
    Case(
        "instance-norm",
        "aten::instance_norm",
        (*NATIVE, "True", "0.1", EPS, FLAG),
        2 * 288 + 2 * 16 + 2 * 8 * 4 + 4 * 16,
    ),
    Case("layer-norm-wrapper", "aten::layer_norm", (X, SHAPE, W, W, EPS, FLAG), LAYER_NORM),
    Case("layer-norm", "aten::native_layer_norm", (X, SHAPE, W, W, EPS), LAYER_NORM),
    Case(
        "layer-norm-backward",
        "aten::native_layer_norm_backward",
        (DY, X, SHAPE, STATISTIC, STATISTIC, W, W, "[True, True, True]"),
        LAYER_NORM_BACKWARD,
    ),
    Case("group-norm-wrapper", "aten::group_norm", (VOLUME, "4", V, V, EPS, FLAG), GROUP_NORM),
    Case("group-norm", "aten::native_group_norm", (VOLUME, V, V, "2", "8", "4", "4", EPS), GROUP_NORM),
    Case(
        "group-norm-backward",
        "aten::native_group_norm_backward",
        (VOLUME, VOLUME, (BF16, [2, 4]), (BF16, [2, 4]), V, "2", "8", "4", "4", "[True, True, True]"),
        GROUP_NORM_BACKWARD + 2 * 8 * 2,
    ),
    Case("rms-norm-wrapper", "aten::rms_norm", (X, SHAPE, W, ABSENT), RMS_NORM),
    Case("rms-norm", "aten::_fused_rms_norm", (X, SHAPE, W, EPS), RMS_NORM),
    Case(
        "rms-norm-backward",
        "aten::_fused_rms_norm_backward",
        (DY, X, SHAPE, STATISTIC, W, "[True, True]"),
        RMS_NORM_BACKWARD,
    ),
    Case("vector-norm", "aten::linalg_vector_norm", (X, "2", "[1]", "True", ABSENT), None),
    Case("weight-norm", "aten::_weight_norm_interface", (X, (BF16, [6, 1]), "0"), None),
)

APEX_LAYER_NORM = ("FusedLayerNormAffineFunction", (X, W, W, ABSENT, EPS, FLAG))
APEX_RMS_NORM = ("FusedRMSNormAffineFunction", (X, W, ABSENT, EPS, FLAG))
SYNC_BATCH_NORM = ("SyncBatchnormFunction", (*NATIVE, EPS, "True", "0.1", ABSENT, FLAG))
NONE_11 = ("1", ABSENT, ABSENT, ("int", [1]), ABSENT, ABSENT, "1", "8", "1", "8", FLAG)
BN_NHWC = (
    "bn_NHWC_impl",
    (NHWC, C, C, C, C, C, C, ("unsigned char", [9]), "0.1", EPS, FLAG, "True", *NONE_11),
)
BN_ADD_NHWC = (
    "bn_addrelu_NHWC_impl",
    (NHWC, NHWC, C, C, C, C, C, C, "1", ("unsigned char", [9]), "0.1", EPS, "True", *NONE_11),
)
BN_GROUP = ("_GroupBatchNorm2d", (*NATIVE, C, C, "0.1", EPS, "2", "0", "[1, 2]", "[1, 2]"))
APEX = (
    Case("apex-layer-norm", "apex::fused_layer_norm_affine_fwd", (X, W, W, SHAPE, EPS, FLAG), LAYER_NORM),
    Case("apex-layer-norm-plain", "apex::fused_layer_norm_fwd", (X, SHAPE, EPS, FLAG), LAYER_NORM_PLAIN),
    Case("apex-rms-norm", "apex::fused_rms_norm_affine_fwd", (X, W, SHAPE, EPS, FLAG), RMS_NORM),
    Case("apex-rms-norm-plain", "apex::fused_rms_norm_fwd", (X, SHAPE, EPS, FLAG), RMS_NORM_PLAIN),
    Case(
        "apex-layer-norm-backward",
        "apex::fused_layer_norm_affine_bwd",
        (DY, STATISTIC, STATISTIC, X, SHAPE, W, W, EPS, FLAG),
        LAYER_NORM_BACKWARD,
    ),
    # memory efficient: y in the place of x, no mean
    Case(
        "apex-layer-norm-backward",
        "apex::fused_layer_norm_affine_bwd",
        (DY, ABSENT, STATISTIC, X, SHAPE, W, W, EPS, "True"),
        LAYER_NORM_BACKWARD - 24,
    ),
    Case(
        "apex-layer-norm-plain-backward",
        "apex::fused_layer_norm_bwd",
        (DY, STATISTIC, STATISTIC, X, SHAPE, EPS, FLAG),
        LAYER_NORM_PLAIN_BACKWARD,
    ),
    Case(
        "apex-rms-norm-backward",
        "apex::fused_rms_norm_affine_bwd",
        (DY, STATISTIC, X, SHAPE, W, EPS, FLAG),
        RMS_NORM_BACKWARD,
    ),
    Case(
        "apex-rms-norm-plain-backward",
        "apex::fused_rms_norm_bwd",
        (DY, STATISTIC, X, SHAPE, EPS, FLAG),
        RMS_NORM_PLAIN_BACKWARD,
    ),
    Case("apex-layer-norm-function", *APEX_LAYER_NORM, LAYER_NORM),
    Case(
        "apex-layer-norm-plain-function", "FusedLayerNormFunction", (X, ABSENT, EPS, FLAG), LAYER_NORM_PLAIN
    ),
    # fp32 x of 240 B, y in the bf16 of the weight
    Case(
        "apex-layer-norm-mixed-function",
        "FusedLayerNormAffineMixedDtypesFunction",
        ((F32, [6, 10]), W, W, ABSENT, EPS, FLAG),
        240 + 120 + 2 * 20 + 2 * 24,
    ),
    Case("apex-rms-norm-function", *APEX_RMS_NORM, RMS_NORM),
    Case("apex-rms-norm-plain-function", "FusedRMSNormFunction", (X, ABSENT, EPS, FLAG), RMS_NORM_PLAIN),
    Case(
        "apex-rms-norm-mixed-function",
        "FusedRMSNormAffineMixedDtypesFunction",
        ((F32, [6, 10]), W, ABSENT, EPS, FLAG),
        240 + 120 + 20 + 24,
    ),
    Case(
        "apex-layer-norm-function-backward",
        "FusedLayerNormAffineFunctionBackward",
        (DY,),
        LAYER_NORM_BACKWARD,
        APEX_LAYER_NORM,
    ),
    # neither weight nor bias: no gradient of theirs
    Case(
        "apex-layer-norm-function-backward",
        "FusedLayerNormFunctionBackward",
        (DY,),
        LAYER_NORM_PLAIN_BACKWARD,
        ("FusedLayerNormFunction", (X, ABSENT, EPS, FLAG)),
    ),
    Case(
        "apex-rms-norm-function-backward",
        "FusedRMSNormAffineFunctionBackward",
        (DY,),
        RMS_NORM_BACKWARD,
        APEX_RMS_NORM,
    ),
    Case("apex-fast-layer-norm", "FastLayerNormFN", (X, W, W, EPS, FLAG), LAYER_NORM),
    Case(
        "apex-fast-layer-norm-backward",
        "FastLayerNormFNBackward",
        (DY,),
        LAYER_NORM_BACKWARD,
        ("FastLayerNormFN", (X, W, W, EPS, FLAG)),
    ),
    # two fp32 sums for each of 8 groups
    Case(
        "apex-group-norm",
        "apex::group_norm_nhwc_fprop",
        (VOLUME, "4", V, V, EPS, ABSENT, "1", FLAG),
        2 * 128 + 2 * 16 + 2 * 8 * 4,
    ),
    Case(
        "apex-group-norm-backward",
        "apex::group_norm_nhwc_bprop",
        (VOLUME, (F32, [16]), VOLUME, "4", V, V, EPS, ABSENT, "1", FLAG),
        GROUP_NORM_BACKWARD + 2 * 8 * 4,
    ),
    Case("apex-sync-batch-norm", *SYNC_BATCH_NORM, TRAINING),
    # z is read too
    Case(
        "apex-sync-batch-norm-add",
        "SyncBatchnormFunction",
        (IMAGE, IMAGE, C, C, C, C, EPS, "True", "0.1", ABSENT, FLAG, "True"),
        TRAINING + 288,
    ),
    Case(
        "apex-sync-batch-norm-add",
        "SyncBatchnormFunction",
        (IMAGE, ABSENT, C, C, C, C, EPS, "True", "0.1", ABSENT, FLAG, FLAG),
        TRAINING,
    ),
    Case(
        "apex-sync-batch-norm-backward",
        "SyncBatchnormFunctionBackward",
        (IMAGE,),
        BATCH_NORM_BACKWARD,
        SYNC_BATCH_NORM,
    ),
    # channels last in the shape itself: the weight tells their number
    Case("apex-batch-norm-nhwc", *BN_NHWC, TRAINING),
    Case("apex-batch-norm-nhwc-backward", "bn_NHWC_implBackward", (NHWC,), BATCH_NORM_BACKWARD, BN_NHWC),
    Case("apex-batch-norm-add-relu-nhwc", *BN_ADD_NHWC, TRAINING + 288),
    Case(
        "apex-batch-norm-add-relu-nhwc-backward", "bn_addrelu_NHWC_implBackward", (NHWC,), None, BN_ADD_NHWC
    ),
    Case("apex-group-batch-norm", *BN_GROUP, TRAINING),
    Case(
        "apex-group-batch-norm-backward",
        "_GroupBatchNorm2dBackward",
        (IMAGE,),
        BATCH_NORM_BACKWARD,
        BN_GROUP,
    ),
)

TE_LINEAR = ("_LayerNormLinear", (X, W, ABSENT, (BF16, [30, 10]), ABSENT, EPS))
TRANSFORMER_ENGINE = (
    Case("te-layer-norm", "_LayerNorm", (X, W, W, EPS, "0", "0", "0", FLAG, "True"), LAYER_NORM),
    Case(
        "te-layer-norm-backward", "_LayerNormBackward", (DY,), LAYER_NORM_BACKWARD, ("_LayerNorm", (X, W, W))
    ),
    Case("te-rms-norm", "_RMSNorm", (X, W, EPS, "0", "0", "0", FLAG, "True"), RMS_NORM),
    Case("te-rms-norm-backward", "_RMSNormBackward", (DY,), RMS_NORM_BACKWARD, ("_RMSNorm", (X, W))),
    Case("te-fuser", "_OperationFuserAutogradFunction", (X, W, W), None),
    Case("te-fuser-backward", "_OperationFuserAutogradFunctionBackward", (DY,), None),
    Case("te-layer-norm-linear", *TE_LINEAR, None),
    Case("te-layer-norm-linear-backward", "_LayerNormLinearBackward", ((BF16, [6, 30]),), None, TE_LINEAR),
)

R32 = (F32, [6, 10])  # a residual in fp32, 240 B
NO_PARALLEL = (ABSENT, ABSENT, ABSENT)
FLASH_TAIL = (*NO_PARALLEL, EPS, "0.0", ABSENT, "True", "True", FLAG)
FLASH_RMS = ("LayerNormFn", (X, W, ABSENT, R32, *FLASH_TAIL, "True", FLAG, ABSENT, ABSENT, ABSENT))
MAMBA = ("LayerNormFn", (X, W, ABSENT, X, EPS, ABSENT, FLAG, "True"))
DROPOUT = ("DropoutAddLayerNormFn", (X, X, W, W, ABSENT, ABSENT, "0.0", EPS, FLAG, "True", FLAG))
SUBSET = (
    "DropoutAddLayerNormSubsetFn",
    (X, ABSENT, W, W, ABSENT, ABSENT, ABSENT, "0.1", EPS, "1.0", "0", FLAG, FLAG, FLAG, FLAG),
)
FLASH_LINEAR = ("LayerNormLinearFn", (X, W, W, (BF16, [30, 10]), ABSENT, X, EPS, FLAG, FLAG, FLAG))
FLASH = (
    # x, y; weight; the residual read and its sum written; a deviation
    Case("flash-attn-layer-norm-fn", *FLASH_RMS, 2 * 120 + 20 + 2 * 240 + 24),
    # out_dtype given: it has no place, and what follows it moves up
    Case("flash-attn-layer-norm-fn", "LayerNormFn", FLASH_RMS[1][:-1], 2 * 120 + 20 + 2 * 240 + 24),
    # older: layer norm with weight and bias, two statistics
    Case(
        "flash-attn-layer-norm-fn-old",
        "LayerNormFn",
        (X, W, W, R32, *NO_PARALLEL, EPS, "0.0", ABSENT, "True", "True", FLAG, FLAG, ABSENT, ABSENT),
        2 * 120 + 2 * 20 + 2 * 240 + 2 * 24,
    ),
    # x, y, z; weight; a deviation
    Case("mamba-gated-layer-norm", *MAMBA, 3 * 120 + 20 + 24),
    # dy, x, dx, the residual's gradient in fp32; weight and its gradient; a deviation
    Case("layer-norm-fn-backward", "LayerNormFnBackward", (DY, R32), 3 * 120 + 240 + 2 * 20 + 24, FLASH_RMS),
    # dy, x, dx, z and its gradient
    Case("layer-norm-fn-backward", "LayerNormFnBackward", (DY,), 5 * 120 + 2 * 20 + 24, MAMBA),
    # layer norm: two statistics, and a gradient of the bias
    Case(
        "flash-attn-layer-norm",
        "flash_attn::layer_norm_fwd_impl",
        (X, W, W, EPS, X, X, *NO_PARALLEL, "0.0", ABSENT, FLAG, FLAG, FLAG, X),
        4 * 120 + 2 * 20 + 2 * 24,
    ),
    Case(
        "flash-attn-layer-norm-backward",
        "flash_attn::layer_norm_bwd_impl",
        (
            *(DY, X, W, W, EPS, STATISTIC, STATISTIC, X, *NO_PARALLEL, ABSENT, "0.0", ABSENT),
            *("True", FLAG, FLAG, FLAG, "15", FLAG),
        ),
        4 * 120 + 3 * 20 + 2 * 24,
    ),
    Case("flash-attn-layer-norm-linear", *FLASH_LINEAR, 4 * 120 + 2 * 20 + 2 * 24),
    Case(
        "flash-attn-layer-norm-linear-backward",
        "LayerNormLinearFnBackward",
        ((BF16, [6, 30]),),
        None,
        FLASH_LINEAR,
    ),
    # x, y, residual and sum
    Case("flash-attn-dropout-layer-norm", *DROPOUT, 4 * 120 + 2 * 20 + 2 * 24),
    Case(
        "flash-attn-dropout-layer-norm-backward",
        "DropoutAddLayerNormFnBackward",
        (DY, DY),
        4 * 120 + 3 * 20 + 2 * 24,
        DROPOUT,
    ),
    Case("flash-attn-dropout-layer-norm-subset", *SUBSET, None),
    Case(
        "flash-attn-dropout-layer-norm-parallel",
        "DropoutAddLayerNormParallelResidualFn",
        (X, X, X, W, W, W, W, "0.1", EPS, FLAG, FLAG, FLAG, FLAG),
        None,
    ),
    Case(
        "flash-attn-dropout-layer-norm-other-backward",
        "DropoutAddLayerNormSubsetFnBackward",
        (DY,),
        None,
        SUBSET,
    ),
)

LIGER_RMS = ("LigerRMSNormFunction", (X, W, EPS, "0.0", "True", ABSENT))
LIGER_LAYER = ("LigerLayerNormFunction", (X, W, W, EPS))
LIGER_GROUP = ("LigerGroupNormFunction", (VOLUME, V, V, "8", "4", EPS))
LIGER_ADD = ("LigerFusedAddRMSNormFunction", (X, X, W, EPS, "0.0", FLAG, ABSENT))
LIGER_POLY: tuple[str, Arguments] = ("LigerPolyNormFunction", (X, (BF16, [3]), (BF16, []), EPS, "True"))
LIGER_MODULATED = ("LigerModulatedRMSNormFunction", (X, W, W, W, EPS, "0.0", "True"))
LIGER = (
    Case("liger-rms-norm", *LIGER_RMS, RMS_NORM),
    Case("liger-rms-norm-backward", "LigerRMSNormFunctionBackward", (DY,), RMS_NORM_BACKWARD, LIGER_RMS),
    Case("liger-layer-norm", *LIGER_LAYER, LAYER_NORM),
    Case(
        "liger-layer-norm-backward", "LigerLayerNormFunctionBackward", (DY,), LAYER_NORM_BACKWARD, LIGER_LAYER
    ),
    Case("liger-group-norm", *LIGER_GROUP, GROUP_NORM),
    Case(
        "liger-group-norm-backward",
        "LigerGroupNormFunctionBackward",
        (VOLUME,),
        GROUP_NORM_BACKWARD + 2 * 8 * 4,
        LIGER_GROUP,
    ),
    # x, residual, y, sum; weight; a deviation
    Case("liger-add-rms-norm", *LIGER_ADD, 4 * 120 + 20 + 24),
    # dy, gradient of the sum, x, dx; weight and its gradient; a deviation
    Case(
        "liger-add-rms-norm-backward",
        "LigerFusedAddRMSNormFunctionBackward",
        (DY, DY),
        4 * 120 + 2 * 20 + 24,
        LIGER_ADD,
    ),
    # x, y; three coefficients and an offset of 2 B each; three deviations
    Case("liger-poly-norm", *LIGER_POLY, 2 * 120 + 6 + 2 + 3 * 24),
    Case("liger-poly-norm-backward", "LigerPolyNormFunctionBackward", (DY,), None, LIGER_POLY),
    # x, y; weight, scale, shift; a deviation
    Case("liger-modulated-rms-norm", *LIGER_MODULATED, 2 * 120 + 3 * 20 + 24),
    Case(
        "liger-modulated-rms-norm-backward",
        "LigerModulatedRMSNormFunctionBackward",
        (DY,),
        None,
        LIGER_MODULATED,
    ),
)

QUACK = ("RMSNormFunction", (X, W, ABSENT, X, ABSENT, ABSENT, EPS, "True"))
TUTORIAL = ("LayerNorm", (X, ABSENT, W, W, EPS))
PARTS = (F32, [4, 10])  # one row of fp32 for each of 4 multiprocessors, 160 B
OTHERS = (
    Case("unsloth-rms-norm", "Fast_RMS_Layernorm", (X, W, EPS, FLAG), RMS_NORM),
    Case(
        "unsloth-rms-norm-backward",
        "Fast_RMS_LayernormBackward",
        (DY,),
        RMS_NORM_BACKWARD,
        ("Fast_RMS_Layernorm", (X, W, EPS, FLAG)),
    ),
    Case("unsloth-layer-norm", "Fast_Layernorm", (X, W, W, EPS), LAYER_NORM),
    Case(
        "unsloth-layer-norm-backward",
        "Fast_LayernormBackward",
        (DY,),
        LAYER_NORM_BACKWARD,
        ("Fast_Layernorm", (X, W, W, EPS)),
    ),
    Case("quack-rms-norm-function", *QUACK, 4 * 120 + 20 + 24),
    Case(
        "quack-rms-norm",
        "quack::_rmsnorm_fwd",
        (X, W, X, ABSENT, STATISTIC, ABSENT, X, X, EPS, FLAG, "0.0"),
        4 * 120 + 20 + 24,
    ),
    Case(
        "quack-rms-norm-function-backward",
        "RMSNormFunctionBackward",
        (DY, DY),
        4 * 120 + 2 * 20 + 24,
        QUACK,
    ),
    # x, dy, dx; weight; a deviation; the parts of its gradient
    Case(
        "quack-rms-norm-backward",
        "quack::_rmsnorm_bwd",
        (X, W, DY, STATISTIC, X, PARTS, ABSENT, ABSENT, ABSENT, "4", ABSENT, FLAG, "0.0"),
        3 * 120 + 20 + 24 + 160,
    ),
    Case("quack-rms-norm-backward-functional", "quack::rmsnorm_bwd_f", (X, W, DY), None),
    Case("triton-tutorial-layer-norm", *TUTORIAL, LAYER_NORM),
    Case("triton-tutorial-layer-norm-backward", "LayerNormBackward", (DY,), LAYER_NORM_BACKWARD, TUTORIAL),
    Case("megatron-batch-invariant-rms-norm", "BatchInvariantRMSNormFn", (X, W, EPS, FLAG), RMS_NORM),
    Case(
        "megatron-batch-invariant-rms-norm-backward",
        "BatchInvariantRMSNormFnBackward",
        (DY,),
        RMS_NORM_BACKWARD,
        ("BatchInvariantRMSNormFn", (X, W, EPS, FLAG)),
    ),
)
TRAINING_CASES = (*APEX, *TRANSFORMER_ENGINE, *FLASH, *LIGER, *OTHERS)


def row_of(name: str, args: OpArgs) -> NormRow:
    """Return the row that the catalog picks for a call, of this branch's files or any other."""
    row = CATALOG.layout(name, args.types)
    assert row is not None
    return row


def cost_of_case(case: Case) -> NormCost:
    args = recorded(*case.arguments)
    forward = None
    if case.forward is not None:
        forward_args = recorded(*case.forward[1])
        forward = (row_of(case.forward[0], forward_args), forward_args)
    return norm_cost(row_of(case.name, args), args, forward)


@pytest.mark.parametrize("case", [*PYTORCH, *TRAINING_CASES], ids=lambda case: case.row)
def test_a_call_fits_its_row_and_has_its_bytes(case: Case) -> None:
    assert row_of(case.name, recorded(*case.arguments)).id == case.row
    found = cost_of_case(case)
    assert found.bytes_moved == case.bytes_moved
    assert found.missing_reason == (NO_MODEL if case.bytes_moved is None else None)


@pytest.mark.parametrize(("file", "cases"), [("pytorch.toml", PYTORCH), ("training.toml", TRAINING_CASES)])
def test_every_row_has_a_case(file: str, cases: tuple[Case, ...]) -> None:
    rows = read_rows((Path(catalog.__file__).parent / file).read_bytes(), file)
    assert {row.id for row in rows} == {case.row for case in cases}
    assert all(row.source for row in rows)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        # layer norm 6E + 3R, E each for weight and bias; backward 9E, E for the weight, 3E for gradients
        (Case("", *LIGER_LAYER, 0), 8 * 60 + 3 * 6),
        (Case("", "LigerLayerNormFunctionBackward", (DY,), 0, LIGER_LAYER), 13 * 60),
        # without parameters nothing but dx
        (
            Case(
                "", "FusedLayerNormFunctionBackward", (DY,), 0, ("FusedLayerNormFunction", (X, ABSENT, EPS))
            ),
            9 * 60,
        ),
        # RMS norm 3E + 2R, E each for weight and residual; backward 7E, E for the weight, 2E for its gradient
        (Case("", *FLASH_RMS, 0), 5 * 60 + 2 * 6),
        (Case("", "LayerNormFnBackward", (DY, R32), 0, FLASH_RMS), 10 * 60),
        # layer norm with the same class: 6E + 3R, E each for weight, bias and residual
        (Case("", *DROPOUT, 0), 9 * 60 + 3 * 6),
        (Case("", "DropoutAddLayerNormFnBackward", (DY, DY), 0, DROPOUT), 13 * 60),
    ],
)
def test_operations_by_hand(case: Case, expected: int) -> None:
    assert cost_of_case(case).flops == expected


@pytest.mark.parametrize(
    ("case", "variant"),
    [
        (Case("", *FLASH_RMS, 0), "RMSNorm"),
        (Case("", *MAMBA, 0), "RMSNorm"),
        (Case("", *DROPOUT, 0), "LayerNorm"),
        (Case("", "LayerNormFnBackward", (DY,), 0, MAMBA), "RMSNorm"),
        (
            Case("", "quack::_rmsnorm_fwd", (X, W, X, *[ABSENT] * 5, EPS, "True", "0.0"), 0),
            "LayerNorm",
        ),
        (Case("", "quack::_rmsnorm_fwd", (X, W, X, *[ABSENT] * 5, EPS, FLAG, "0.0"), 0), "RMSNorm"),
        (Case("", "aten::native_layer_norm", (X, SHAPE, W, W, EPS), 0), None),
        # the flag's value isn't recorded
        (Case("", "LayerNormFn", (X, W, ABSENT, X, EPS, ABSENT, FLAG, ABSENT), 0), None),
    ],
)
def test_an_argument_tells_rms_norm_from_layer_norm(case: Case, variant: str | None) -> None:
    assert cost_of_case(case).variant == variant


def test_a_gradient_counts_only_for_a_parameter_that_the_forward_call_has() -> None:
    without_bias = Case(
        "", "LigerLayerNormFunctionBackward", (DY,), 0, ("LigerLayerNormFunction", (X, W, ABSENT))
    )
    found = cost_of_case(without_bias)
    assert found.output_mask == (True, True, False)
    assert found.bytes_moved == LAYER_NORM_BACKWARD - 20
    assert (found.has_weight, found.has_bias) == (True, False)


def test_a_backward_node_without_its_forward_call_has_no_bytes_and_says_why() -> None:
    found = cost_of_case(Case("", "LigerRMSNormFunctionBackward", (DY,), None))
    assert found == NormCost(missing_reason=NO_FORWARD)


# Whole traces.


def inputs(*arguments: Argument) -> dict[str, object]:
    args = recorded(*arguments)
    return {"Input Dims": args.dims, "Input type": args.types, "Concrete Inputs": args.concrete}


def run_of(number: int, ts: float, name: str, dur: float = 5.0, tid: int = 501) -> list[Event]:
    """Return the launch of a kernel and the kernel."""
    return [launch(number, ts, 1, tid=tid), kernel(number, 5000 + 10 * number, dur, name=name)]


def calls_of(*events: Event) -> list[NormCall]:
    return op_calls(link_events(*events), CATALOG)


def kernels_of(call: NormCall, *events: Event) -> list[str]:
    trace = link_events(*events).trace
    return [trace.gpu_events[i].name for i in call.norm_events]


def test_a_backward_call_in_a_trace_takes_its_tensors_from_the_forward_call() -> None:
    sequence = {"Sequence number": 7}
    node = {**sequence, "Fwd thread id": 1, "tid": 9}
    events = [
        op("LigerLayerNormFunction", 100, 60, **inputs(*LIGER_LAYER[1]), **sequence, **{"Fwd thread id": 0}),
        *run_of(1, 110, "_layer_norm_forward_kernel"),
        op("autograd::engine::evaluate_function: LigerLayerNormFunctionBackward", 1000, 90, **node),
        op("LigerLayerNormFunctionBackward", 1010, 70, **inputs(DY), **node),
        *run_of(2, 1020, "_layer_norm_backward_kernel", tid=9),
        op("aten::sum", 1040, 20, tid=9),
        *run_of(3, 1050, "reduce_kernel", tid=9),
    ]
    forward, backward = calls_of(*events)
    assert (forward.name, forward.row.id) == ("LigerLayerNormFunction", "liger-layer-norm")
    assert forward.cost.bytes_moved == LAYER_NORM
    assert (backward.row.id, backward.direction) == ("liger-layer-norm-backward", "backward")
    assert backward.cost.bytes_moved == LAYER_NORM_BACKWARD
    assert backward.cost.x_shape == (6, 10)
    # the sum over the partial gradients is the norm's work too
    assert kernels_of(backward, *events) == ["_layer_norm_backward_kernel", "reduce_kernel"]


TE_KERNEL = "void transformer_engine::normalization::rmsnorm_fwd_tuned_kernel<Traits>(Params)"
GEMM = "nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_NTT"


def test_the_fuser_of_transformer_engine_is_a_norm_where_norm_kernels_run_below_it() -> None:
    events = [
        op("_OperationFuserAutogradFunction", 100, 50, **inputs(X, W)),
        *run_of(1, 110, GEMM),
        *run_of(2, 120, TE_KERNEL, 7),
    ]
    (call,) = calls_of(*events)
    assert (call.row.id, call.norm_us) == ("te-fuser", 7)
    assert kernels_of(call, *events) == [TE_KERNEL]
    assert call.cost.missing_reason == NO_MODEL


def test_the_fuser_of_transformer_engine_is_none_without_a_norm_kernel() -> None:
    assert (
        calls_of(op("_OperationFuserAutogradFunction", 100, 50, **inputs(X, W)), *run_of(1, 110, GEMM)) == []
    )


def test_the_matrix_product_after_a_norm_is_no_part_of_it() -> None:
    events = [
        op(TE_LINEAR[0], 100, 50, **inputs(*TE_LINEAR[1])),
        *run_of(1, 110, TE_KERNEL, 7),
        *run_of(2, 120, GEMM),
    ]
    (call,) = calls_of(*events)
    assert (call.row.id, call.norm_us, call.helper_us) == ("te-layer-norm-linear", 7, 0)
    assert kernels_of(call, *events) == [TE_KERNEL]


def test_two_classes_of_one_name_are_told_apart_by_their_arguments() -> None:
    events = [
        op("LayerNormFn", 100, 50, **inputs(*FLASH_RMS[1])),
        *run_of(1, 110, "_layer_norm_fwd_1pass_kernel"),
        op("LayerNormFn", 200, 50, **inputs(*MAMBA[1])),
        *run_of(2, 210, "_layer_norm_fwd_1pass_kernel"),
        op("LayerNormFn", 300, 50, **inputs(X, W)),
        *run_of(3, 310, "_layer_norm_fwd_1pass_kernel"),
    ]
    flash, mamba, neither = calls_of(*events)
    assert (flash.row.id, mamba.row.id) == ("flash-attn-layer-norm-fn", "mamba-gated-layer-norm")
    assert (flash.variant, mamba.variant) == ("RMSNorm", "RMSNorm")
    assert (flash.cost.bytes_moved, mamba.cost.bytes_moved) == (
        2 * 120 + 20 + 2 * 240 + 24,
        3 * 120 + 20 + 24,
    )
    # a layout that no row has: still a norm, and no bytes are made up
    assert neither.name == "LayerNormFn"
    assert neither.cost == NormCost(missing_reason=NO_LAYOUT)


def test_the_custom_op_below_a_class_describes_the_call() -> None:
    inner = (X, W, ABSENT, EPS, X, R32, *NO_PARALLEL, "0.0", ABSENT, FLAG, "True", FLAG, R32)
    events = [
        op("LayerNormFn", 100, 50, **inputs(*FLASH_RMS[1])),
        op("flash_attn::layer_norm_fwd_impl", 105, 40, **inputs(*inner)),
        *run_of(1, 110, "_layer_norm_fwd_1pass_kernel"),
    ]
    (call,) = calls_of(*events)
    assert (call.name, call.row.id, call.variant) == ("LayerNormFn", "flash-attn-layer-norm", "RMSNorm")
    assert call.op_chain == ("LayerNormFn", "flash_attn::layer_norm_fwd_impl")
    assert call.cost.bytes_moved == 2 * 120 + 20 + 2 * 240 + 24


def test_the_op_that_pytorch_puts_around_a_custom_op_changes_nothing() -> None:
    wrapper = "GeneratedBackwardFor_apex_fused_layer_norm_affine_fwd_default"
    backward = (DY, STATISTIC, STATISTIC, X, SHAPE, W, W, EPS, FLAG)
    events = [
        op("apex::fused_layer_norm_affine_fwd", 100, 50, **inputs(X, W, W, SHAPE, EPS, FLAG)),
        op(wrapper, 105, 40, **inputs(X, W, W, SHAPE, EPS, FLAG)),
        *run_of(1, 110, "void cuApplyLayerNorm<float>(float*)"),
        op(f"{wrapper}Backward", 200, 50, **inputs(DY)),
        op("apex::fused_layer_norm_affine_bwd", 205, 40, **inputs(*backward)),
        *run_of(2, 210, "void cuComputeGradInput<float>(float*)"),
    ]
    found = [(call.name, call.cost.bytes_moved) for call in calls_of(*events)]
    assert found == [
        ("apex::fused_layer_norm_affine_fwd", LAYER_NORM),
        ("apex::fused_layer_norm_affine_bwd", LAYER_NORM_BACKWARD),
    ]


def test_collectives_in_synchronized_batch_norm_are_not_the_norm() -> None:
    events = [
        op(SYNC_BATCH_NORM[0], 100, 90, **inputs(*SYNC_BATCH_NORM[1])),
        *run_of(1, 110, "void welford_kernel<float>(float const*)"),
        *run_of(2, 120, "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
        *run_of(3, 130, "void batchnorm_forward_kernel<float>(float const*)"),
    ]
    (call,) = calls_of(*events)
    assert [name.split("<")[0] for name in kernels_of(call, *events)] == [
        "void welford_kernel",
        "void batchnorm_forward_kernel",
    ]


ATEN = "void at::native::(anonymous namespace)::"


@pytest.mark.parametrize(
    ("name", "row"),
    [
        (f"{ATEN}vectorized_layer_norm_kernel<float, float>(int)", "layer-norm"),
        (f"{ATEN}vectorized_layer_norm_kernel<float, float, false>(int)", "layer-norm"),
        (f"{ATEN}vectorized_layer_norm_kernel<c10::BFloat16, float, true>(int)", "rms-norm"),
        (f"{ATEN}layer_norm_grad_input_kernel_vectorized<float, float, false>(int)", "layer-norm-backward"),
        (f"{ATEN}layer_norm_grad_input_kernel_vectorized<float, float, true>(int)", "rms-norm-backward"),
        (f"{ATEN}cuComputePartGradGammaBeta<float, float, false>(int)", "layer-norm-backward"),
        (f"{ATEN}cuComputePartGradGammaBeta<float, float, true>(int)", "rms-norm-backward"),
        # without a place for RMS norm the last argument of eight is that of seven
        (
            f"{ATEN}GammaBetaBackwardCUDAKernelTemplate<float, float, 32u, 1u, 8u, true, true>(int)",
            "layer-norm-backward",
        ),
        (
            f"{ATEN}GammaBetaBackwardCUDAKernelTemplate<float, float, 32u, 1u, 8u, true, true, true>(int)",
            "rms-norm-backward",
        ),
        (f"{ATEN}GammaBetaBackwardCUDAKernel1<float>(int)", "group-norm-backward"),
        (f"{ATEN}GammaBetaBackwardCUDAKernel<float, float>(int)", "layer-norm-backward"),
        ("void cuComputePartGradGammaBeta<float, float, float>(int)", "apex-layer-norm-backward"),
        ("void cuApplyRMSNorm<float, float, float>(float*)", "apex-rms-norm"),
        (
            "void transformer_engine::normalization::rmsnorm_bwd_finalize_tuned_kernel<T>(P)",
            "te-rms-norm-backward",
        ),
        ("void transformer_engine::normalization::ln_fwd_general_kernel<T>(P)", "te-layer-norm"),
        ("_fused_add_rms_norm_forward_kernel", "liger-add-rms-norm"),
        ("_block_rms_norm_forward_kernel", "liger-rms-norm"),
        ("_modulated_rms_norm_backward_kernel", "liger-modulated-rms-norm-backward"),
        ("_gemma_rms_layernorm_forward", "unsloth-rms-norm"),
        ("void welford_kernel_parallel<float>(float*)", "apex-sync-batch-norm"),
        ("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float>(int)", "batch-norm-cudnn"),
        ("MIOpenBatchNormBwdSpatialDX", "batch-norm-backward-miopen"),
    ],
)
def test_a_kernel_without_an_op_has_the_row_of_its_library(name: str, row: str) -> None:
    found = CATALOG.of_kernel(name)
    assert found is not None
    assert found.id == row
